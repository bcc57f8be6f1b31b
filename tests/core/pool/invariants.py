"""What is true of the pool's state after every event, whatever the policy: on nodes, everything is somewhere, once, and
fits.

Tests check it after every event. It is plain Python over the columns and never part of a run; it computes what it
compares by itself, so that a mistake in a transition shows.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, TypeVar, cast

from betimes.core.job_states import JobState, state_of
from betimes.core.pool.columns import Pool, PoolJob, PoolProgress, State
from betimes.core.pool.transitions import SLACK_FRAC
from betimes.errors import BetimesError
from betimes.kernels import Records, as_array

ROUNDING = 1e-9  # relative; of sums that the state forms in another order than they are formed here

RESOURCES = ("gpu", "cpu", "memory")

R = TypeVar("R")


class BrokenInvariant(BetimesError):
    """The state contradicts itself; names the invariant and the job."""


def check(state: State) -> None:
    """Raise BrokenInvariant if anything in `state`, which stands between two events, contradicts the rest.

    A play-out's copy has no free stack of its own, since nothing is submitted in it, and fails here.
    """
    active = _check_slots(state)
    seen = _Seen(
        state,
        _rows(state.pool, [0])[0],
        _rows(state.jobs, active),
        _rows(state.progress, active),
        [int(slot) for slot in state.holders[: state.pool[0].holders]],
    )
    _check_order(seen)
    _check_holders(seen)
    for slot in active:
        _check_job(seen, slot)
        _check_account(seen, slot)
    _check_next(seen)
    _check_counts(seen)
    if len(state.nodes) > 0:
        _check_places(state, active)


@dataclass(frozen=True)
class _Seen:
    """The records of all active jobs by slot, as plain Python numbers."""

    state: State
    pool: Pool
    jobs: dict[int, PoolJob]
    progress: dict[int, PoolProgress]
    holders: list[int]

    def broken(self, invariant: str, slot: int, what: str) -> BrokenInvariant:
        return _broken(invariant, f"job of row {self.progress[slot].row} (slot {slot}) {what}")


def _broken(invariant: str, what: str) -> BrokenInvariant:
    return BrokenInvariant(f"invariant '{invariant}': {what}")


def _rows(records: Records[R], slots: list[int]) -> dict[int, R]:
    array = as_array(records)
    names = cast("tuple[str, ...]", array.dtype.names)
    rows: list[tuple[Any, ...]] = array[slots].tolist()
    return {
        slot: cast("R", SimpleNamespace(**dict(zip(names, row, strict=True))))
        for slot, row in zip(slots, rows, strict=True)
    }


def _check_slots(state: State) -> list[int]:
    """Every slot is either on the free stack, once and marked free, or holds an active job; returns the latter."""
    pool, slots = state.pool[0], len(state.free)
    if not 0 <= pool.free <= slots:
        raise _broken("free stack", f"{pool.free} of {slots} slots are free")
    free = {int(slot) for slot in state.free[: pool.free]}
    if len(free) < pool.free or (free and not 0 <= min(free) <= max(free) < slots):
        raise _broken("free stack", "it names a slot twice, or one that does not exist")
    marks: list[int] = as_array(state.progress)["served_by"].tolist()
    for slot, mark in enumerate(marks):
        if (mark < 0) != (slot in free):
            raise _broken(
                "free stack", f"slot {slot}, marked {mark}, is {'' if slot in free else 'not '}on it"
            )
        if mark > pool.decision:
            raise _broken("marks", f"slot {slot} is marked {mark} by a decision that has not been taken")
    active = [slot for slot in range(slots) if slot not in free]
    if len(active) != pool.active:
        raise _broken("active jobs", f"{len(active)} slots are in use, {pool.active} are counted")
    return active


def _check_order(seen: _Seen) -> None:
    """Each active job stands once in its own group's line, and every line is sorted by (key, seq)."""
    state, placed = seen.state, set[int]()
    for number in range(len(state.groups)):
        group, line = state.groups[number], state.order[number]
        if not 0 <= group.head <= group.tail <= len(line):
            raise _broken("order", f"group {number} lies from {group.head} to {group.tail} of {len(line)}")
        demand, before = 0, (-math.inf, -1)
        for slot in (int(slot) for slot in line[group.head : group.tail]):
            if slot not in seen.jobs:
                raise _broken("order", f"slot {slot} stands in group {number} and is not active")
            job = seen.jobs[slot]
            if slot in placed or job.group != number:
                raise seen.broken("order", slot, f"stands in group {number}; its own is {job.group}")
            if not before < (job.key, job.seq):
                raise seen.broken("order", slot, f"ranks {(job.key, job.seq)}, behind {before}")
            placed.add(slot)
            demand, before = (
                demand + min(float(job.max_units), float(state.pool[0].units)),
                (job.key, job.seq),
            )
        if demand != group.demand:
            raise _broken("demand", f"group {number} wants {demand} units and notes {group.demand:g}")
    for slot in seen.jobs:
        if slot not in placed:
            raise seen.broken("order", slot, "is active and stands in no group")


