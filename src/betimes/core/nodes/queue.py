"""The waiting jobs, ranked by (key, seq): a tree of two levels, sorted blocks of entries in the order of a directory.

A change moves entries of one block only. A walk reads memory in order, and steps over jobs that cannot start
(`directory`).
"""

from __future__ import annotations

from betimes.core.nodes.columns import BLOCK, CLASSES, Entry, NodesState
from betimes.core.nodes.directory import (
    FULL_MILLI,
    begins_by,
    block_at,
    block_of,
    class_of,
    close_block,
    note_entry,
    note_least_of_all,
    open_block,
    widen,
)
from betimes.core.nodes.wait_features import count_waiting
from betimes.kernels import Floats, Ints, Records, kernel

FILL = 3 * BLOCK // 4  # entries of a block after `_repack`


@kernel
def insert(state: NodesState, slot: int) -> None:
    """Put a job in its place by (key, seq)."""
    cluster = state.cluster[0]
    key, seq = state.jobs[slot].key, state.jobs[slot].seq
    cluster.waiting += 1
    if cluster.observed == 1:
        count_waiting(state, slot, 1)
    if cluster.blocks == 0:
        note_least_of_all(state, FULL_MILLI, FULL_MILLI, FULL_MILLI)
        open_block(state, 0, key, seq)
    need = state.needs[slot]
    need.size_class = class_of(need)
    note_least_of_all(
        state,
        min(cluster.least_gpu, need.gpu),
        min(cluster.least_cpu, need.cpu),
        min(cluster.least_memory, need.memory),
    )
    at = block_of(state, key, seq)
    if _length(state, at) == BLOCK and cluster.blocks == len(state.directory):
        _repack(state)
        at = block_of(state, key, seq)
    if _length(state, at) == BLOCK:
        at = _make_room(state, at, key, seq)
    _insert_into(state, at, key, seq, slot)


@kernel
def _insert_into(state: NodesState, at: int, key: float, seq: int, slot: int) -> None:
    """Put an entry where it belongs in the block that is `at` in the directory, which has room for it."""
    number = block_at(state, at)
    block, base = state.blocks[number], number * BLOCK
    place = _place_in(state, number, key, seq)
    if block.tail == BLOCK or (block.head > 0 and place - block.head < block.tail - place):
        for other in range(base + block.head, base + place):
            _move(state, other, other - 1)
        block.head -= 1
        place -= 1
    else:
        for other in range(base + block.tail, base + place, -1):
            _move(state, other - 1, other)
        block.tail += 1
    _write(state.queue, base + place, key, seq, slot)
    note_entry(state, at, slot)
    if place == block.head and not begins_by(state, at, key, seq):  # it ranks before the whole queue
        state.directory[state.cluster[0].front].key = key
        block.seq = seq


@kernel
def _write(queue: Records[Entry], place: int, key: float, seq: int, slot: int) -> None:
    """Write an entry at a place of the queue."""
    entry = queue[place]
    entry.key = key
    entry.seq = seq
    entry.slot = slot


@kernel
def _move(state: NodesState, place: int, to: int) -> None:
    """Move the entry at `place` to `to`; field by field, for records are copied byte by byte."""
    entry = state.queue[place]
    _write(state.queue, to, entry.key, entry.seq, entry.slot)


@kernel
def remove(state: NodesState, slot: int) -> None:
    """Take a job out of the queue."""
    key, seq = state.jobs[slot].key, state.jobs[slot].seq
    at = block_of(state, key, seq)
    remove_at(state, at, _place_in(state, block_at(state, at), key, seq))


@kernel
def remove_at(state: NodesState, at: int, place: int) -> int:
    """Take the entry at `place` of the block that is `at` in the directory out of the queue.

    Returns the place of the entry that followed it; if the block is gone, the head of the one now `at` its place.
    """
    number = block_at(state, at)
    block, base = state.blocks[number], number * BLOCK
    if state.cluster[0].observed == 1:
        count_waiting(state, state.queue[base + place].slot, -1)
    following = place
    if place - block.head < block.tail - 1 - place:
        for other in range(base + place, base + block.head, -1):
            _move(state, other - 1, other)
        block.head += 1
        following = place + 1
    else:
        for other in range(base + place, base + block.tail - 1):
            _move(state, other + 1, other)
        block.tail -= 1
    state.cluster[0].waiting -= 1
    if block.head == block.tail:
        close_block(state, at)
        following = 0
        if at < state.cluster[0].blocks:
            following = state.blocks[block_at(state, at)].head
    return following


