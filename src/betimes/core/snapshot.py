"""Copies of the pool's state, to be played forward."""

from __future__ import annotations

import math

from betimes.core.columns import HEAD, HOLDERS, NOW, TAIL, State
from betimes.core.estimates import SMALLEST_BELIEF_S
from betimes.core.kernel import kernel
from betimes.core.transitions import attained, believed_left, find_next


@kernel
def copy_into(state: State, copy: State, believing: bool) -> None:
    """Make `copy` (from `columns.twin_of`) the same as `state` at this instant.

    With `believing`, the copy takes what is believed about each job for the truth, so that playing it forward
    gives what the scheduler can promise; else the two are the same to the last bit.
    """
    view, other = state.visible, copy.visible
    other.clock[:] = view.clock
    other.tally[:] = view.tally
    for group in range(len(view.queue.demand)):
        head, tail = view.queue.ends[group, HEAD], view.queue.ends[group, TAIL]
        other.queue.ends[group, HEAD] = head
        other.queue.ends[group, TAIL] = tail
        other.queue.demand[group] = view.queue.demand[group]
        for place in range(head, tail):
            job = view.queue.order[group, place]
            other.queue.order[group, place] = job
            _copy_job(state, copy, job)
    for place in range(view.tally[HOLDERS]):
        copy.holders[place] = state.holders[place]
    if believing:
        for group in range(len(view.queue.demand)):
            for place in range(other.queue.ends[group, HEAD], other.queue.ends[group, TAIL]):
                _take_belief_for_truth(state, copy, other.queue.order[group, place])
        find_next(copy)


@kernel
def _copy_job(state: State, copy: State, job: int) -> None:
    source, target = state.visible.jobs, copy.visible.jobs
    target.remaining[job] = source.remaining[job]
    target.attained[job] = source.attained[job]
    target.units[job] = source.units[job]
    target.key[job] = source.key[job]
    old, new = state.progress, copy.progress
    new.since[job] = old.since[job]
    new.work_left[job] = old.work_left[job]
    new.believed_left[job] = old.believed_left[job]
    new.believed_per_work[job] = old.believed_per_work[job]
    new.rate[job] = old.rate[job]
    new.stall[job] = old.stall[job]
    new.attained[job] = old.attained[job]
    new.finish_at[job] = old.finish_at[job]
    new.outrun_at[job] = old.outrun_at[job]
    new.units_before[job] = old.units_before[job]
    new.stall_before[job] = old.stall_before[job]
    new.started_s[job] = old.started_s[job]
    new.mark[job] = old.mark[job]


@kernel
def _take_belief_for_truth(state: State, copy: State, job: int) -> None:
    now = state.visible.clock[NOW]
    new = copy.progress
    left = max(believed_left(state, job, now), SMALLEST_BELIEF_S)
    new.work_left[job] = left
    new.believed_left[job] = left
    new.believed_per_work[job] = 1.0
    new.outrun_at[job] = math.inf
    copy.visible.jobs.remaining[job] = left
    if copy.visible.jobs.units[job] > 0.0:
        new.attained[job] = attained(state, job, now)
        if now > new.since[job]:
            new.stall[job] -= min(new.stall[job], now - new.since[job])
            new.since[job] = now
            new.units_before[job] = copy.visible.jobs.units[job]
            new.stall_before[job] = new.stall[job]
        new.finish_at[job] = now + new.stall[job] + left / new.rate[job]
