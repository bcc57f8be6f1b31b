"""The search for nodes with room for a job's tasks: on the nodes as they are, or on a sketch of them."""

from __future__ import annotations

import math

from betimes.core.closings import see_closings
from betimes.core.nodes.columns import Need, NodesState, view_of
from betimes.core.nodes.demands import task_fits, tasks_that_fit
from betimes.core.nodes.directory import FULL_MILLI, block_at
from betimes.core.nodes.rules import NodesRules
from betimes.core.placements import Node, fits, how_many_within
from betimes.kernels import Floats, Ints, Records, kernel

NO_ROOM = 0
BAD_SCORE = -1
OVERBOOKED = -5


@kernel
def see_for(state: NodesState, nodes: Records[Node], slot: int) -> None:
    """Let these nodes take work until they close for this job, where some closings do not concern all jobs."""
    if state.pool[0].exempts == 1:
        see_closings(nodes, state.closings, state.pool[0].now, state.needs[slot].exempt)


@kernel
def has_room(state: NodesState, nodes: Records[Node], need: Need) -> bool:
    """Whether all tasks of the job find room at once."""
    missing = need.tasks
    for number in range(len(nodes)):
        if task_fits(state, nodes, number, need):
            missing -= 1 if need.tasks == 1 else tasks_that_fit(state, nodes, number, need)
            if missing <= 0:
                return True
    return False


@kernel
def may_fit(state: NodesState, slot: int) -> bool:
    """Whether all tasks of the job find room at once on the nodes as they are, reservations aside.

    It stops at the first node that will do, and mostly looks at those just freed: jobs behind a reservation mostly fit
    nowhere, and need not look at all nodes every time to find that out.
    """
    need, log, cluster = state.needs[slot], state.vacated, state.cluster[0]
    seen = need.freed_seen
    if seen == cluster.freed:
        return False
    see_for(state, state.nodes, slot)
    if need.tasks == 1 and seen >= 0 and cluster.freed - seen < len(log):
        for at in range(seen, cluster.freed):
            if task_fits(state, state.nodes, log[at % len(log)], need):
                return True
        return False
    return has_room(state, state.nodes, need)


@kernel
def may_any_fit(state: NodesState) -> bool:
    """Whether a task of any waiting job may fit on some node; True may be wrong, False is not."""
    cluster = state.cluster[0]
    gpu, cpu, memory = FULL_MILLI, FULL_MILLI, FULL_MILLI
    for at in range(cluster.blocks):
        block = state.blocks[block_at(state, at)]
        gpu = min(gpu, block.gpu)
        cpu = min(cpu, block.cpu)
        memory = min(memory, block.memory)
    for number in range(len(state.nodes)):
        node = state.nodes[number]
        if node.up > 0 and node.free_gpu >= gpu and node.free_cpu >= cpu and node.free_memory >= memory:
            return True
    return False


@kernel
def find_room(state: NodesState, rules: NodesRules, nodes: Records[Node], slot: int, seen: int) -> int:
    """Choose nodes for all tasks of a job: state.plan[:count]; NO_ROOM, or BAD_SCORE where the rule gives NaN or
    nothing, or OVERBOOKED where a hook has overwritten nodes' resources or the job's demand.

    Nodes are taken by score, the smallest first, ties to the lower number. A rule that `spreads` puts one task
    on each in turn, round after round; else a node gets as many as fit before the next one. seen: the count of
    freed nodes when the job last found no room on these nodes, -1: it has not been tried.
    """
    need = state.needs[slot]
    single = need.tasks == 1
    count, room = 0, 0
    log, cluster = state.vacated, state.cluster[0]
    if seen == cluster.freed:
        return NO_ROOM
    if single and seen >= 0 and cluster.freed - seen < len(log):
        # The job can fit only where something has been freed since.
        for at in range(seen, cluster.freed):
            number = log[at % len(log)]
            if task_fits(state, nodes, number, need) and not _listed(state.fitting, count, number):
                state.fitting[count] = number
                count += 1
        room = count
    elif need.demands == 0:  # the loop that takes most of the time, of jobs with one demand
        for number in range(len(nodes)):
            if fits(nodes[number], need):
                state.fitting[count] = number
                count += 1
                room += 1 if single else how_many_within(nodes[number], need, need.tasks)
    else:
        for number in range(len(nodes)):
            if task_fits(state, nodes, number, need):
                state.fitting[count] = number
                count += 1
                room += 1 if single else tasks_that_fit(state, nodes, number, need)
    if room < need.tasks:
        return NO_ROOM
    if count == 1:
        _choose(state, 0, state.fitting[0], need.tasks)
        return 1 if cluster.guarded == 0 or _is_sound(state, nodes, slot, 1) else OVERBOOKED
    if cluster.guarded == 0:
        rules.place(view_of(state), nodes, slot, state.fitting[:count], state.score[:count])
    else:
        show(state, nodes)
        copy_asked(state, state.fitting, count)
        rules.place(view_of(state), state.aside, slot, state.asked[:count], state.score[:count])
    if single:
        used = _best(state, count)
    else:
        used = (
            _spread_out(state, nodes, need, count) if rules.spreads else _fill_up(state, nodes, need, count)
        )
    if cluster.guarded == 1 and used > 0 and not _is_sound(state, nodes, slot, used):
        return OVERBOOKED
    return used