def _check_holders(seen: _Seen) -> None:
    """Those who hold units are listed, once each, and hold no more than there is."""
    listed = set[int]()
    for slot in seen.holders:
        if slot not in seen.jobs:
            raise _broken("holders", f"slot {slot} is listed and not active")
        if slot in listed or not seen.jobs[slot].units > 0.0:
            raise seen.broken("holders", slot, f"is listed and holds {seen.jobs[slot].units:g} units")
        listed.add(slot)
    for slot, job in seen.jobs.items():
        if job.units != 0.0 and slot not in listed:
            raise seen.broken("holders", slot, f"holds {job.units:g} units and is not listed")
    total, pool = math.fsum(job.units for job in seen.jobs.values()), seen.pool
    if total > pool.units * (1.0 + SLACK_FRAC):
        raise _broken("capacity", f"{total!r} of {pool.units:g} units are held")
    if abs(total - pool.used) > ROUNDING * pool.units:
        raise _broken("used", f"{total!r} units are held and {pool.used!r} counted")


def _check_job(seen: _Seen, slot: int) -> None:
    """A job's grant lies within its bounds, and what a policy may read of the job is so."""
    job, pool = seen.jobs[slot], seen.pool
    if not 1 <= job.min_units <= job.max_units:
        raise seen.broken("width", slot, f"needs {job.min_units} to {job.max_units} units")
    if job.least != (0.0 if pool.fractional and job.min_units == 1 else job.min_units):
        raise seen.broken("width", slot, f"accepts {job.least:g} units and needs {job.min_units}")
    if job.units != 0.0 and not job.least <= job.units <= job.max_units:
        raise seen.broken("width", slot, f"holds {job.units:g} of {job.least:g} to {job.max_units} units")
    if not pool.fractional and not float(job.units).is_integer():
        raise seen.broken("whole units", slot, f"holds {job.units!r}")
    if job.full_speed != float(seen.state.speedup[job.curve, job.max_units]):
        raise seen.broken("speed", slot, f"has a full speed of {job.full_speed!r}, not its curve's")
    if not (0.0 <= job.submit_s <= pool.now and 0 <= job.seq < pool.submitted):
        raise seen.broken(
            "submission", slot, f"is number {job.seq}, of {job.submit_s!r} s, at {pool.now!r} s"
        )
    if not (job.size_s > 0.0 and job.remaining_s >= 0.0 and job.attained >= 0.0):
        raise seen.broken("belief", slot, f"has {job.remaining_s!r} of {job.size_s!r} s left")


