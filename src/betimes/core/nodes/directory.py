"""The directory of the queue's blocks: a fence for each in use, in order, and the search for a job's block.

Unused places stand before and behind: the first block is opened and closed without moving any other.

A walk steps over blocks, and over groups of them, in which no job can start. Each has bounds on its jobs' demands, and
by class of demand on their believed run times: one bound on each alone would mix the narrow with the short.
"""

from __future__ import annotations

import math

from betimes.core.nodes.columns import CLASSES, GROUP, SIZES, Bounds, Need, NodesState, Room
from betimes.kernels import kernel

FULL_MILLI = 1 << 62
SMALLEST_MILLI = 256  # demands below it are of one class


@kernel
def block_at(state: NodesState, at: int) -> int:
    """The number of the block that is `at` in the directory."""
    return state.directory[state.cluster[0].front + at].block


@kernel
def block_of(state: NodesState, key: float, seq: int) -> int:
    """The directory place of the last block that begins no later than (key, seq); the first if none does."""
    low, high = 0, state.cluster[0].blocks
    while high - low > 1:
        middle = (low + high) // 2
        if begins_by(state, middle, key, seq):
            low = middle
        else:
            high = middle
    return low


@kernel
def begins_by(state: NodesState, at: int, key: float, seq: int) -> bool:
    """Whether the block that is `at` in the directory begins no later than (key, seq)."""
    fence = state.directory[state.cluster[0].front + at]
    return fence.key < key or (fence.key == key and state.blocks[fence.block].seq <= seq)


@kernel
def open_block(state: NodesState, at: int, key: float, seq: int) -> None:
    """Put an empty block at a place of the directory."""
    cluster, directory = state.cluster[0], state.directory
    end = cluster.front + cluster.blocks
    if cluster.front > 0 and (at < cluster.blocks - at or end == len(directory)):
        number = directory[cluster.front - 1].block
        for other in range(cluster.front, cluster.front + at):
            directory[other - 1] = directory[other]
        cluster.front -= 1
        forget_groups(state, cluster.front, cluster.front + at)
    else:
        number = directory[end].block
        for other in range(end, cluster.front + at, -1):
            directory[other] = directory[other - 1]
        forget_groups(state, cluster.front + at, end)
    cluster.blocks += 1
    fence = directory[cluster.front + at]
    fence.key = key
    fence.block = number
    block = state.blocks[number]
    block.head = 0
    block.tail = 0
    block.seq = seq
    open_bounds(block)
    for kind in range(CLASSES):
        state.block_least_s[number, kind] = math.inf


@kernel
def close_block(state: NodesState, at: int) -> None:
    """Take an empty block out of the directory."""
    cluster, directory = state.cluster[0], state.directory
    place = cluster.front + at
    number = directory[place].block
    if at < cluster.blocks - at:
        forget_groups(state, cluster.front, place)
        for other in range(place, cluster.front, -1):
            directory[other] = directory[other - 1]
        directory[cluster.front].block = number
        cluster.front += 1
    else:
        forget_groups(state, place, cluster.front + cluster.blocks - 1)
        for other in range(place, cluster.front + cluster.blocks - 1):
            directory[other] = directory[other + 1]
        directory[cluster.front + cluster.blocks - 1].block = number
    cluster.blocks -= 1


@kernel
def note_least_of_all(state: NodesState, gpu: int, cpu: int, memory: int) -> None:
    """Note that no task of any entry of the queue needs less than these amounts."""
    cluster = state.cluster[0]
    cluster.least_gpu = gpu
    cluster.least_cpu = cpu
    cluster.least_memory = memory


@kernel
def class_of(need: Need) -> int:
    """The class of a job's demand: its GPUs, else its cores, rounded down to a power of two; a gang's of all its tasks.

    The class is a lower bound on the demand: a job of the class fits nowhere where `classes_within` lacks it.
    """
    amount = need.gpu if need.gpu > 0 else need.cpu
    if need.tasks > 1:
        amount *= need.tasks
    amount //= SMALLEST_MILLI
    size = 0
    while amount > 0 and size < SIZES - 1:
        amount //= 2
        size += 1
    return size + SIZES * (int(need.tasks > 1) + 2 * int(need.gpu > 0))


