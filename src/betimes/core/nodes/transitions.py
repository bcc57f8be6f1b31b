"""The transitions of a cluster of nodes: nothing else changes it.

Each transition leaves the columns consistent (`tests/core/nodes/invariants.py`). Starts and preemptions are decided
elsewhere (`schedule`, `preemption`), by reading alone, and carried out here.
"""

from __future__ import annotations

import math

from betimes.core.closings import LEAST_S
from betimes.core.instruction import BIND, PREEMPT, RESERVE, START
from betimes.core.nodes.believed_ends import believed_end
from betimes.core.nodes.columns import AUTO, ROOM_FREED, Choice, Need, NodesState
from betimes.core.nodes.demands import count_held, count_in, demand_on, give_on, take_on
from betimes.core.nodes.holders import add_bound, add_holder, drop_bound, drop_holder, is_owed
from betimes.core.nodes.log import note, note_places
from betimes.core.nodes.machines.rented import DRAINING, go, note_room_at, note_vacated
from betimes.core.nodes.queue import insert
from betimes.core.nodes.rates import re_rate, re_rate_around, speed_of
from betimes.core.nodes.timers import EXPIRED, LAUNCHED, set_job_timer
from betimes.core.nodes.wait_features import count_running
from betimes.core.placements import Node, free_placement, new_placement
from betimes.core.work import (
    attained,
    believed_left,
    bring_up_to_date,
    close_account,
    open_account,
    rest,
    set_to_work,
)
from betimes.kernels import Records, kernel


@kernel
def submit(
    state: NodesState, row: int, units: int, work: float, believed: float, believed_per_work: float
) -> int:
    """Give a job a slot and its account; returns the slot. Its demand and its place in the queue come next."""
    pool = state.pool[0]
    pool.free -= 1
    slot = state.free[pool.free]
    job, need = state.jobs[slot], state.needs[slot]
    eviction = state.evictions[slot]
    pool.events += 1
    pool.active += 1
    job.seq = pool.submitted
    pool.submitted += 1
    job.max_units = units
    open_account(state, slot, row, work, believed, believed_per_work)
    need.placed = -1
    need.bound = -1
    eviction.awaited = 0
    need.alarm_s = math.inf
    need.alarm = EXPIRED
    need.workload = -1
    need.launch_s = need.init_s = need.stop_s = 0.0
    need.contends = 0
    eviction.leaves = 0
    eviction.moves_when_free = 0
    eviction.claims = 0
    need.rented = 0
    need.dedicated = 0
    need.fits_no_owned = 0
    eviction.vacate_at = math.inf
    eviction.preempted_s = math.nan
    need.reserved_s = math.inf
    need.reservation = -1
    eviction.vacated_s = math.nan
    eviction.preemptor = -1
    need.holder = -1
    need.leaver = -1
    need.freed_seen = -1
    need.limit_s = 0.0
    need.exempt = 0
    if len(state.rentings) > 0:
        renting = state.rentings[slot]
        renting.choice = AUTO
        renting.queued_s = pool.now
        renting.undecided = 0
        renting.offer = -1
        renting.speculated = 0
        renting.lost = 0
    return slot


@kernel
def enqueue(state: NodesState, slot: int) -> None:
    """The job waits, with the key that it has."""
    cluster = state.cluster[0]
    note_length(state, slot)
    insert(state, slot)
    state.newcomers[cluster.arrived % len(state.newcomers)] = slot
    cluster.arrived += 1


@kernel
def note_length(state: NodesState, slot: int) -> None:
    """Note how long a waiting job takes at most once it starts: by the limit of a run, else as is believed."""
    need = state.needs[slot]
    lasts_s = need.limit_s
    if lasts_s == 0.0:
        now = state.pool[0].now
        lasts_s = restart_s(state, slot) + need.launch_s + need.init_s + believed_left(state, slot, now)
    need.lasts_s = max(LEAST_S, lasts_s)


