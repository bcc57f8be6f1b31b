"""Which members of a portfolio are simulated together."""

from __future__ import annotations

from collections.abc import Sequence

from betimes.core.nodes.rules import NodesRules
from betimes.foresight.portfolio.lookahead import Together
from betimes.kernels import Floats
from betimes.policies.nodes.families import bit_of, params_of, rules_of
from betimes.policies.nodes.hooks import Member
from betimes.policies.nodes.provisioning import PAID_TIME


class Groups:
    """The families among members, and the others one by one. rules, params: of each member."""

    def __init__(
        self, members: Sequence[Member], rules: Sequence[NodesRules], params: Sequence[Floats]
    ) -> None:
        self._rules = [each.replaced(learns=False) for each in rules]
        self._params = params
        self._bits = [bit_of(member) for member in members]
        self._families: dict[int, NodesRules] = {}  # by the first member
        self._family_of: dict[int, int] = {}
        first_of: dict[tuple[tuple[str, object], ...], int] = {}
        for number, member in enumerate(members):
            if self._bits[number] is not None:
                shared = tuple(
                    (name, value) for name, value in member.values.items() if name != PAID_TIME.name
                )
                first = self._family_of[number] = first_of.setdefault(shared, number)
                if first not in self._families:
                    self._families[first] = rules_of(self._rules[first])

    def of(self, members: Sequence[int]) -> list[Together]:
        """The groups to simulate for these members."""
        found: list[Together] = []
        families: dict[int, dict[int, int]] = {}
        for number in members:
            bit = self._bits[number]
            if bit is None:
                found.append(Together(self._rules[number], self._params[number], {0: number}))
            else:
                families.setdefault(self._family_of[number], {})[bit] = number
        for first, member_of in families.items():
            numbers = list(member_of.values())
            if len(numbers) == 1:
                found.append(Together(self._rules[numbers[0]], self._params[numbers[0]], {0: numbers[0]}))
            else:
                found.append(Together(self._families[first], params_of(member_of), member_of, divides=True))
        return found