@kernel
def classes_within(room: Room) -> int:
    """A bit for each class of demand with jobs that may fit into this room."""
    classes, least = 0, 0
    for size in range(SIZES):
        for kind, there in enumerate((room.cpu, room.all_cpu, room.gpu, room.all_gpu)):
            if least <= there:
                classes |= 1 << (size + SIZES * kind)
        least = max(SMALLEST_MILLI, 2 * least)
    return classes


@kernel
def open_bounds(bounds: Bounds) -> None:
    """Set the bounds of no entries."""
    bounds.gpu = bounds.cpu = bounds.memory = FULL_MILLI
    bounds.classes = 0


@kernel
def widen(bounds: Bounds, gpu: int, cpu: int, memory: int, classes: int) -> None:
    """Widen the bounds by entries that may need as little as this."""
    bounds.gpu = min(bounds.gpu, gpu)
    bounds.cpu = min(bounds.cpu, cpu)
    bounds.memory = min(bounds.memory, memory)
    bounds.classes |= classes


@kernel
def note_entry(state: NodesState, at: int, slot: int) -> None:
    """The job is in the block that is `at` in the directory, or is believed to run shorter than it was."""
    place, need = state.cluster[0].front + at, state.needs[slot]
    number, group, kind = state.directory[place].block, place // GROUP, need.size_class
    left_s = state.progress[slot].believed_left
    widen(state.blocks[number], need.gpu, need.cpu, need.memory, 1 << kind)
    widen(state.groups[group], need.gpu, need.cpu, need.memory, 1 << kind)
    state.block_least_s[number, kind] = min(state.block_least_s[number, kind], left_s)
    state.group_least_s[group, kind] = min(state.group_least_s[group, kind], left_s)


@kernel
def forget_groups(state: NodesState, first: int, last: int) -> None:
    """Void the bounds of groups whose blocks, at these places of the directory, have moved or changed."""
    for group in range(first // GROUP, last // GROUP + 1):
        state.groups[group].known = 0


@kernel
def survey(state: NodesState, number: int, with_s: bool) -> None:
    """Work out a group's bounds; with_s: also the least believed run time of its entries."""
    group, cluster = state.groups[number], state.cluster[0]
    if group.known > int(with_s):
        return
    open_bounds(group)
    if with_s:
        for kind in range(CLASSES):
            state.group_least_s[number, kind] = math.inf
    first = max(number * GROUP, cluster.front)
    for place in range(first, min((number + 1) * GROUP, cluster.front + cluster.blocks)):
        other = state.directory[place].block
        block = state.blocks[other]
        widen(group, block.gpu, block.cpu, block.memory, block.classes)
        if with_s:
            for kind in range(CLASSES):
                state.group_least_s[number, kind] = min(
                    state.group_least_s[number, kind], state.block_least_s[other, kind]
                )
    group.known = 1 + int(with_s)


@kernel
def begin_tally(state: NodesState) -> None:
    """A walk comes to the first entry of a block."""
    open_bounds(state.tally[0])
    for kind in range(CLASSES):
        state.tally_least_s[kind] = math.inf


@kernel
def tally(state: NodesState, slot: int, with_s: bool) -> None:
    """A walk has passed over this entry."""
    need = state.needs[slot]
    widen(state.tally[0], need.gpu, need.cpu, need.memory, 1 << need.size_class)
    if with_s:
        kind, left_s = need.size_class, state.progress[slot].believed_left
        state.tally_least_s[kind] = min(state.tally_least_s[kind], left_s)


@kernel
def end_tally(state: NodesState, at: int, with_s: bool) -> None:
    """A walk has come to the end of the block that is `at` in the directory: its bounds are exact."""
    number, seen = block_at(state, at), state.tally[0]
    block = state.blocks[number]
    widen(state.tally[1], seen.gpu, seen.cpu, seen.memory, seen.classes)
    changes = (block.gpu, block.cpu, block.memory, block.classes) != (
        seen.gpu, seen.cpu, seen.memory, seen.classes,
    )  # fmt: skip
    if changes:
        open_bounds(block)
        widen(block, seen.gpu, seen.cpu, seen.memory, seen.classes)
    if with_s:
        for kind in range(CLASSES):
            least_s = state.tally_least_s[kind]
            changes = changes or state.block_least_s[number, kind] != least_s
            state.block_least_s[number, kind] = least_s
    if changes:
        place = state.cluster[0].front + at
        forget_groups(state, place, place)
    begin_tally(state)
