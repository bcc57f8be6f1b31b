"""Promises: the forecast that they are made of, the interval around each, and the one that is judged.

A forecast is the result of a play-out of the present state, in the service's terms.

Intervals are made from how far this service's own promises have been off, and at first also those on other clusters,
where a job asks for a time and states no estimate. What learns is the model that the twin has,
too (`foresight.promise_model`): errors of promises that were alike, and, once enough jobs have finished, regressions
on what is known when a promise is made. All of it is a fold of the event log. Fits are made beside the service, at
fixed counts of finished jobs; what they say of a promise stands in its event, so that a recovery, and a replay, give
the same intervals without them.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from betimes.cluster.labels import suits
from betimes.foresight.intervals import Point, Source
from betimes.foresight.past_errors import Raw
from betimes.foresight.promise_model import Played, PromiseModel, Queue
from betimes.foresight.run_times import HALF, Described, RunTimes
from betimes.kernels import Floats
from betimes.service.engines.accounts import expected_left
from betimes.service.engines.messages import Foreseen
from betimes.service.scheduling.job import Job
from betimes.service.scheduling.node import LOST, Node
from betimes.service.spec.job_spec import JobSpec
from betimes.units import S_PER_H


@dataclass(frozen=True)
class Forecast:
    """Start and finish of all jobs that wait or run, as of an instant; NaN: never, as things stand."""

    as_of_at: float
    job: list[int] = field(default_factory=list[int])
    start_at: Floats = field(default_factory=lambda: np.empty(0))
    finish_at: Floats = field(default_factory=lambda: np.empty(0))
    waits: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, dtype=np.bool_))  # it holds nothing
    believed_at: Mapping[int, float] = field(default_factory=dict[int, float])
    """By job: its finish if all that the policy believes comes true; empty: that was not played out."""

    def knows(self, job: int) -> bool:
        """Whether a job was there."""
        return job in self._row

    def times(self, job: int) -> tuple[float | None, float | None]:
        """Start and finish of a job; null: never, as things stand, or the job was not there."""
        row = self._row.get(job)
        if row is None:
            return None, None
        return _known(float(self.start_at[row])), _known(float(self.finish_at[row]))

    def believed_end_at(self, job: int) -> float:
        """The finish of a job if all that the policy believes comes true; NaN: not known."""
        return self.believed_at.get(job, math.nan)

    def starting_before(self, at: float, most: int) -> tuple[int, list[int]]:
        """The number of waiting jobs that start before an instant, and the first of them."""
        starts_at, jobs = self._starts
        count = int(np.searchsorted(starts_at, at, side="left"))
        return count, jobs[: min(count, most)].tolist()

    def finishing_at(self, at: float) -> list[int]:
        """The jobs that finish at this instant exactly."""
        ends_at, jobs = self._ends
        first, after = np.searchsorted(ends_at, at, side="left"), np.searchsorted(ends_at, at, side="right")
        return jobs[first:after].tolist()

    @property
    def first_end_at(self) -> float:
        """The end of the first of them; infinity: none ends."""
        ends_at = self._ends[0]
        return float(ends_at[0]) if len(ends_at) else math.inf

    def in_order_of_starts(self) -> Iterator[tuple[int, float, float]]:
        """The jobs that start sometime: job, start, finish; NaN: it never finishes."""
        rows = np.flatnonzero(np.isfinite(self.start_at))
        rows = rows[np.lexsort((np.array(self.job, dtype=np.int64)[rows], self.start_at[rows]))]
        jobs = map(self.job.__getitem__, rows.tolist())
        return zip(jobs, self.start_at[rows].tolist(), self.finish_at[rows].tolist(), strict=True)

    def delayed(self, by_s: Mapping[int, float]) -> Forecast:
        """The same with some jobs later, each by so many seconds."""
        delays_s = np.zeros(len(self.job))
        delays_s[[self._row[job] for job in by_s]] = list(by_s.values())
        return replace(self, start_at=self.start_at + delays_s, finish_at=self.finish_at + delays_s)

    def beside(self, times: Mapping[int, tuple[float | None, float | None]]) -> Forecast:
        """The same with start and finish of jobs that were not there, null: never; they hold up no other."""
        columns = np.array([[math.nan if at is None else at for at in each] for each in times.values()])
        start_at, finish_at = columns.reshape(-1, 2).T
        return replace(
            self,
            job=[*self.job, *times],
            start_at=np.append(self.start_at, start_at),
            finish_at=np.append(self.finish_at, finish_at),
            waits=np.append(self.waits, np.zeros(len(times), dtype=np.bool_)),
        )

    @cached_property
    def _row(self) -> dict[int, int]:
        return dict(zip(self.job, range(len(self.job)), strict=True))

    @cached_property
    def _starts(self) -> tuple[Floats, NDArray[np.int64]]:
        return self._sorted(self.start_at, self.waits)

    @cached_property
    def _ends(self) -> tuple[Floats, NDArray[np.int64]]:
        return self._sorted(self.finish_at, np.ones(len(self.job), dtype=np.bool_))

    def _sorted(self, at: Floats, which: NDArray[np.bool_]) -> tuple[Floats, NDArray[np.int64]]:
        """Known instants in order, and their jobs; at one instant by job number."""
        rows = np.flatnonzero(which & np.isfinite(at))
        jobs = np.array(self.job, dtype=np.int64)[rows]
        order = np.lexsort((jobs, at[rows]))
        return at[rows][order], jobs[order]


def forecast(foreseen: Foreseen, as_of_at: float, epoch_at: float, holding: Collection[int]) -> Forecast:
    """A play-out's result, in seconds since 1970; holding: the jobs that hold units when it begins."""
    waits = ~np.fromiter(map(holding.__contains__, foreseen.job), np.bool_, len(foreseen.job))
    believed = {}
    if foreseen.believed_s is not None:
        believed = dict(zip(foreseen.job, (foreseen.believed_s + epoch_at).tolist(), strict=True))
    start_at, finish_at = foreseen.start_s + epoch_at, foreseen.finish_s + epoch_at
    return Forecast(as_of_at, foreseen.job, start_at, finish_at, waits, believed)