@kernel
def start(state: NodesState, slot: int, count: int) -> None:
    """Start a job, already out of the queue, on the nodes of state.plan[:count]."""
    need = state.needs[slot]
    for at in range(count):
        choice = state.plan[at]
        take_on(state, state.nodes[choice.node], choice.node, need, choice.tasks)
        put(state, slot, choice)
    begin(state, slot)


@kernel
def finish(state: NodesState, slot: int) -> None:
    """The job is done: its resources and its slot are free."""
    pool = state.pool[0]
    pool.events += 1
    _record_segments(state, slot)
    close_account(state, slot, pool.now)
    need = state.needs[slot]
    if need.demands > 0 and need.placed < 0:  # it ran on dedicated machines
        task_s = state.progress[slot].attained / state.jobs[slot].units * need.tasks
        count_in(state, need, state.offers[state.rentings[slot].offer].family, task_s)
    _leave_nodes(state, slot)
    pool.active -= 1
    state.free[pool.free] = slot
    pool.free += 1


@kernel
def tell_to_leave(state: NodesState, slot: int, preemptor: int) -> None:
    """The job stops working, and has left its nodes when its grace period is over."""
    now, need, progress = state.pool[0].now, state.needs[slot], state.progress[slot]
    eviction = state.evictions[slot]
    _record_segments(state, slot)
    if now > progress.since:
        bring_up_to_date(state, slot, now)
        progress.since = now
    rest(state, slot)
    progress.preemptions += 1
    eviction.preempted_s = now
    eviction.vacate_at = now + need.grace_s
    eviction.leaves = 1
    note_room_at(state, need.placed)
    eviction.preemptor = preemptor
    set_job_timer(state, slot)
    state.cluster[0].changed += 1
    note(state, PREEMPT, slot, -1, need.tasks, eviction.vacate_at, preemptor)


@kernel
def vacate(state: NodesState, slot: int) -> None:
    """The job has left its nodes: it waits again, once it is put into the queue."""
    pool, need, progress = state.pool[0], state.needs[slot], state.progress[slot]
    eviction = state.evictions[slot]
    pool.events += 1
    _record_segments(state, slot)
    progress.attained = attained(state, slot, pool.now)
    progress.since = pool.now
    job = state.jobs[slot]
    job.attained = progress.attained
    if progress.attained == 0.0:
        progress.started_s = math.nan  # it was given its resources and lost them within one instant
    _leave_nodes(state, slot)
    eviction.vacated_s = pool.now
    need.freed_seen = -1


@kernel
def nominate(state: NodesState, slot: int, count: int) -> None:
    """Bind a job to the nodes of state.plan[:count]; state.sketch has the share that victims will free.

    That share is owed; the rest is taken at once, so that no other job can have it.
    """
    need = state.needs[slot]
    eviction = state.evictions[slot]
    for at in range(count):
        choice = state.plan[at]
        node, sketch = state.nodes[choice.node], state.sketch[choice.node]
        number = put_bound(state, slot, choice)
        placement = state.placements[number]
        gpu, cpu, memory = demand_on(state, need, choice.node)
        # The sketch has the free resources and those of the victims: the difference is the victims'.
        placement.owed_gpu = min(choice.tasks * gpu, sketch.free_gpu - node.free_gpu)
        placement.owed_cpu = min(choice.tasks * cpu, sketch.free_cpu - node.free_cpu)
        placement.owed_memory = min(choice.tasks * memory, sketch.free_memory - node.free_memory)
        node.free_gpu -= choice.tasks * gpu - placement.owed_gpu
        node.free_cpu -= choice.tasks * cpu - placement.owed_cpu
        node.free_memory -= choice.tasks * memory - placement.owed_memory
        if placement.owed_gpu > 0 or placement.owed_cpu > 0 or placement.owed_memory > 0:
            eviction.awaited += 1
    need.alarm_s = math.inf  # it waits for these, however long
    set_job_timer(state, slot)
    add_bound(state, slot)
    state.cluster[0].changed += 1
    note_places(state, BIND, slot, need.bound, 0.0)


