"""External events on live nodes, besides submissions and completions.

Each of them may let other jobs start, so that the next pass looks at all jobs again.
"""

from __future__ import annotations

import math

from betimes.core.closings import next_opening_s
from betimes.core.instruction import CLOSE, OPEN
from betimes.core.nodes.columns import ANYTHING, OWNED, NodesState
from betimes.core.nodes.demands import demand_on, take_on
from betimes.core.nodes.directory import block_of, note_entry
from betimes.core.nodes.holders import add_bound, add_holder, drop_bound, is_owed
from betimes.core.nodes.log import note
from betimes.core.nodes.machines.rented import expect, note_room_at, note_vacated
from betimes.core.nodes.queue import remove
from betimes.core.nodes.rates import speed_of
from betimes.core.nodes.timers import OPENS, clear_job_timer, set_job_timer
from betimes.core.nodes.transitions import (
    drop_placement,
    note_length,
    pay_claims,
    put,
    put_bound,
    unbook,
    vacate,
)
from betimes.core.nodes.wait_features import count_running
from betimes.core.work import bring_up_to_date, close_account, set_to_work
from betimes.kernels import kernel


@kernel
def expect_finish(state: NodesState, slot: int, at_s: float) -> None:
    """A job that holds nodes turns out to finish at `at_s`."""
    state.progress[slot].finish_at = at_s
    set_job_timer(state, slot)


@kernel
def expect_leaving(state: NodesState, slot: int, at_s: float) -> None:
    """A stopping job leaves at `at_s`, before or after the end of its grace period."""
    state.evictions[slot].vacate_at = at_s
    note_room_at(state, state.needs[slot].placed)
    set_job_timer(state, slot)


@kernel
def withdraw(state: NodesState, slot: int) -> None:
    """Remove a job that waits or is bound to nodes."""
    pool = state.pool[0]
    if state.needs[slot].bound >= 0:
        unbind(state, slot)
    elif state.needs[slot].dedicated == 0:
        remove(state, slot)
    unbook(state, slot)
    clear_job_timer(state, slot)
    pool.events += 1
    close_account(state, slot, pool.now)
    pool.active -= 1
    state.free[pool.free] = slot
    pool.free += 1
    state.cluster[0].changed += 1


@kernel
def unbind(state: NodesState, slot: int) -> None:
    """A job that is bound to nodes gives up what it has there; its victims leave, for no particular job.

    The job is not in the queue afterwards.
    """
    need = state.needs[slot]
    eviction = state.evictions[slot]
    at = need.bound
    while at >= 0:
        placement = state.placements[at]
        node = state.nodes[placement.node]
        gpu, cpu, memory = demand_on(state, need, placement.node)
        node.free_gpu += placement.tasks * gpu - placement.owed_gpu
        node.free_cpu += placement.tasks * cpu - placement.owed_cpu
        node.free_memory += placement.tasks * memory - placement.owed_memory
        number = placement.node
        if eviction.claims == 1 and is_owed(placement):
            state.machines[number].claims -= 1
        note_vacated(state, number)
        at = drop_placement(state, at)
        pay_claims(state, number)
    need.bound = -1
    eviction.awaited = 0
    eviction.claims = 0
    eviction.moves_when_free = 0
    need.freed_seen = -1
    for at in range(state.pool[0].holders):
        victim = state.evictions[state.holders[at]]
        if victim.preemptor == slot:
            victim.preemptor = -1
    if need.holder < 0:
        drop_bound(state, slot)
    state.cluster[0].changed += 1


@kernel
def hold(state: NodesState, slot: int, count: int) -> None:
    """A job that is not in the queue holds the nodes of state.plan[:count] since its account was true."""
    need, job = state.needs[slot], state.jobs[slot]
    eviction = state.evictions[slot]
    for at in range(count):
        choice = state.plan[at]
        take_on(state, state.nodes[choice.node], choice.node, need, choice.tasks)
        put(state, slot, choice)
    job.units = float(job.max_units)
    need.began_s = state.progress[slot].since
    if state.cluster[0].observed == 1:
        count_running(state, slot, 1)
    add_holder(state, slot)
    if eviction.vacate_at == math.inf:
        set_to_work(state, slot, speed_of(state, slot), state.progress[slot].since)
    set_job_timer(state, slot)
    state.cluster[0].changed += 1


