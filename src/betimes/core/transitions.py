"""What can happen to the pool's state, and nothing else changes it.

Each transition takes the time as an argument and leaves the columns consistent (`invariants`). A decision is
checked as a whole before any of it is applied; a refused one changes nothing.
"""

from __future__ import annotations

import math

from betimes.core.columns import (
    ACTIVE,
    ARRIVALS,
    CONTENTION,
    EVENTS,
    FINISHER,
    FREE,
    HOLDERS,
    NEXT_FINISH,
    NEXT_OUTRUN,
    NOW,
    OFFENDER,
    OUTRUNNER,
    SEGMENTS,
    STAMP,
    TIED,
    Floats,
    State,
)
from betimes.core.estimates import doubled
from betimes.core.kernel import kernel
from betimes.core.order import leave

# Why a decision is refused; `policies.violations` has the words.
ACCEPTED = 0
TOO_MANY_UNITS = 1
NOT_A_NUMBER = 2
BELOW_MINIMUM = 3
ABOVE_MAXIMUM = 4
NOT_WHOLE = 5
NAMED_TWICE = 6
NOT_ACTIVE = 7
BAD_WAKEUP = 8
BAD_GROUP = 9
BAD_KEY = 10

SLACK_FRAC = 1e-9  # of the pool: sums of fractional grants are rounded


@kernel
def refresh(state: State) -> None:
    """Show the policy how far the jobs that hold units have come, without touching their account."""
    jobs, now = state.visible.jobs, state.visible.clock[NOW]
    for place in range(state.visible.tally[HOLDERS]):
        job = state.holders[place]
        jobs.remaining[job] = max(0.0, believed_left(state, job, now))
        jobs.attained[job] = attained(state, job, now)


@kernel
def sample_contention(state: State) -> None:
    """Count one event: every active job sees how many jobs are active just before it (PCS, section 5)."""
    clock, tally = state.visible.clock, state.visible.tally
    clock[CONTENTION] += tally[ACTIVE]
    tally[EVENTS] += 1


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
    """Give a job a slot and its columns; returns the slot. Its place in the queue is the policy's affair."""
    view, progress = state.visible, state.progress
    jobs, clock, tally = view.jobs, view.clock, view.tally
    now = clock[NOW]
    tally[FREE] -= 1
    job = state.free[tally[FREE]]

    sample_contention(state)
    tally[ACTIVE] += 1
    jobs.seq[job] = tally[ARRIVALS]
    tally[ARRIVALS] += 1
    jobs.min_units[job] = min_units
    jobs.max_units[job] = max_units
    jobs.least[job] = 0.0 if view.machine.fractional and min_units <= 1 else float(min_units)
    jobs.curve[job] = curve
    jobs.full_speed[job] = view.speedup[curve, max_units]
    jobs.submit_s[job] = now
    jobs.seen_sum[job] = clock[CONTENTION] - tally[ACTIVE]
    jobs.seen_count[job] = tally[EVENTS] - 1
    jobs.size[job] = believed
    jobs.remaining[job] = believed
    jobs.attained[job] = 0.0
    jobs.units[job] = 0.0
    jobs.key[job] = 0.0
    jobs.group[job] = 0

    progress.row[job] = row
    progress.since[job] = now
    progress.work_left[job] = work
    progress.believed_left[job] = believed
    progress.believed_per_work[job] = believed_per_work
    progress.rate[job] = 0.0
    progress.stall[job] = 0.0
    progress.attained[job] = 0.0
    progress.finish_at[job] = math.inf
    progress.outrun_at[job] = math.inf
    progress.units_before[job] = 0.0
    progress.stall_before[job] = 0.0
    progress.started_s[job] = math.nan
    progress.stalled_s[job] = 0.0
    progress.preemptions[job] = 0
    progress.resizes[job] = 0
    progress.mark[job] = 0
    return job


@kernel
def newest(state: State) -> int:
    """The slot of the job submitted last, as long as nothing has finished since."""
    return state.free[state.visible.tally[FREE]]


@kernel
def working_s(state: State, job: int, now: float) -> float:
    """Seconds of progress under the present grant, up to `now`."""
    progress = state.progress
    return max(0.0, now - progress.since[job] - progress.stall[job])


@kernel
def believed_left(state: State, job: int, now: float) -> float:
    """Remaining work as believed at `now`, seconds on one unit."""
    progress = state.progress
    gone = progress.rate[job] * working_s(state, job, now) * progress.believed_per_work[job]
    return progress.believed_left[job] - gone