def cost_usd(
    spec: JobSpec, run_s: float, nodes: Iterable[Node], speed_on: Callable[[Node], float] = lambda _: 1.0
) -> float | None:
    """Cost of a run on max_units on the nodes on which it is cheapest; null: no price is known.

    run_s: at speed 1. A unit pays for the largest share that it takes of any resource of the node.
    """
    shares, unit = list[float](), spec.unit
    for node in nodes:
        price = node.machine.usd_per_h
        if price is None or node.status == LOST or (demand := unit.amounts_on(node.family)) is None:
            continue
        capacity = node.capacity
        if all(need <= room for need, room in zip(demand, capacity, strict=True)):
            share = max(need / room for need, room in zip(demand, capacity, strict=True) if need > 0)
            shares.append(share * price / speed_on(node))
    return min(shares) * spec.max_units * run_s / S_PER_H if shares else None


def _known(at: float) -> float | None:
    return at if math.isfinite(at) else None


ENDS = ("finish_low_at", "finish_median_at", "finish_high_at")
INTERVAL = (*ENDS, "level")
"""A promise's interval in the rows of table `quotes`."""
STARTS = ("start_low_at", "start_median_at", "start_high_at")
"""And that of its start."""
SURE_OF_PROGRESS = 0.5  # of the time that a job has left by its progress: that much at least, at its level
FEW = 20
"""Finished jobs with a limit before those tell how much of its limit a job takes that another scheduler plans."""
PLANNED = "planned"
"""The basis of a job's run time where another scheduler plans with its limit."""
LEVEL = 0.8  # until a service sets its own


class Around(NamedTuple):
    """The fields of a quote that say how sure it is; empty: few jobs like it are known yet. learned: for its event.

    rests_on: what the interval is from, in words.
    """

    fields: dict[str, float]
    learned: Raw | None = None
    rests_on: str | None = None


_RESTS_ON = {
    "command": "as {} to jobs of this user and command turned out",
    "user": "as {} to jobs of this user turned out",
    "basis": "as {} to jobs of all users turned out, whose run times are known in the same way",
    "all": "as {} to jobs of all users turned out",
    "features": "learned from {}: their requests, users and waits, and the queue",
}
_OF_OTHERS = "as early promises on other clusters turned out (public logs)"


