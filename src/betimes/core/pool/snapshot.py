"""Copies of the pool's state, to be played forward."""

from __future__ import annotations

import math

from betimes.core.pool.columns import State
from betimes.core.pool.transitions import find_next
from betimes.core.work import SMALLEST_BELIEF_S, attained, believed_left, expected_left_s, set_to_work
from betimes.kernels import FloatTable, kernel


@kernel
def copy_into(state: State, copy: State, believing: bool) -> None:
    """Make `copy` (from `columns.room_to_play`) the same as `state` at this instant.

    With `believing`, the copy takes beliefs about each job for the truth, so that playing it forward gives the
    scheduler's promises; else the two are the same to the last bit.
    """
    copy.pool[0] = state.pool[0]
    for number in range(len(state.users)):
        copy.users[number] = state.users[number]
    for number in range(len(state.groups)):
        copy.groups[number] = state.groups[number]
        for place in range(state.groups[number].head, state.groups[number].tail):
            slot = state.order[number, place]
            copy.order[number, place] = slot
            copy.jobs[slot] = state.jobs[slot]
            copy.progress[slot] = state.progress[slot]
            if believing:
                _take_belief_for_truth(state, copy, slot)
    for at in range(state.pool[0].holders):
        copy.holders[at] = state.holders[at]
    if len(state.nodes) > 0:
        _copy_nodes(state, copy)
    if believing:
        find_next(copy)


@kernel
def expect_ends(copy: State, expected: FloatTable) -> None:
    """Let the jobs of a copy that was made `believing` end when they are expected to; beliefs stay as they are.

    expected: (jobs, quantiles) of each job's run time at its full width, s; NaN: its belief comes true.
    """
    now = copy.pool[0].now
    for number in range(len(copy.groups)):
        for place in range(copy.groups[number].head, copy.groups[number].tail):
            slot = copy.order[number, place]
            job, progress = copy.jobs[slot], copy.progress[slot]
            if math.isnan(expected[progress.row, 0]):
                continue
            age_s = (job.size_s - progress.believed_left) / job.full_speed
            progress.work_left = expected_left_s(expected, progress.row, max(0.0, age_s)) * job.full_speed
            if job.units > 0.0:
                set_to_work(copy, slot, progress.rate, now)
    find_next(copy)


@kernel
def copy_beliefs(state: State, copy: State) -> None:
    """Make `copy` the believed state at this instant, with its free slots: jobs can be submitted to it."""
    copy_into(state, copy, True)
    for at in range(state.pool[0].free):
        copy.free[at] = state.free[at]


@kernel
def _copy_nodes(state: State, copy: State) -> None:
    for number in range(len(state.nodes)):
        copy.nodes[number] = state.nodes[number]
    for number in range(len(state.placements)):
        copy.placements[number] = state.placements[number]
    for number in range(len(state.groups)):
        for place in range(state.groups[number].head, state.groups[number].tail):
            slot = state.order[number, place]
            copy.footprints[slot] = state.footprints[slot]


@kernel
def _take_belief_for_truth(state: State, copy: State, slot: int) -> None:
    now = state.pool[0].now
    job, progress = copy.jobs[slot], copy.progress[slot]
    left = max(believed_left(state, slot, now), min(SMALLEST_BELIEF_S, state.jobs[slot].size_s))
    progress.work_left = left
    progress.believed_left = left
    progress.believed_per_work = 1.0
    progress.outrun_at = math.inf
    job.remaining_s = left
    if job.units > 0.0:
        if now > progress.since:
            progress.attained = attained(state, slot, now)
            progress.stall -= min(progress.stall, now - progress.since)
            progress.since = now
            progress.units_before = job.units
            progress.stall_before = progress.stall
            progress.resized_before_s = progress.resized_s
        progress.finish_at = now + progress.stall + left / progress.rate
