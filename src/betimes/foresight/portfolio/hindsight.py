"""The jobs submitted so far, from which a selection learns which may come, and which member was best on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from betimes.core.nodes.columns import NodesState
from betimes.foresight.portfolio.lookahead import Lookahead, PolicyFails, Simulated, Together
from betimes.foresight.portfolio.utility import Utility
from betimes.kernels import Floats, as_array
from betimes.twin.nodes.event_loop import Trace
from betimes.twin.nodes.simulation import NodesSimulation
from betimes.twin.nodes.trace_loop import new_trace

FIRST_JOBS = 50
"""Fewer submitted jobs are not enough to judge members."""

GROWTH = 1.5
"""The members are simulated again when the number of jobs has grown by this factor."""

MOST_JOBS = 4_000
"""Only the newest so many jobs are simulated, which bounds the cost."""


@dataclass(frozen=True)
class Submitted:
    """The jobs submitted so far, and the empty cluster.

    jobs: rows of `Arrival` in order of submission, with run times as they were, or as believed for unfinished jobs.
    count: of all that were ever submitted; the oldest may have been forgotten.
    """

    jobs: NDArray[Any]
    count: int
    empty: Simulated


@dataclass(frozen=True)
class EmptyCluster:
    """A cluster without jobs, from which simulations start."""

    state: NodesState
    trace: Trace
    job_ids: Sequence[Any] = ()
    promised_s: Floats = field(default_factory=lambda: np.zeros(0))
    believes: bool = False


class SubmittedSoFar:
    """Records the jobs of a run that has not begun; each finished job is processed once."""

    def __init__(self, run: NodesSimulation) -> None:
        empty = run.driver.copy(new_trace(0, 1), np.zeros(1, np.int64), {})
        self._run, self._empty = run, EmptyCluster(empty.state, empty.trace)
        self._jobs = as_array(run.trace.arrivals).copy()
        self._jobs["run_s"] = self._jobs["runtime_estimate_s"]
        self._jobs["believed_per_work"] = 1.0
        self._finished = 0

    def now(self) -> Submitted:
        """The jobs submitted by now; valid until the next call."""
        run, finished = self._run, int(self._run.trace.finished[0])
        rows = as_array(run.trace.outcomes)["row"][self._finished : finished]
        self._finished = finished
        for name in ("run_s", "runtime_estimate_s"):
            self._jobs[name][rows] = as_array(run.trace.arrivals)["run_s"][rows]
        count = int(run.row[0])
        return Submitted(self._jobs[:count], count, self._empty)


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