@kernel
def bind(state: NodesState, slot: int, count: int) -> None:
    """A job that is not in the queue is bound to the nodes of state.plan[:count].

    The resources that victims owe it there are in the first columns of state.sketch[:count].
    """
    need = state.needs[slot]
    eviction = state.evictions[slot]
    for at in range(count):
        choice, owed = state.plan[at], state.sketch[at]
        node, placement = state.nodes[choice.node], state.placements[put_bound(state, slot, choice)]
        placement.owed_gpu = owed.free_gpu
        placement.owed_cpu = owed.free_cpu
        placement.owed_memory = owed.free_memory
        gpu, cpu, memory = demand_on(state, need, choice.node)
        node.free_gpu -= choice.tasks * gpu - owed.free_gpu
        node.free_cpu -= choice.tasks * cpu - owed.free_cpu
        node.free_memory -= choice.tasks * memory - owed.free_memory
        if owed.free_gpu > 0 or owed.free_cpu > 0 or owed.free_memory > 0:
            eviction.awaited += 1
    add_bound(state, slot)
    state.cluster[0].changed += 1


@kernel
def lose(state: NodesState, slot: int) -> None:
    """A job has lost its nodes without preemption. It is not in the queue afterwards."""
    pool, eviction, progress = state.pool[0], state.evictions[slot], state.progress[slot]
    if eviction.vacate_at == math.inf:
        if pool.now > progress.since:
            bring_up_to_date(state, slot, pool.now)
            progress.since = pool.now
        eviction.preempted_s = pool.now
    vacate(state, slot)
    progress.rate = 0.0
    progress.stall = 0.0
    progress.finish_at = math.inf
    progress.outrun_at = math.inf


@kernel
def believe(state: NodesState, slot: int, left_s: float) -> None:
    """Set the believed remaining work, seconds. A waiting job's key is not asked for again."""
    job, progress, now = state.jobs[slot], state.progress[slot], state.pool[0].now
    works = state.needs[slot].holder >= 0 and state.evictions[slot].vacate_at == math.inf
    if works and now > progress.since:
        bring_up_to_date(state, slot, now)
        progress.since = now
    job.size_s += left_s - progress.believed_left
    job.remaining_s = left_s
    progress.believed_left = left_s
    if works:
        note_room_at(state, state.needs[slot].placed)
        set_to_work(state, slot, progress.rate, now)
        set_job_timer(state, slot)
    elif state.cluster[0].blocks > 0:  # where it stands if it is in the queue
        note_entry(state, block_of(state, job.key, job.seq), slot)
        note_length(state, slot)
        state.needs[slot].freed_seen = -1  # a shorter job may be over before a node closes
    state.cluster[0].changed += 1


@kernel
def open_node(state: NodesState, number: int, up: int) -> None:
    """A node takes new tasks from now on (1), or none (0); what runs there goes on."""
    state.nodes[number].up = up
    note(state, OPEN if up == 1 else CLOSE, -1, number, 0, 0.0, -1)
    note_vacated(state, number)
    state.cluster[0].changed += 1
    state.cluster[0].must_replan = ANYTHING


@kernel
def expect_openings(state: NodesState) -> None:
    """The closings are others: all waiting jobs are tried again, now and when a node opens."""
    now = state.pool[0].now
    for number in range(len(state.nodes)):
        if state.machines[number].state == OWNED and state.machines[number].offer < 0:
            state.nodes[number].up = min(state.nodes[number].up, 1)
            expect(state, number, next_opening_s(state.closings, now, number), OPENS)
            note_vacated(state, number)
    state.cluster[0].changed += 1
    state.cluster[0].must_replan = ANYTHING


@kernel
def open_again(state: NodesState, number: int) -> None:
    """A node that was closed takes tasks again."""
    expect(state, number, next_opening_s(state.closings, state.pool[0].now, number), OPENS)
    note_vacated(state, number)
    state.cluster[0].changed += 1
    state.cluster[0].must_replan = ANYTHING
