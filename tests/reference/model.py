"""Jobs, the cluster and its event loop (specification, 1.1 and 1.4)."""

from dataclasses import dataclass
from enum import IntEnum
from fractions import Fraction
from typing import Any, NamedTuple

from tests.reference.cutting import Cut
from tests.reference.policy import Policy

# An int, a float or a Fraction: the whole model computes in whichever kind it is given (`exact` of `run`).
Number = Any


@dataclass(frozen=True)
class Job:
    """One job as the caller describes it. Times are seconds, `work` is seconds on one unit."""

    submit: Number
    work: Number
    max_units: int = 1
    min_units: int = 1
    speedup: tuple[Number, ...] | None = None  # speedup[g] on g units, speedup[0] = 0; None: linear
    estimate: Number | None = None  # the believed total work, used when sizes="estimate"; None: the truth
    factor: Number | None = None  # believed = factor * true, used when sizes="noise"; None: 1
    demand: tuple[int, int, int] = (0, 0, 0)  # what a unit takes of a node


class ActiveJob:
    """One job between its arrival and its end."""

    def __init__(self, index: int, job: Job, sizes: str, number: type) -> None:
        self.index = index
        self.submit = number(job.submit)
        self.work = number(job.work)
        self.min_units = job.min_units
        self.max_units = job.max_units
        self.curve = None if job.speedup is None else tuple(number(value) for value in job.speedup)
        self.number = number

        self.remaining = self.work
        self.believed_work = self.work
        self.noise_factor = None
        if sizes == "estimate" and job.estimate is not None:
            self.believed_work = number(job.estimate)
        if sizes == "noise":
            self.noise_factor = number(1 if job.factor is None else job.factor)
            self.believed_work = self.noise_factor * self.work
        self.believed_left = self.believed_work

        self.class_index: int | None = None  # of wfq, fixed at arrival
        self.attained_unit_s = number(0)
        self.seen_sum = number(0)  # contention samples, 1.4 step 2
        self.seen_count = number(0)

        self.grant = number(0)
        self.settled_grant = number(0)  # the grant in force when time last moved on
        self.has_progressed = False
        self.stall_left = number(0)

        self.demand = job.demand
        self.width_since = number(0)  # when the settled grant began
        self.places: list[list[int]] = []  # [node, units], in the order in which it came there
        self.settled_places: list[list[int]] = []

        self.start: Number | None = None
        self.finish: Number | None = None
        self.preemptions = 0
        self.resizes = 0
        self.stalled_s = number(0)

    # --- speed ---

    def speedup(self, units: int) -> Number:
        """Speed on a whole number of units; a curve continues flat past its last point."""
        if self.curve is None:
            return self.number(units)
        return self.curve[min(units, len(self.curve) - 1)]

    def efficiency(self, units: int) -> Number:
        return self.speedup(units) / units

    def rate(self, units: Number) -> Number:
        """Speed on a real number of units: linear between whole numbers, never more than at `max_units`."""
        if units > self.max_units:
            return self.speedup(self.max_units)
        below = int(units)
        if units == below:
            return self.speedup(below)
        return self.speedup(below) + (units - below) * (self.speedup(below + 1) - self.speedup(below))

    @property
    def mean_contention(self) -> Number:
        return self.seen_sum / self.seen_count

    # --- what lies ahead if nothing changes ---

    def stall_ahead(self, restart_s: Number) -> Number:
        """Seconds without progress that lie ahead if time moves on under the present grant."""
        if self.grant == 0:
            return 0
        if self.grant == self.settled_grant:
            return self.stall_left
        return restart_s if self.has_progressed else 0

    def due(self, left: Number, now: Number, restart_s: Number) -> Number | None:
        """When `left` work will have been done; at once if there is none, never without units."""
        if left <= 0:
            return now
        if self.grant == 0:
            return None
        return now + self.stall_ahead(restart_s) + left / self.rate(self.grant)

    def end_due(self, now: Number, restart_s: Number) -> Number | None:
        return self.due(self.remaining, now, restart_s)

    def outrun_due(self, now: Number, restart_s: Number) -> Number | None:
        if self.noise_factor is not None:
            return None
        return self.due(self.believed_left, now, restart_s)

    # --- time moves on ---

    def settle(self, restart_s: Number) -> None:
        """The present grant is the one that counts: several changes within one instant are one change."""
        before, after = self.settled_grant, self.grant
        self.stall_left = self.stall_ahead(restart_s)
        if before > 0 and after == 0:
            self.preemptions += 1
        if before > 0 and after > 0 and before != after:
            self.resizes += 1
        self.settled_grant = after

    def advance(self, now: Number, until: Number, restart_s: Number) -> None:
        ends, outruns = self.end_due(now, restart_s), self.outrun_due(now, restart_s)
        if self.grant != self.settled_grant:
            self.width_since = now
        self.settled_places = [list(place) for place in self.places]
        self.settle(restart_s)
        stalled = min(self.stall_left, until - now)
        self.stall_left -= stalled
        self.stalled_s += stalled
        running = until - now - stalled
        progress = self.rate(self.grant) * running
        if progress > 0:
            self.has_progressed = True
        # A job due exactly now is done, whatever a float subtraction would leave of its work.
        self.remaining = 0 if ends == until else max(0, self.remaining - progress)
        if self.noise_factor is None:
            self.believed_left = 0 if outruns == until else max(0, self.believed_left - progress)
        else:
            self.believed_left = self.noise_factor * self.remaining
        self.attained_unit_s += self.grant * (until - now)


