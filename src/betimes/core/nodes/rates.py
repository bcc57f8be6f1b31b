"""The speed of a job on its machines, next to its neighbours there: only residents of changed machines are looked at.

The speed of a task is that of its workload on the hardware, and that of its job on the machine's family, times its
speeds next to each of the others on its node; a job works at the speed of its slowest task. Source: Eva (EuroSys'25),
sections 4.2 and 4.3; spec/eva.md 1.2 and 2.4.
"""

from __future__ import annotations

import math

from betimes.core.nodes.columns import NodesState
from betimes.core.nodes.holders import holds
from betimes.core.nodes.timers import set_job_timer
from betimes.core.work import bring_up_to_date, set_to_work
from betimes.kernels import kernel


@kernel
def speed_of(state: NodesState, slot: int) -> float:
    """The speed of a job on the nodes that it holds; alone on machines of the reference it is 1."""
    need = state.needs[slot]
    has_workload = need.workload >= 0 and (len(state.interference) > 0 or len(state.hardware) > 0)
    if not has_workload and need.demands == 0:
        return 1.0
    if need.rented > 0:  # for the job alone
        family = state.offers[state.rentings[slot].offer].family
        return 1.0 if need.demands == 0 else state.demands[need.demands + family].speed
    slowest, at = math.inf, need.placed
    while at >= 0:
        placement = state.placements[at]
        machine = state.machines[placement.node]
        speed = 1.0 if need.demands == 0 else state.demands[need.demands + machine.family].speed
        if has_workload and len(state.hardware) > 0 and machine.offer >= 0:
            speed *= state.hardware[need.workload, machine.offer]
        if has_workload and len(state.interference) > 0:
            speed *= _beside(state, slot, machine.residents)
        slowest = min(slowest, speed)
        at = placement.follows
    return slowest if slowest < math.inf else 1.0


@kernel
def _beside(state: NodesState, slot: int, first: int) -> float:
    """The speed of a job's task next to the residents of a machine (a list, from the first on)."""
    need, speed, other = state.needs[slot], 1.0, first
    while other >= 0:
        neighbour = state.placements[other]
        theirs = state.needs[neighbour.slot]
        if theirs.contends == 1 and theirs.workload >= 0 and theirs.placed >= 0:
            # Of its own tasks there, each is next to all but itself.
            count = neighbour.tasks if neighbour.slot != slot else neighbour.tasks - 1
            if count > 0 and holds(state, neighbour.slot, other):
                speed *= state.interference[need.workload, theirs.workload] ** count
        other = neighbour.after
    return speed


@kernel
def re_rate(state: NodesState, node: int) -> None:
    """A task has begun or ceased to contend on the node: all jobs that work there go on at their new speeds."""
    if len(state.interference) == 0:
        return
    at = state.machines[node].residents
    while at >= 0:
        re_rate_job(state, state.placements[at].slot)
        at = state.placements[at].after


@kernel
def re_rate_job(state: NodesState, slot: int) -> None:
    """A job that works goes on at its present speed."""
    progress, now = state.progress[slot], state.pool[0].now
    if state.needs[slot].holder >= 0 and state.evictions[slot].vacate_at == math.inf:
        speed = speed_of(state, slot)
        if speed != progress.rate:
            if now > progress.since:
                bring_up_to_date(state, slot, now)
                progress.since = now
            set_to_work(state, slot, speed, now)
            set_job_timer(state, slot)


@kernel
def re_rate_around(state: NodesState, slot: int) -> None:
    """The job has begun or ceased to contend on the nodes that it holds."""
    at = state.needs[slot].placed
    while at >= 0:
        re_rate(state, state.placements[at].node)
        at = state.placements[at].follows