@kernel
def book(state: NodesState, slot: int, count: int, start_s: float) -> None:
    """Promise a waiting job, which has no reservation, the nodes of state.plan[:count] from `start_s` on."""
    need = state.needs[slot]
    for at in range(count):
        need.reservation = _new_placement(state, state.plan[at], need.reservation)
    need.reserved_s = start_s
    note_places(state, RESERVE, slot, need.reservation, start_s)


@kernel
def unbook(state: NodesState, slot: int) -> None:
    """Take a job's reservation back: others may have the room."""
    note_room_at(state, state.needs[slot].reservation)
    _drop_reservation(state, slot)


@kernel
def _drop_reservation(state: NodesState, slot: int) -> None:
    need = state.needs[slot]
    at = need.reservation
    while at >= 0:
        at = free_placement(state.placements, state.cluster[0], at)
    if need.reservation >= 0:
        note(state, RESERVE, slot, -1, 0, math.inf, -1)
    need.reservation = -1
    need.reserved_s = math.inf


@kernel
def start_as_booked(state: NodesState, slot: int) -> None:
    """Start a job, already out of the queue, on the nodes of its reservation."""
    count, at = 0, state.needs[slot].reservation
    while at >= 0:
        choice, placement = state.plan[count], state.placements[at]
        choice.node = placement.node
        choice.tasks = placement.tasks
        count += 1
        at = placement.follows
    _drop_reservation(state, slot)
    start(state, slot, count)


@kernel
def give_all(state: NodesState, nodes: Records[Node], slot: int, first: int = 0) -> None:
    """Add what the job holds to a sketch of the nodes, which begins at `first`."""
    at = state.needs[slot].placed
    while at >= 0:
        placement = state.placements[at]
        node = nodes[first + placement.node]
        give_on(state, node, placement.node, state.needs[slot], placement.tasks)
        at = placement.follows


@kernel
def would_end(state: NodesState, slot: int) -> float:
    """When a waiting job would be done if it started now, as believed, s."""
    now = state.pool[0].now
    return now + restart_s(state, slot) + believed_left(state, slot, now)


@kernel
def restart_s(state: NodesState, slot: int) -> float:
    """Seconds that a waiting job loses when it starts: none the first time."""
    return state.pool[0].restart_s if state.progress[slot].attained > 0.0 else 0.0


@kernel
def put(state: NodesState, slot: int, choice: Choice) -> int:
    """Note that tasks of the job are on a node; returns the placement's number."""
    need = state.needs[slot]
    need.placed = _new_placement(state, choice, need.placed)
    _enter_node(state, need.placed, slot)
    return need.placed


@kernel
def put_bound(state: NodesState, slot: int, choice: Choice) -> int:
    """Note that tasks of the job are bound to a node; returns the placement's number."""
    need = state.needs[slot]
    need.bound = _new_placement(state, choice, need.bound)
    _enter_node(state, need.bound, slot)
    return need.bound


@kernel
def drop_placement(state: NodesState, number: int) -> int:
    """Take a placement off its node; returns the one that followed it in the job's list."""
    placement = state.placements[number]
    machine = state.machines[placement.node]
    if placement.before >= 0:
        state.placements[placement.before].after = placement.after
    else:
        machine.residents = placement.after
        if placement.after < 0:
            machine.empty_s = state.pool[0].now
    if placement.after >= 0:
        state.placements[placement.after].before = placement.before
    if machine.state == DRAINING and machine.residents < 0:
        go(state, placement.node)
    return free_placement(state.placements, state.cluster[0], number)


@kernel
def _enter_node(state: NodesState, number: int, slot: int) -> None:
    """Put a placement, which is on no node's list yet, first on its node's list, as this job's."""
    placement = state.placements[number]
    machine = state.machines[placement.node]
    placement.slot = slot
    placement.unready = 0
    placement.before = -1
    placement.after = machine.residents
    if machine.residents >= 0:
        state.placements[machine.residents].before = number
    elif machine.up_s < math.inf:
        machine.idle_s += state.pool[0].now - machine.empty_s
    machine.residents = number


@kernel
def _new_placement(state: NodesState, choice: Choice, follows: int) -> int:
    return new_placement(state.placements, state.cluster[0], choice.node, choice.tasks, follows)


