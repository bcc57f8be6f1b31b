"""The interval around a promise, from how far this service's own promises have been off.

What learns is the model that the twin has, too (`foresight.promise_model`): errors of promises that were alike, and,
once enough jobs have finished, regressions on what is known when a promise is made. All of it is a fold of the event
log. Fits are made beside the service, at fixed counts of finished jobs; what they say of a promise stands in its event,
so that a recovery, and a replay, give the same intervals without them.
"""

from __future__ import annotations

import base64
import math
from typing import Any, NamedTuple

from betimes.foresight.intervals import Point
from betimes.foresight.past_errors import Raw
from betimes.foresight.promise_model import Played, PromiseModel, Queue
from betimes.foresight.run_times import HALF, Described, RunTimes
from betimes.kernels import Floats
from betimes.service.engines.accounts import expected_left
from betimes.service.scheduling.job import Job

ENDS = ("finish_low_at", "finish_median_at", "finish_high_at")
INTERVAL = (*ENDS, "level")
"""A promise's interval in the rows of table `quotes`."""
STARTS = ("start_low_at", "start_median_at", "start_high_at")
"""And that of its start."""
LEVEL = 0.8  # until a service sets its own


class Around(NamedTuple):
    """The fields of a quote that say how sure it is; empty: few jobs like it are known yet. learned: for its event."""

    fields: dict[str, float]
    learned: Raw | None = None


