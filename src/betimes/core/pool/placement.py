"""The placements of a pool's jobs, if the pool has nodes: placed unit by unit, given back last placed first.

Decisions within one instant count once. Before the first change of an instant a job's placements are copied, and
another decision at the same instant starts from the copies: a job that keeps its units does not move.
"""

from __future__ import annotations

from betimes.core.closings import see_closings
from betimes.core.placements import Node, free_placement, give, how_many_fit, new_placement, take
from betimes.core.pool.columns import State
from betimes.kernels import kernel


@kernel
def set_demand(state: State, slot: int, gpu: int, cpu: int, memory: int) -> None:
    """Set the unit demand of a job that holds none yet: thousandths of GPUs, thousandths of cores, MiB."""
    footprint = state.footprints[slot]
    footprint.gpu = gpu
    footprint.cpu = cpu
    footprint.memory = memory


@kernel
def enter_nodes(state: State, slot: int) -> None:
    """Enter a job that has just been submitted: it is on no node, and has no demand until `set_demand`."""
    footprint = state.footprints[slot]
    footprint.gpu = footprint.cpu = footprint.memory = 0
    footprint.limit_s = 0.0
    footprint.exempt = 0
    footprint.placed = footprint.before = footprint.follows = -1
    footprint.touched = 0


@kernel
def leave_nodes(state: State, slot: int) -> None:
    """The job gives back all its units, for good: no other decision at this instant restores them."""
    footprint = state.footprints[slot]
    _give_back_all(state, slot)
    _free_list(state, footprint.before)
    footprint.before = -1
    if footprint.touched == 1:
        _untouch(state, slot)


@kernel
def begin_instant(state: State) -> None:
    """Return to the begin of the present instant: undo the changes of another decision at this instant."""
    pool = state.pool[0]
    if pool.instant != pool.now:
        forget_before(state)
        pool.instant = pool.now
        return
    slot = pool.touched
    while slot >= 0:  # all of them first: there are no more placements than for two lists of all units
        _give_back_all(state, slot)
        slot = state.footprints[slot].follows
    slot = pool.touched
    while slot >= 0:
        put_back(state, slot)
        slot = state.footprints[slot].follows


@kernel
def forget_before(state: State) -> None:
    """Forget the placements from the begin of the last instant."""
    pool = state.pool[0]
    while pool.touched >= 0:
        footprint = state.footprints[pool.touched]
        _free_list(state, footprint.before)
        footprint.before = -1
        footprint.touched = 0
        pool.touched = footprint.follows


@kernel
def put_back(state: State, slot: int) -> None:
    """Restore a job's placements, changed at this instant, to those from the instant's begin."""
    footprint = state.footprints[slot]
    _give_back_all(state, slot)
    footprint.placed = _copy_of(state, footprint.before)
    at = footprint.placed
    while at >= 0:
        placement = state.placements[at]
        take(state.nodes[placement.node], footprint, placement.tasks)
        at = placement.follows


@kernel
def could_be_put_back(state: State, slot: int) -> bool:
    """Whether the units that a job has given back at this instant are still free; it has not been placed since."""
    footprint = state.footprints[slot]
    at = footprint.before
    while at >= 0:
        placement = state.placements[at]
        missing, node = placement.tasks, state.nodes[placement.node]
        mine = footprint.placed
        while mine >= 0:
            if state.placements[mine].node == placement.node:
                missing -= state.placements[mine].tasks
            mine = state.placements[mine].follows
        if (
            missing * footprint.gpu > node.free_gpu
            or missing * footprint.cpu > node.free_cpu
            or missing * footprint.memory > node.free_memory
        ):
            return False
        at = placement.follows
    return True


@kernel
def give_back(state: State, slot: int, units: int) -> None:
    """The job gives back `units` units, first those on the node that it came to last."""
    if units <= 0:
        return
    _touch(state, slot)
    footprint = state.footprints[slot]
    while units > 0:
        placement = state.placements[footprint.placed]
        fewer = min(units, placement.tasks)
        give(state.nodes[placement.node], footprint, fewer)
        placement.tasks -= fewer
        units -= fewer
        if placement.tasks == 0:
            footprint.placed = free_placement(state.placements, state.pool[0], footprint.placed)


@kernel
def most_that_fit(state: State, slot: int, most: int) -> int:
    """The number of further units of a job, at most `most`, that find room on the nodes."""
    footprint, count = state.footprints[slot], 0
    if state.pool[0].exempts == 1:
        see_closings(state.nodes, state.closings, state.pool[0].now, footprint.exempt)
    for number in range(len(state.nodes)):
        count += how_many_fit(state.nodes[number], footprint, most - count)
        if count >= most:
            break
    return count