@kernel
def show(state: NodesState, nodes: Records[Node]) -> None:
    """Give a user's hooks a copy of these nodes: a whole node is easily overwritten."""
    for number in range(len(nodes)):
        state.aside[number] = nodes[number]


@kernel
def copy_asked(state: NodesState, numbers: Ints, count: int) -> None:
    """Let state.asked[:count] be a copy of the numbers, for a user's hook that is to fill state.score[:count]."""
    for k in range(count):
        state.asked[k] = numbers[k]
        state.score[k] = math.nan


@kernel
def _is_sound(state: NodesState, nodes: Records[Node], slot: int, count: int) -> bool:
    """Whether state.plan[:count] has room for all tasks of the job, on nodes with no more free than their capacity."""
    need, missing = state.needs[slot], state.needs[slot].tasks
    for k in range(count):
        choice = state.plan[k]
        node = nodes[choice.node]
        if tasks_that_fit(state, nodes, choice.node, need) < choice.tasks:
            return False
        if node.free_gpu > node.gpu or node.free_cpu > node.cpu or node.free_memory > node.memory:
            return False
        missing -= choice.tasks
    return missing == 0


@kernel
def _listed(fitting: Ints, count: int, number: int) -> bool:
    for k in range(count):
        if fitting[k] == number:
            return True
    return False


@kernel
def _choose(state: NodesState, at: int, number: int, tasks: int) -> None:
    choice = state.plan[at]
    choice.node = number
    choice.tasks = tasks


@kernel
def _best(state: NodesState, count: int) -> int:
    best, lowest = -1, math.inf
    for k in range(count):
        score, number = state.score[k], state.fitting[k]
        if math.isnan(score):
            return BAD_SCORE
        if best < 0 or score < lowest or (score == lowest and number < best):
            best, lowest = number, score
    _choose(state, 0, best, 1)
    return 1


@kernel
def _fill_up(state: NodesState, nodes: Records[Node], need: Need, count: int) -> int:
    fitting, score = state.fitting, state.score
    if not _sort_by_score(fitting, score, count):
        return BAD_SCORE
    missing, used = need.tasks, 0
    while missing > 0:
        tasks = min(missing, tasks_that_fit(state, nodes, fitting[used], need))
        _choose(state, used, fitting[used], tasks)
        missing -= tasks
        used += 1
    return used


@kernel
def _spread_out(state: NodesState, nodes: Records[Node], need: Need, count: int) -> int:
    fitting, score = state.fitting, state.score
    if not _sort_by_score(fitting, score, count):
        return BAD_SCORE
    used = min(count, need.tasks)
    for k in range(used):
        _choose(state, k, fitting[k], 1)
    missing = need.tasks - used
    while missing > 0:
        for k in range(used):
            choice = state.plan[k]
            if missing > 0 and choice.tasks < tasks_that_fit(state, nodes, choice.node, need):
                choice.tasks += 1
                missing -= 1
    return used


@kernel
def _sort_by_score(fitting: Ints, score: Floats, count: int) -> bool:
    """Heap sort of fitting[:count] by score, ties to the lower node; False where a score is NaN."""
    in_order = True
    for k in range(count):
        if math.isnan(score[k]):
            return False
        if k > 0 and not (
            score[k - 1] < score[k] or (score[k - 1] == score[k] and fitting[k - 1] < fitting[k])
        ):
            in_order = False
    if in_order:
        return True
    for start in range(count // 2 - 1, -1, -1):
        _sift(fitting, score, start, count)
    for last in range(count - 1, 0, -1):
        fitting[0], fitting[last] = fitting[last], fitting[0]
        score[0], score[last] = score[last], score[0]
        _sift(fitting, score, 0, last)
    return True


@kernel
def _sift(fitting: Ints, score: Floats, at: int, length: int) -> None:
    number, worth = fitting[at], score[at]
    while True:
        child = 2 * at + 1
        if child >= length:
            break
        if child + 1 < length and (
            score[child + 1] > score[child]
            or (score[child + 1] == score[child] and fitting[child + 1] > fitting[child])
        ):
            child += 1
        if score[child] < worth or (score[child] == worth and fitting[child] < number):
            break
        fitting[at], score[at] = fitting[child], score[child]
        at = child
    fitting[at], score[at] = number, worth
