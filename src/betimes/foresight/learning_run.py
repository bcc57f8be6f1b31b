"""A simulation that learns on its way: beliefs from finished jobs, and promises with intervals.

Before each submission the model is told what has started and finished by then, and nothing else of the trace.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from betimes.cluster.cluster import Cluster, first_opening
from betimes.cluster.labels import suits
from betimes.core.status import DONE
from betimes.foresight.learned_promises import LearnedPromises
from betimes.foresight.promise_model import Played, Queue
from betimes.foresight.run_times import GRID, HALF, Described
from betimes.kernels import Floats, FloatTable, Ints, as_array
from betimes.outcome import IntervalColumns, Result
from betimes.twin.nodes.simulation import NodesSimulation
from betimes.twin.pool.simulation import Simulation
from betimes.workload import Workload

NAME = "JobName"  # the further column of a trace that has the names of jobs
LEVEL = 0.8  # of intervals, where none is asked for


class LearningRun:
    """Takes a simulation from submission to submission, and keeps its promise model up to date.

    level: of the intervals. own_beliefs: the policy's beliefs are the model's, too (`--sizes learned`); under
    `limits`, they stay the users' estimates where there are any.
    """

    def __init__(
        self,
        run: Simulation | NodesSimulation,
        *,
        level: float,
        own_beliefs: bool = False,
        limits: bool = False,
        learned: LearnedPromises | None = None,
    ) -> None:
        jobs = run.jobs
        count = len(jobs)
        self.run = run
        begin = run.options.state
        # When each is promised: jobs that are there when the run begins, at that instant.
        self.submit_s: Floats = np.maximum(jobs.submit_s, 0.0 if begin is None else begin.now_s)
        self.estimate_s: Floats = np.array(jobs.estimate_s)
        self.own_beliefs = own_beliefs
        self.keeps_limit: np.ndarray = ~np.isnan(jobs.estimate_s) if limits else np.zeros(count, dtype=bool)
        self.learned = learned or LearnedPromises(level, ends_only=True)
        self.learned.at_level(level)
        self.model = self.learned.model
        self.ids: list[str] = [str(each) for each in jobs.job_id.tolist()]
        self.described = described(jobs, ends_at_limit=run.options.overrun == "kill")
        self.expected: FloatTable = np.ones((count, GRID))
        self.starts: Floats = np.full(count, np.nan)  # in the play-outs
        self.believed: Floats = np.full(count, np.nan)  # finishes in those in which all beliefs come true
        self.intervals: FloatTable = np.full((count, 8), np.nan)
        self._prepared = 0  # rows whose beliefs are known
        self._promised = 0  # and those whose promises are made
        self._running = np.zeros(count, dtype=bool)  # of which the model knows that they run
        self._count = 0  # of them
        self._queues: dict[int, Queue] = {}
        self._closed = _Closed(run)
        self._state: object = None  # whose columns these are:
        self._progress: NDArray[Any] = np.zeros(0)
        self._pool: NDArray[Any] = np.zeros(0)

    def step(self, inner: Callable[[int], int]) -> Callable[[int], int]:
        """A step for the simulation's `run`: as `inner`, with what is learned before each submission."""
        run = self.run

        def step(stop: int) -> int:
            if self._prepared == 0 and run.row[0] > 0:
                self._take_over(int(run.row[0]))
            while run.row[0] < stop or self._promised < self._prepared:
                if self._promised == self._prepared:
                    self._prepare(int(run.row[0]))
                status = inner(self._prepared)
                if status != DONE:
                    return status
                self._promise()
            return inner(stop)

        return step

    def _take_over(self, count: int) -> None:
        """The run has begun from a state, with so many jobs."""
        self._note(0, count, float(self.submit_s[0]))
        self._note_running(np.zeros(0, dtype=np.int64))
        for row in range(count):
            if not self._running[row]:
                self.learned.stopped(self.ids[int(row)])

    def _prepare(self, row: int) -> None:
        """Learn what has happened by the submission of `row`, and believe something of the jobs submitted then."""
        at_s, last = float(self.submit_s[row]), self.run.advance_before(row)
        ended, finish_s = self.run.take_ended()
        self._note_running(ended)
        for each, at in zip(ended.tolist(), finish_s.tolist(), strict=True):
            self.learned.ended(self.ids[int(each)], float(self.run.run_s[each]), at)
        self.learned.look(at_s)
        self.model.refit()
        self._note(row, last, at_s)

    def _note(self, row: int, last: int, at_s: float) -> None:
        """The jobs in rows `row` up to `last` are there at `at_s`: what is believed of them."""
        self._read_columns()
        pool = self._pool[0]
        running = int(pool["holders"])
        queue = Queue(int(pool["active"]) - running, running, float(pool["used"] / pool["units"]))
        for each in range(row, last):
            self.learned.submitted(self.ids[each], self.described[each], at_s)
            self.expected[each] = believed_s = self.model.run_times.quantiles(self.described[each], at_s)
            self._queues[each] = queue
            if self.own_beliefs and not self.keeps_limit[each]:
                self.run.believe(each, float(believed_s[HALF]))
        self._prepared = last

    def _note_running(self, ended: Ints) -> None:
        """Tell the model which jobs began to run, and which of them were preempted."""
        run = self.run
        self._read_columns()
        progress = self._progress
        holders = run.state.holders[: self._pool["holders"][0]]
        rows = progress["row"][holders]
        new = np.flatnonzero(~self._running[rows] & run.is_rigid[rows])
        for at in new.tolist():
            slot = holders[at]
            if progress["preemptions"][slot] == 0:
                self.learned.started(self.ids[int(rows[at])], float(progress["started_s"][slot]))
                self._running[rows[at]] = True
                self._count += 1
        self._count -= int(self._running[ended].sum())
        self._running[ended] = False
        if self._count > np.count_nonzero(self._running[rows]):
            gone = np.setdiff1d(np.flatnonzero(self._running), rows)
            for row in gone.tolist():
                self.learned.stopped(self.ids[int(row)])
            self._running[gone] = False
            self._count -= len(gone)

    def _read_columns(self) -> None:
        state = self.run.state
        if state is not self._state:  # the columns have grown
            self._state = state
            # As plain arrays: fields of NumPy's records take many times as long to read.
            self._progress = as_array(state.progress).view(np.ndarray)
            self._pool = as_array(state.pool).view(np.ndarray)

    def _promise(self) -> None:
        """Turn the play-outs of the rows submitted last into promises."""
        predicted = self.run.predicted
        first, self._promised = self._promised, self._prepared
        for row in range(first, self._prepared):
            at_s, queue, job_id = float(self.submit_s[row]), self._queues.pop(row), self.ids[row]
            finish_s = float(predicted[row])
            if math.isnan(finish_s):
                continue
            start_s = float(self.starts[row])
            if not at_s <= start_s <= finish_s:
                start_s = at_s
            played = Played(start_s, finish_s, float(self.believed[row]))
            earliest_s = self._closed.until_s(row, at_s)
            if self._running[row]:  # when the run began
                made = self.learned.of_running(job_id, at_s)
            else:
                point = self.model.point(
                    self.described[row], at_s, played, queue, self.expected[row], earliest_s
                )
                fitted = self.model.intervals.learned(point.features)
                made = self.learned.waiting(job_id, at_s, point, fitted, start_s)
            point_s = max(finish_s - at_s, 1.0)
            low, middle, high = [math.exp(each) for each in self.model.intervals.rolling()]
            estimate_s = self.estimate_s[row]
            self.intervals[row] = (
                finish_s,
                at_s + made.low_s,
                at_s + made.high_s,
                start_s,
                start_s + max(estimate_s, 1.0) if not math.isnan(estimate_s) else math.nan,
                at_s + point_s * low,
                at_s + point_s * middle,
                at_s + point_s * high,
            )
            predicted[row] = at_s + made.median_s

    def end(self) -> None:
        """The run is over: learn what has ended since the last submission, and forget what never will."""
        ended, finish_s = self.run.take_ended()
        self._note_running(ended)
        for each, at in zip(ended.tolist(), finish_s.tolist(), strict=True):
            self.learned.ended(self.ids[int(each)], float(self.run.run_s[each]), at)
        for job_id in self.ids[: self._prepared]:
            if job_id in self.model.run_times.active:
                self.learned.forget(job_id)
        self.model.refit()

    def with_intervals(self, result: Result, kept: Ints) -> Result:
        """The result with the promises of the jobs, of which those in rows `kept` ran."""
        whole = np.full((len(result.jobs), self.intervals.shape[1]), np.nan)
        whole[kept] = self.intervals
        return replace(result, intervals=IntervalColumns(*whole.T), interval_frac=self.model.intervals.level)


