"""The jobs that wait, sorted by (key, seq): a tree of two levels, blocks of entries in the order of a directory.

Finding a place is a binary search in the directory and one in a block; a change moves entries of one block
only. A walk reads memory in order, and the least demand noted for each block lets it step over blocks in which
nothing can fit.
"""

from __future__ import annotations

from betimes.core.columns import Floats, Ints
from betimes.core.kernel import inlined_kernel, lean_kernel
from betimes.core.nodes.columns import BLOCK, NodesState

FILL = 3 * BLOCK // 4  # entries of a block after `_repack`
FULL_MILLI = 1 << 62


@inlined_kernel
def insert(state: NodesState, slot: int) -> None:
    """Put a job in its place by (key, seq)."""
    cluster = state.cluster[0]
    key, seq = state.jobs[slot].key, state.jobs[slot].seq
    if cluster.blocks == 0:
        _open(state, 0, key, seq)
    at = _block_of(state, key, seq)
    if _length(state, at) == BLOCK:
        if cluster.blocks == len(state.directory):
            _repack(state)
            at = _block_of(state, key, seq)
        if _length(state, at) == BLOCK:
            at = _make_room(state, at, key, seq)
    number = state.directory[at]
    block, base = state.blocks[number], number * BLOCK
    place = _place_in(state, number, key, seq)
    if block.tail == BLOCK or (block.head > 0 and place - block.head < block.tail - place):
        for other in range(base + block.head, base + place):
            state.queue[other - 1] = state.queue[other]
        block.head -= 1
        place -= 1
    else:
        for other in range(base + block.tail, base + place, -1):
            state.queue[other] = state.queue[other - 1]
        block.tail += 1
    entry = state.queue[base + place]
    entry.key = key
    entry.seq = seq
    entry.slot = slot
    if place == block.head and (key < block.key or (key == block.key and seq < block.seq)):
        block.key = key
        block.seq = seq
    _note_need(state, number, slot)
    cluster.waiting += 1


@inlined_kernel
def remove(state: NodesState, slot: int) -> None:
    """Take a job out of the queue."""
    key, seq = state.jobs[slot].key, state.jobs[slot].seq
    at = _block_of(state, key, seq)
    number = state.directory[at]
    remove_at(state, at, _place_in(state, number, key, seq))


@inlined_kernel
def remove_at(state: NodesState, at: int, place: int) -> int:
    """Take the entry at `place` of the block that is `at` in the directory out of the queue.

    Returns the place of the entry that followed it; if the block is gone, the head of the one now `at` its place.
    """
    number = state.directory[at]
    block, base = state.blocks[number], number * BLOCK
    following = place
    if place - block.head < block.tail - 1 - place:
        for other in range(base + place, base + block.head, -1):
            state.queue[other] = state.queue[other - 1]
        block.head += 1
        following = place + 1
    else:
        for other in range(base + place, base + block.tail - 1):
            state.queue[other] = state.queue[other + 1]
        block.tail -= 1
    state.cluster[0].waiting -= 1
    if block.head == block.tail:
        _close(state, at)
        following = 0
        if at < state.cluster[0].blocks:
            following = state.blocks[state.directory[at]].head
    return following


@inlined_kernel
def first(state: NodesState) -> int:
    """The slot of the job that ranks first, -1: nobody waits."""
    if state.cluster[0].waiting == 0:
        return -1
    number = state.directory[0]
    return state.queue[number * BLOCK + state.blocks[number].head].slot


@inlined_kernel
def all_waiting(state: NodesState, slots: Ints) -> int:
    """Write the slots of all waiting jobs, in order; returns their number."""
    count = 0
    for at in range(state.cluster[0].blocks):
        number = state.directory[at]
        block, base = state.blocks[number], number * BLOCK
        for place in range(base + block.head, base + block.tail):
            slots[count] = state.queue[place].slot
            count += 1
    return count


