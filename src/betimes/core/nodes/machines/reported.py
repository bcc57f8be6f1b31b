"""Machines that come and go as reported to the live service: rented ones by a cloud, owned ones by their operator.

A rented machine is up or lost when that is reported, not when expected. Until then its timers hold the expected times,
for play-outs; `put_off` keeps them from going off.
"""

from __future__ import annotations

import math

from betimes.core.nodes.columns import ANYTHING, OWNED, NodesState
from betimes.core.nodes.machines.rented import (
    GOING,
    UNUSED,
    bring_up,
    end,
    expect,
    note_vacated,
    take_number,
    unused_number,
)
from betimes.core.nodes.timers import BOOTED, GONE, UP, set_job_timer
from betimes.core.nodes.transitions import pay_claims
from betimes.core.status import NEED_NODES
from betimes.kernels import kernel

EARLY_OR_LATE_S = 1e-6


@kernel
def resume_machine(state: NodesState, offer: int, requested_s: float, up_s: float) -> int:
    """Take over a rented machine, up since `up_s` (infinity: it boots); returns its number, or NEED_NODES."""
    number = take_number(state, offer, requested_s)
    if number == NEED_NODES:
        return NEED_NODES
    machine, terms = state.machines[number], state.offers[offer]
    if up_s < math.inf:
        bring_up(state, number)
        machine.booted_s = up_s - terms.setup_s
        machine.up_s = up_s
    else:
        expect(state, number, max(state.pool[0].now, requested_s + terms.boot_s), BOOTED)
    return number


@kernel
def report_up(state: NodesState, number: int) -> None:
    """A machine takes tasks from now on, earlier or later than expected."""
    machine, now = state.machines[number], state.pool[0].now
    setup_s = state.offers[machine.offer].setup_s
    # Instants that come back as they were expected are kept to the last bit.
    if not abs(machine.booted_s + setup_s - now) <= EARLY_OR_LATE_S:
        machine.booted_s = now - setup_s
    state.pool[0].events += 1
    bring_up(state, number)
    pay_claims(state, number)


@kernel
def report_gone(state: NodesState, number: int, cause: int) -> None:
    """An empty machine has gone: lost (`FAILED` or `TAKEN_AWAY`), or given back (`RELEASED`)."""
    state.pool[0].events += 1
    end(state, number, cause)


@kernel
def report_refused(state: NodesState, number: int, again_s: float) -> None:
    """An ordered machine was refused; until `again_s` it counts as one that goes, and no tick is due."""
    state.machines[number].state = GOING
    expect(state, number, again_s, GONE)


@kernel
def put_off(state: NodesState, until_s: float, again_s: float) -> None:
    """Machines due to be up, and jobs due to have left, by `until_s` but not reported so are expected at `again_s`."""
    for at in range(state.pool[0].holders):
        slot = state.holders[at]
        if state.evictions[slot].vacate_at <= until_s:
            state.evictions[slot].vacate_at = again_s
            set_job_timer(state, slot)
    for number in range(len(state.machines)):
        machine = state.machines[number]
        if machine.offer < 0 or machine.due_s > until_s:
            continue
        # With a time of set-up the boot is no more than the beginning of that.
        if machine.due == UP or (machine.due == BOOTED and state.offers[machine.offer].setup_s == 0.0):
            expect(state, number, again_s, machine.due)


@kernel
def add_owned(state: NodesState, gpu: int, cpu: int, memory: int, kind: int, family: int, labels: int) -> int:
    """Add an owned machine that is up, with these resources and labels (`Node.labels`); its number, or NEED_NODES.

    kind, family: as in `Machine`.
    """
    number, cluster = unused_number(state), state.cluster[0]
    if number == NEED_NODES:
        return NEED_NODES
    machine, node = state.machines[number], state.nodes[number]
    machine.state = OWNED
    machine.kind = kind
    machine.family = family
    machine.residents = -1
    machine.claims = 0
    node.gpu = node.free_gpu = gpu
    node.cpu = node.free_cpu = cpu
    node.memory = node.free_memory = memory
    node.labels = labels
    node.up = 1
    cluster.owned_cpu += cpu
    cluster.owned_memory += memory
    note_vacated(state, number)
    cluster.changed += 1
    cluster.must_replan = ANYTHING
    return number


@kernel
def remove_owned(state: NodesState, number: int) -> bool:
    """Remove an owned machine and free its number; False: jobs are on it or bound to it, and it stays."""
    machine, node, cluster = state.machines[number], state.nodes[number], state.cluster[0]
    if machine.residents >= 0:
        return False
    cluster.owned_cpu -= node.cpu
    cluster.owned_memory -= node.memory
    node.up = 0
    node.gpu = node.cpu = node.memory = 0
    node.free_gpu = node.free_cpu = node.free_memory = 0
    machine.state = UNUSED
    machine.generation += 1
    cluster.changed += 1
    cluster.must_replan = ANYTHING
    return True
