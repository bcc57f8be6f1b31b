"""Decisions from outside: checked against the present state, and carried out.

A planner hands in a batch. Neighbouring lines of START, BIND or MIGRATE about one job are one gang, which is carried
out whole or not at all. `node` is a machine's number, or -2 - k for the machine that line k of the batch rents; `seq`
is the job's order of submission. A line that cannot be carried out changes nothing and gets a reason
(`Instruction.verdict`); the others count nevertheless.

START: a waiting job starts at once. BIND: a waiting job starts once its machines are up and the jobs still there have
made room. MIGRATE: a running job moves to other nodes; with value 1 it stays until these are up and have room, else
it leaves at once. PREEMPT: it leaves and waits. RENT, RELEASE: a machine, which goes when it is empty; a machine that
would be rented only for jobs that are gone is not rented. OPEN, CLOSE: a node takes new tasks or none.
"""

from __future__ import annotations

import math

from betimes.core.instruction import BIND, CLOSE, MIGRATE, OPEN, PREEMPT, RELEASE, RENT, START, Instruction
from betimes.core.nodes.columns import NodesState
from betimes.core.nodes.demands import demand_on, tasks_that_fit
from betimes.core.nodes.external_events import open_node
from betimes.core.nodes.holders import add_bound, holds, is_owed
from betimes.core.nodes.log import note_places, room_for_a_decision
from betimes.core.nodes.machines.rented import (
    DRAINING,
    GOING,
    NONE_LEFT,
    RUNNING,
    UNUSED,
    release,
    rent,
    see_ends,
)
from betimes.core.nodes.queue import remove
from betimes.core.nodes.transitions import move_out, put_bound, settle_binding, start, tell_to_leave
from betimes.core.placements import stays_open
from betimes.core.shares import is_over_limit
from betimes.core.status import DONE, NEED_FATES, NEED_NODES
from betimes.kernels import Ints, Records, entry, kernel

NO_SUCH_JOB = 1
NO_SUCH_MACHINE = 2
DOES_NOT_WAIT = 3
DOES_NOT_RUN = 4
NO_ROOM = 5
NOT_THE_GANG = 6
NOT_UP = 7
IS_OWNED = 8
NOTHING_TO_RENT = 9
NO_SUCH_OFFER = 10
UNKNOWN = 11
IS_AWAITED = 12
FOR_NOBODY = 13
LACKS_LABEL = 14
CLOSES = 15
OVER_LIMIT = 16

REASONS = {
    NO_SUCH_JOB: "there is no such job any more",
    NO_SUCH_MACHINE: "there is no such machine any more",
    DOES_NOT_WAIT: "the job does not wait",
    DOES_NOT_RUN: "the job does not run",
    NO_ROOM: "the machine has no room for the tasks",
    NOT_THE_GANG: "these are not all tasks of the job, each once",
    NOT_UP: "the machine is not up",
    IS_OWNED: "the machine is owned, not rented",
    NOTHING_TO_RENT: "the offer's capacity or the quota is used up",
    NO_SUCH_OFFER: "there is no such offer",
    UNKNOWN: "a planner cannot do that",
    IS_AWAITED: "jobs are bound to the machine, which is not up yet",
    FOR_NOBODY: "the jobs that the machine is for have ended",
    LACKS_LABEL: "the machine lacks a label that the job requires",
    CLOSES: "the machine closes for maintenance, or its lease ends, before the job would be done",
    OVER_LIMIT: "the running jobs of its user hold as much as they may",
}


