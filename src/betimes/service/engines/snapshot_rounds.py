"""The rounds of a portfolio's member in a selection: the same knowledge, and a copy of the planner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from betimes.errors import PolicyViolation
from betimes.service.engines.planner_rounds import PlannerRounds
from betimes.twin.nodes.driver import Driver


@dataclass(frozen=True)
class SnapshotRounds:
    """Unchanging rounds: any thread can play them forward on copies of the state.

    policy: the portfolio. seqs: the order of submission of the job in each row.
    """

    policy: str
    rounds: PlannerRounds
    seqs: Sequence[int]

    def ahead(self, driver: Driver) -> _Ahead:
        """The same for a copy of the state without further jobs (`foresight.portfolio.lookahead`)."""
        return _Ahead(self.policy, self.rounds.copied(), self.seqs, driver)


@dataclass(frozen=True)
class _Ahead:
    """The rounds of one simulation."""

    policy: str
    rounds: PlannerRounds
    seqs: Sequence[int]
    driver: Driver

    def hold(self) -> None:
        """Let the planner decide; raises PolicyViolation where it fails."""
        self.rounds.hear_of(self.driver.trace, self.seqs)
        self.rounds.hold(self.driver)
        for one in self.rounds.take_refused():
            if one.problem is not None:
                raise PolicyViolation(
                    f"policy {self.policy} at {one.question.snapshot.now_s:g} s: {one.problem}"
                )