class _Closed:
    """Until when maintenance keeps jobs from every node that they could use."""

    def __init__(self, run: Simulation | NodesSimulation) -> None:
        self._run, cluster = run, run.options.cluster
        rents = isinstance(run, NodesSimulation) and run.rents
        self._cluster = cluster if cluster is not None and cluster.maintenance and not rents else None
        self._known = dict[tuple[Any, ...], set[tuple[tuple[float, float], ...]]]()  # of equal jobs
        if self._cluster is not None:
            of: list[list[tuple[float, float]]] = [[] for _ in range(len(self._cluster))]
            for node, from_s, to_s in self._cluster.closings:
                of[node].append((from_s, to_s))
            self._of_node = [tuple(each) for each in of]

    def until_s(self, row: int, at_s: float) -> float:
        """The earliest instant at which one of the nodes takes the job in a row, submitted at `at_s`."""
        if self._cluster is None:
            return at_s
        run = self._run
        believed = {"true": run.run_s, "estimate": run.jobs.estimate_s}.get(run.sizes.kind)
        lasts_s = 0.0 if believed is None or math.isnan(believed[row]) else float(believed[row])
        return first_opening(self._on_nodes_for(row, self._cluster), at_s, lasts_s)

    def _on_nodes_for(self, row: int, cluster: Cluster) -> set[tuple[tuple[float, float], ...]]:
        run = self._run
        if not isinstance(run, NodesSimulation):
            return set(self._of_node)
        demand, required = run.tasks.demand[run.kept[row]], run.required.of(row)
        key = (*demand.tolist(), required)
        if key not in self._known:
            suit = np.array([suits(group.labels, required) for group in cluster.groups])[cluster.types]
            usable = np.flatnonzero(suit & (cluster.capacity >= demand).all(axis=1))
            self._known[key] = {self._of_node[node] for node in usable.tolist()}
        return self._known[key]