class PromiseErrors:
    """The model of promises, and the jobs that it knows; instants are seconds since 1970."""

    def __init__(self, run_times: RunTimes | None = None) -> None:
        """run_times: those that jobs of a copy, which learns nothing, are expected to take; by default this one's."""
        self.model = PromiseModel(LEVEL)
        self._run_times = run_times
        self._shown: tuple[tuple[object, ...], Point] | None = None  # the last point asked for by `around`

    @property
    def run_times(self) -> RunTimes:
        """By which jobs are expected to end."""
        return self.model.run_times if self._run_times is None else self._run_times

    def expected(self, job: Job, at: float) -> Floats | None:
        """Quantiles of a job's run time on max_units, s, by jobs that were alike; null: it ends as believed.

        So does one that reports progress, is stopping, or has outlasted all that were alike.
        """
        return self._alike(job, at) if job.progress_frac is None else None

    def with_kin(self, jobs: Mapping[int, Job]) -> Iterable[Job]:
        """Those of all these jobs of which `expected` may know something, without a look at each of a long queue."""
        if self._run_times is not None or len(self.model.run_times.active) < len(jobs):
            return jobs.values()  # some of them are not in the model
        if any(job.basis == PLANNED for job in islice(jobs.values(), 1)):
            return jobs.values()  # another scheduler plans all of them
        return (jobs[number] for text in self.model.run_times.with_kin() if (number := int(text)) in jobs)

    def _alike(self, job: Job, at: float) -> Floats | None:
        """As `expected`, by the log alone, which does not have every report of progress."""
        stops = job.is_suspended or (job.run is not None and job.run.stopping is not None)
        if job.trials is not None or job.basis == "progress" or stops:
            return None
        active = None if self._run_times is not None else self.model.run_times.active.get(str(job.job_id))
        asked, keys = (described(job), None) if active is None else (active.job, active.keys)
        if self._tells(job):
            return self.run_times.quantiles(asked, at, job.has_run_s(at))
        grid = self.run_times.expected(asked, job.runtime_estimate_s, keys)
        return None if grid is None or grid[-1] <= job.has_run_s(at) else grid

    def _tells(self, job: Job) -> bool:
        """Whether all that is learned tells a job's run time: its limit is what another plans with, and no belief."""
        return job.basis == PLANNED and len(self.run_times.all) >= FEW

    def around(
        self,
        job: Job,
        made_at: float,
        start_at: float | None,
        finish_at: float | None,
        queue: Queue,
        earliest_at: float,
        believed_at: float = math.nan,
    ) -> Around:
        """The interval around an end promised now.

        earliest_at: before that the job certainly does not begin. believed_at: its end in a play-out in which all that
        the policy believes comes true; NaN: there was none.
        """
        if finish_at is None:
            return Around({})
        asked = (job.job_id, made_at, start_at, finish_at, queue, earliest_at, believed_at)
        point = self._point(job, *asked[1:])
        self._shown = asked, point
        like, intervals = point.like, self.model.intervals
        learned = None if like.outran or like.stated else intervals.learned(point.features)
        made = self.model.intervals.interval(point, learned)
        if made.few:
            return Around({}, learned)
        low_at, median_at, high_at = made_at + made.low_s, made_at + made.median_s, made_at + made.high_s
        found = dict[str, float]()
        if start_at is not None:
            starts = (max(start_at, made_at) if point.wait_s == 0.0 else made_at + s for s in made.starts_s)
            found |= zip(STARTS, starts if start_at >= made_at else (start_at,) * 3, strict=True)
            left_s = finish_at - max(start_at, made_at)  # longer than at its full width, or on a faster node
            if job.progress_frac:
                low_at = max(low_at, made_at + SURE_OF_PROGRESS * left_s)
            run_s = min(self.takes(job, made_at)[0] - job.has_run_s(made_at), left_s)
            median_at = max(median_at, low_at, max(found["start_median_at"], made_at) + run_s)
        ends = low_at, median_at, max(median_at, high_at)
        fields = {**dict(zip(INTERVAL, (*ends, intervals.level), strict=True)), **found}
        return Around(fields, learned, None if made.source is None else _rests_on(made.source))

    def takes(self, job: Job, at: float) -> tuple[float, str]:
        """The run time on max_units that a promise rests on, s, and where it is from."""
        grid = self.expected(job, at)
        return (job.runtime_estimate_s, job.basis) if grid is None else (float(grid[HALF]), "alike")

    def _point(
        self,
        job: Job,
        made_at: float,
        start_at: float | None,
        finish_at: float,
        queue: Queue,
        earliest_at: float,
        believed_at: float,
    ) -> Point:
        begins_at, grid = made_at if start_at is None else start_at, self._alike(job, made_at)
        asked, age_s = described(job), job.has_run_s(made_at)
        if math.isnan(believed_at) and grid is not None and age_s < job.runtime_estimate_s:
            # What is believed of this job is the anchor: quick runs of others are often repeated in vain.
            longer = (job.runtime_estimate_s - age_s) / expected_left(grid[None], 0, age_s)
            from_at = max(begins_at, made_at)
            believed_at = from_at + max(finish_at - from_at, 0.0) * longer
        played = Played(begins_at, finish_at, believed_at, _basis(job))
        is_known = grid is not None and self._tells(job)
        run_s = grid if is_known else self.model.run_times.quantiles(asked, made_at, age_s)
        point = self.model.point(asked, made_at, played, queue, run_s, earliest_at, age_s)
        first = self.model.intervals.issued.get(str(job.job_id))
        outran = first is not None and first.like.basis != _basis(job)
        like = point.like._replace(outran=outran, stated=grid is None and job.basis == "estimate")
        by_request = grid is None and job.basis in ("limit", PLANNED)
        return point._replace(like=like, by_request=by_request)

    def submitted(self, job: Job) -> None:
        """A job is there from now on."""
        self.model.submitted(str(job.job_id), described(job), job.submitted_at)

    def edited(self, job: Job) -> None:
        """A job's request has changed."""
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

    def promised(
        self,
        job: Job,
        quote: dict[str, Any],
        queue: Queue,
        learned: Raw | None,
        earliest_at: float,
        believed_at: float = math.nan,
    ) -> None:
        """A promise was made to a job, as table `quotes` has it: the first one is judged."""
        number, made_at, intervals = str(job.job_id), quote["made_at"], self.model.intervals
        first = intervals.issued.get(number)
        if quote["finish_at"] is None or not self._knows(job):
            return
        if first is not None and first.like.basis == _basis(job):
            return
        shown_s = None
        if quote.get("level") is not None:
            intervals.at_level(quote["level"])
            shown_s = quote["finish_low_at"] - made_at, quote["finish_high_at"] - made_at
        asked = (
            *(job.job_id, made_at, quote["start_at"], quote["finish_at"], queue),
            *(earliest_at, believed_at),
        )
        # A promise is logged as soon as it has been asked what it says; of a log that is read nothing was asked.
        shown, self._shown = self._shown, None
        point = shown[1] if shown is not None and shown[0] == asked else self._point(job, *asked[1:])
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
        """A job's promise is void."""
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