def _check_account(seen: _Seen, slot: int) -> None:
    """The finish follows from work left and pace, nothing is due in the past, and nothing is negative."""
    job, progress, now = seen.jobs[slot], seen.progress[slot], seen.pool.now
    for name, want in _foreseen(seen, slot):
        if getattr(progress, name) != want:
            raise seen.broken(name, slot, f"notes {getattr(progress, name)!r}; by its account it is {want!r}")
    if not progress.since <= now:
        raise seen.broken("since", slot, f"is at {progress.since!r} s, at {now!r} s")
    if min(progress.finish_at, progress.outrun_at) < now:
        raise seen.broken("missed event", slot, f"was due at {progress.finish_at!r} s, before {now!r} s")
    work = progress.rate * max(0.0, now - progress.since - progress.stall)
    believed = progress.believed_left - work * progress.believed_per_work
    tiny = ROUNDING * max(1.0, job.size_s, progress.work_left, now * progress.rate)
    if progress.work_left - work < -tiny:
        raise seen.broken("work left", slot, f"has {progress.work_left - work!r} s")
    if believed < -tiny:
        raise seen.broken("belief", slot, f"has {believed!r} of {job.size_s!r} s left")
    if min(progress.attained, progress.stall, progress.stalled_s) < 0.0:
        raise seen.broken("signs", slot, "has a negative amount in its account")
    if min(progress.preemptions, progress.resizes) < 0:
        raise seen.broken("signs", slot, "has a negative count in its account")
    if state_of(not math.isnan(progress.started_s), job.units) is JobState.WAITING:
        if progress.attained > 0.0 or progress.preemptions > 0 or progress.resizes > 0:
            raise seen.broken("start", slot, "has never held units and yet has a history")
    elif not job.submit_s <= progress.started_s <= now:
        raise seen.broken("start", slot, f"started at {progress.started_s!r} s")


def _foreseen(seen: _Seen, slot: int) -> Iterator[tuple[str, float]]:
    """What follows from the rest of a job's account, to the last bit."""
    job, progress = seen.jobs[slot], seen.progress[slot]
    if job.units == 0.0:
        yield from (("rate", 0.0), ("stall", 0.0), ("finish_at", math.inf), ("outrun_at", math.inf))
        return
    curve, whole = seen.state.speedup[job.curve], int(job.units)
    rate = float(curve[whole])
    if job.units > whole:
        rate += (float(curve[whole + 1]) - rate) * (job.units - whole)
    yield "rate", rate
    at = progress.since + progress.stall
    yield "finish_at", at + progress.work_left / rate
    outruns = progress.believed_per_work == 1.0 and progress.believed_left < progress.work_left
    yield "outrun_at", at + progress.believed_left / rate if outruns else math.inf


def _check_next(seen: _Seen) -> None:
    """The next finish and the next outrun are the earliest there are, ties to the earlier submission."""
    pool = seen.pool
    for column, slot, when in (
        ("finish_at", pool.finisher, pool.next_finish),
        ("outrun_at", pool.outrunner, pool.next_outrun),
    ):
        due = sorted((getattr(seen.progress[s], column), seen.jobs[s].seq, s) for s in seen.holders)
        first = due[0] if due and due[0][0] < math.inf else (math.inf, -1, -1)
        if (when, slot) != (first[0], first[2]):
            raise _broken(
                f"next {column}", f"slot {slot} at {when!r} s; it is slot {first[2]} at {first[0]!r} s"
            )
        # On a live pool no job is known to finish, and those that never do are not counted.
        if column == "finish_at" and when < math.inf and pool.tied != sum(entry[0] == when for entry in due):
            raise _broken("tied", f"{pool.tied} jobs are said to finish at {when!r} s")
    if not pool.wakeup > pool.now or (pool.active == 0 and pool.wakeup < math.inf):
        raise _broken(
            "wake-up", f"at {pool.wakeup!r} s; it is {pool.now!r} s and {pool.active} jobs are active"
        )