def learning_run(
    run: Simulation | NodesSimulation, interval: float | None, learned: LearnedPromises | None = None
) -> LearningRun | None:
    """The learner of a run that has one: for intervals at a level, or `--sizes learned`.

    learned: before, and from then on.
    """
    own_beliefs = run.sizes.kind == "learned"
    if interval is None and not own_beliefs:
        return None
    level = LEVEL if interval is None else interval
    return LearningRun(run, level=level, own_beliefs=own_beliefs, limits=run.reserves, learned=learned)


def playouts_of(
    learning: LearningRun | None, jobs: int, believing: bool
) -> tuple[Floats, Floats, FloatTable]:
    """Columns for the starts in play-outs and the finishes as believed; and expected run times, none: as believed."""
    if learning is None:
        return np.full(jobs, np.nan), np.full(jobs, np.nan), np.zeros((0, GRID))
    return learning.starts, learning.believed, learning.expected if believing else np.zeros((0, GRID))


def described(jobs: Workload, *, ends_at_limit: bool) -> list[Described]:
    """The description of each job at its submission: its kin are its user's jobs of the same name, as live.

    Of jobs without a name (the column JobName of `sacct`) they are those of the same requested time. An application is
    left out: of those that logs have, most are numbers that a user has once or twice.
    ends_at_limit: whoever reaches the requested time is ended.
    """
    users: list[str] = [
        jobs.user_names[user] if 0 <= user < len(jobs.user_names) else str(user)
        for user in jobs.user.tolist()
    ]
    names = jobs.extra[NAME].astype(np.str_).tolist() if NAME in jobs.extra else [""] * len(jobs)
    return [
        Described(
            *(user, f"{limit_s:g}" if name in ("", "nan") else name, limit_s, float(width)),
            most_s=limit_s if ends_at_limit and not math.isnan(limit_s) else None,
        )
        for user, name, limit_s, width in zip(
            users, names, jobs.estimate_s.tolist(), jobs.max_units.tolist(), strict=True
        )
    ]
