"""Between a planner's rounds: a job that fits on an empty machine that is paid for starts there at once.

A rented machine has to be no dearer than the one that would be rented for the job: else it would be paid for until the
job ends, where the next round gives it back.
"""

from __future__ import annotations

from betimes.core.nodes.columns import NodesState
from betimes.core.nodes.demands import demand_in, tasks_that_fit
from betimes.core.nodes.log import room_for_a_decision
from betimes.core.nodes.machines.rented import RUNNING, see_ends
from betimes.core.nodes.queue import all_waiting, remove
from betimes.core.nodes.rules import NodesRules
from betimes.core.nodes.transitions import start
from betimes.core.shares import is_over_limit
from betimes.core.status import DONE
from betimes.kernels import kernel


@kernel
def fill_empty(state: NodesState, rules: NodesRules) -> int:
    """Start waiting jobs, each as a whole on an empty machine that holds it, by their users' shares and in order.

    Owned machines come first, then the smallest. Returns DONE, or the room that it needs: what was started stands, and
    the call is to be repeated.
    """
    cluster = state.cluster[0]
    if cluster.waiting == 0 or (cluster.arrived == 0 and cluster.seen_change == cluster.changed):
        return DONE
    if _has_empty(state):
        see_ends(state)
        count = all_waiting(state, state.chosen)
        if len(state.users) > 0:
            for k in range(count):
                state.score[k] = 0.0
            rules.share(state, rules, count)
        for k in range(count):
            slot = state.chosen[k]
            if is_over_limit(state, slot):
                continue
            number = _empty_for(state, slot)
            if number < 0:
                continue
            room = room_for_a_decision(state)
            if room != DONE:
                return room
            choice = state.plan[0]
            choice.node, choice.tasks = number, state.needs[slot].tasks
            remove(state, slot)
            start(state, slot, 1)
    cluster.seen_change = cluster.changed
    return DONE


@kernel
def _is_empty(state: NodesState, number: int) -> bool:
    """Whether a machine is up, and no job is on it or bound to it."""
    machine = state.machines[number]
    return machine.state == RUNNING and machine.residents < 0


@kernel
def _has_empty(state: NodesState) -> bool:
    for number in range(len(state.machines)):
        if _is_empty(state, number):
            return True
    return False


@kernel
def _empty_for(state: NodesState, slot: int) -> int:
    """The number of the empty machine for a job; -1: none holds it."""
    need, found = state.needs[slot], -1
    for number in range(len(state.machines)):
        if not _is_empty(state, number) or tasks_that_fit(state, state.nodes, number, need) < need.tasks:
            continue
        if _is_too_dear(state, number, slot):
            continue
        if found < 0 or _goes_before(state, number, found):
            found = number
    return found


@kernel
def _is_too_dear(state: NodesState, number: int, slot: int) -> bool:
    """Whether a machine is rented, and a cheaper one on offer holds all tasks of the job."""
    own, need = state.machines[number].offer, state.needs[slot]
    if own < 0 or need.lasts_s > state.cluster[0].longest_run_s:
        return False
    for offer in range(len(state.offers)):
        terms = state.offers[offer]
        if terms.usd_per_h >= state.offers[own].usd_per_h or need.labels & ~terms.labels != 0:
            continue
        gpu, cpu, memory = demand_in(state, need, terms.family)
        if (
            need.tasks * gpu <= terms.gpu
            and need.tasks * cpu <= terms.cpu
            and need.tasks * memory <= terms.memory
        ):
            return True
    return False


@kernel
def _goes_before(state: NodesState, number: int, other: int) -> bool:
    is_rented, other_is = state.machines[number].offer >= 0, state.machines[other].offer >= 0
    if is_rented != other_is:
        return other_is
    node, than = state.nodes[number], state.nodes[other]
    if node.free_gpu != than.free_gpu:
        return node.free_gpu < than.free_gpu
    if node.free_cpu != than.free_cpu:
        return node.free_cpu < than.free_cpu
    return node.free_memory < than.free_memory