@kernel
def attained(state: State, job: int, now: float) -> float:
    """Unit-seconds held up to `now`."""
    return state.progress.attained[job] + state.visible.jobs.units[job] * (now - state.progress.since[job])


@kernel
def record_segment(state: State, job: int, now: float) -> None:
    """Note that the job's present grant ends at `now`, if segments are recorded and it lasted."""
    segments, tally = state.segments, state.visible.tally
    if len(segments.row) == 0 or state.visible.jobs.units[job] == 0.0 or now <= state.progress.since[job]:
        return
    at = tally[SEGMENTS]
    segments.row[at] = state.progress.row[job]
    segments.start_s[at] = state.progress.since[job]
    segments.end_s[at] = now
    segments.units[at] = state.visible.jobs.units[job]
    tally[SEGMENTS] = at + 1


@kernel
def settle(state: State, job: int, now: float) -> None:
    """Bring the account of `job` up to date, so that its grant may change."""
    progress, jobs = state.progress, state.visible.jobs
    if now > progress.since[job]:
        units = jobs.units[job]
        if units > 0.0:
            record_segment(state, job, now)
            worked = working_s(state, job, now)
            stalled = min(progress.stall[job], now - progress.since[job])
            believed = believed_left(state, job, now)
            progress.attained[job] = attained(state, job, now)
            jobs.attained[job] = progress.attained[job]
            jobs.remaining[job] = max(0.0, believed)
            progress.work_left[job] = max(0.0, progress.work_left[job] - progress.rate[job] * worked)
            progress.believed_left[job] = believed
            progress.stall[job] -= stalled
            progress.stalled_s[job] += stalled
        progress.units_before[job] = units
        progress.stall_before[job] = progress.stall[job]
        progress.since[job] = now
    else:
        # A second thought within one instant: only the grant in force when time moves on counts.
        _count_change(state, job, jobs.units[job], -1)


@kernel
def regrant(state: State, job: int, units: float, now: float) -> None:
    """Give `job` exactly `units` from `now` on; 0 preempts it."""
    progress, jobs, view = state.progress, state.visible.jobs, state.visible
    settle(state, job, now)
    jobs.units[job] = units
    _count_change(state, job, units, 1)
    if units > 0.0:
        if math.isnan(progress.started_s[job]):
            progress.started_s[job] = now
        if units == progress.units_before[job]:
            progress.stall[job] = progress.stall_before[job]
        elif progress.attained[job] > 0.0:
            progress.stall[job] = view.machine.restart_s
        else:
            progress.stall[job] = 0.0
        progress.rate[job] = speed(view.speedup, jobs.curve[job], units)
        start = now + progress.stall[job]
        progress.finish_at[job] = start + progress.work_left[job] / progress.rate[job]
        _foresee_outrun(state, job)
    else:
        if progress.attained[job] == 0.0:
            progress.started_s[job] = math.nan  # it was granted units and lost them within one instant
        progress.stall[job] = 0.0
        progress.rate[job] = 0.0
        progress.finish_at[job] = math.inf
        progress.outrun_at[job] = math.inf


@kernel
def speed(speedup: Floats, curve: int, units: float) -> float:
    """Work a second on `units`, linear between the whole numbers of units (PCS's simulator, `Job.rate`)."""
    below = int(units)
    if units == below:
        return speedup[curve, below]
    slow, fast = speedup[curve, below], speedup[curve, below + 1]
    return slow + (fast - slow) * (units - below)


@kernel
def outrun(state: State, job: int) -> None:
    """The work done has reached the believed size: believe in twice as much."""
    progress, jobs = state.progress, state.visible.jobs
    size = jobs.size[job]
    jobs.size[job] = doubled(size, size)
    progress.believed_left[job] += jobs.size[job] - size  # at `since`, so at every instant after it
    _foresee_outrun(state, job)


@kernel
def finish(state: State, job: int, now: float) -> None:
    """The job is done at `now`: it leaves the queue and its slot is free."""
    progress, tally = state.progress, state.visible.tally
    sample_contention(state)
    record_segment(state, job, now)
    progress.attained[job] = attained(state, job, now)
    progress.stalled_s[job] += min(progress.stall[job], now - progress.since[job])
    state.visible.jobs.units[job] = 0.0
    progress.finish_at[job] = math.inf
    progress.outrun_at[job] = math.inf
    progress.mark[job] = -1
    leave(state.visible.jobs, state.visible.queue, job)
    tally[ACTIVE] -= 1
    state.free[tally[FREE]] = job
    tally[FREE] += 1
    for place in range(tally[HOLDERS]):
        if state.holders[place] == job:
            tally[HOLDERS] -= 1
            state.holders[place] = state.holders[tally[HOLDERS]]
            break


