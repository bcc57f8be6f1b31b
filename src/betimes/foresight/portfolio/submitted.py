"""The jobs submitted so far, from which a selection learns which may come and which member was best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from betimes.core.nodes.columns import NodesState
from betimes.core.nodes.growth import room_to_play
from betimes.foresight.portfolio.lookahead import Simulated
from betimes.kernels import as_array
from betimes.twin.nodes import entries
from betimes.twin.nodes.event_loop import Trace
from betimes.twin.nodes.simulation import NodesSimulation
from betimes.twin.nodes.trace_loop import new_trace


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
    believes: bool = False

    @classmethod
    def of(cls, state: NodesState) -> EmptyCluster:
        """A copy of a state in which nothing has happened yet."""
        copy = room_to_play(state)
        entries.copy_into(state, copy, False)
        return cls(copy, new_trace(0, 1))


class SubmittedSoFar:
    """Records the jobs of a run that has not begun; each finished job is processed once."""

    def __init__(self, run: NodesSimulation) -> None:
        self._run, self._empty = run, EmptyCluster.of(run.state)
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