@entry
@kernel
def carry_out(state: NodesState, batch: Records[Instruction], at: Ints) -> int:
    """Carry out the batch from line at[0] on; DONE, or what the state needs before the same call goes on."""
    if at[0] == 0:
        see_ends(state)
        for k in range(len(batch)):
            if _leaves(batch[k]) and _is_live(state, batch[k]):
                state.evictions[batch[k].job].leaves = 1
        _count_users(state, batch)
    while at[0] < len(batch):
        line = batch[at[0]]
        room = room_for_a_decision(state)
        if room != DONE:
            return room
        last = at[0] + 1
        if line.what in (START, BIND, MIGRATE):
            while last < len(batch) and batch[last].what == line.what and batch[last].job == line.job:
                last += 1
            verdict = _place(state, batch, at[0], last)
        elif line.what == RENT and line.tasks > 0 and line.value == 0.0:
            verdict = FOR_NOBODY
            line.node = -1
        elif line.what == RENT:
            number = rent(state, line.offer)
            if number in (NEED_NODES, NEED_FATES):
                return number
            verdict = DONE
            if number < 0:
                verdict = NOTHING_TO_RENT if number == NONE_LEFT else NO_SUCH_OFFER
            line.node = number
        elif line.what == PREEMPT:
            verdict = _preempt(state, line)
        elif line.what in (RELEASE, OPEN, CLOSE):
            verdict = _change_machine(state, batch, line)
        else:
            verdict = UNKNOWN
        if verdict != DONE and _leaves(line) and _is_live(state, line):
            state.evictions[line.job].leaves = 0
        for k in range(at[0], last):
            batch[k].verdict = verdict
        at[0] = last
    return DONE


@kernel
def _count_users(state: NodesState, batch: Records[Instruction]) -> None:
    """Write into each RENT the number of lines for its machine (`tasks`), and of their jobs that live (`value`)."""
    for k in range(len(batch)):
        at = -2 - batch[k].node
        if 0 <= at < len(batch) and batch[at].what == RENT:
            batch[at].tasks += 1
            batch[at].value += 1.0 if _is_live(state, batch[k]) else 0.0


@kernel
def _leaves(line: Instruction) -> bool:
    return line.what == MIGRATE or line.what == PREEMPT


@kernel
def _is_live(state: NodesState, line: Instruction) -> bool:
    """Whether the job that a line names is still in its slot."""
    slot = line.job
    return (
        0 <= slot < len(state.progress)
        and state.progress[slot].served_by >= 0
        and state.jobs[slot].seq == line.seq
    )


@kernel
def _preempt(state: NodesState, line: Instruction) -> int:
    if not _is_live(state, line):
        return NO_SUCH_JOB
    need = state.needs[line.job]
    eviction = state.evictions[line.job]
    if need.holder < 0 or eviction.vacate_at < math.inf or need.bound >= 0:
        return DOES_NOT_RUN
    tell_to_leave(state, line.job, -1)
    return DONE


@kernel
def _change_machine(state: NodesState, batch: Records[Instruction], line: Instruction) -> int:
    number = _machine(state, batch, line)
    if number < 0:
        return NO_SUCH_MACHINE
    machine = state.machines[number]
    if line.what == RELEASE:
        if machine.offer < 0:
            return IS_OWNED
        if machine.state in (DRAINING, GOING):
            return NO_SUCH_MACHINE
        if machine.state != RUNNING and machine.residents >= 0:
            return IS_AWAITED
        release(state, number)
        return DONE
    if machine.state != RUNNING:
        return NOT_UP
    open_node(state, number, 1 if line.what == OPEN else 0)
    return DONE


@kernel
def _machine(state: NodesState, batch: Records[Instruction], line: Instruction) -> int:
    """The number of the machine that a line names, -1: it has gone."""
    number, generation = line.node, line.generation
    if number <= -2:
        which = -2 - number
        if which >= len(batch) or batch[which].what != RENT or batch[which].verdict != DONE:
            return -1
        number = batch[which].node
        if number < 0:
            return -1
        generation = state.machines[number].generation
    if number < 0 or number >= len(state.machines):
        return -1
    machine = state.machines[number]
    return number if machine.state != UNUSED and machine.generation == generation else -1


