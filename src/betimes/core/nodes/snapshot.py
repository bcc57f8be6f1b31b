"""Copies of a cluster's state, to be played forward."""

from __future__ import annotations

import math

from betimes.core.nodes.columns import ANYTHING, BLOCK, CLASSES, FEATURE_COLUMNS, NodesState
from betimes.core.nodes.directory import block_at, forget_groups
from betimes.core.nodes.timers import SPECULATED, set_job_timer
from betimes.core.work import SMALLEST_BELIEF_S, attained, believed_left, expected_left_s, set_to_work
from betimes.kernels import FloatTable, kernel


@kernel
def copy_into(state: NodesState, copy: NodesState, believing: bool) -> None:
    """Make `copy` (from `columns.room_to_play`) the same as `state` between two instants.

    With `believing`, the copy takes beliefs about each job for the truth, so that playing it forward gives the
    scheduler's promises; else the two are the same to the last bit.
    """
    copy.pool[0] = state.pool[0]
    copy.cluster[0] = state.cluster[0]
    copy.cluster[0].leavers = -1
    for number in range(len(state.users)):
        copy.users[number] = state.users[number]
    cluster = state.cluster[0]
    for number in range(len(state.nodes)):
        copy.nodes[number] = state.nodes[number]
        copy.vacated[number] = state.vacated[number]
        copy.machines[number] = state.machines[number]
        copy.timer_of[2 + 2 * number] = state.timer_of[2 + 2 * number]
    for offer in range(len(state.offers)):
        copy.offers[offer] = state.offers[offer]
        copy.offers[
            offer
        ].drawn = 0  # what chance will do to machines that are not asked for yet is not known
    for number in range(len(state.placements)):
        copy.placements[number] = state.placements[number]
    for at in range(len(state.directory)):
        copy.directory[at] = state.directory[at]
    for at in range(cluster.blocks):
        number = block_at(state, at)
        block = state.blocks[number]
        copy.blocks[number] = block
        for kind in range(CLASSES):
            copy.block_least_s[number, kind] = state.block_least_s[number, kind]
        for place in range(number * BLOCK + block.head, number * BLOCK + block.tail):
            copy.queue[place] = state.queue[place]
    forget_groups(copy, 0, len(state.directory) - 1)
    for at in range(state.pool[0].holders):
        copy.holders[at] = state.holders[at]
    copy.timer_of[0] = state.timer_of[0]
    for at in range(cluster.timers):
        copy.timers[at] = state.timers[at]
    for slot in range(len(state.progress)):
        copy.timer_of[1 + 2 * slot] = state.timer_of[1 + 2 * slot]
        copy.progress[slot].served_by = state.progress[slot].served_by
        if state.progress[slot].served_by >= 0:
            copy.jobs[slot] = state.jobs[slot]
            copy.needs[slot] = state.needs[slot]
            copy.evictions[slot] = state.evictions[slot]
            if len(state.rentings) > 0:
                copy.rentings[slot] = state.rentings[slot]
            copy.progress[slot] = state.progress[slot]
            if cluster.observed == 1:
                for at in range(FEATURE_COLUMNS):
                    copy.features[slot, at] = state.features[slot, at]
    for at in range(state.pool[0].free):
        copy.free[at] = state.free[at]
    if cluster.reserved >= 0:  # what the last pass worked out still holds, and the next may rely on it
        for number in range(len(state.nodes)):
            copy.sketch[number] = state.sketch[number]
            copy.beside[number] = state.beside[number]
    for at in range(min(cluster.arrived, len(state.newcomers))):
        copy.newcomers[at] = state.newcomers[at]
    if believing:
        copy.cluster[
            0
        ].must_replan = ANYTHING  # reservations were made for what was believed, to the last bit, before
        for slot in range(len(state.progress)):
            if state.progress[slot].served_by >= 0:
                _take_belief_for_truth(state, copy, slot)


@kernel
def expect_ends(copy: NodesState, expected: FloatTable) -> None:
    """Let the jobs of a copy that was made `believing` end when they are expected to; beliefs stay as they are.

    expected: (jobs, quantiles) of each job's run time, s; NaN: its belief comes true.
    """
    for slot in range(len(copy.progress)):
        progress = copy.progress[slot]
        if progress.served_by < 0 or math.isnan(expected[progress.row, 0]):
            continue
        age_s = copy.jobs[slot].size_s - progress.believed_left
        progress.work_left = expected_left_s(expected, progress.row, max(0.0, age_s))
        if copy.needs[slot].holder >= 0 and copy.evictions[slot].vacate_at == math.inf:
            set_to_work(copy, slot, progress.rate, copy.pool[0].now)
            set_job_timer(copy, slot)


@kernel
def _take_belief_for_truth(state: NodesState, copy: NodesState, slot: int) -> None:
    now = state.pool[0].now
    job, progress, need = copy.jobs[slot], copy.progress[slot], copy.needs[slot]
    eviction = copy.evictions[slot]
    left = max(believed_left(state, slot, now), min(SMALLEST_BELIEF_S, state.jobs[slot].size_s))
    progress.work_left = left
    progress.believed_left = left
    progress.believed_per_work = 1.0
    progress.outrun_at = math.inf
    job.remaining_s = left
    if need.rented > 0:
        renting = copy.rentings[slot]
        # Whether the machines will be lost, and whether the job ends before its speculative run does, is not known.
        need.alarm_s = renting.speculates_until_s
        need.alarm = SPECULATED
        renting.whole_s = renting.believed_s  # what it starts anew with
    if need.holder >= 0:
        progress.attained = attained(state, slot, now)
        progress.stall -= min(progress.stall, now - progress.since)
        progress.since = now
        if eviction.vacate_at == math.inf:
            progress.finish_at = now + progress.stall + left / progress.rate
        set_job_timer(copy, slot)
