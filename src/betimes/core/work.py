"""The account of a job's work, and the belief about its size, the same in both engines.

A job that holds resources works at a rate, after a stall if it has been restarted. Its account is true at
`since`; everything later follows from it, so nothing needs an update while nothing changes.

The twin, play-outs and the live service share the rule for a belief that is outrun: a job that has done all its
believed work, and is not finished, is believed to be twice as large (`doubled`). It then counts as half done, so that
it does not stay the shortest job for ever.
"""

from __future__ import annotations

import math
from typing import Protocol

from betimes.core.pool.columns import Job, Pool, Progress
from betimes.kernels import Each, FloatTable, Records, kernel

SMALLEST_BELIEF_S = 0.01
"""Least remaining work that is ever believed, seconds on one unit (PCS's simulator has the same floor)."""


@kernel
def speed(speedup: FloatTable, curve: int, units: float) -> float:
    """Work a second on `units`, linear between the whole numbers of units (PCS's simulator, `Job.rate`)."""
    below = int(units)
    if units == below:
        return speedup[curve, below]
    slow, fast = speedup[curve, below], speedup[curve, below + 1]
    return slow + (fast - slow) * (units - below)


@kernel
def doubled(size: float, done: float) -> float:
    """The believed size after `done` seconds of work: `size`, doubled until it exceeds `done`."""
    while size <= done:
        size *= 2.0
    return size


class Accounts(Protocol):
    """Whatever holds live jobs and their accounts: the state or the view of either engine."""

    @property
    def jobs(self) -> Each[Job]:
        """The part of each job that a policy may read."""
        ...

    @property
    def progress(self) -> Each[Progress]:
        """The account of each job."""
        ...

    @property
    def pool(self) -> Records[Pool]:
        """The scalars."""
        ...


@kernel
def open_account(
    state: Accounts, slot: int, row: int, work: float, believed: float, believed_per_work: float
) -> None:
    """Begin the account of a job that has just been submitted and holds nothing."""
    job, progress, now = state.jobs[slot], state.progress[slot], state.pool[0].now
    job.submit_s = now
    job.size_s = believed
    job.remaining_s = believed
    job.attained = 0.0
    job.units = 0.0
    job.key = 0.0
    progress.row = row
    progress.since = now
    progress.work_left = work
    progress.believed_left = believed
    progress.believed_per_work = believed_per_work
    progress.rate = 0.0
    progress.stall = 0.0
    progress.attained = 0.0
    progress.finish_at = math.inf
    progress.outrun_at = math.inf
    progress.started_s = math.nan
    progress.stalled_s = 0.0
    progress.preemptions = 0
    progress.served_by = 0


@kernel
def working_s(state: Accounts, slot: int, now: float) -> float:
    """Seconds of progress under the present grant, up to `now`."""
    progress = state.progress[slot]
    return max(0.0, now - progress.since - progress.stall)


@kernel
def believed_left(state: Accounts, slot: int, now: float) -> float:
    """Remaining work as believed at `now`, seconds on one unit."""
    progress = state.progress[slot]
    return progress.believed_left - progress.rate * working_s(state, slot, now) * progress.believed_per_work


@kernel
def attained(state: Accounts, slot: int, now: float) -> float:
    """Unit-seconds held up to `now`."""
    progress = state.progress[slot]
    return progress.attained + state.jobs[slot].units * (now - progress.since)


@kernel
def bring_up_to_date(state: Accounts, slot: int, now: float) -> None:
    """Bring the account of a job that holds units up to date at a later `now`; moves no `since`."""
    job, progress = state.jobs[slot], state.progress[slot]
    worked = working_s(state, slot, now)
    stalled = min(progress.stall, now - progress.since)
    left = max(0.0, believed_left(state, slot, now))
    progress.attained = attained(state, slot, now)
    progress.work_left = max(0.0, progress.work_left - progress.rate * worked)
    progress.believed_left = left
    progress.stall -= stalled
    progress.stalled_s += stalled
    job.remaining_s = left
    job.attained = progress.attained


@kernel
def set_to_work(state: Accounts, slot: int, rate: float, now: float) -> None:
    """The job works at `rate` from `now` on, once its stall has passed: foresee its finish and its outrun."""
    progress = state.progress[slot]
    progress.rate = rate
    progress.finish_at = now + progress.stall + progress.work_left / rate
    _foresee_outrun(state, slot)


@kernel
def rest(state: Accounts, slot: int) -> None:
    """The job makes no progress from now on."""
    progress = state.progress[slot]
    progress.stall = 0.0
    progress.rate = 0.0
    progress.finish_at = math.inf
    progress.outrun_at = math.inf


@kernel
def outrun(state: Accounts, slot: int) -> None:
    """The work done has reached the believed size: double the belief."""
    job, progress = state.jobs[slot], state.progress[slot]
    before = job.size_s
    job.size_s = doubled(before, before)
    progress.believed_left += job.size_s - before  # at `since`, so at every instant after it
    _foresee_outrun(state, slot)


@kernel
def close_account(state: Accounts, slot: int, now: float) -> None:
    """The job is done at `now`: complete its totals."""
    progress = state.progress[slot]
    progress.attained = attained(state, slot, now)
    progress.stalled_s += min(progress.stall, now - progress.since)
    progress.finish_at = math.inf
    progress.outrun_at = math.inf
    progress.served_by = -1


@kernel
def _foresee_outrun(state: Accounts, slot: int) -> None:
    progress = state.progress[slot]
    progress.outrun_at = math.inf
    # With beliefs that shrink at their own pace (an error in proportion) belief and work run out together.
    if progress.believed_per_work == 1.0 and progress.believed_left < progress.work_left:
        progress.outrun_at = progress.since + progress.stall + progress.believed_left / progress.rate


@kernel
def expected_left_s(expected: FloatTable, row: int, age_s: float) -> float:
    """Median of the time left of a job that has run for `age_s`, s; expected[row] are quantiles of its run time.

    A job that has outlived them all is expected to take twice as long as it has.
    """
    grid = expected.shape[1]
    outlived = 0
    while outlived < grid and expected[row, outlived] <= age_s:
        outlived += 1
    if outlived == grid:
        return max(age_s, 1.0)
    # Of the `grid - outlived + 1` intervals between quantiles that are left, half lie before the middle one.
    middle = outlived + (grid - outlived) / 2.0 - 0.5
    below = int(middle)
    if below < outlived:
        return expected[row, outlived] - age_s
    above = min(below + 1, grid - 1)
    share = middle - below
    return (1.0 - share) * expected[row, below] + share * expected[row, above] - age_s