@kernel
def most_on_empty_nodes(state: State, slot: int, most: int) -> int:
    """The number of units of a job, at most `most`, that the nodes that are up would hold if empty."""
    footprint, count = state.footprints[slot], 0
    for number in range(len(state.nodes)):
        node = state.nodes[number]
        if node.up == 0:
            continue
        fitting = most - count
        if footprint.gpu > 0:
            fitting = min(fitting, node.gpu // footprint.gpu)
        if footprint.cpu > 0:
            fitting = min(fitting, node.cpu // footprint.cpu)
        if footprint.memory > 0:
            fitting = min(fitting, node.memory // footprint.memory)
        count += fitting
    return count


@kernel
def place(state: State, slot: int, units: int) -> None:
    """Place `units` further units, which do fit (`most_that_fit`): on nodes where the job is already, then on others.

    Of either kind the node that takes most of the missing units comes first, then the one that has least left:
    fewer free GPUs, fewer free cores, less free memory, the lower number.
    """
    if units <= 0:
        return
    _touch(state, slot)
    footprint = state.footprints[slot]
    first = footprint.placed
    while units > 0:  # where the job is already; nodes that take none are passed over
        best, most = -1, 0
        at = first
        while at >= 0:
            number = state.placements[at].node
            fitting = how_many_fit(state.nodes[number], footprint, units)
            if fitting > 0 and _is_better(state, number, fitting, best, most):
                best, most = number, fitting
            at = state.placements[at].follows
        if best < 0:
            break
        place_on(state, slot, best, most)
        units -= most
    while units > 0:
        best, most = -1, 0
        for number in range(len(state.nodes)):
            fitting = how_many_fit(state.nodes[number], footprint, units)
            if fitting > 0 and _is_better(state, number, fitting, best, most):
                best, most = number, fitting
        place_on(state, slot, best, most)
        units -= most


@kernel
def place_on(state: State, slot: int, number: int, units: int) -> None:
    """Place `units` further units of a job on this node, where they fit."""
    _touch(state, slot)
    footprint = state.footprints[slot]
    take(state.nodes[number], footprint, units)
    at = footprint.placed
    while at >= 0:
        placement = state.placements[at]
        if placement.node == number:
            placement.tasks += units
            return
        at = placement.follows
    footprint.placed = new_placement(state.placements, state.pool[0], number, units, footprint.placed)


@kernel
def _is_better(state: State, number: int, fitting: int, best: int, most: int) -> bool:
    """Whether a node that takes `fitting` units comes before the best so far, which takes `most`; -1: none."""
    if fitting != most:
        return fitting > most
    return best < 0 or _has_less(state.nodes[number], state.nodes[best], number < best)


@kernel
def _has_less(node: Node, other: Node, lower: bool) -> bool:
    if node.free_gpu != other.free_gpu:
        return node.free_gpu < other.free_gpu
    if node.free_cpu != other.free_cpu:
        return node.free_cpu < other.free_cpu
    if node.free_memory != other.free_memory:
        return node.free_memory < other.free_memory
    return lower


@kernel
def _touch(state: State, slot: int) -> None:
    """Remember a job's placements from the begin of the instant, before they change."""
    pool, footprint = state.pool[0], state.footprints[slot]
    if footprint.touched == 0:
        footprint.touched = 1
        footprint.follows = pool.touched
        pool.touched = slot
        footprint.before = _copy_of(state, footprint.placed)


@kernel
def _untouch(state: State, slot: int) -> None:
    pool, footprint = state.pool[0], state.footprints[slot]
    if pool.touched == slot:
        pool.touched = footprint.follows
    else:
        at = pool.touched
        while state.footprints[at].follows != slot:
            at = state.footprints[at].follows
        state.footprints[at].follows = footprint.follows
    footprint.touched = 0
    footprint.follows = -1


@kernel
def _copy_of(state: State, first: int) -> int:
    """A copy of a list of placements, in the same order; returns its head."""
    placements, lists = state.placements, state.pool[0]
    head, last, at = -1, -1, first
    while at >= 0:
        number = new_placement(placements, lists, placements[at].node, placements[at].tasks, -1)
        if last >= 0:
            placements[last].follows = number
        else:
            head = number
        last = number
        at = placements[at].follows
    return head


@kernel
def _free_list(state: State, first: int) -> None:
    at = first
    while at >= 0:
        at = free_placement(state.placements, state.pool[0], at)


@kernel
def _give_back_all(state: State, slot: int) -> None:
    footprint = state.footprints[slot]
    at = footprint.placed
    while at >= 0:
        placement = state.placements[at]
        give(state.nodes[placement.node], footprint, placement.tasks)
        at = free_placement(state.placements, state.pool[0], at)
    footprint.placed = -1