@kernel
def _place(state: NodesState, batch: Records[Instruction], first: int, last: int) -> int:
    """Start, bind or move a job with all its tasks on the nodes of these lines."""
    line, slot = batch[first], batch[first].job
    if not _is_live(state, line):
        return NO_SUCH_JOB
    need = state.needs[slot]
    eviction = state.evictions[slot]
    if line.what == MIGRATE:
        if need.holder < 0 or eviction.vacate_at < math.inf or need.bound >= 0:
            return DOES_NOT_RUN
    elif need.holder >= 0 or need.bound >= 0 or need.reservation >= 0:
        return DOES_NOT_WAIT
    elif is_over_limit(state, slot):
        return OVER_LIMIT
    tasks, count = 0, last - first
    if count > len(state.nodes):
        return NOT_THE_GANG
    for k in range(count):
        wanted = batch[first + k]
        number = _machine(state, batch, wanted)
        if number < 0:
            return NO_SUCH_MACHINE
        machine = state.machines[number]
        for other in range(k):
            if state.plan[other].node == number:
                return NOT_THE_GANG
        if wanted.tasks < 1:
            return NOT_THE_GANG
        if machine.state in (DRAINING, GOING) or (line.what == START and state.nodes[number].up == 0):
            return NOT_UP
        if need.labels & ~state.nodes[number].labels != 0:
            return LACKS_LABEL
        if state.nodes[number].up > 0 and not stays_open(state.nodes[number], need):
            return CLOSES
        if machine.state != RUNNING and need.lasts_s > state.cluster[0].longest_run_s:
            return CLOSES
        if line.what == START:
            if tasks_that_fit(state, state.nodes, number, need) < wanted.tasks:
                return NO_ROOM
        elif not _will_have_room(state, number, slot, wanted.tasks):
            return NO_ROOM
        choice = state.plan[k]
        choice.node = number
        choice.tasks = wanted.tasks
        tasks += wanted.tasks
    if tasks != need.tasks:
        return NOT_THE_GANG
    if line.what == START:
        remove(state, slot)
        start(state, slot, count)
        return DONE
    if line.what == BIND:
        remove(state, slot)
    _bind(state, slot, count)
    note_places(state, line.what, slot, need.bound, line.value)
    if line.what == BIND:
        add_bound(state, slot)
        if eviction.awaited == 0:
            settle_binding(state, slot)
    elif line.value != 1.0:
        move_out(state, slot)
    else:
        eviction.moves_when_free = 1
        if eviction.awaited == 0:
            settle_binding(state, slot)
    return DONE


@kernel
def _will_have_room(state: NodesState, number: int, slot: int, tasks: int) -> bool:
    """Whether the node will have room for the tasks once all leaving jobs have left it."""
    node, need = state.nodes[number], state.needs[slot]
    gpu, cpu, memory = node.free_gpu, node.free_cpu, node.free_memory
    at = state.machines[number].residents
    while at >= 0:
        placement = state.placements[at]
        theirs = state.needs[placement.slot]
        their_eviction = state.evictions[placement.slot]
        gpu -= placement.owed_gpu
        cpu -= placement.owed_cpu
        memory -= placement.owed_memory
        # A leaving job gives up only the placements that it holds, not those that it is bound to.
        if their_eviction.leaves == 1 and theirs.holder >= 0 and holds(state, placement.slot, at):
            held_gpu, held_cpu, held_memory = demand_on(state, theirs, number)
            gpu += placement.tasks * held_gpu
            cpu += placement.tasks * held_cpu
            memory += placement.tasks * held_memory
        at = placement.after
    needed_gpu, needed_cpu, needed_memory = demand_on(state, need, number)
    return tasks * needed_gpu <= gpu and tasks * needed_cpu <= cpu and tasks * needed_memory <= memory


@kernel
def _bind(state: NodesState, slot: int, count: int) -> None:
    """Bind a job to the nodes of state.plan[:count]: it takes their free resources, and claims the rest."""
    need = state.needs[slot]
    eviction = state.evictions[slot]
    eviction.claims = 1
    eviction.awaited = 0
    for at in range(count):
        choice = state.plan[at]
        node, machine = state.nodes[choice.node], state.machines[choice.node]
        placement = state.placements[put_bound(state, slot, choice)]
        needed_gpu, needed_cpu, needed_memory = demand_on(state, need, choice.node)
        gpu = min(node.free_gpu, choice.tasks * needed_gpu)
        cpu = min(node.free_cpu, choice.tasks * needed_cpu)
        memory = min(node.free_memory, choice.tasks * needed_memory)
        node.free_gpu -= gpu
        node.free_cpu -= cpu
        node.free_memory -= memory
        placement.owed_gpu = choice.tasks * needed_gpu - gpu
        placement.owed_cpu = choice.tasks * needed_cpu - cpu
        placement.owed_memory = choice.tasks * needed_memory - memory
        placement.unready = int(machine.state != RUNNING)
        if is_owed(placement):
            eviction.awaited += 1
            machine.claims += 1
    state.cluster[0].changed += 1