@kernel
def begin(state: NodesState, slot: int) -> None:
    """A job that has its placements, or is bound to some on which there is room now, starts to work."""
    pool, progress, need, job = state.pool[0], state.progress[slot], state.needs[slot], state.jobs[slot]
    eviction = state.evictions[slot]
    now = pool.now
    if need.bound >= 0:
        need.placed = need.bound
        need.bound = -1
        eviction.claims = 0
    if math.isnan(progress.started_s):
        progress.started_s = now
    progress.stall = restart_s(state, slot) + need.launch_s + need.init_s
    progress.since = now
    need.began_s = now
    if state.cluster[0].observed == 1 and need.placed >= 0:
        count_running(state, slot, 1)
    job.units = float(job.max_units)
    add_holder(state, slot)
    if not math.isnan(eviction.vacated_s):
        _record_absence(state, slot)
    need.alarm_s = math.inf
    need.contends = 1
    if len(state.interference) > 0 or need.launch_s > 0.0:
        need.contends = 0
        need.alarm_s = now + need.launch_s
        need.alarm = LAUNCHED
    set_to_work(state, slot, speed_of(state, slot), now)
    set_job_timer(state, slot)
    state.cluster[0].changed += 1
    note_places(state, START, slot, need.placed, 0.0)


@kernel
def contend(state: NodesState, slot: int) -> None:
    """The job's launch is complete: from now on it slows its neighbours."""
    need = state.needs[slot]
    need.contends = 1
    need.alarm_s = math.inf
    state.pool[0].events += 1
    re_rate_around(state, slot)
    set_job_timer(state, slot)


@kernel
def _leave_nodes(state: NodesState, slot: int) -> None:
    """Give back what the job holds: first what its preemptor is owed, the rest to all.

    A preemptor that is owed nothing any more starts at once.
    """
    pool, cluster, need = state.pool[0], state.cluster[0], state.needs[slot]
    eviction = state.evictions[slot]
    # A job that began at this instant was planned to hold its nodes beyond it, however short (`profile.make_plan`).
    if believed_end(state, slot) > pool.now or state.progress[slot].since == pool.now:
        cluster.must_replan = cluster.must_replan or ROOM_FREED
    contended = need.contends == 1 and len(state.interference) > 0
    need.contends = 0
    eviction.leaves = 0
    at = need.placed
    if cluster.observed == 1 and at >= 0:
        count_running(state, slot, -1)
    while at >= 0:
        placement = state.placements[at]
        number = placement.node
        give_on(state, state.nodes[number], number, need, placement.tasks)
        count_held(state, need, number, placement.tasks, pool.now - need.began_s)
        state.machines[number].task_s += placement.tasks * (pool.now - need.began_s)
        if eviction.preemptor >= 0:
            _pay(state, eviction.preemptor, number, need, placement.tasks)
        note_vacated(state, number)
        at = drop_placement(state, at)
        pay_claims(state, number)
        if contended:
            re_rate(state, number)
    need.placed = -1
    state.jobs[slot].units = 0.0
    drop_holder(state, slot)
    cluster.changed += 1
    preemptor = eviction.preemptor
    eviction.preemptor = -1
    eviction.vacate_at = math.inf
    if preemptor >= 0 and state.evictions[preemptor].awaited == 0:
        drop_bound(state, preemptor)
        begin(state, preemptor)
        # Victims whose room it does not need after all make room for no particular job.
        for at in range(pool.holders):
            if state.evictions[state.holders[at]].preemptor == preemptor:
                state.evictions[state.holders[at]].preemptor = -1


@kernel
def _pay(state: NodesState, preemptor: int, number: int, victim: Need, tasks: int) -> None:
    """Hand the resources that a victim has just freed on a node to its preemptor, up to the amount owed."""
    node, at = state.nodes[number], state.needs[preemptor].bound
    given_gpu, given_cpu, given_memory = demand_on(state, victim, number)
    while at >= 0:
        placement = state.placements[at]
        if placement.node == number:
            gpu = min(placement.owed_gpu, tasks * given_gpu)
            cpu = min(placement.owed_cpu, tasks * given_cpu)
            memory = min(placement.owed_memory, tasks * given_memory)
            was_owed = is_owed(placement)
            placement.owed_gpu -= gpu
            placement.owed_cpu -= cpu
            placement.owed_memory -= memory
            node.free_gpu -= gpu
            node.free_cpu -= cpu
            node.free_memory -= memory
            if was_owed and not is_owed(placement):
                state.evictions[preemptor].awaited -= 1
        at = placement.follows