@kernel
def first(state: NodesState) -> int:
    """The slot of the job that ranks first, -1: the queue is empty."""
    if state.cluster[0].waiting == 0:
        return -1
    number = block_at(state, 0)
    return state.queue[number * BLOCK + state.blocks[number].head].slot


@kernel
def all_waiting(state: NodesState, slots: Ints) -> int:
    """Write the slots of all waiting jobs, in order; returns their number."""
    count = 0
    for at in range(state.cluster[0].blocks):
        number = block_at(state, at)
        block, base = state.blocks[number], number * BLOCK
        for place in range(base + block.head, base + block.tail):
            slots[count] = state.queue[place].slot
            count += 1
    return count


@kernel
def rebuild(state: NodesState, slots: Ints, count: int, keys: Floats) -> None:
    """Rebuild the queue of the jobs slots[:count] with these keys; quick where they are nearly sorted."""
    for k in range(count):
        state.jobs[slots[k]].key = keys[k]
    jobs = state.jobs
    for k in range(1, count):
        slot = slots[k]
        key, seq = jobs[slot].key, jobs[slot].seq
        other = k
        while other > 0:
            before = jobs[slots[other - 1]]
            if before.key < key or (before.key == key and before.seq < seq):
                break
            slots[other] = slots[other - 1]
            other -= 1
        slots[other] = slot
    state.cluster[0].waiting = count
    _fill(state, slots, count)


@kernel
def _fill(state: NodesState, slots: Ints, count: int) -> None:
    """Blocks of FILL entries, from slots that are in order."""
    cluster = state.cluster[0]
    cluster.front = cluster.blocks = 0
    for k in range(count):
        slot = slots[k]
        job = state.jobs[slot]
        if k % FILL == 0:
            open_block(state, cluster.blocks, job.key, job.seq)
        number = block_at(state, cluster.blocks - 1)
        block = state.blocks[number]
        _write(state.queue, number * BLOCK + block.tail, job.key, job.seq, slot)
        block.tail += 1
        note_entry(state, cluster.blocks - 1, slot)


@kernel
def _repack(state: NodesState) -> None:
    """No block is left, for many are nearly empty: fill them evenly."""
    count = all_waiting(state, state.chosen)
    _fill(state, state.chosen, count)


@kernel
def _place_in(state: NodesState, number: int, key: float, seq: int) -> int:
    """The first place of a block whose entry does not rank before (key, seq)."""
    block, base = state.blocks[number], number * BLOCK
    low, high = block.head, block.tail
    while low < high:
        middle = (low + high) // 2
        entry = state.queue[base + middle]
        if entry.key < key or (entry.key == key and entry.seq < seq):
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _length(state: NodesState, at: int) -> int:
    block = state.blocks[block_at(state, at)]
    return block.tail - block.head


@kernel
def _make_room(state: NodesState, at: int, key: float, seq: int) -> int:
    """Open a block behind a full one and move half of it there; returns the one in which (key, seq) belongs."""
    full = block_at(state, at)
    base, last = full * BLOCK, state.queue[full * BLOCK + BLOCK - 1]
    if at == state.cluster[0].blocks - 1 and (last.key < key or (last.key == key and last.seq < seq)):
        open_block(state, at + 1, key, seq)  # the common case: newcomers rank last
        return at + 1
    half = BLOCK // 2
    middle = state.queue[base + half]
    open_block(state, at + 1, middle.key, middle.seq)
    number = block_at(state, at + 1)
    for place in range(half, BLOCK):
        _move(state, base + place, number * BLOCK + place - half)
    bounds = state.blocks[full]
    widen(state.blocks[number], bounds.gpu, bounds.cpu, bounds.memory, bounds.classes)
    for kind in range(CLASSES):
        state.block_least_s[number, kind] = state.block_least_s[full, kind]
    state.blocks[number].tail = BLOCK - half
    state.blocks[full].tail = half
    return at + 1 if begins_by(state, at + 1, key, seq) else at
