"""Ends of jobs after a change that is not made, and the changes that would help a job that waits.

The present state is played out twice, as it is and changed; what helps is found by trying obvious changes, each in a
rehearsal until the job is done.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from betimes.cluster.labels import suits
from betimes.cluster.resources import PER_UNIT, Amounts, demand_amounts
from betimes.cluster.shapes import Room
from betimes.errors import BetimesError, Conflict, Refused, Unknown
from betimes.service.engines.dedicated_machines import rooms_of, shapes_of, times_on
from betimes.service.engines.speedups import speed
from betimes.service.runtime.inbox import Request
from betimes.service.runtime.rehearsal import Arrival, Played, Rehearsal, Times
from betimes.service.runtime.rentals import Rentals
from betimes.service.runtime.requests import edit, steer, submit
from betimes.service.scheduling.engine_factory import request_of
from betimes.service.scheduling.job import Job
from betimes.service.scheduling.node import DRAINING, LOST, UP
from betimes.service.scheduling.promises import INTERVAL, could_hold
from betimes.service.scheduling.scheduler import Scheduler
from betimes.service.scheduling.state import most
from betimes.service.scheduling.wait_reasons import WaitReasons
from betimes.service.spec.job_changes import JobChanges
from betimes.service.spec.job_spec import JobSpec
from betimes.service.tuning.recent import Submission
from betimes.service.views.models import (
    Help,
    HelpsView,
    MaintenanceSpec,
    WhatIfEdit,
    WhatIfJob,
    WhatIfSpec,
    WhatIfSums,
    WhatIfView,
)
from betimes.units import humanise_s

LATE_S = 86_400.0  # arrivals of late are those of so long
MOST_ARRIVALS = 500  # and at most so many, the latest
LEAST_ARRIVALS = 10
LEAST_LATE_S = 60.0  # jobs that came together say nothing of how often jobs come


def _add_machines(scheduler: Scheduler, of_type: str, count: int) -> None:
    """Add machines like those of a type that are there. Raises Unknown for a type of which there is none."""
    nodes = scheduler.ledger.nodes
    like = next((node.machine for node in nodes.values() if node.machine.type == of_type), None)
    if like is None:
        known = ", ".join(sorted({node.machine.type for node in nodes.values()})) or "none"
        raise Unknown(f"there is no node of type {of_type} to add more of; there are: {known}")
    names = [f"{of_type}.what-if-{number}" for number in range(1, count + 1)]
    scheduler.nodes.add_all([replace(like, name=name, kind="virtual") for name in names], "operator")


def _rent_machine(scheduler: Scheduler, rentals: Rentals | None, of_type: str) -> None:
    """Rent one more machine of an offer, which boots.

    Raises Unknown for a type that is not offered, Conflict for one of which no more can be rented.
    """
    if rentals is None:
        raise Conflict("this service rents from no cloud; start it with `betimes up --cloud FILE.toml`")
    offered = sorted(each.type for each in rentals.offers)
    if of_type not in offered:
        raise Unknown(f"the cloud offers no {of_type}; it offers: {', '.join(offered)}")
    rentals.rent(scheduler, of_type, 1, "operator")


def _submit_again(scheduler: Scheduler, of: Submission) -> list[int]:
    """Submit a recent job again; the numbers of its jobs, none where the cluster cannot hold it any more."""
    try:
        return submit(scheduler, [of.spec], of.user)[0]
    except Refused:
        return []


def check_late(late: Sequence[Submission], now_at: float) -> None:
    """Raise Conflict where the submissions of late are too few to show how jobs arrive."""
    if len(late) < LEAST_ARRIVALS:
        raise Conflict(
            f"too few jobs to show how jobs arrive: {len(late)} submitted within the last {humanise_s(LATE_S)}, and "
            f"load needs {LEAST_ARRIVALS}"
        )
    if now_at - late[0].at < LEAST_LATE_S:
        raise Conflict(
            f"all jobs of the last {humanise_s(LATE_S)} were submitted within the last {humanise_s(LEAST_LATE_S)}, "
            "which does not show how jobs arrive; leave out load, or ask again later"
        )


def arrivals(late: Sequence[Submission], now_at: float, load: float) -> list[Arrival]:
    """The submissions of late from now on, `load` times as fast, over and over for as long as they took."""
    if not late:
        return []
    first_at, found = late[0].at, list[Arrival]()
    period_s = now_at - first_at
    for repeat in range(math.ceil(load)):
        for one in late:
            after_s = (repeat * period_s + one.at - first_at) / load
            if after_s < period_s:
                found.append(Arrival(now_at + after_s, partial(_submit_again, of=one)))
    return found


def changes_of(asked: WhatIfSpec, user: str, rentals: Rentals | None) -> list[Request[Any]]:
    """The changes in the order in which they are made; jobs to submit come last. rentals: of what is changed."""
    found: list[Request[Any]] = []
    if asked.cancel:
        found.append(partial(steer, action="cancel", numbers=asked.cancel, user=user))
    found += [partial(edit, numbers=[each.job_id], changes=_changes(each), user=user) for each in asked.edit]
    found += [partial(_set_status, name=name, status=DRAINING, user=user) for name in asked.remove_nodes]
    found += [partial(_set_status, name=name, status=UP, user=user) for name in asked.undrain_nodes]
    found += [partial(_add_machines, of_type=name, count=count) for name, count in asked.add_nodes.items()]
    found += [partial(_rent_machine, rentals=rentals, of_type=name) for name in asked.rent]
    found += [partial(_add_maintenance, window=each, user=user) for each in asked.maintenance]
    if (policy := asked.policy) is not None:
        found.append(lambda scheduler: scheduler.policy.set_policy(policy, user))
    if asked.submit:
        found.append(partial(submit, specs=asked.submit, user=user))
    return found


def _changes(of: WhatIfEdit) -> JobChanges:
    """Another request of a job as an edit. Raises Refused for what only a Slurm has."""
    for field in ("nodes", "partition"):
        if getattr(of, field) is not None:
            raise Refused("is of a job in Slurm; here ask about time_limit_s or units", field)
    return JobChanges(time_limit_s=of.time_limit_s, min_units=of.units, max_units=of.units)


def _set_status(scheduler: Scheduler, name: str, status: str, user: str) -> None:
    scheduler.nodes.set_status(name, status, f"user:{user}")


def _add_maintenance(scheduler: Scheduler, window: MaintenanceSpec, user: str) -> None:
    nodes, users = tuple(window.nodes), window.users
    scheduler.maintenance.add(window.from_at, window.to_at, nodes, window.reason, user, window.stop, users)


class WhatIf:
    """Both plays of a question, made between two turns, to be run in any thread."""

    def __init__(
        self, state: Rehearsal, asked: WhatIfSpec, user: str, late: Sequence[Submission] = ()
    ) -> None:
        """state: a copy of the present one; late: the arrivals that `load` repeats, oldest first."""
        self._asked, self._user, self._after = asked, user, state
        self._late, self.now_at = late, state.now_at

    def play(self) -> WhatIfView:
        """The answer. Raises what the changes raise: Refused, Unknown, Conflict, PolicyError."""
        changes, load = changes_of(self._asked, self._user, self._after.rentals), self._asked.load
        if not changes and load is None:
            raise Refused(f"no change is given; name one: {', '.join(WhatIfSpec.model_fields)}")
        unchanged = self._after.unchanged(arrivals(self._late, self.now_at, 1.0))
        self._after.play(changes, arrivals(self._late, self.now_at, load or 1.0))
        arrivals_of_s = None if load is None else self.now_at - self._late[0].at
        return compared(unchanged(), self._after.played(), self.now_at, arrivals_of_s)

    def how_sure(self, found: WhatIfView, scheduler: Scheduler) -> WhatIfView:
        """The answer with intervals of the jobs that the change submits, by what the present scheduler has learned."""
        queue, jobs = scheduler.queue, list[WhatIfJob]()
        for one in found.jobs:
            if one.is_new:
                spec = self._after.jobs[one.job_id].spec
                believed = scheduler.ledger.runtime_estimates.believed(self._user, spec)
                job = Job(one.job_id, spec, self._user, found.made_at, *believed)
                around = scheduler.ledger.promise_errors.around(
                    job,
                    found.made_at,
                    one.start_at,
                    one.finish_at,
                    queue,
                    self._after.earliest_at.get(one.job_id, found.made_at),
                )
                one = one.model_copy(update={name: around.fields.get(name) for name in INTERVAL})  # noqa: PLW2901
            jobs.append(one)
        return found.model_copy(update={"jobs": jobs})


def compared(before: Played, after: Played, made_at: float, arrivals_of_s: float | None = None) -> WhatIfView:
    """Two plays side by side: jobs of the second alone are new, and those that arrive count in the sums only."""
    came = {number for numbers in before.arrived for number in numbers}
    come = {number for numbers in after.arrived for number in numbers}
    jobs = [
        _job(after.jobs[number], None if number in came else before.times.get(number), after.times[number])
        for number in sorted(after.times)
        if number not in come
    ]
    both = [one.job_id for one in jobs if one.finish_at is not None and one.finish_before_at is not None]
    return WhatIfView(
        made_at=made_at,
        jobs=jobs,
        before=_sums(before, both, came),
        after=_sums(after, both, come),
        arrivals_of_s=arrivals_of_s,
        refused=sum(not numbers for numbers in after.arrived),
    )


def _job(job: Job, before: Times | None, after: Times) -> WhatIfJob:
    was = before or Times(None, None)
    return WhatIfJob(
        job_id=job.job_id,
        name=job.spec.title if job.array_index is None else f"{job.spec.title}[{job.array_index}]",
        user=job.user,
        is_new=before is None,
        start_before_at=was.start_at,
        finish_before_at=was.finish_at,
        start_at=after.start_at,
        finish_at=after.finish_at,
    )


def _sums(played: Played, both: Sequence[int], arrived: set[int]) -> WhatIfSums:
    """both: jobs that finish in both plays."""
    done = [number for number in sorted(arrived) if played.times[number].finish_at is not None]
    whole = [number for number in (*both, *done) if played.jobs[number].set_id is None]
    submitted_at = np.array([played.jobs[number].submitted_at for number in whole])
    starts_at, ends_at = np.array([played.times[number] for number in whole], dtype=float).reshape(-1, 2).T
    return WhatIfSums(
        jobs=len(whole),
        arrivals=len(done),
        never=played.never,
        mean_jct_s=float(np.mean(ends_at - submitted_at)) if whole else None,
        p99_jct_s=float(np.percentile(ends_at - submitted_at, 99)) if whole else None,
        mean_wait_s=float(np.mean(starts_at - submitted_at)) if whole else None,
        cost_usd=played.cost_usd,
    )


SAME_S, SAME_FRAC = 1.0, 0.05  # of the time left: what brings less brings nothing
MOST_TYPES = 2  # of nodes
MOST_ROOMS, MOST_UNITS = 32, 8  # looked at for a smaller memory
LEAST_MEMORY_FRAC = 0.25  # of what it asks for


class Change(NamedTuple):
    """A change to try, in words and as `what-if` takes it; a job that it submits takes the place of the waiting one."""

    text: str
    asked: WhatIfSpec


def changes_for(scheduler: Scheduler, job: Job, waiting: WaitReasons) -> list[Change]:
    """The obvious changes for a queued job: a narrower one, a smaller one, more nodes, fewer jobs before it."""
    found = list[Change]()
    if job.trials is None:
        found += _narrower(scheduler, job)
        found += _smaller(scheduler, job, waiting.free)
    nodes = [node for node in scheduler.ledger.nodes.values() if node.rented_at is None]
    for name in (node.machine.name for node in nodes if node.is_away and could_hold(node, job.spec)):
        is_lost = scheduler.ledger.nodes[name].status == LOST
        text = f"node {name} up again, which is lost" if is_lost else f"`betimes nodes undrain {name}`"
        found.append(Change(text, WhatIfSpec(undrain_nodes=[name])))
    machines = {node.machine.type: node for node in nodes}
    kinds = [
        name
        for name, node in sorted(machines.items(), key=lambda each: each[1].machine.usd_per_h or 0.0)
        if could_hold(node, job.spec)
    ]
    for name in kinds[:MOST_TYPES]:
        found.append(Change(f"one more node of type {name}", WhatIfSpec(add_nodes={name: 1})))
    offers = [
        (offer.charged_usd_per_h, offer)
        for offer in scheduler.settings.offers
        if suits(offer.labels, job.spec.required)
        and any(_holds(job.spec, room) for room in rooms_of(shapes_of([offer])))
    ]
    for usd_per_h, offer in sorted(offers, key=lambda each: each[0])[:1]:
        up = f"${usd_per_h:g} an hour, up in {humanise_s(offer.boot_s + offer.setup_s)}"
        found.append(Change(f"renting one {offer.type} ({up})", WhatIfSpec(rent=[offer.type])))
    evidence: Mapping[str, Any] = waiting.why(job)["evidence"]
    before = dict.fromkeys((*evidence.get("jobs_ending", ())[:1], *evidence.get("jobs_ahead", ())[:1]))
    return [
        *found,
        *(Change(f"cancelling job {n}", WhatIfSpec(cancel=[n])) for n in before if n != job.job_id),
    ]


def _holds(spec: JobSpec, room: Room) -> bool:
    """Whether an empty machine holds a unit."""
    return times_on(room, spec.unit.amounts_on(room.family)) > 0


def _again(job: Job, run_s: float, **fields: Any) -> WhatIfSpec:
    """The job cancelled, and submitted again with other fields; run_s: believed then."""
    alone = {
        "after": [],
        "singleton": False,
        "hold": False,
        "steps": None,
        "step_s": None,
        "estimate_s": run_s,
    }
    return WhatIfSpec(cancel=[job.job_id], submit=[job.spec.model_copy(update={**alone, **fields})])


def _narrower(scheduler: Scheduler, job: Job) -> Iterator[Change]:
    """Half of its units, and one."""
    spec, request = job.spec, request_of(job)
    is_rigid = scheduler.kind == "nodes" or spec.min_units == spec.max_units
    least = spec.max_units if is_rigid else spec.min_units
    for units in sorted({max(1, least // 2), 1} - {least}, reverse=True):
        widest = units if is_rigid else spec.max_units
        run_s = job.runtime_estimate_s * speed(request, spec.max_units) / speed(request, widest)
        if run_s <= (spec.time_limit_s or math.inf):
            text = f"submitted again on {units} unit{'' if units == 1 else 's'} instead of {least}"
            yield Change(text, _again(job, run_s, min_units=units, max_units=widest))


def _smaller(scheduler: Scheduler, job: Job, free: Mapping[str, Amounts]) -> Iterator[Change]:
    """The memory with which it fits into what is free."""
    spec, nodes = job.spec, scheduler.ledger.nodes
    if spec.demand or not spec.memory_gib:
        return
    units = spec.max_units if scheduler.kind == "nodes" else spec.min_units
    rooms = [room for name, room in free.items() if suits(nodes[name].labels, spec.required)]
    mib = _memory_that_fits(demand_amounts(*spec.unit.everywhere), units, rooms)
    memory_gib = math.floor(100.0 * mib / PER_UNIT[2]) / 100.0
    if LEAST_MEMORY_FRAC * spec.memory_gib <= memory_gib < spec.memory_gib:
        text = f"submitted again with {memory_gib:g} GiB of memory a unit instead of {spec.memory_gib:g}"
        yield Change(text, _again(job, job.runtime_estimate_s, memory_gib=memory_gib))


def _memory_that_fits(demand: Amounts, units: int, rooms: Iterable[Amounts]) -> int:
    """The largest memory, MiB, with which so many units fit into these rooms; 0: none."""
    largest = sorted(set(rooms), key=lambda room: -room[2])
    some = {
        room[2] // count for room in largest[:MOST_ROOMS] for count in range(1, min(units, MOST_UNITS) + 1)
    }
    for mib in sorted(some, reverse=True):
        if mib and sum(most(room, (*demand[:2], mib), units) for room in rooms) >= units:
            return mib
    return 0


class Helps:
    """The tries for one job, to be made in any thread.

    state: a copy of the present state, which stays as it is; within_s: processor time for all tries.
    """

    def __init__(self, state: Rehearsal, job: Job, changes: Sequence[Change], within_s: float) -> None:
        self._state, self._changes, self._within_s = state, changes, within_s
        self._job, self._user = job.job_id, job.user

    def play(self) -> HelpsView:
        """Those that bring something, in the order of `changes`."""
        until_s = time.thread_time() + self._within_s
        before = self._times(WhatIfSpec(), until_s)
        if before is None:
            return HelpsView(made_at=self._state.now_at, not_tried=[change.text for change in self._changes])
        left_s = math.inf if before.finish_at is None else before.finish_at - self._state.now_at
        helps, not_tried = list[Help](), list[str]()
        for change in self._changes:
            try:
                after = self._times(change.asked, until_s)
            except BetimesError as error:  # it cannot be made
                not_tried.append(f"{change.text} ({error})")
                continue
            if after is None:
                not_tried.append(change.text)
            elif after.finish_at is not None:
                earlier_s = left_s - (after.finish_at - self._state.now_at)
                if earlier_s >= max(SAME_S, SAME_FRAC * left_s) or left_s == math.inf:
                    times = {"start_at": after.start_at, "finish_at": after.finish_at}
                    saved_s = None if left_s == math.inf else earlier_s
                    helps.append(Help(text=change.text, change=change.asked, earlier_s=saved_s, **times))
        return HelpsView(
            made_at=self._state.now_at,
            start_at=before.start_at,
            finish_at=before.finish_at,
            helps=helps,
            not_tried=not_tried,
        )

    def _times(self, asked: WhatIfSpec, until_s: float) -> Times | None:
        """Start and end of the job, or of the one that takes its place; null: there was no time."""
        if time.thread_time() >= until_s:
            return None
        trial = self._state.again()

        def found() -> Times:
            return trial.times[max(trial.times) if asked.submit else self._job]

        trial.play(
            changes_of(asked, self._user, trial.rentals),
            goes_on=lambda: found().finish_at is None and time.thread_time() < until_s,
        )
        if found().finish_at is None and time.thread_time() >= until_s:
            return None
        return found()