class PromiseErrors:
    """The model of promises, and the jobs that it knows; instants are seconds since 1970."""

    def __init__(self, run_times: RunTimes | None = None) -> None:
        """run_times: those that jobs of a copy, which learns nothing, are expected to take; by default this one's."""
        self.model = PromiseModel(LEVEL)
        self._run_times = run_times

    @property
    def run_times(self) -> RunTimes:
        """By which jobs are expected to end."""
        return self.model.run_times if self._run_times is None else self._run_times

    def expected(self, job: Job, at: float) -> Floats | None:
        """Quantiles of a job's run time on max_units, s, by jobs that were alike; null: it ends as believed.

        So does one that reports progress, is stopping, or has outlasted all that were alike.
        """
        return self._alike(job, at) if job.progress_frac is None else None

    def _alike(self, job: Job, at: float) -> Floats | None:
        """As `expected`, by the log alone, which does not have every report of progress."""
        stops = job.is_suspended or (job.run is not None and job.run.stopping is not None)
        if job.trials is not None or job.basis == "progress" or stops:
            return None
        active = None if self._run_times is not None else self.model.run_times.active.get(str(job.job_id))
        asked, keys = (described(job), None) if active is None else (active.job, active.keys)
        grid = self.run_times.expected(asked, job.runtime_estimate_s, keys)
        return None if grid is None or grid[-1] <= job.has_run_s(at) else grid

    def around(
        self, job: Job, made_at: float, start_at: float | None, finish_at: float | None, queue: Queue
    ) -> Around:
        """How sure an end promised now is."""
        if finish_at is None:
            return Around({})
        point = self._point(job, made_at, start_at, finish_at, queue)
        learned = None if point.like.outran else self.model.intervals.learned(point.features)
        made = self.model.intervals.interval(point, learned)
        if made.few:
            return Around({}, learned)
        ends = made_at + made.low_s, made_at + made.median_s, made_at + made.high_s
        found: dict[str, float] = dict(zip(INTERVAL, (*ends, self.model.intervals.level), strict=True))
        if start_at is not None:
            starts = (max(start_at, made_at) if point.wait_s == 0.0 else made_at + s for s in made.starts_s)
            found |= zip(STARTS, starts if start_at >= made_at else (start_at,) * 3, strict=True)
        return Around(found, learned)

    def takes(self, job: Job, at: float) -> tuple[float, str]:
        """The run time on max_units that a promise rests on, s, and where it is from."""
        grid = self.expected(job, at)
        return (job.runtime_estimate_s, job.basis) if grid is None else (float(grid[HALF]), "alike")

    def _point(
        self, job: Job, made_at: float, start_at: float | None, finish_at: float, queue: Queue
    ) -> Point:
        begins_at, grid = made_at if start_at is None else start_at, self._alike(job, made_at)
        asked, age_s = described(job), job.has_run_s(made_at)
        believed_at = math.nan
        if grid is not None and age_s < job.runtime_estimate_s:
            # What is believed of this job is the anchor: quick runs of others are often repeated in vain.
            longer = (job.runtime_estimate_s - age_s) / expected_left(grid[None], 0, age_s)
            from_at = max(begins_at, made_at)
            believed_at = from_at + max(finish_at - from_at, 0.0) * longer
        played = Played(begins_at, finish_at, believed_at, job.basis)
        run_s = self.model.run_times.quantiles(asked, made_at, age_s)
        point = self.model.point(asked, made_at, played, queue, run_s)
        first = self.model.intervals.issued.get(str(job.job_id))
        outran = first is not None and first.like.basis != job.basis
        like = point.like._replace(outran=outran)
        return point._replace(most_s=max(asked.longest_s - age_s, 0.0), like=like)

    def submitted(self, job: Job) -> None:
        """A job is there from now on."""
        self.model.submitted(str(job.job_id), described(job))

    def edited(self, job: Job) -> None:
        """What a job asks for has changed."""
        if self._knows(job):
            self.model.run_times.changed(str(job.job_id), described(job))

    def started(self, job: Job, at: float) -> None:
        """A job's first run has begun; how long it takes says most if its width is fixed."""
        if self._knows(job) and job.spec.min_units == job.spec.max_units and job.trials is None:
            self.model.started(str(job.job_id), at)

    def stopped(self, job: Job) -> None:
        """A job's run has ended, perhaps before the job has."""
        if self._knows(job):
            self.model.stopped(str(job.job_id))

    def promised(self, job: Job, quote: dict[str, Any], queue: Queue, learned: Raw | None) -> None:
        """A promise was made to a job, as table `quotes` has it: the first one is judged."""
        number, made_at, intervals = str(job.job_id), quote["made_at"], self.model.intervals
        first = intervals.issued.get(number)
        if quote["finish_at"] is None or not self._knows(job):
            return
        if first is not None and first.like.basis == job.basis:
            return
        shown_s = None
        if quote.get("level") is not None:
            intervals.at_level(quote["level"])
            shown_s = quote["finish_low_at"] - made_at, quote["finish_high_at"] - made_at
        point = self._point(job, made_at, quote["start_at"], quote["finish_at"], queue)
        if first is not None:
            intervals.note_later(number, made_at, point)
        else:
            self.model.promise(number, made_at, point, learned, shown_s)

    def passed(self, at: float) -> None:
        """Count the promises whose upper end lies before an instant."""
        self.model.intervals.passed(at)

    def finished(self, job: Job, at: float, run_s: float | None) -> None:
        """A job has finished at an instant, at the latest now; run_s: on max_units, null: it was a set."""
        if self._knows(job):
            self.model.ended(str(job.job_id), run_s, at)

    def dropped(self, job: Job) -> None:
        """A job has ended otherwise."""
        if self._knows(job):
            self.model.forget(str(job.job_id))

    def void(self, job: Job) -> None:
        """What a job was promised is void."""
        self.model.intervals.forget(str(job.job_id))

    def _knows(self, job: Job) -> bool:
        """Whether it was submitted since there is a model: earlier versions had none, a copy to be tried has none."""
        return str(job.job_id) in self.model.run_times.active

    def to_json(self) -> str:
        """All of it, for a snapshot."""
        return base64.b64encode(self.model.to_bytes()).decode()

    @classmethod
    def from_json(cls, body: str) -> PromiseErrors:
        """That of a snapshot."""
        made = cls()
        made.model = PromiseModel.from_bytes(base64.b64decode(body))
        return made


def described(job: Job) -> Described:
    """What its specification tells of a job's run time; the time limit of a set, or an array, is that of each part."""
    spec = job.spec
    limit_s = math.nan if spec.time_limit_s is None else spec.time_limit_s
    is_one = job.trials is None and spec.array is None and not math.isnan(limit_s)
    asked_s = limit_s if math.isnan(spec.runtime_estimate_s) else spec.runtime_estimate_s
    return Described(
        job.user, spec.history_key, asked_s, float(spec.max_units), limit_s if is_one else math.inf
    )
