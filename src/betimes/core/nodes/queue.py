"""The jobs that wait, ranked by (key, seq): a tree of two levels, blocks of entries in the order of a directory.

The first block is sorted. In the others newcomers stand last until somebody reads them in order (`order`): with a
long queue a newcomer's block is far from the processor, and to search it for the place would be to wait for it. For
the same reason those who rank behind the first block are put into theirs many at a time (`gather`), when somebody
looks behind it. A change moves entries of one block only. A walk reads memory in order, and the least demand noted
for each block lets it step over blocks in which nothing can fit.
"""

from __future__ import annotations

from betimes.core.columns import Floats, Ints, Records
from betimes.core.kernel import inlined_kernel, lean_kernel, outlined_kernel
from betimes.core.nodes.columns import BLOCK, TOGETHER, Entry, NodesState
from betimes.core.nodes.directory import (
    begins_by,
    block_at,
    block_of,
    close_block,
    corrected,
    guess,
    note_least,
    open_block,
)
from betimes.core.prefetch import prefetch

FILL = 3 * BLOCK // 4  # entries of a block after `_repack`
AHEAD = 8  # the records of so many jobs are fetched together


@inlined_kernel
def insert(state: NodesState, slot: int) -> None:
    """Put a job in its place by (key, seq)."""
    cluster = state.cluster[0]
    key, seq = state.jobs[slot].key, state.jobs[slot].seq
    cluster.waiting += 1
    if cluster.blocks == 0:
        open_block(state, 0, key, seq)
    if cluster.blocks == 1 or not begins_by(state, 1, key, seq):
        _put(state, 0, key, seq, slot)
        return
    if begins_by(state, cluster.blocks - 1, key, seq):  # as all do who come in order
        _put(state, cluster.blocks - 1, key, seq, slot)
        return
    if cluster.late == TOGETHER:
        gather(state)
    latest = state.late[cluster.late]
    latest.key = key
    latest.seq = seq
    latest.slot = slot
    cluster.late += 1


@inlined_kernel
def gather(state: NodesState) -> None:
    """Put the latest, who are in no block yet, into theirs."""
    if state.cluster[0].late > 0:
        _gather(state)


@outlined_kernel
def _gather(state: NodesState) -> None:
    """As `gather`, where there are any.

    Where they belong is found for all of them before any is moved, so that their blocks are fetched side by side.
    """
    cluster, late = state.cluster[0], state.late
    count = cluster.late
    cluster.late = 0
    guess(state, count)
    for k in range(count):
        at = corrected(state, late[k].key, late[k].seq, late[k].block)
        late[k].block = block_at(state, at)
        prefetch(state.blocks, late[k].block)
    for k in range(count):
        prefetch(state.queue, late[k].block * BLOCK + state.blocks[late[k].block].tail)
    for k in range(count):
        latest = late[k]
        number = latest.block
        if number >= 0 and state.blocks[number].tail - state.blocks[number].head < BLOCK:
            _append(state, number, latest.key, latest.seq, latest.slot)
            continue
        all_move = cluster.blocks == len(state.directory)
        _put(state, block_of(state, latest.key, latest.seq), latest.key, latest.seq, latest.slot)
        for other in range(k + 1, count):  # theirs may be another block now
            if all_move or late[other].block == number:
                late[other].block = -1


@inlined_kernel
def _put(state: NodesState, at: int, key: float, seq: int, slot: int) -> None:
    """Put an entry into the block where it belongs, which is `at` in the directory."""
    cluster = state.cluster[0]
    if _length(state, at) == BLOCK:
        if cluster.blocks == len(state.directory):
            _repack(state)
            at = block_of(state, key, seq)
        if _length(state, at) == BLOCK:
            at = _make_room(state, at, key, seq)
    if at == 0:
        order(state, 0)
        _insert_in_order(state, key, seq, slot)
    else:
        _append(state, block_at(state, at), key, seq, slot)


@inlined_kernel
def _insert_in_order(state: NodesState, key: float, seq: int, slot: int) -> None:
    """Put an entry where it belongs in the first block, which has room for it."""
    number = block_at(state, 0)
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
    block.ordered = block.tail
    _write(state.queue, base + place, key, seq, slot)
    _note_need(state, number, slot)
    if place == block.head and not begins_by(state, 0, key, seq):
        state.directory[state.cluster[0].front].key = key
        block.seq = seq


@inlined_kernel
def _append(state: NodesState, number: int, key: float, seq: int, slot: int) -> None:
    """Put an entry last in a block that has room for it."""
    block, base = state.blocks[number], number * BLOCK
    if block.tail == BLOCK:
        for place in range(block.head, block.tail):
            _move(state, base + place, base + place - block.head)
        block.ordered -= block.head
        block.tail -= block.head
        block.head = 0
    _write(state.queue, base + block.tail, key, seq, slot)
    block.tail += 1
    _note_need(state, number, slot)


@inlined_kernel
def _write(queue: Records[Entry], place: int, key: float, seq: int, slot: int) -> None:
    """Let this entry stand at a place of the queue."""
    entry = queue[place]
    entry.key = key
    entry.seq = seq
    entry.slot = slot


