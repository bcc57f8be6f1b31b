"""One workload under one policy on a pool of units: sets the columns up, drives the loop, collects the outcome."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from betimes.core.columns import (
    EVENTS,
    HEAD,
    HOLDERS,
    NOW,
    OFFENDER,
    SEGMENTS,
    TAIL,
    Floats,
    Ints,
    Machine,
    State,
    grown,
    new_state,
)
from betimes.errors import BetimesError, ClusterError
from betimes.outcome import JobColumns, JobState, Result, SegmentColumns, Timing
from betimes.policies import ChosenPolicy, Setting
from betimes.policies.violations import violation
from betimes.twin.loop import compiled_loops
from betimes.twin.pool import (
    NEED_SEGMENTS,
    NEED_SLOTS,
    REACHED,
    REFUSED,
    STUCK,
    Arrivals,
    History,
    Outcome,
    Rules,
)
from betimes.twin.sizes import Sizes, beliefs
from betimes.workload import Workload
from betimes.workload.speedup import SpeedupTable, bind

FIRST_SLOTS = 256
SEGMENT_ROWS = 1 << 16
ROWS_A_CALL = 512  # between two looks at the keyboard and the progress bar

ON_WIDE = ("refuse", "clip", "drop")


@dataclass(frozen=True)
class Fitted:
    """A workload made to fit a pool: (jobs,) masks of what was clipped or left out."""

    workload: Workload
    clipped: int
    dropped: np.ndarray[Any, np.dtype[np.bool_]]


def fit(workload: Workload, units: int, on_wide: str = "refuse") -> Fitted:
    """Deal with jobs whose minimum is more than `units`: refuse them all with an error, clip, or drop them.

    A clipped job keeps its work and needs at most all units. Raises ClusterError naming the first such job.
    """
    if units < 1:
        raise ClusterError(f"--units {units}: a pool has at least one unit")
    wide = workload.min_units > units
    none = np.zeros(len(workload), dtype=bool)
    if not wide.any():
        return Fitted(workload, 0, none)
    if on_wide == "refuse":
        first = int(np.argmax(wide))
        raise ClusterError(
            f"{workload.name}: job {workload.job_id[first]} needs {workload.min_units[first]} units and the pool has "
            f"{units} ({int(wide.sum())} such jobs); give more --units, or --on-wide clip or drop"
        )
    if on_wide == "drop":
        return Fitted(workload[~wide], 0, wide)
    clipped = replace(
        workload,
        min_units=np.minimum(workload.min_units, units),
        max_units=np.where(wide, units, workload.max_units),
    )
    return Fitted(clipped, int(wide.sum()), none)


class Simulation:
    """The twin of a pool: `run` takes it through a workload; `result` says what came of it."""

    def __init__(
        self,
        workload: Workload,
        policy: ChosenPolicy,
        *,
        units: int,
        fractional: bool = False,
        curves: SpeedupTable | None = None,
        sizes: Sizes | None = None,
        seed: int = 0,
        restart_s: float = 0.0,
        timeline: bool = False,
    ) -> None:
        if restart_s < 0 or not math.isfinite(restart_s):
            raise ClusterError(f"--restart-s {restart_s}: must be a number of seconds, 0 or more")
        self.workload, self.policy, self.units, self.seed = workload, policy, units, seed
        self.fractional, self.timeline = fractional, timeline
        self.sizes = sizes or Sizes("true")
        widest = int(workload.max_units.max(initial=1))
        table, self.unknown_curves = bind(workload.curve_names, widest, curves)
        self.full_speed = table.at(workload.curve, workload.max_units)
        belief = beliefs(self.sizes, workload, self.full_speed, seed)
        self.without_estimate = belief.without_estimate
        self.arrivals = Arrivals(
            _floats(workload.submit_s),
            _floats(workload.work_s),
            _ints(workload.min_units),
            _ints(workload.max_units),
            _ints(workload.curve),
            _floats(belief.size),
            _floats(belief.per_work),
            _ints(_user_rows(workload)),
            _floats(belief.longest_s),
        )
        users = max(1, int(self.arrivals.user.max(initial=-1)) + 1)
        self.history = History(np.zeros((users, 2)), np.zeros(users, dtype=np.int64))
        n = len(workload)
        self.outcome = Outcome(
            np.full(n, np.nan),
            np.full(n, np.nan),
            np.zeros(n),
            np.zeros(n, dtype=np.int64),
            np.zeros(n, dtype=np.int64),
            np.zeros(n),
            np.full(n, np.nan),
        )
        prepared = policy.prepared(
            Setting(
                float(units),
                fractional,
                table.speedup,
                _floats(workload.work_s),
                int(workload.min_units.max(initial=1)),
            )
        )
        self.rules = Rules(
            policy.policy.rank is not None, policy.policy.reads_progress, self.sizes.kind == "last-two"
        )
        self.rank, self.classify, self.allocate = policy.policy.hooks()
        self.state: State = new_state(
            FIRST_SLOTS,
            prepared.groups,
            Machine(float(units), fractional, float(restart_s)),
            table.speedup,
            prepared.params,
            prepared.table,
            SEGMENT_ROWS if timeline else 0,
        )
        self.keys: Floats = np.zeros(FIRST_SLOTS)
        self.row: Ints = np.zeros(1, dtype=np.int64)
        self.predicted: Floats = np.full(n, np.nan)
        self.chunks: list[tuple[np.ndarray[Any, Any], ...]] = []
        self.wall_s = 0.0

    def run(
        self, step: Callable[[int], int] | None = None, progress: Callable[[int], object] | None = None
    ) -> None:
        """Take the pool through the whole workload.

        step: submits the jobs up to a row and returns a status, by default the plain loop; progress is told
        the rows done. Raises PolicyViolation when the policy decides something the core refuses.
        """
        _, run_out = compiled_loops()
        step = step or self.submit_rows
        started = time.perf_counter()
        n = len(self.workload)
        while self.row[0] < n:
            self._heed(step(min(n, int(self.row[0]) + ROWS_A_CALL)))
            if progress is not None:
                progress(int(self.row[0]))
        status = NEED_SEGMENTS
        while status == NEED_SEGMENTS:
            status = run_out(
                self.state,
                self.rules,
                self.rank,
                self.allocate,
                self.keys,
                self.arrivals,
                self.history,
                self.outcome,
                math.inf,
            )
            self._heed(status)
        self._note_unfinished()
        self.wall_s = time.perf_counter() - started

    def submit_rows(self, stop: int) -> int:
        """The plain step: submit the jobs up to row `stop`; returns the loop's status."""
        run_rows, _ = compiled_loops()
        return run_rows(*self.loop_arguments(), self.row, stop)

    def loop_arguments(self) -> tuple[Any, ...]:
        """The arguments that all loops over submissions share."""
        return (
            self.state,
            self.rules,
            self.rank,
            self.classify,
            self.allocate,
            self.keys,
            self.arrivals,
            self.history,
            self.outcome,
        )

    def result(self, load_s: float = 0.0, compile_s: float = 0.0) -> Result:
        """What came of every job."""
        w, o = self.workload, self.outcome
        finished = ~np.isnan(o.finish_s)
        jobs = JobColumns(
            job_id=w.job_id,
            submit_s=w.submit_s,
            start_s=o.start_s,
            finish_s=o.finish_s,
            predicted_finish_s=self.predicted,
            work_s=w.work_s,
            run_alone_s=w.work_s / self.full_speed,
            min_units=w.min_units,
            max_units=w.max_units,
            units_s=o.unit_s,
            preemptions=o.preemptions,
            resizes=o.resizes,
            restart_s=o.stalled_s,
            contention_mean=o.contention,
            user=w.user,
            qos=w.qos,
            status=w.status,
            state=np.where(finished, JobState.FINISHED, JobState.UNFINISHED),
            cost_usd=np.full(len(w), np.nan),
        )
        timing = Timing(load_s, compile_s, self.wall_s, int(self.state.visible.tally[EVENTS]))
        return Result(
            policy=str(self.policy),
            units=self.units,
            seed=self.seed,
            fractional=self.fractional,
            sizes=str(self.sizes),
            workload_name=w.name,
            fingerprint=w.fingerprint(),
            jobs=jobs,
            segments=self._segments() if self.timeline else None,
            timing=timing,
        )

    def _heed(self, status: int) -> None:
        if status == NEED_SLOTS:
            self.state = grown(self.state)
            self.keys = np.zeros(len(self.state.free))
        elif status == NEED_SEGMENTS:
            self._take_segments()
            if 2 * self.state.visible.tally[HOLDERS] > len(self.state.segments.row):
                raise BetimesError("internal: more jobs hold units than there is room for segments")
        elif status >= REFUSED:
            slot = int(self.state.visible.tally[OFFENDER])
            inside = 0 <= slot < len(self.state.free)
            job = self.workload.job_id[self.state.progress.row[slot]] if inside else None
            raise violation(
                str(self.policy), status - REFUSED, job, float(self.state.visible.clock[NOW])
            )
        elif status not in (REACHED, STUCK):
            raise BetimesError(f"internal: the event loop returned {status}")

    def _take_segments(self) -> None:
        count = int(self.state.visible.tally[SEGMENTS])
        self.chunks.append(tuple(column[:count].copy() for column in self.state.segments))
        self.state.visible.tally[SEGMENTS] = 0

    def _segments(self) -> SegmentColumns:
        self._take_segments()
        row, start, end, units = (np.concatenate(parts) for parts in zip(*self.chunks, strict=True))
        order = np.lexsort((row, start))
        return SegmentColumns(row[order], start[order], end[order], units[order])

    def _note_unfinished(self) -> None:
        """Jobs that are still in the pool when nothing more can happen: what they had so far."""
        queue, progress = self.state.visible.queue, self.state.progress
        for group in range(len(queue.demand)):
            for slot in queue.order[group, queue.ends[group, HEAD] : queue.ends[group, TAIL]]:
                row = progress.row[slot]
                self.outcome.start_s[row] = progress.started_s[slot]
                self.outcome.unit_s[row] = progress.attained[slot]
                self.outcome.preemptions[row] = progress.preemptions[slot]
                self.outcome.resizes[row] = progress.resizes[slot]
                self.outcome.stalled_s[row] = progress.stalled_s[slot]


def _user_rows(workload: Workload) -> Ints:
    """Users as 0, 1, ... whatever numbers the trace gives them; -1 stays unknown."""
    known, codes = np.unique(workload.user, return_inverse=True)
    offset = 1 if len(known) and known[0] < 0 else 0
    return codes.astype(np.int64) - offset


def _floats(values: Any) -> Floats:
    # A copy: the loop's signature asks for a writable array, and a workload's columns are read-only.
    return np.array(values, dtype=np.float64)


def _ints(values: Any) -> Ints:
    return np.array(values, dtype=np.int64)