def _check_counts(seen: _Seen) -> None:
    """Counters agree with what there is to count."""
    pool, jobs = seen.pool, seen.jobs
    if len({job.seq for job in jobs.values()}) < len(jobs):
        raise _broken("submission", "two jobs have the same number")
    if not pool.active <= pool.submitted <= pool.events:
        raise _broken("counts", f"{pool.active} active, {pool.submitted} submitted, {pool.events} events")
    if pool.with_minimum != sum(job.min_units > 1 for job in jobs.values()):
        raise _broken("wide", f"{pool.with_minimum} jobs are said to need more than one unit")
    if not 0 <= pool.segments <= len(seen.state.segments):
        raise _broken("segments", f"{pool.segments} in room for {len(seen.state.segments)}")
    for slot, job in jobs.items():
        present, events = pool.contention - job.seen_sum, pool.events - job.seen_count
        if not (events >= 1 and present >= events):  # at every event the job itself was there
            raise seen.broken("contention", slot, f"has seen {present:g} jobs in {events:g} events")


def _check_places(state: State, active: list[int]) -> None:
    """Raise BrokenInvariant if a node is overfull, or units are not where they should be."""
    now = {slot: _list(state, slot, int(state.footprints[slot].placed)) for slot in active}
    for slot, places in now.items():
        units = state.jobs[slot].units
        if sum(places.values()) != units:
            raise _broken("units placed", f"slot {slot} holds {units:g} units and has {places} on nodes")
    _check_nodes(state, now, noted=True)
    touched = _touched(state)
    if not touched <= set(active):
        raise _broken("touched", f"slots {touched - set(active)} are not active")
    for slot in active:
        footprint = state.footprints[slot]
        if (footprint.touched == 1) != (slot in touched) or (slot not in touched and footprint.before != -1):
            raise _broken("touched", f"slot {slot} thinks otherwise of whether its placements have changed")
    before = {slot: _list(state, slot, int(state.footprints[slot].before)) for slot in touched}
    if state.pool[0].instant == state.pool[0].now:
        _check_nodes(state, now | before, noted=False)
        for slot, places in before.items():
            since, held = state.progress[slot].since, state.progress[slot].units_before
            if since == state.pool[0].now and sum(places.values()) != held:
                raise _broken("units before", f"slot {slot} held {held:g} units and had {places} on nodes")
    _check_spare(state, sum(map(len, now.values())) + sum(map(len, before.values())))


def _list(state: State, slot: int, first: int) -> dict[int, int]:
    """Units by node."""
    found: dict[int, int] = {}
    while first >= 0:
        placement = state.placements[first]
        if placement.node in found or placement.tasks < 1:
            raise _broken(
                "placements", f"slot {slot} has {placement.tasks} units on node {placement.node} again"
            )
        found[int(placement.node)] = int(placement.tasks)
        first = int(placement.follows)
    return found


def _check_nodes(state: State, places: dict[int, dict[int, int]], noted: bool) -> None:
    """What all take together fits into every node, and (`noted`) is what the node's free amounts say."""
    taken: dict[int, list[int]] = defaultdict(lambda: [0, 0, 0])
    for slot, units in places.items():
        for node, count in units.items():
            for at, name in enumerate(RESOURCES):
                taken[node][at] += count * int(getattr(state.footprints[slot], name))
    for number in range(len(state.nodes)):
        node = state.nodes[number]
        for name, amount in zip(RESOURCES, taken[number], strict=True):
            capacity, free = int(getattr(node, name)), int(getattr(node, f"free_{name}"))
            if amount > capacity or (noted and free != capacity - amount):
                raise _broken("nodes", f"node {number} has {capacity} {name}: {free} free and {amount} taken")


def _touched(state: State) -> set[int]:
    found, slot = set[int](), int(state.pool[0].touched)
    while slot >= 0:
        if slot in found:
            raise _broken("touched", f"slot {slot} is listed twice")
        found.add(slot)
        slot = int(state.footprints[slot].follows)
    return found


def _check_spare(state: State, used: int) -> None:
    pool, spare, at = state.pool[0], 0, int(state.pool[0].unused_head)
    while at >= 0:
        spare, at = spare + 1, int(state.placements[at].follows)
    if spare != pool.unused or spare + used != len(state.placements):
        raise _broken("placements", f"{used} are used and {spare} spare, of {len(state.placements)}")