@inlined_kernel
def _move(state: NodesState, place: int, to: int) -> None:
    """Let the entry at `place` stand at `to`; field by field, for records are copied byte by byte."""
    entry = state.queue[place]
    _write(state.queue, to, entry.key, entry.seq, entry.slot)


@inlined_kernel
def order(state: NodesState, at: int) -> None:
    """Sort the block that is `at` in the directory."""
    number = block_at(state, at)
    block, base = state.blocks[number], number * BLOCK
    if block.ordered < block.tail:
        _sort(state.queue, base + block.head, base + block.ordered, base + block.tail)
        block.ordered = block.tail


@outlined_kernel
def _sort(queue: Records[Entry], begin: int, ordered: int, end: int) -> None:
    """Put the entries from `ordered` on in their places among those before, one after the other: a few dozen."""
    for place in range(ordered, end):
        key, seq, slot = queue[place].key, queue[place].seq, queue[place].slot
        other = place
        while other > begin:
            before = queue[other - 1]
            if before.key < key or (before.key == key and before.seq < seq):
                break
            _write(queue, other, before.key, before.seq, before.slot)
            other -= 1
        if other < place:
            _write(queue, other, key, seq, slot)


@inlined_kernel
def remove(state: NodesState, slot: int) -> None:
    """Take a job out of the queue."""
    gather(state)
    key, seq = state.jobs[slot].key, state.jobs[slot].seq
    at = block_of(state, key, seq)
    order(state, at)
    remove_at(state, at, _place_in(state, block_at(state, at), key, seq))


@inlined_kernel
def remove_at(state: NodesState, at: int, place: int) -> int:
    """Take the entry at `place` of the block that is `at` in the directory out of the queue.

    Returns the place of the entry that followed it; if the block is gone, the head of the one now `at` its place.
    """
    number = block_at(state, at)
    block, base = state.blocks[number], number * BLOCK
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
        block.ordered = block.tail
    state.cluster[0].waiting -= 1
    if block.head == block.tail:
        close_block(state, at)
        following = 0
        gather(state)
        if at < state.cluster[0].blocks:
            order(state, at)
            following = state.blocks[block_at(state, at)].head
    return following


@inlined_kernel
def first(state: NodesState) -> int:
    """The slot of the job that ranks first, -1: nobody waits."""
    if state.cluster[0].waiting == 0:
        return -1
    number = block_at(state, 0)
    return state.queue[number * BLOCK + state.blocks[number].head].slot


@inlined_kernel
def fetch_ahead(state: NodesState) -> None:
    """Have the records fetched of those who start after the next few, as far as anybody knows.

    Several at a time: where each is in memory has to be looked up, and the processor does not go on before it knows,
    but it looks up several side by side.
    """
    number = block_at(state, 0)
    block = state.blocks[number]
    if block.head % AHEAD != 0:
        return
    for place in range(block.head + AHEAD, min(block.head + 2 * AHEAD, block.tail)):
        prefetch(state.progress, state.queue[number * BLOCK + place].slot)
    missing = block.head + 2 * AHEAD - block.tail
    if missing > 0 and state.cluster[0].blocks > 1:
        order(state, 1)
        number = block_at(state, 1)
        block = state.blocks[number]
        for place in range(block.head + max(0, missing - AHEAD), min(block.head + missing, block.tail)):
            prefetch(state.progress, state.queue[number * BLOCK + place].slot)


@inlined_kernel
def all_waiting(state: NodesState, slots: Ints) -> int:
    """Write the slots of all waiting jobs, in order; returns their number."""
    gather(state)
    return _all_in_blocks(state, slots)


@inlined_kernel
def _all_in_blocks(state: NodesState, slots: Ints) -> int:
    count = 0
    for at in range(state.cluster[0].blocks):
        order(state, at)
        number = block_at(state, at)
        block, base = state.blocks[number], number * BLOCK
        for place in range(base + block.head, base + block.tail):
            slots[count] = state.queue[place].slot
            count += 1
    return count


@outlined_kernel
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
    state.cluster[0].waiting = count
    state.cluster[0].late = 0
    _fill(state, slots, count)


@lean_kernel
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
        block.ordered = block.tail
        _note_need(state, number, slot)


@outlined_kernel
def _repack(state: NodesState) -> None:
    """No block is left, for many are nearly empty: fill them evenly."""
    count = _all_in_blocks(state, state.chosen)
    _fill(state, state.chosen, count)


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
    block = state.blocks[block_at(state, at)]
    return block.tail - block.head


@outlined_kernel
def _make_room(state: NodesState, at: int, key: float, seq: int) -> int:
    """Open a block behind a full one and move half of it there; returns the one in which (key, seq) belongs."""
    full = block_at(state, at)
    order(state, at)
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
    note_least(state, number, state.blocks[full].gpu, state.blocks[full].cpu, state.blocks[full].memory)
    state.blocks[number].tail = state.blocks[number].ordered = BLOCK - half
    state.blocks[full].tail = state.blocks[full].ordered = half
    return at + 1 if begins_by(state, at + 1, key, seq) else at


@inlined_kernel
def _note_need(state: NodesState, number: int, slot: int) -> None:
    block, need = state.blocks[number], state.needs[slot]
    block.gpu = min(block.gpu, need.gpu)
    block.cpu = min(block.cpu, need.cpu)
    block.memory = min(block.memory, need.memory)
