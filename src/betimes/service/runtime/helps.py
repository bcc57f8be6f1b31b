"""What would help a job that waits: obvious changes, each tried in a rehearsal until the job is done."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from betimes.cluster.labels import suits
from betimes.cluster.resources import PER_UNIT, Amounts, demand_amounts
from betimes.cluster.shapes import Room
from betimes.errors import BetimesError
from betimes.service.engines.dedicated_machines import rooms_of, shapes_of, times_on
from betimes.service.engines.speedups import speed
from betimes.service.runtime.rehearsal import Rehearsal, Times
from betimes.service.runtime.what_if import commands
from betimes.service.scheduling.engine_factory import wanted_of
from betimes.service.scheduling.job import Job
from betimes.service.scheduling.reasons import WaitReasons
from betimes.service.scheduling.scheduler import Scheduler
from betimes.service.scheduling.state import most
from betimes.service.spec.job_spec import JobSpec
from betimes.service.views.models import Help, HelpsView, WhatIfSpec
from betimes.units import humanise_s

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
    machines = {node.machine.type: node for node in nodes}
    kinds = [
        name
        for name, node in sorted(machines.items(), key=lambda each: each[1].machine.usd_per_h or 0.0)
        if suits(node.labels, job.spec.required) and _holds(job.spec, Room(node.capacity, node.family))
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
    alone = {"after": [], "hold": False, "steps": None, "step_s": None, "estimate_s": run_s}
    return WhatIfSpec(cancel=[job.job_id], submit=[job.spec.model_copy(update={**alone, **fields})])


def _narrower(scheduler: Scheduler, job: Job) -> Iterator[Change]:
    """Half of its units, and one."""
    spec, wanted = job.spec, wanted_of(job)
    is_rigid = scheduler.kind == "nodes" or spec.min_units == spec.max_units
    least = spec.max_units if is_rigid else spec.min_units
    for units in sorted({max(1, least // 2), 1} - {least}, reverse=True):
        widest = units if is_rigid else spec.max_units
        run_s = job.runtime_estimate_s * speed(wanted, spec.max_units) / speed(wanted, widest)
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
            commands(asked, self._user),
            goes_on=lambda: found().finish_at is None and time.thread_time() < until_s,
        )
        if found().finish_at is None and time.thread_time() >= until_s:
            return None
        return found()
