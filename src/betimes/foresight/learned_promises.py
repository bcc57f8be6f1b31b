"""Learned promises: the model of ends, and the errors of starts and of jobs that run already, each apart.

The error of a start is not that of an end, which includes the run; and of a job that has run for an hour more is known
than when it was submitted. So the three are judged apart (`Intervals`), all by what became of the jobs.
"""

from __future__ import annotations

import heapq
import io
import math
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from betimes.foresight.intervals import Interval, Intervals, Point
from betimes.foresight.past_errors import Likeness, Raw
from betimes.foresight.promise_model import PromiseModel, packed, unpacked
from betimes.foresight.run_times import AT, HALF, Described

FIRST_AGE_S = 60.0
LATER = 4.0
"""A running job's time left is judged as of when it has run for FIRST_AGE_S, LATER times as long, and so on."""


class Promise(NamedTuple):
    """The promise to a job, instants in seconds: median, low and high end of its start and of its finish.

    Of a job that runs the three starts are that of its run. few: few jobs like it have finished, and errors
    on other clusters do not count for it.
    """

    job_id: str
    made_s: float
    is_running: bool
    start_s: float
    start_low_s: float
    start_high_s: float
    finish_s: float
    finish_low_s: float
    finish_high_s: float
    few: bool


@dataclass
class _Run:
    """A job that runs: since when, and how often its time left was looked at."""

    since_s: float
    looks: int = 0


