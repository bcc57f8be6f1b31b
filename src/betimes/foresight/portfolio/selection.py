"""Selection in a portfolio: the policies to simulate when there is no time for all, and the winner.

Policies are numbers, in the order of the portfolio. Those that did well last time are Smart, those not simulated for
long Stale, those that did badly Poor; each set gets a share of the budget. The policy that has waited longest for a
simulation is always simulated, so that each is simulated at least once in as many selections as there are policies.
Source: spec/portfolio.md C.6.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

PREFERENCE = "preference"

SMART_FRAC = Fraction(6, 10)
"""Fraction of the simulated policies that count as good; as published."""

SAME_FRAC = 1e-12  # scores closer than this are equal: rounding of sums in another order

SURE = 2.0
"""Standard errors by which a surely better policy leads."""

Simulate = Callable[[Sequence[int]], Mapping[int, tuple[float | None, float]]]
"""Simulates policies; returns the score (None: failed) and the simulation's seconds of each."""

Pick = Callable[[int], int]
"""Draws a whole number below its argument."""


Limit = int | float | None
"""Budget of a selection: a whole number of simulations, or seconds by the clock as a float; None: no limit."""


@dataclass
class Rotation:
    """The three sets and their changes from selection to selection; at the start all policies are Smart."""

    smart: list[int]
    limit: Limit
    pick: Pick
    stale: list[int] = field(default_factory=list[int])
    poor: list[int] = field(default_factory=list[int])
    cost: dict[int, float] = field(default_factory=dict[int, float])  # of the last simulation of each
    selections: int = 0
    # The last selection in which each was.
    simulated_in: dict[int, int] = field(default_factory=dict[int, int])

    def simulate(self, simulate: Simulate) -> dict[int, float]:
        """Simulate as many as the budget allows, at least two, and sort them into the sets; returns the scores.

        The two are the best of last time and the one simulated longest ago. A policy that fails leaves the sets.
        """
        self.selections += 1
        spending = _Spending(self, simulate)
        smart, stale, poor = list(self.smart), list(self.stale), list(self.poor)
        if self.limit is None:
            spending.take_all(smart, stale, poor)
        else:
            self._share_out(Fraction(self.limit), spending, smart, stale, poor)
        spending.simulate()
        for each in (smart, stale, poor):  # a choice needs at least one score
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
        """Take Smart policies first, then Stale and Poor in proportion to their numbers; then spend the rest."""
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
        for each in (smart, stale):  # budget that Poor left
            left = spending.spend(each, left)

    @property
    def goes_by_clock(self) -> bool:
        """Whether the budget is in seconds, so that the rest is known only after each simulation."""
        return isinstance(self.limit, float)

    def expected_cost(self, member: int) -> Fraction:
        """The expected cost of a simulation: 1 if simulations are counted, by the clock the seconds of the last one."""
        return Fraction(self.cost.get(member, 0.0)) if self.goes_by_clock else Fraction(1)


class _Spending:
    """One selection's simulations: one after the other by the clock, else all taken ones together."""

    def __init__(self, rotation: Rotation, simulate: Simulate) -> None:
        self.rotation, self._simulate = rotation, simulate
        self.scores: dict[int, float] = {}
        self._taken: list[int] = []

    def spend(self, members: list[int], budget: Fraction, pick: Pick | None = None) -> Fraction:
        """Take members in order, or as drawn, while the budget lasts; returns the rest of it."""
        while members and budget > 0:
            at = pick(len(members)) if pick is not None else 0
            if self.rotation.expected_cost(members[at]) > budget:
                break
            budget -= self.take(members, at)
        return budget

    def take_all(self, *sets: list[int]) -> None:
        """Take all members of these sets."""
        for members in sets:
            self._taken += members
            members.clear()

    def take(self, members: list[int], at: int) -> Fraction:
        """Take a member to simulate; returns the cost."""
        self._taken.append(members.pop(at))
        return self.simulate() if self.rotation.goes_by_clock else Fraction(1)

    def simulate(self) -> Fraction:
        """Simulate the members taken so far; returns the seconds spent."""
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
    """The policy with the best score; among equals the first in `preferred`, or, without that, in the portfolio."""
    best = max(scores.values())
    equals = sorted(member for member, score in scores.items() if score >= best - abs(best) * SAME_FRAC)
    return min(equals, key=preferred.index) if preferred else equals[0]


def surely_better(scores: Sequence[float], than: Sequence[float]) -> bool:
    """Whether the mean of `scores` exceeds that of `than`, of the same scenarios, by `SURE` standard errors.

    The gain from one decision is small against the noise: with all machines busy for hours, every later schedule
    differs, and its paid hours end elsewhere. A single scenario has no standard error, and none is required.
    """
    gains = np.subtract(scores, than)
    error = float(gains.std(ddof=1)) / math.sqrt(len(gains)) if len(gains) > 1 else 0.0
    return float(gains.mean()) > SURE * error
