"""The life of a rented machine: requested, booting, set up, up, draining, going, gone; it may fail or be taken away.

A machine is charged for by its lease, which is recorded when the machine has gone (`State.leases`); the bill is worked
out from the leases, exactly (`cluster.billing`). Policies decide by `paid_until_s`.
"""

from __future__ import annotations

import math

from betimes.core.closings import see_closings, up_until
from betimes.core.instruction import CLOSE, RELEASE, RENT
from betimes.core.nodes.columns import OWNED, NodesState, NodesView
from betimes.core.nodes.log import note
from betimes.core.nodes.timers import BOOTED, GONE, NOTICED, RECLAIMED, UP, set_machine_timer
from betimes.core.status import NEED_FATES, NEED_NODES
from betimes.kernels import kernel

UNUSED, BOOTING, SETTING_UP, RUNNING, DRAINING, GOING = range(6)
assert RUNNING == OWNED

RELEASED, FAILED, TAKEN_AWAY = range(3)

NO_SUCH_OFFER = -2
NONE_LEFT = -3  # the offer's capacity, or the quota, is used up


@kernel
def rent(state: NodesState, offer: int) -> int:
    """Ask for a machine; returns its number, or why there is none."""
    cluster = state.cluster[0]
    if offer < 0 or offer >= len(state.offers):
        return NO_SUCH_OFFER
    terms = state.offers[offer]
    if terms.rented >= terms.capacity or cluster.rented >= cluster.quota:
        return NONE_LEFT
    if terms.drawn == 1 and terms.asked >= terms.known:
        return NEED_FATES
    now = state.pool[0].now
    number = take_number(state, offer, now)
    if number == NEED_NODES:
        return NEED_NODES
    machine, boot_s = state.machines[number], terms.boot_s
    if terms.drawn == 1:
        width = len(state.fates) // len(state.offers)
        fate = state.fates[offer * width + machine.serial % width]
        boot_s = fate.boot_s
        machine.fails = fate.fails
        machine.age_s = fate.age_s
    expect(state, number, now + boot_s, BOOTED)
    note(state, RENT, -1, number, 0, now + boot_s + terms.setup_s, -1)
    return number


@kernel
def unused_number(state: NodesState) -> int:
    """The first unused machine number; NEED_NODES: there is none."""
    for number in range(len(state.machines)):
        if state.machines[number].state == UNUSED:
            return number
    return NEED_NODES


@kernel
def take_number(state: NodesState, offer: int, requested_s: float) -> int:
    """The number of a new machine of an offer, which boots; NEED_NODES: there is none."""
    number = unused_number(state)
    if number == NEED_NODES:
        return NEED_NODES
    machine, node, terms = state.machines[number], state.nodes[number], state.offers[offer]
    machine.state = BOOTING
    machine.offer = offer
    machine.kind = -1 - offer
    machine.family = terms.family
    machine.serial = terms.asked
    machine.requested_s = requested_s
    machine.booted_s = math.inf
    machine.up_s = math.inf
    machine.fails = 0
    machine.age_s = math.inf
    machine.residents = -1
    machine.claims = 0
    machine.idle_s = machine.task_s = 0.0
    terms.asked += 1
    terms.rented += 1
    state.cluster[0].rented += 1
    node.gpu = node.free_gpu = terms.gpu
    node.cpu = node.free_cpu = terms.cpu
    node.memory = node.free_memory = terms.memory
    node.labels = terms.labels
    node.up = 0
    return number


@kernel
def boot(state: NodesState, number: int) -> bool:
    """The machine has booted, and is set up from now on; False: it has failed, and `end` is to follow."""
    machine, now = state.machines[number], state.pool[0].now
    if machine.fails == 1:
        return False
    machine.booted_s = now
    machine.state = SETTING_UP
    expect(state, number, now + state.offers[machine.offer].setup_s, UP)
    return True


@kernel
def bring_up(state: NodesState, number: int) -> None:
    """The machine takes tasks from now on; the caller then looks at the jobs that are bound to it."""
    machine, now = state.machines[number], state.pool[0].now
    machine.up_s = machine.empty_s = now
    machine.state = RUNNING
    state.nodes[number].up = 1
    expect(state, number, now + machine.age_s, NOTICED)
    note_vacated(state, number)
    state.cluster[0].changed += 1


