"""The member that would have been best so far: each is simulated by itself on the jobs submitted so far."""

from __future__ import annotations

from collections.abc import Sequence

from betimes.foresight.portfolio.lookahead import Lookahead, PolicyFails, Together
from betimes.foresight.portfolio.submitted import Submitted
from betimes.foresight.portfolio.utility import Utility

FIRST_JOBS = 50
"""Fewer submitted jobs are not enough to judge members."""

GROWTH = 1.5
"""The members are simulated again when the number of jobs has grown by this factor."""

MOST_JOBS = 4_000
"""Only the newest so many jobs are simulated, which bounds the cost."""


class Hindsight:
    """Keeps the number of the member that would have been best, by the utility of the jobs submitted so far.

    names: of the members, by number. groups: those to simulate for all members.
    """

    def __init__(self, names: Sequence[str], groups: Sequence[Together], utility: Utility) -> None:
        self._names, self._groups, self._utility = names, groups, utility
        self._seen = 0
        self._best: int | None = None

    def best(self, submitted: Submitted, left_out: Sequence[str] = ()) -> int | None:
        """The best member, without those left out by name; None: too few jobs have been submitted."""
        if submitted.count >= max(FIRST_JOBS, GROWTH * self._seen):
            self._seen = submitted.count
            worth = self._worth(submitted)
            self._best = max(
                (number for number, name in enumerate(self._names) if name not in left_out),
                key=lambda number: (worth[number], -number),
            )
        if self._best is not None and self._names[self._best] in left_out:
            return None
        return self._best

    def _worth(self, submitted: Submitted) -> list[float]:
        """The utility of the newest jobs under each member from an empty cluster on; 0 where it fails."""
        jobs = submitted.jobs[-MOST_JOBS:]
        job_s = float((jobs["run_s"] * jobs["tasks"]).sum())
        worth = [0.0] * len(self._names)
        lookahead = Lookahead(submitted.empty, most_coming=len(jobs))
        lookahead.look()
        for simulation in lookahead.play_all(self._groups, coming=jobs):
            foreseen = simulation.foreseen
            if not isinstance(foreseen, PolicyFails):
                for member in simulation.members:
                    worth[member] = self._utility.of(job_s, foreseen.machine_s, foreseen.slowdown)
        return worth