class LearnedPromises:
    """A promise model of ends, beside it the errors of starts, and of the time that running jobs have left.

    ends_only: nothing but the ends of jobs that wait is judged, and no promise is kept: less work. promises: the latest
    to each job. Called as the jobs are submitted, started, stopped and ended, in that order in time; it has no clock.
    """

    def __init__(self, level: float, *, ends_only: bool = False) -> None:
        self.ends_only = ends_only
        self.model, self.starts, self.lefts = PromiseModel(level), Intervals(level), Intervals(level)
        self.promises: dict[str, Promise] = {}
        self._runs: dict[str, _Run] = {}
        self._looks: list[tuple[float, str]] = []  # a heap of when a running job is looked at, and which

    def at_level(self, level: float) -> None:
        """Promise at another level from now on."""
        for each in (self.model.intervals, self.starts, self.lefts):
            each.at_level(level)

    def submitted(self, job_id: str, job: Described, at_s: float) -> None:
        """A job waits from now on, if it has not waited or run before."""
        if job_id not in self.model.run_times.active:
            self.model.submitted(job_id, job, at_s)

    def started(self, job_id: str, at_s: float) -> None:
        """The job runs from `at_s` on."""
        if job_id in self._runs:
            if self._runs[job_id].since_s == at_s:
                return
            self.stopped(job_id)
        self.model.started(job_id, at_s)
        self.starts.ended(job_id, at_s)
        self._runs[job_id] = _Run(at_s)
        if not self.ends_only:
            heapq.heappush(self._looks, (at_s + FIRST_AGE_S, job_id))

    def stopped(self, job_id: str) -> None:
        """The job, if it has run, runs no more, and has not ended: nobody knows how long it would have taken."""
        if job_id not in self._runs:
            return
        self.model.stopped(job_id)
        self._drop(job_id)

    def ended(self, job_id: str, run_s: float | None, at_s: float) -> None:
        """As `PromiseModel.ended`."""
        run = self._runs.pop(job_id, _Run(at_s))
        for look in range(run.looks):
            self.lefts.ended(f"{job_id} {look}", at_s)
        self.starts.forget(job_id)
        self.promises.pop(job_id, None)
        self.model.ended(job_id, run_s, at_s)

    def forget(self, job_id: str) -> None:
        """The job will never finish, or nobody has seen when."""
        self._drop(job_id)
        self.starts.forget(job_id)
        self.promises.pop(job_id, None)
        self.model.forget(job_id)

    def look(self, at_s: float) -> None:
        """Note what is believed now of the jobs that have run for long enough since the last look."""
        while self._looks and self._looks[0][0] <= at_s:
            due_s, job_id = heapq.heappop(self._looks)
            run = self._runs.get(job_id)
            if run is None or due_s < run.since_s + FIRST_AGE_S:  # it has ended, or has begun anew
                continue
            job = self.model.run_times.active[job_id].job
            self.lefts.issue(f"{job_id} {run.looks}", at_s, self._left(job, at_s, at_s - run.since_s), None)
            run.looks += 1
            heapq.heappush(self._looks, (run.since_s + LATER * (at_s - run.since_s), job_id))

    def waiting(
        self, job_id: str, at_s: float, point: Point, learned: Raw | None, start_s: float
    ) -> Interval:
        """Promise a job that waits an end, and a start, in a play-out at `start_s`; its first will be judged."""
        is_first = job_id not in self.model.intervals.issued
        if is_first:
            made = self.model.promise(job_id, at_s, point, learned)
        else:
            made = self.model.intervals.interval(point, learned)
        if self.ends_only:
            return made
        wait_s = start_s - at_s
        if wait_s <= 0.0:
            starts = (start_s, start_s, start_s)
        else:
            wait = Point(max(wait_s, 1.0), 0.0, wait_s, [], point.like, certain_s=0.0)
            begun = (
                self.starts.issue(job_id, at_s, wait, None) if is_first else self.starts.interval(wait, None)
            )
            three = made.starts_s if begun.few else (begun.low_s, begun.median_s, begun.high_s)
            starts = tuple(at_s + each for each in three)
        low_s, start_s, high_s = starts
        self.promises[job_id] = Promise(
            *(job_id, at_s, False, start_s, low_s, high_s),
            *(at_s + made.median_s, at_s + made.low_s, at_s + made.high_s, made.few),
        )
        return made

    def of_running(self, job_id: str, at_s: float) -> Interval:
        """Promise an end to a job that runs, by how long it has run: seconds from `at_s` on."""
        run, job = self._runs[job_id], self.model.run_times.active[job_id].job
        age_s = at_s - run.since_s
        made = self.lefts.interval(self._left(job, at_s, age_s), None)
        if made.few:  # by the run times of others alone
            left_s = np.maximum(self.model.run_times.quantiles(job, at_s, age_s) - age_s, 0.0)
            tail = (1.0 - self.lefts.level) / 2.0
            low_s, median_s, high_s = np.interp((tail, 0.5, 1.0 - tail), AT, left_s).tolist()
            made = Interval(low_s, median_s, max(high_s, median_s + 1.0), few=True)
        self.promises[job_id] = Promise(
            *(job_id, at_s, True, run.since_s, run.since_s, run.since_s),
            *(at_s + made.median_s, at_s + made.low_s, at_s + made.high_s, made.few),
        )
        return made

    def _left(self, job: Described, at_s: float, age_s: float) -> Point:
        """The time that a job has left when it has run for `age_s`; alike are jobs that have run about as long."""
        left_s = float(self.model.run_times.quantiles(job, at_s, age_s)[HALF]) - age_s
        looks = round(math.log(max(age_s / FIRST_AGE_S, 1.0), LATER))
        return Point(
            max(left_s, 1.0), 0.0, 0.0, [], Likeness(job.user, job.command, f"looked at {looks} times")
        )

    def _drop(self, job_id: str) -> None:
        run = self._runs.pop(job_id, None)
        for look in range(0 if run is None else run.looks):
            self.lefts.forget(f"{job_id} {look}")

    def to_bytes(self) -> bytes:
        """All that was learned; a promise that is open is judged by whoever goes on."""
        runs = {job_id: [run.since_s, run.looks] for job_id, run in self._runs.items()}
        out = io.BytesIO()
        parts = {
            "model": self.model.to_bytes(),
            "starts": packed(*self.starts.state()),
            "lefts": packed(*self.lefts.state()),
            "runs": packed({"runs": runs, "looks": self._looks}, {}),
        }
        arrays = {name: np.frombuffer(part, dtype=np.uint8) for name, part in parts.items()}
        np.savez(out, allow_pickle=False, **arrays)
        return out.getvalue()

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """The same as when `to_bytes` was called."""
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            parts = {name: arrays[name].tobytes() for name in ("model", "starts", "lefts", "runs")}
        model = PromiseModel.from_bytes(parts["model"])
        new = cls(model.intervals.level)
        new.model = model
        new.starts, new.lefts = (Intervals.from_state(*unpacked(parts[name])) for name in ("starts", "lefts"))
        plain, _ = unpacked(parts["runs"])
        new._runs = {job_id: _Run(*run) for job_id, run in plain["runs"].items()}
        new._looks = [(at_s, job_id) for at_s, job_id in plain["looks"]]
        model.refit()
        return new
