"""What is true of the pool's state after every event, whatever the policy.

Tests check it after every event. It is plain Python over the columns, slow, and never part of a run.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from betimes.core.columns import State
from betimes.core.moves import JobState, state_of
from betimes.core.transitions import SLACK_FRAC, attained, believed_left, speed, working_s
from betimes.errors import BetimesError

ROUNDING = 1e-9  # relative, of sums that the state keeps in another order than they are formed here


class BrokenInvariant(BetimesError):
    """The pool's state contradicts itself; names the invariant and the job."""


def check(state: State) -> None:
    """Raise BrokenInvariant if anything in `state`, which stands between two events, contradicts the rest.

    A play-out's copy leaves out `State.free`, which it never reads: it fails `free stack`.
    """
    active = _check_slots(state)
    _check_order(state, active)
    _check_holders(state, active)
    for slot in active:
        _check_job(state, slot)
        _check_account(state, slot)
    _check_next(state)
    _check_counts(state, active)


def _fail(invariant: str, slot: int | None, what: str) -> BrokenInvariant:
    about = "" if slot is None else f", job in slot {slot}"
    return BrokenInvariant(f"invariant '{invariant}'{about}: {what}")


def _broken(state: State, invariant: str, slot: int, what: str) -> BrokenInvariant:
    row = int(state.progress[slot].row)
    return BrokenInvariant(f"invariant '{invariant}', job of row {row} (slot {slot}): {what}")


def _check_slots(state: State) -> list[int]:
    """Every slot is either on the free stack, once and marked free, or holds an active job; returns the latter."""
    slots, unused = len(state.free), int(state.pool[0].free)
    if not 0 <= unused <= slots:
        raise _fail("free stack", None, f"{unused} of {slots} slots are free")
    free: set[int] = set()
    for slot in state.free[:unused].tolist():
        if not 0 <= slot < slots or slot in free:
            raise _fail("free stack", slot, "not a slot, or on the stack twice")
        free.add(slot)
    for slot in range(slots):
        mark = int(state.progress[slot].mark)
        if (mark < 0) != (slot in free):
            raise _fail("free stack", slot, f"marked {mark} and {'' if slot in free else 'not '}on the stack")
        if mark > state.pool[0].stamp:
            raise _broken(state, "marks", slot, f"marked {mark} by a decision that has not been taken")
    active = [slot for slot in range(slots) if slot not in free]
    if len(active) != state.pool[0].active:
        raise _fail("active jobs", None, f"{len(active)} slots are in use and {state.pool[0].active} counted")
    return active


def _check_order(state: State, active: list[int]) -> None:
    """Each active job stands once in its own group's line, and every line is sorted by (key, seq)."""
    seen: set[int] = set()
    for number in range(len(state.groups)):
        group = state.groups[number]
        line = state.order[number]
        if not 0 <= group.head <= group.tail <= len(line):
            raise _fail(
                "order", None, f"group {number} lies from {group.head} to {group.tail} of {len(line)}"
            )
        demand, before = 0.0, (-math.inf, -1)
        for slot in line[group.head : group.tail].tolist():
            if slot not in active:
                raise _fail("order", slot, f"stands in group {number} and is not active")
            job = state.jobs[slot]
            if slot in seen or job.group != number:
                raise _broken(state, "order", slot, f"stands in group {number}; its own is {job.group}")
            rank = (float(job.key), int(job.seq))
            if not before < rank:
                raise _broken(state, "order", slot, f"ranks {rank}, behind {before}")
            seen.add(slot)
            demand, before = demand + job.max_units, rank
        if demand != group.demand:
            raise _fail("demand", None, f"group {number} wants {demand:g} units and notes {group.demand:g}")
    for slot in active:
        if slot not in seen:
            raise _broken(state, "order", slot, "is active and stands in no group")


def _check_holders(state: State, active: list[int]) -> None:
    """Those who hold units are listed, once each, and hold no more than there is."""
    pool = state.pool[0]
    holders = state.holders[: pool.holders].tolist()
    for at, slot in enumerate(holders):
        if slot not in active:
            raise _fail("holders", slot, "is listed and not active")
        if slot in holders[:at] or not state.jobs[slot].units > 0.0:
            raise _broken(state, "holders", slot, f"is listed and holds {state.jobs[slot].units:g} units")
    for slot in active:
        if state.jobs[slot].units != 0.0 and slot not in holders:
            raise _broken(state, "holders", slot, f"holds {state.jobs[slot].units:g} units and is not listed")
    total = math.fsum(state.jobs[slot].units for slot in active)
    if total > pool.units * (1.0 + SLACK_FRAC):
        raise _fail("capacity", None, f"{total!r} of {pool.units:g} units are held")


def _check_job(state: State, slot: int) -> None:
    """A job's grant lies within its bounds, and what a policy may read of it is so."""
    job, pool = state.jobs[slot], state.pool[0]
    if not 1 <= job.min_units <= job.max_units:
        raise _broken(state, "width", slot, f"needs {job.min_units} to {job.max_units} units")
    if job.least != (0.0 if pool.fractional and job.min_units <= 1 else job.min_units):
        raise _broken(state, "width", slot, f"accepts {job.least:g} units and needs {job.min_units}")
    if job.units != 0.0 and not job.least <= job.units <= job.max_units:
        raise _broken(state, "width", slot, f"holds {job.units:g} of {job.least:g} to {job.max_units} units")
    if not pool.fractional and job.units != math.floor(job.units):
        raise _broken(state, "whole units", slot, f"holds {job.units!r}")
    if job.full_speed != state.speedup[job.curve, job.max_units]:
        raise _broken(state, "speed", slot, f"full speed {job.full_speed!r} is not its curve's")
    if not (0.0 <= job.submit_s <= pool.now and 0 <= job.seq < pool.submitted):
        raise _broken(
            state, "submission", slot, f"number {job.seq} at {job.submit_s!r} s; it is {pool.now!r} s"
        )
    if not (job.size_s > 0.0 and job.remaining_s >= 0.0 and job.attained >= 0.0):
        raise _broken(state, "belief", slot, f"{job.remaining_s!r} of {job.size_s!r} s left")