@kernel
def release(state: NodesState, number: int) -> None:
    """Give a rented machine back as soon as it is empty; it takes no new tasks from now on."""
    machine = state.machines[number]
    note(state, RELEASE, -1, number, 0, 0.0, -1)
    machine.state = DRAINING
    machine.cause = RELEASED
    state.nodes[number].up = 0
    state.cluster[0].changed += 1
    if machine.residents < 0:
        go(state, number)


@kernel
def go(state: NodesState, number: int) -> None:
    """A machine on which there is nothing goes."""
    machine, now = state.machines[number], state.pool[0].now
    if machine.up_s < math.inf:
        machine.idle_s += now - machine.empty_s
    machine.state = GOING
    expect(state, number, now + state.offers[machine.offer].release_s, GONE)


@kernel
def give_notice(state: NodesState, number: int) -> None:
    """The machine will be taken away: it takes no new tasks from now on."""
    machine = state.machines[number]
    state.nodes[number].up = 0
    note(state, CLOSE, -1, number, 0, state.pool[0].now, -1)
    machine.cause = TAKEN_AWAY
    expect(state, number, state.pool[0].now + state.offers[machine.offer].notice_s, RECLAIMED)


@kernel
def end(state: NodesState, number: int, cause: int) -> None:
    """End an empty machine: its lease is recorded, and its number is free."""
    machine, cluster = state.machines[number], state.cluster[0]
    if len(state.leases) > 0:
        lease = state.leases[cluster.leases]
        cluster.leases += 1
        lease.offer = machine.offer
        lease.count = 1
        lease.serial = machine.serial
        lease.node = number
        lease.job = -1
        lease.generation = machine.generation
        lease.requested_s = machine.requested_s
        lease.booted_s = machine.booted_s
        lease.up_s = machine.up_s
        lease.ended_s = state.pool[0].now
        lease.idle_s = machine.idle_s
        lease.task_s = machine.task_s
        lease.cause = cause
    state.offers[machine.offer].rented -= 1
    cluster.rented -= 1
    node = state.nodes[number]
    node.up = 0
    node.gpu = node.cpu = node.memory = 0
    node.free_gpu = node.free_cpu = node.free_memory = 0
    machine.state = UNUSED
    machine.offer = -1
    machine.generation += 1
    expect(state, number, math.inf, GONE)
    cluster.changed += 1


@kernel
def since_s(state: NodesState | NodesView, number: int) -> float:
    """The time from which a rented machine is charged for; infinity: not yet."""
    machine = state.machines[number]
    return machine.requested_s if state.offers[machine.offer].from_request == 1 else machine.booted_s


@kernel
def paid_until_s(state: NodesState | NodesView, number: int) -> float:
    """The time until which a rented machine costs no more: as in `cluster.billing`, to a float's accuracy."""
    terms, now, begin_s = (
        state.offers[state.machines[number].offer],
        state.pool[0].now,
        since_s(state, number),
    )
    if begin_s == math.inf:
        return math.inf
    step_s = terms.bill_step_s
    committed_s = terms.min_bill_s
    if step_s > 0.0:
        committed_s = math.ceil(terms.min_bill_s / step_s) * step_s
    if now <= begin_s + committed_s:
        return begin_s + committed_s
    if step_s == 0.0:
        return now
    return begin_s + committed_s + math.ceil((now - begin_s - committed_s) / step_s) * step_s


@kernel
def see_ends(state: NodesState) -> None:
    """Let nodes take work until they close, for maintenance or as their lease ends (`core.closings`)."""
    now, lease_s = state.pool[0].now, state.cluster[0].lease_s
    see_closings(state.nodes, state.closings, now, 0)
    if lease_s == math.inf:
        return
    for number in range(len(state.machines)):
        machine, node = state.machines[number], state.nodes[number]
        if machine.offer >= 0 and node.up > 0:
            node.up = up_until(now, machine.requested_s + lease_s)


@kernel
def note_vacated(state: NodesState, number: int) -> None:
    """Note that jobs without room before may find some on this node."""
    cluster = state.cluster[0]
    state.vacated[cluster.freed % len(state.vacated)] = number
    cluster.freed += 1


@kernel
def note_room_at(state: NodesState, at: int) -> None:
    """The same for the nodes of a job's placements, from this one on, where others may have their turn earlier."""
    while at >= 0:
        note_vacated(state, state.placements[at].node)
        at = state.placements[at].follows


@kernel
def expect(state: NodesState, number: int, at_s: float, kind: int) -> None:
    """Something is due for the machine at `at_s`; infinity: nothing is."""
    machine = state.machines[number]
    machine.due_s = at_s
    machine.due = kind
    set_machine_timer(state, number)