class Kind(IntEnum):
    """Events at one instant happen in this order."""

    END = 0
    OUTRUN = 1
    WAKE = 2
    SUBMIT = 3


class Event(NamedTuple):
    """Sorted by time, kind, then order of arrival."""

    time: Number
    kind: Kind
    job_index: int  # -1 for a wake-up


class Cluster:
    """Some identical units, the jobs that are here, and those still to come."""

    def __init__(
        self,
        jobs: list[Job],
        units: int,
        policy: Policy,
        *,
        fractional: bool,
        restart_s: Number,
        sizes: str,
        number: type,
    ) -> None:
        self.units = units
        # How decisions are cut; `oracle.run` says otherwise.
        self.resize_interval = number(0)
        self.resize_gain = False
        self.nodes: tuple[tuple[int, int, int], ...] | None = None  # what each has; None: there are none
        self.up: list[bool] = []
        self.cut: Cut | None = None
        if policy.period is not None and policy.period <= restart_s:
            raise ValueError("jobs that take turns would only ever restart, and never end")
        self.policy = policy
        self.fractional = fractional
        self.sizes = sizes
        self.restart_s = number(restart_s)
        self.number = number
        self.now = number(0)
        self.future = [ActiveJob(index, job, sizes, number) for index, job in enumerate(jobs)]
        self.active: list[ActiveJob] = []  # in order of arrival
        self.ended: list[ActiveJob] = []
        self.wake: Number | None = None
        self.steps: list[tuple[Number, Number, int, Number]] = []  # start, end, job, units

    def next_event(self) -> Event | None:
        events = [Event(job.submit, Kind.SUBMIT, job.index) for job in self.future]
        for job in self.active:
            ends, outruns = job.end_due(self.now, self.restart_s), job.outrun_due(self.now, self.restart_s)
            if ends is not None:
                events.append(Event(ends, Kind.END, job.index))
            if outruns is not None:
                events.append(Event(outruns, Kind.OUTRUN, job.index))
        if not events:
            if self.active:
                raise RuntimeError("jobs wait although nothing runs and nothing will arrive")
            return None
        if self.wake is not None:
            events.append(Event(self.wake, Kind.WAKE, -1))
        return min(events)

    def step(self) -> Event | None:
        """One event: time moves on to it, it happens, the policy decides anew. None when all is over."""
        event = self.next_event()
        if event is None:
            return None
        if event.time > self.now:
            for job in self.active:
                job.advance(self.now, event.time, self.restart_s)
                if job.grant > 0:
                    self.steps.append((self.now, event.time, job.index, job.grant))
            self.now = event.time
        for job in self.active:
            job.seen_sum += len(self.active)
            job.seen_count += 1
        self.happen(event)
        self.decide()
        return event

    def happen(self, event: Event) -> None:
        if event.kind is Kind.SUBMIT:
            job = self.future.pop(0)
            self.active.append(job)
            job.seen_sum, job.seen_count = self.number(len(self.active)), self.number(1)
            self.policy.on_arrival(job)
        elif event.kind is Kind.END:
            job = self.active_job(event.job_index)
            job.finish = self.now
            self.active.remove(job)
            self.ended.append(job)
        elif event.kind is Kind.OUTRUN:
            job = self.active_job(event.job_index)
            job.believed_left = job.believed_left + job.believed_work
            job.believed_work = 2 * job.believed_work

    def active_job(self, index: int) -> ActiveJob:
        return next(job for job in self.active if job.index == index)

    def decide(self) -> None:
        grants = self.policy.grants(self)
        self.check(grants)
        for job in self.active:
            job.grant = self.number(grants[job.index])
        delay = self.policy.wake_after(self)
        self.wake = None if delay is None else self.now + delay
        if self.nodes is not None or self.resize_interval > 0 or self.resize_gain:
            self.carry_out_what_can_be(grants)
        for job in self.active:
            if job.grant > 0 and job.start is None:
                job.start = self.now

    def carry_out_what_can_be(self, grants: dict[int, Number]) -> None:
        self.cut = Cut(self, grants)
        for job in self.active:
            settled = self.cut.settled.get(job.index)
            job.grant = self.number(0 if settled is None else settled.units)
        if self.cut.opens is not None:
            self.wake = self.cut.opens if self.wake is None else min(self.wake, self.cut.opens)

    def check(self, grants: dict[int, Number]) -> None:
        if sum(grants.values()) > self.units:
            raise ValueError(f"more than {self.units} units granted: {grants}")
        for job in self.active:
            grant = grants[job.index]
            if not 0 <= grant <= job.max_units:
                raise ValueError(f"job {job.index} was granted {grant}")
            if job.min_units > 1 and 0 < grant < job.min_units:
                raise ValueError(f"job {job.index} was granted {grant}, less than its minimum")
            if not self.fractional and Fraction(grant).denominator != 1:
                raise ValueError(f"job {job.index} was granted {grant}, not a whole number")
