"""Which policies of a portfolio are simulated when there is no time for all, and which of them wins.

Policies are numbers, in the order of the portfolio. Those that did well last time are Smart, those not simulated for
long Stale, those that did badly Poor; each set gets a share of the budget. The one that has not been simulated for
longest always is, so that each is simulated at least once in as many selections as there are policies. Source:
spec/portfolio.md C.6.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

PREFERENCE = "preference"

SMART_FRAC = Fraction(6, 10)
"""Of those simulated, how many count as good; as published."""

SAME_FRAC = 1e-12  # scores closer than this are equal: the same jobs' slowdowns were added in another order

SURE = 2.0
"""Standard errors by which a policy has to be better, to be surely so."""

Simulate = Callable[[Sequence[int]], Mapping[int, tuple[float | None, float]]]
"""Simulates policies; returns of each its score (None: it failed) and the seconds that it took."""

Pick = Callable[[int], int]
"""Draws one of the first so many whole numbers."""


Limit = int | float | None
"""What a selection may cost: a whole number of simulations, or seconds by the clock as a float; None: no limit."""


@dataclass
class Rotation:
    """The three sets, and what becomes of them in one selection after another; at the start all policies are Smart."""

    smart: list[int]
    limit: Limit
    pick: Pick
    stale: list[int] = field(default_factory=list[int])
    poor: list[int] = field(default_factory=list[int])
    cost: dict[int, float] = field(default_factory=dict[int, float])  # of the last simulation of each
    selections: int = 0
    simulated_in: dict[int, int] = field(
        default_factory=dict[int, int]
    )  # the last selection in which each was

    def simulate(self, simulate: Simulate) -> dict[int, float]:
        """Simulate as many as the budget allows, at least two, and sort them into the sets; returns the scores.

        The two are the best of last time and the one that has not been simulated for longest. A policy that fails is
        in no set any more.
        """
        self.selections += 1
        spending = _Spending(self, simulate)
        smart, stale, poor = list(self.smart), list(self.stale), list(self.poor)
        if self.limit is None:
            spending.take_all(smart, stale, poor)
        else:
            self._share_out(Fraction(self.limit), spending, smart, stale, poor)
        spending.simulate()
        for each in (smart, stale, poor):  # there is nothing to choose from without one
            while each and not spending.scores:
                spending.take(each, 0)
                spending.simulate()
        ranked = sorted(spending.scores, key=lambda member: (-spending.scores[member], member))
        good = math.ceil(SMART_FRAC * len(ranked))
        self.smart, self.stale, self.poor = ranked[:good], stale + smart, poor + ranked[good:]
        return spending.scores

    def _share_out(
        self, budget: Fraction, spending: _Spending, smart: list[int], stale: list[int], poor: list[int]
    ) -> None:
        """Take the Smart ones first, then Stale and Poor by their numbers, and what the others have no use for."""
        if smart:
            budget -= spending.take(smart, 0)
        if others := stale + poor or smart:
            oldest = min(others, key=lambda member: self.simulated_in.get(member, 0))
            of = next(members for members in (smart, stale, poor) if oldest in members)
            budget -= spending.take(of, of.index(oldest))
        left = spending.spend(smart, budget)
        rest = len(stale) + len(poor)
        share = left * Fraction(len(stale), rest) if rest else left
        left = left - share + spending.spend(stale, share)
        left = spending.spend(poor, left, self.pick)
        for each in (smart, stale):  # what the poor had no use for
            left = spending.spend(each, left)

    @property
    def goes_by_clock(self) -> bool:
        """Whether the budget is seconds, so that it shows only after each simulation how many are left."""
        return isinstance(self.limit, float)

    def expected_cost(self, member: int) -> Fraction:
        """What a simulation is expected to cost: one where they are counted, by the clock what the last one took."""
        return Fraction(self.cost.get(member, 0.0)) if self.goes_by_clock else Fraction(1)


class _Spending:
    """One selection's simulations: by the clock one after the other, else all that are taken together."""

    def __init__(self, rotation: Rotation, simulate: Simulate) -> None:
        self.rotation, self._simulate = rotation, simulate
        self.scores: dict[int, float] = {}
        self._taken: list[int] = []

    def spend(self, members: list[int], budget: Fraction, pick: Pick | None = None) -> Fraction:
        """Take members in order, or as drawn, out while the budget lasts; returns what is left of it."""
        while members and budget > 0:
            at = pick(len(members)) if pick is not None else 0
            if self.rotation.expected_cost(members[at]) > budget:
                break
            budget -= self.take(members, at)
        return budget

    def take_all(self, *sets: list[int]) -> None:
        """Take all of them."""
        for members in sets:
            self._taken += members
            members.clear()

    def take(self, members: list[int], at: int) -> Fraction:
        """Take one of the members, to be simulated; returns what that costs."""
        self._taken.append(members.pop(at))
        return self.simulate() if self.rotation.goes_by_clock else Fraction(1)

    def simulate(self) -> Fraction:
        """Simulate those that have been taken; returns the seconds that they took."""
        taken, self._taken = self._taken, []
        if not taken:
            return Fraction(0)
        found = self._simulate(taken)
        for member in taken:
            score, self.rotation.cost[member] = found[member]
            self.rotation.simulated_in[member] = self.rotation.selections
            if score is not None:
                self.scores[member] = score
        return Fraction(sum(self.rotation.cost[member] for member in taken))


def winner(scores: Mapping[int, float], preferred: Sequence[int] = ()) -> int:
    """The policy with the best score; among equals the first of `preferred`, without it the first of the portfolio."""
    best = max(scores.values())
    equals = sorted(member for member, score in scores.items() if score >= best - abs(best) * SAME_FRAC)
    return min(equals, key=preferred.index) if preferred else equals[0]


def surely_better(scores: Sequence[float], than: Sequence[float]) -> bool:
    """Whether the mean of the scores is above that of the others, of the same scenarios, by `SURE` standard errors.

    What one decision changes is small against what it moves: where all machines are busy for hours, each schedule that
    follows is another one, and its paid hours end elsewhere. Of one scenario no error is known, and none is asked for.
    """
    gains = np.subtract(scores, than)
    error = float(gains.std(ddof=1)) / math.sqrt(len(gains)) if len(gains) > 1 else 0.0
    return float(gains.mean()) > SURE * error