@kernel
def check_grants(state: State) -> int:
    """Whether the decision in `grants` may be applied: ACCEPTED, or why not, with the job in OFFENDER."""
    view, progress, grants = state.visible, state.progress, state.grants
    jobs, tally, machine = view.jobs, view.tally, view.machine
    stamp = tally[STAMP] + 1
    total = 0.0
    for at in range(grants.count[0]):
        job, units = grants.job[at], grants.units[at]
        tally[OFFENDER] = job
        if job < 0 or job >= len(jobs.units) or progress.mark[job] < 0:
            return NOT_ACTIVE
        if progress.mark[job] == stamp:
            return NAMED_TWICE
        progress.mark[job] = stamp
        if not units > 0.0:
            return NOT_A_NUMBER
        if units < jobs.least[job]:
            return BELOW_MINIMUM
        if units > jobs.max_units[job]:
            return ABOVE_MAXIMUM
        if not machine.fractional and units != math.floor(units):
            return NOT_WHOLE
        total += units
    if total > machine.units * (1.0 + SLACK_FRAC):
        return TOO_MANY_UNITS
    tally[OFFENDER] = -1
    return ACCEPTED


@kernel
def apply_grants(state: State) -> int:
    """Carry out the decision in `grants`, if it is legal; finds the next finish. Returns ACCEPTED or why not."""
    verdict = check_grants(state)
    view, progress, grants = state.visible, state.progress, state.grants
    tally = view.tally
    tally[STAMP] += 1
    if verdict != ACCEPTED:
        return verdict
    now, stamp, units_held = view.clock[NOW], tally[STAMP], view.jobs.units

    for place in range(tally[HOLDERS]):
        job = state.holders[place]
        if progress.mark[job] != stamp:
            regrant(state, job, 0.0, now)
    for at in range(grants.count[0]):
        job = grants.job[at]
        if units_held[job] != grants.units[at]:
            regrant(state, job, grants.units[at], now)
        state.holders[at] = job
    tally[HOLDERS] = grants.count[0]
    find_next(state)
    return ACCEPTED


@kernel
def find_next(state: State) -> None:
    """Find which holder finishes first and which outruns its estimate first; ties to the earlier job."""
    view, progress = state.visible, state.progress
    tally, seq = view.tally, view.jobs.seq
    finish_at, outrun_at = math.inf, math.inf
    finisher, outrunner, tied = -1, -1, 0
    for place in range(tally[HOLDERS]):
        job = state.holders[place]
        at = progress.finish_at[job]
        if at < finish_at:
            finish_at, finisher, tied = at, job, 1
        elif at == finish_at and finisher >= 0:
            tied += 1
            if seq[job] < seq[finisher]:
                finisher = job
        at = progress.outrun_at[job]
        if at < outrun_at or (at == outrun_at and outrunner >= 0 and seq[job] < seq[outrunner]):
            outrun_at, outrunner = at, job
    view.clock[NEXT_FINISH] = finish_at
    view.clock[NEXT_OUTRUN] = outrun_at
    tally[FINISHER] = finisher
    tally[TIED] = tied
    tally[OUTRUNNER] = outrunner


@kernel
def _foresee_outrun(state: State, job: int) -> None:
    progress = state.progress
    progress.outrun_at[job] = math.inf
    # With beliefs that shrink at their own pace (an error in proportion) belief and work run out together.
    if progress.believed_per_work[job] == 1.0 and progress.believed_left[job] < progress.work_left[job]:
        start = progress.since[job] + progress.stall[job]
        progress.outrun_at[job] = start + progress.believed_left[job] / progress.rate[job]


@kernel
def _count_change(state: State, job: int, units: float, by: int) -> None:
    """Count the change from the grant before this instant to `units` as a preemption or a resize, or undo it."""
    progress = state.progress
    before = progress.units_before[job]
    if before > 0.0 and units != before:
        if units == 0.0:
            progress.preemptions[job] += by
        else:
            progress.resizes[job] += by