@kernel
def pay_claims(state: NodesState, number: int) -> None:
    """Hand a node's free resources to jobs that are bound to it and claim them, in the order in which they were bound.

    Jobs that now have all their nodes begin, or get the signal to leave the nodes that they still hold.
    """
    machine, node = state.machines[number], state.nodes[number]
    if machine.claims == 0:
        return
    at = machine.residents
    while at >= 0 and state.placements[at].after >= 0:
        at = state.placements[at].after
    while at >= 0:
        placement = state.placements[at]
        before, slot = placement.before, placement.slot
        eviction = state.evictions[slot]
        if eviction.claims == 1 and is_owed(placement):
            gpu = min(placement.owed_gpu, node.free_gpu)
            cpu = min(placement.owed_cpu, node.free_cpu)
            memory = min(placement.owed_memory, node.free_memory)
            placement.owed_gpu -= gpu
            placement.owed_cpu -= cpu
            placement.owed_memory -= memory
            node.free_gpu -= gpu
            node.free_cpu -= cpu
            node.free_memory -= memory
            if machine.up_s <= state.pool[0].now:
                placement.unready = 0
            if not is_owed(placement):
                eviction.awaited -= 1
                machine.claims -= 1
                if eviction.awaited == 0:
                    settle_binding(state, slot)
        at = before


@kernel
def settle_binding(state: NodesState, slot: int) -> None:
    """A job has room on all nodes that it is bound to: it begins there, or gets the signal to leave its old nodes."""
    need = state.needs[slot]
    eviction = state.evictions[slot]
    if need.holder < 0:
        drop_bound(state, slot)
        begin(state, slot)
    elif eviction.moves_when_free == 1:
        eviction.moves_when_free = 0
        move_out(state, slot)


@kernel
def move_out(state: NodesState, slot: int) -> None:
    """A job that is bound to other nodes stops working, and has left its present ones after `stop_s`."""
    need, grace_s = state.needs[slot], state.needs[slot].grace_s
    need.grace_s = need.stop_s
    tell_to_leave(state, slot, -1)
    need.grace_s = grace_s
    state.progress[slot].preemptions -= 1  # it moves, and waits for nothing else
    state.cluster[0].migrations += 1


@kernel
def _record_segments(state: NodesState, slot: int) -> None:
    """Note that the job's present stay, or its grace period, ends now, if segments are recorded and it lasted."""
    pool, need = state.pool[0], state.needs[slot]
    eviction = state.evictions[slot]
    since_s = need.began_s  # `progress.since` moves with every change of its speed
    if eviction.preempted_s > since_s:
        since_s = eviction.preempted_s
    if len(state.segments) == 0 or pool.now <= since_s:
        return
    at = need.placed
    while at >= 0:
        placement = state.placements[at]
        segment = state.segments[pool.segments]
        segment.row = state.progress[slot].row
        segment.start_s = since_s
        segment.end_s = pool.now
        segment.units = state.jobs[slot].units * placement.tasks / need.tasks
        pool.segments += 1
        at = placement.follows


@kernel
def _record_absence(state: NodesState, slot: int) -> None:
    """Note how long a job that was preempted has been away, if absences are recorded."""
    eviction, cluster = state.evictions[slot], state.cluster[0]
    if len(state.absences) > 0:
        absence = state.absences[cluster.absences]
        absence.row = state.progress[slot].row
        absence.preempted_s = eviction.preempted_s
        absence.vacated_s = eviction.vacated_s
        absence.resumed_s = state.pool[0].now
        cluster.absences += 1
    eviction.vacated_s = math.nan
