"""The directory of the queue's blocks: a fence for each in use, in order, and where a job's block is found.

What is not in use stands before and behind: the first block is opened and closed without moving any other.
"""

from __future__ import annotations

from betimes.core.nodes.columns import NodesState
from betimes.kernels import kernel

FULL_MILLI = 1 << 62


@kernel
def block_at(state: NodesState, at: int) -> int:
    """The number of the block that is `at` in the directory."""
    return state.directory[state.cluster[0].front + at].block


@kernel
def block_of(state: NodesState, key: float, seq: int) -> int:
    """Where in the directory the last block stands that begins no later than (key, seq); the first if none does."""
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
    else:
        number = directory[end].block
        for other in range(end, cluster.front + at, -1):
            directory[other] = directory[other - 1]
    cluster.blocks += 1
    fence = directory[cluster.front + at]
    fence.key = key
    fence.block = number
    block = state.blocks[number]
    block.head = 0
    block.tail = 0
    block.seq = seq
    note_least(state, number, FULL_MILLI, FULL_MILLI, FULL_MILLI)


@kernel
def close_block(state: NodesState, at: int) -> None:
    """Take an empty block out of the directory."""
    cluster, directory = state.cluster[0], state.directory
    place = cluster.front + at
    number = directory[place].block
    if at < cluster.blocks - at:
        for other in range(place, cluster.front, -1):
            directory[other] = directory[other - 1]
        directory[cluster.front].block = number
        cluster.front += 1
    else:
        for other in range(place, cluster.front + cluster.blocks - 1):
            directory[other] = directory[other + 1]
        directory[cluster.front + cluster.blocks - 1].block = number
    cluster.blocks -= 1


@kernel
def note_least(state: NodesState, number: int, gpu: int, cpu: int, memory: int) -> None:
    """No task of any entry of this block needs less than so much."""
    block = state.blocks[number]
    block.gpu = gpu
    block.cpu = cpu
    block.memory = memory


@kernel
def note_least_of_all(state: NodesState, gpu: int, cpu: int, memory: int) -> None:
    """No task of any entry of the queue needs less than so much."""
    cluster = state.cluster[0]
    cluster.least_gpu = gpu
    cluster.least_cpu = cpu
    cluster.least_memory = memory