@lean_kernel
def rebuild(state: NodesState, slots: Ints, count: int, keys: Floats) -> None:
    """The queue again, of the jobs slots[:count], with the keys that go with them; nearly sorted is quick."""
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
    _fill(state, slots, count)


@lean_kernel
def _fill(state: NodesState, slots: Ints, count: int) -> None:
    """Blocks of FILL entries, from slots that are in order."""
    cluster = state.cluster[0]
    cluster.blocks = 0
    cluster.waiting = count
    for k in range(count):
        slot = slots[k]
        job = state.jobs[slot]
        if k % FILL == 0:
            _open(state, cluster.blocks, job.key, job.seq)
        number = state.directory[cluster.blocks - 1]
        block = state.blocks[number]
        entry = state.queue[number * BLOCK + block.tail]
        entry.key = job.key
        entry.seq = job.seq
        entry.slot = slot
        block.tail += 1
        _note_need(state, number, slot)


@lean_kernel
def _repack(state: NodesState) -> None:
    """No block is left, for many are nearly empty: fill them evenly."""
    count = all_waiting(state, state.chosen)
    _fill(state, state.chosen, count)


@inlined_kernel
def _block_of(state: NodesState, key: float, seq: int) -> int:
    """Where in the directory the last block stands that begins no later than (key, seq); the first if none does."""
    low, high = 0, state.cluster[0].blocks
    while high - low > 1:
        middle = (low + high) // 2
        block = state.blocks[state.directory[middle]]
        if block.key < key or (block.key == key and block.seq <= seq):
            low = middle
        else:
            high = middle
    return low


@inlined_kernel
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


@inlined_kernel
def _length(state: NodesState, at: int) -> int:
    block = state.blocks[state.directory[at]]
    return block.tail - block.head


@lean_kernel
def _make_room(state: NodesState, at: int, key: float, seq: int) -> int:
    """Open a block behind a full one and move half of it there; returns the one in which (key, seq) belongs."""
    full = state.directory[at]
    base, last = full * BLOCK, state.queue[full * BLOCK + BLOCK - 1]
    if at == state.cluster[0].blocks - 1 and (last.key < key or (last.key == key and last.seq < seq)):
        _open(state, at + 1, key, seq)  # the common case: newcomers rank last
        return at + 1
    half = BLOCK // 2
    middle = state.queue[base + half]
    _open(state, at + 1, middle.key, middle.seq)
    number = state.directory[at + 1]
    for place in range(half, BLOCK):
        state.queue[number * BLOCK + place - half] = state.queue[base + place]
        _note_need(state, number, state.queue[base + place].slot)
    state.blocks[number].tail = BLOCK - half
    state.blocks[full].tail = half
    later = state.blocks[number]
    return at + 1 if later.key < key or (later.key == key and later.seq < seq) else at


@inlined_kernel
def _open(state: NodesState, at: int, key: float, seq: int) -> None:
    """Put an empty block at a place of the directory."""
    cluster, directory = state.cluster[0], state.directory
    number = directory[cluster.blocks]
    for other in range(cluster.blocks, at, -1):
        directory[other] = directory[other - 1]
    directory[at] = number
    cluster.blocks += 1
    block = state.blocks[number]
    block.head = 0
    block.tail = 0
    block.key = key
    block.seq = seq
    block.gpu = FULL_MILLI
    block.cpu = FULL_MILLI
    block.memory = FULL_MILLI


@inlined_kernel
def _close(state: NodesState, at: int) -> None:
    """Take an empty block out of the directory."""
    cluster, directory = state.cluster[0], state.directory
    number = directory[at]
    cluster.blocks -= 1
    for other in range(at, cluster.blocks):
        directory[other] = directory[other + 1]
    directory[cluster.blocks] = number


@inlined_kernel
def _note_need(state: NodesState, number: int, slot: int) -> None:
    block, need = state.blocks[number], state.needs[slot]
    block.gpu = min(block.gpu, need.gpu)
    block.cpu = min(block.cpu, need.cpu)
    block.memory = min(block.memory, need.memory)