def _rests_on(source: Source) -> str:
    if source.others and source.sample == 0:
        return f"{_OF_OTHERS}; on this one none has come true yet"
    each = "finished job" if source.of == "features" else "promise"
    text = _RESTS_ON[source.of].format(f"{source.sample:,} {each}{'' if source.sample == 1 else 's'}")
    if source.others:
        return f"{text}, and {_OF_OTHERS}"
    return text + ("; its estimate counts as much as all of them" if source.stated else "")


def _basis(job: Job) -> str:
    """The basis as the model has it: a history, in which all is planned with limits, has none."""
    return "" if job.basis == PLANNED else job.basis


def described(job: Job) -> Described:
    """A job's run time as its specification has it; the time limit of a set, or an array, is that of each part."""
    spec = job.spec
    limit_s = math.nan if spec.time_limit_s is None else spec.time_limit_s
    is_one = job.trials is None and spec.array is None and not math.isnan(limit_s)
    asked_s = limit_s if math.isnan(spec.runtime_estimate_s) else spec.runtime_estimate_s
    most_s, is_repeat = limit_s if is_one else math.inf, job.array_id not in (None, job.job_id)
    return Described(job.user, spec.history_key, asked_s, float(spec.max_units), most_s, is_repeat)


SLACK_S = 1.0  # added to times of which a ratio is made: a second more or less is no error
SAME_S = 1e-3  # instants that are no further apart are one
NEWS = 2.0  # a job must take so many times as long as when its last promise was broken
LEAST_NEWS_S = 60.0  # and so much longer


def judged(job: Job, quote: dict[str, Any]) -> dict[str, Any] | None:
    """A promise as it is judged, `until_at` the last instant at which it counts as kept; null: it has no interval."""
    if quote.get("level") is None:
        return None
    until_at = quote["finish_high_at"]
    if job.broken_until_at is not None:
        taken_s = job.broken_until_at - job.submitted_at
        until_at = max(until_at, job.submitted_at + max(NEWS * taken_s, taken_s + LEAST_NEWS_S))
    names = ("quote_id", "made_at", "finish_at", *INTERVAL)
    return {**{name: quote[name] for name in names}, "until_at": until_at}


def due_at(job: Job) -> float | None:
    """The instant at which a job's promise is broken if it is not over: an end is often reported a moment after it."""
    return None if job.judged is None or job.status.is_over else job.judged["until_at"] + SLACK_S


def could_hold(node: Node, spec: JobSpec) -> bool:
    """Whether an empty node could run a unit of a job."""
    demand = spec.unit.amounts_on(node.family)
    if demand is None or not suits(node.labels, spec.required):
        return False
    return all(need <= room for need, room in zip(demand, node.capacity, strict=True))