def _check_account(state: State, slot: int) -> None:
    """The account of a job: its finish follows from work left and pace, and nothing in it is negative."""
    job, progress, now = state.jobs[slot], state.progress[slot], float(state.pool[0].now)
    for name, want in _foreseen(state, slot):
        if getattr(progress, name) != want:
            raise _broken(
                state, name, slot, f"{getattr(progress, name)!r}; from the rest of the account {want!r}"
            )
    if not progress.since <= now:
        raise _broken(state, "since", slot, f"{progress.since!r}; it is {now!r} s")
    if min(progress.finish_at, progress.outrun_at) < now:
        raise _broken(state, "missed event", slot, f"was due at {progress.finish_at!r} s; it is {now!r} s")
    left = progress.work_left - progress.rate * working_s(state, slot, now)
    if left < -ROUNDING * max(1.0, progress.work_left, now * progress.rate):
        raise _broken(state, "work left", slot, f"{left!r} s")
    size_s = float(job.size_s)
    if believed_left(state, slot, now) < -ROUNDING * max(1.0, size_s, now * progress.rate):
        raise _broken(state, "belief", slot, f"{believed_left(state, slot, now)!r} of {size_s!r} s left")
    if min(progress.stall, progress.stalled_s, progress.preemptions, progress.resizes) < 0:
        raise _broken(state, "signs", slot, "a stall or a count is negative")
    if attained(state, slot, now) < max(0.0, float(progress.attained)):
        raise _broken(state, "attained", slot, f"{progress.attained!r} unit-seconds shrink")
    is_waiting = state_of(not math.isnan(progress.started_s), float(job.units)) is JobState.WAITING
    if is_waiting and (progress.attained > 0.0 or progress.preemptions > 0 or progress.resizes > 0):
        raise _broken(state, "start", slot, "has never held units and has a history")
    if not is_waiting and not job.submit_s <= progress.started_s <= now:
        raise _broken(state, "start", slot, f"started at {progress.started_s!r} s")


def _foreseen(state: State, slot: int) -> Iterator[tuple[str, float]]:
    """What follows from the rest of a job's account, bit for bit as the transitions compute it."""
    job, progress = state.jobs[slot], state.progress[slot]
    if job.units == 0.0:
        yield from (("rate", 0.0), ("stall", 0.0), ("finish_at", math.inf), ("outrun_at", math.inf))
        return
    rate = float(speed(state.speedup, job.curve, job.units))
    yield "rate", rate
    at = progress.since + progress.stall
    yield "finish_at", at + progress.work_left / rate
    outruns = progress.believed_per_work == 1.0 and progress.believed_left < progress.work_left
    yield "outrun_at", at + progress.believed_left / rate if outruns else math.inf


def _check_next(state: State) -> None:
    """The next finish and the next outrun are the earliest of all, ties to the earlier submission."""
    pool = state.pool[0]
    holders: list[int] = state.holders[: pool.holders].tolist()
    for column, slot, when in (
        ("finish_at", pool.finisher, pool.next_finish),
        ("outrun_at", pool.outrunner, pool.next_outrun),
    ):
        due = sorted((float(getattr(state.progress[s], column)), int(state.jobs[s].seq), s) for s in holders)
        due = [entry for entry in due if entry[0] < math.inf]
        want = (due[0][0], due[0][2]) if due else (math.inf, -1)
        if (float(when), int(slot)) != want:
            raise _fail(
                f"earliest {column}",
                int(slot),
                f"at {when!r} s; the earliest is slot {want[1]} at {want[0]!r}",
            )
        if column == "finish_at" and pool.tied != sum(entry[0] == want[0] for entry in due):
            raise _fail("tied", int(slot), f"{pool.tied} jobs are said to finish at {when!r} s")
    if not pool.wakeup > pool.now or (pool.active == 0 and pool.wakeup < math.inf):
        raise _fail(
            "wake-up", None, f"at {pool.wakeup!r} s; it is {pool.now!r} s, {pool.active} jobs are active"
        )


def _check_counts(state: State, active: list[int]) -> None:
    """Counters agree with what there is to count."""
    pool = state.pool[0]
    numbers = {int(state.jobs[slot].seq) for slot in active}
    if len(numbers) < len(active):
        raise _fail("submission", None, "two jobs have the same number")
    if not len(active) <= pool.submitted <= pool.events:
        raise _fail("counts", None, f"{len(active)} active, {pool.submitted} submitted, {pool.events} events")
    if not 0 <= pool.segments <= len(state.segments):
        raise _fail("segments", None, f"{pool.segments} in room for {len(state.segments)}")
    for slot in active:
        job = state.jobs[slot]
        seen, events = pool.contention - job.seen_sum, pool.events - job.seen_count
        if not (events >= 1 and seen >= events):  # at every event the job itself was there
            raise _broken(state, "contention", slot, f"has seen {seen:g} jobs in {events:g} events")
