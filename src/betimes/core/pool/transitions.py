"""The transitions of the pool's state: nothing else changes it.

Each transition takes the time as an argument and leaves the columns consistent (`tests/core/pool/invariants.py`). A
decision is checked as a whole before any of it is applied; a refused one changes nothing.
"""

from __future__ import annotations

import math

from betimes.core.pool.columns import State
from betimes.core.pool.feasible_grants import curtail, curtails
from betimes.core.pool.grant_log import note_grants
from betimes.core.pool.order import leave
from betimes.core.pool.placement import enter_nodes, leave_nodes
from betimes.core.shares import count_held
from betimes.core.status import (
    ABOVE_MAXIMUM,
    ACCEPTED,
    BAD_COUNT,
    BELOW_MINIMUM,
    NAMED_TWICE,
    NOT_ACTIVE,
    NOT_POSITIVE,
    NOT_WHOLE,
    TOO_MANY_UNITS,
)
from betimes.core.work import (
    attained,
    believed_left,
    bring_up_to_date,
    close_account,
    open_account,
    rest,
    set_to_work,
    speed,
)
from betimes.kernels import kernel

# Why a decision is refused; `policies.violations` has the words.

SLACK_FRAC = 1e-9  # of the pool: sums of fractional grants are rounded


@kernel
def sample_contention(state: State) -> None:
    """Count one event: every active job sees how many jobs are active just before it (PCS, section 5)."""
    pool = state.pool[0]
    pool.contention += pool.active
    pool.events += 1


@kernel
def submit(
    state: State,
    row: int,
    min_units: int,
    max_units: int,
    curve: int,
    work: float,
    believed: float,
    believed_per_work: float,
) -> int:
    """Give a job a slot and its records; returns the slot. The policy gives it its place in the queue."""
    pool = state.pool[0]
    pool.free -= 1
    slot = state.free[pool.free]
    job = state.jobs[slot]

    sample_contention(state)
    pool.active += 1
    if min_units > 1:
        pool.with_minimum += 1
    job.seq = pool.submitted
    pool.submitted += 1
    job.min_units = min_units
    job.max_units = max_units
    job.least = 0.0 if pool.fractional == 1 and min_units <= 1 else float(min_units)
    job.curve = curve
    job.full_speed = state.speedup[curve, max_units]
    job.group = 0
    job.seen_sum = pool.contention - pool.active
    job.seen_count = pool.events - 1
    open_account(state, slot, row, work, believed, believed_per_work)
    progress = state.progress[slot]
    progress.units_before = 0.0
    progress.stall_before = 0.0
    progress.resizes = 0
    progress.resized_s = progress.resized_before_s = pool.now
    progress.asked_units = 0.0
    if len(state.nodes) > 0:
        enter_nodes(state, slot)
    return slot


@kernel
def newest(state: State) -> int:
    """The slot of the job submitted last, as long as nothing has finished since."""
    return state.free[state.pool[0].free]


@kernel
def refresh(state: State) -> None:
    """Show the policy the progress of the jobs that hold units, without touching their account."""
    now = state.pool[0].now
    for at in range(state.pool[0].holders):
        slot = state.holders[at]
        job = state.jobs[slot]
        job.remaining_s = max(0.0, believed_left(state, slot, now))
        job.attained = attained(state, slot, now)


@kernel
def regrant(state: State, slot: int, units: float, now: float) -> None:
    """Give the job exactly `units` from `now` on; 0 preempts it. `placement` chooses their nodes."""
    job, progress = state.jobs[slot], state.progress[slot]
    _settle(state, slot, now)
    count_held(state, slot, job.units, units)
    job.units = units
    progress.resized_s = progress.resized_before_s if units == progress.units_before else now
    _count_change(state, slot, units, 1)
    if units > 0.0:
        if math.isnan(progress.started_s):
            progress.started_s = now
        if units == progress.units_before:
            progress.stall = progress.stall_before
        elif progress.attained > 0.0:
            progress.stall = state.pool[0].restart_s
        else:
            progress.stall = 0.0
        set_to_work(state, slot, speed(state.speedup, job.curve, units), now)
    else:
        if progress.attained == 0.0 and progress.preemptions == 0 and progress.resizes == 0:
            progress.started_s = math.nan  # it was granted units and lost them within one instant
        rest(state, slot)


@kernel
def finish(state: State, slot: int, now: float) -> None:
    """The job is done at `now`: it leaves the queue and its slot is free."""
    pool, job = state.pool[0], state.jobs[slot]
    sample_contention(state)
    _record_segment(state, slot, now)
    close_account(state, slot, now)
    pool.used -= job.units
    count_held(state, slot, job.units, 0.0)
    job.units = 0.0
    leave(state, slot)
    if len(state.nodes) > 0:
        leave_nodes(state, slot)
    pool.active -= 1
    if job.min_units > 1:
        pool.with_minimum -= 1
    state.free[pool.free] = slot
    pool.free += 1
    stop_holding(state, slot)


@kernel
def stop_holding(state: State, slot: int) -> None:
    """Take a job off the list of those that hold units, if it is there."""
    pool = state.pool[0]
    for at in range(pool.holders):
        if state.holders[at] == slot:
            pool.holders -= 1
            state.holders[at] = state.holders[pool.holders]
            break


@kernel
def check_grants(state: State, count: int) -> int:
    """Whether grants[:count] may be applied: ACCEPTED, or why not, with the job in `offender`.

    Writes marks and sums that hold for this decision only.
    """
    pool = state.pool[0]
    stamp = pool.decision + 1
    total, kept = 0.0, 0
    pool.offender = -1
    if count < 0 or count > pool.active:
        return BAD_COUNT
    for at in range(count):
        slot, units = state.grants[at].job, state.grants[at].units
        if slot < 0 or slot >= len(state.jobs):
            return NOT_ACTIVE
        job, progress = state.jobs[slot], state.progress[slot]
        if progress.served_by < 0:
            return NOT_ACTIVE
        pool.offender = slot
        if progress.served_by == stamp:
            return NAMED_TWICE
        progress.served_by = stamp
        if not units > 0.0:
            return NOT_POSITIVE
        if units < job.least:
            return BELOW_MINIMUM
        if units > job.max_units:
            return ABOVE_MAXIMUM
        if pool.fractional == 0 and units != math.floor(units):
            return NOT_WHOLE
        total += units
        if job.units > 0.0:
            kept += 1
    pool.still_served = kept
    pool.asked_units = total
    pool.offender = -1
    if total > pool.units * (1.0 + SLACK_FRAC):
        return TOO_MANY_UNITS
    return ACCEPTED


@kernel
def apply_grants(state: State, count: int) -> int:
    """Carry out the decision grants[:count] if it is legal; finds the next finish. Returns ACCEPTED or why not.

    In a pool on nodes, or one that holds resizes back, its feasible part (`feasible_grants`).
    """
    verdict = check_grants(state, count)
    pool = state.pool[0]
    pool.decision += 1
    if verdict != ACCEPTED:
        return verdict
    now, stamp = pool.now, pool.decision
    pool.opens_at = math.inf
    if curtails(state):
        named, count = curtail(state, count)
        for at in range(count, named):
            slot = state.grants[at].job
            if state.jobs[slot].units > 0.0:
                regrant(state, slot, 0.0, now)
    if pool.still_served < pool.holders:
        for at in range(pool.holders):
            slot = state.holders[at]
            if state.progress[slot].served_by != stamp:
                regrant(state, slot, 0.0, now)
    for at in range(count):
        slot, units = state.grants[at].job, state.grants[at].units
        held = state.jobs[slot].units
        # Fractional shares of the same worth may differ in their last bits; that is no reason to restart.
        if abs(held - units) > SLACK_FRAC * held:
            regrant(state, slot, units, now)
        state.holders[at] = slot
    pool.holders = count
    pool.used = pool.asked_units
    note_grants(state)
    find_next(state)
    return ACCEPTED


@kernel
def find_next(state: State) -> None:
    """Find which holder finishes first and which outruns its estimate first; ties to the earlier job."""
    pool = state.pool[0]
    finish_at, outrun_at = math.inf, math.inf
    finisher, outrunner, tied = -1, -1, 0
    for place in range(pool.holders):
        slot = state.holders[place]
        progress = state.progress[slot]
        if progress.finish_at < finish_at:
            finish_at, finisher, tied = progress.finish_at, slot, 1
        elif progress.finish_at == finish_at and finisher >= 0:
            tied += 1
            if state.jobs[slot].seq < state.jobs[finisher].seq:
                finisher = slot
        if progress.outrun_at < outrun_at or (
            progress.outrun_at == outrun_at
            and outrunner >= 0
            and state.jobs[slot].seq < state.jobs[outrunner].seq
        ):
            outrun_at, outrunner = progress.outrun_at, slot
    pool.next_finish = finish_at
    pool.finisher = finisher
    pool.tied = tied
    pool.next_outrun = outrun_at
    pool.outrunner = outrunner


@kernel
def _settle(state: State, slot: int, now: float) -> None:
    """Bring the account of a job up to date, so that its grant may change."""
    job, progress = state.jobs[slot], state.progress[slot]
    if now > progress.since:
        if job.units > 0.0:
            _record_segment(state, slot, now)
            bring_up_to_date(state, slot, now)
        progress.units_before = job.units
        progress.stall_before = progress.stall
        progress.resized_before_s = progress.resized_s
        progress.since = now
    else:
        # A second thought within one instant: only the grant in force when time moves on counts.
        _count_change(state, slot, job.units, -1)


@kernel
def _record_segment(state: State, slot: int, now: float) -> None:
    """Note that the job's present grant ends at `now`, if segments are recorded and it lasted."""
    job, progress = state.jobs[slot], state.progress[slot]
    if len(state.segments) == 0 or job.units == 0.0 or now <= progress.since:
        return
    segment = state.segments[state.pool[0].segments]
    segment.row = progress.row
    segment.start_s = progress.since
    segment.end_s = now
    segment.units = job.units
    state.pool[0].segments += 1


@kernel
def _count_change(state: State, slot: int, units: float, by: int) -> None:
    """Count the change from the grant before this instant to `units` as a preemption or a resize, or undo it."""
    progress = state.progress[slot]
    if progress.units_before > 0.0 and units != progress.units_before:
        if units == 0.0:
            progress.preemptions += by
        else:
            progress.resizes += by
