"""What is true of a cluster's state between two instants, whatever the policy.

Tests check it after every instant. It is plain Python over the columns and never part of a run; it computes what
it compares by itself, so that a mistake in a transition shows.
"""

from __future__ import annotations

import math
from collections import defaultdict, namedtuple
from collections.abc import Sequence
from functools import cache
from typing import Any, cast

import numpy as np

from betimes.core.job_states import JobState, state_on_nodes
from betimes.core.nodes.believed_ends import believed_end
from betimes.core.nodes.columns import BLOCK, GROUP, Need, NodesState
from betimes.core.nodes.machines.rented import UNUSED
from betimes.core.nodes.timers import FINISH, KIND, OUTRUN, POLICY, VACATE
from betimes.kernels import as_array, entry
from tests.core.pool.invariants import BrokenInvariant

Amount = tuple[int, int, int]
_believed_end = entry(believed_end, NodesState, int)


def check(state: NodesState) -> None:
    """Raise BrokenInvariant if anything in `state` contradicts the rest."""
    ends = {slot: _believed_end(state, slot) for slot in state.holders[: state.pool[0].holders].tolist()}
    state = cast("NodesState", _Plain(state))
    live = _check_slots(state)
    waiting = _check_queue(state)
    holding = _check_holders(state, ends)
    held = {slot: _placed(state, slot, state.needs[slot].placed) for slot in live}
    bound = {slot: _placed(state, slot, state.needs[slot].bound) for slot in live}
    for slot in live:
        waits = slot in waiting or state.needs[slot].dedicated == 1  # for a machine of its own
        _check_job(state, slot, waits, slot in holding, held[slot], bound[slot])
    _check_nodes(state, held, bound)
    _check_placements(state, held, bound)
    _check_machines(state, held, bound)
    _check_timers(state, set(live), holding)
    _check_users(state, live)
    nominated = [slot for slot in live if state_of(state, slot) is JobState.NOMINATED]
    if state.cluster[0].nominated != len(nominated):
        raise _broken("nominated", f"{len(nominated)} are bound, {state.cluster[0].nominated} are counted")


class _Plain:
    """The columns of a state as plain Python numbers: reading NumPy's records field by field takes ten times as
    long."""

    def __init__(self, state: NodesState) -> None:
        self._state = state

    def __getattr__(self, name: str) -> Any:
        column = getattr(self._state, name)
        if column.dtype.names:
            column = _Rows(_row(column.dtype.names), as_array(column).tolist())
        elif np.ndim(column) == 1:
            column = column.tolist()
        self.__dict__[name] = column
        return column


class _Rows(Sequence[Any]):
    """Records, each made when it is asked for."""

    def __init__(self, kind: Any, rows: list[tuple[Any, ...]]) -> None:
        self._kind, self._rows = kind, rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, at: Any) -> Any:
        return self._kind._make(self._rows[at])


@cache
def _row(names: tuple[str, ...]) -> Any:
    return namedtuple("_row", names)


def state_of(state: NodesState, slot: int) -> JobState:
    """Where a live job is in its life."""
    need, progress = state.needs[slot], state.progress[slot]
    eviction = state.evictions[slot]
    return state_on_nodes(
        has_held=not math.isnan(progress.started_s),
        holds=bool(need.holder >= 0),
        placed=bool(need.bound >= 0),
        leaving=bool(eviction.vacate_at < math.inf),
    )


def _broken(invariant: str, what: str) -> BrokenInvariant:
    return BrokenInvariant(f"invariant '{invariant}': {what}")


def _check_users(state: NodesState, live: list[int]) -> None:
    """What each user's jobs hold, and are bound to without holding anything, is what is counted for the user."""
    for number in range(len(state.users)):
        user = state.users[number]
        mine = [slot for slot in live if state.progress[slot].user == number]
        for what, jobs, counted in (
            (
                "held",
                [s for s in mine if state.needs[s].holder >= 0],
                (user.running, user.units, user.memory),
            ),
            (
                "bound",
                [s for s in mine if state_of(state, s) is JobState.NOMINATED],
                (user.bound, user.bound_units, user.bound_memory),
            ),
        ):
            widths = [state.jobs[slot].max_units for slot in jobs]
            memory = [
                state.progress[slot].unit_memory * width for slot, width in zip(jobs, widths, strict=True)
            ]
            if not np.allclose(counted, (len(jobs), sum(widths), sum(memory))):
                raise _broken("users", f"{number}: jobs {jobs} are {what}, {counted} are counted")


def _check_slots(state: NodesState) -> list[int]:
    """Every slot is either on the free stack or holds a live job; returns the latter."""
    pool, slots = state.pool[0], len(state.free)
    free = {int(slot) for slot in state.free[: pool.free]}
    live = [slot for slot in range(slots) if state.progress[slot].served_by >= 0]
    if len(free) != pool.free or free != set(range(slots)) - set(live):
        raise _broken("free stack", f"{pool.free} slots are on it, and {slots - len(live)} are unused")
    if len(live) != pool.active:
        raise _broken("active jobs", f"{len(live)} slots are in use, {pool.active} are counted")
    return live


def _check_queue(state: NodesState) -> set[int]:
    """The queue is sorted, in blocks that know their bounds; returns the slots in it."""
    cluster, found, before = state.cluster[0], list[int](), (-math.inf, -1)
    fences = state.directory
    if sorted(fence.block for fence in fences) != list(range(len(fences))):
        raise _broken("directory", "it does not name every block once")
    place_of = {fences[place].block: place for place in range(len(fences))}
    bounds: list[tuple[float, int]] = []
    for at in range(cluster.front, cluster.front + cluster.blocks):
        key, number = fences[at].key, fences[at].block
        block = state.blocks[number]
        bounds.append((key, int(block.seq)))
        if not 0 <= block.head < block.tail <= BLOCK:
            raise _broken("block", f"{number} lies from {block.head} to {block.tail}")
        if not before < bounds[-1] and found:
            raise _broken("block", f"{number} may begin at {bounds[-1]}, behind {before}")
        for place in range(number * BLOCK + block.head, number * BLOCK + block.tail):
            queued = state.queue[place]
            job, need = state.jobs[queued.slot], state.needs[queued.slot]
            if (queued.key, queued.seq) != (job.key, job.seq):
                raise _broken("queue", f"slot {queued.slot} ranks otherwise than its job")
            if (queued.key, queued.seq) < bounds[-1]:
                raise _broken("queue", f"slot {queued.slot} ranks before its block begins")
            if not before < (queued.key, queued.seq):
                raise _broken(
                    "queue", f"slot {queued.slot} ranks {(queued.key, queued.seq)}, behind {before}"
                )
            if need.gpu < block.gpu or need.cpu < block.cpu or need.memory < block.memory:
                raise _broken("block", f"{number} denies the small demand of slot {queued.slot}")
            left_s, kind = state.progress[queued.slot].believed_left, need.size_class
            if block.classes >> kind & 1 == 0 or left_s < state.block_least_s[number, kind]:
                raise _broken("block", f"{number} denies the class or the short run of slot {queued.slot}")
            group = state.groups[place_of[number] // GROUP]
            if group.known >= 1 and (
                need.gpu < group.gpu
                or need.cpu < group.cpu
                or need.memory < group.memory
                or group.classes >> kind & 1 == 0
            ):
                raise _broken(
                    "group", f"{place_of[number] // GROUP} denies the small demand of slot {queued.slot}"
                )
            if group.known == 2 and left_s < state.group_least_s[place_of[number] // GROUP, kind]:
                raise _broken(
                    "group", f"{place_of[number] // GROUP} denies the short run of slot {queued.slot}"
                )
            before = max(before, (float(queued.key), int(queued.seq)))
            found.append(int(queued.slot))
    if len(found) != cluster.waiting:
        raise _broken("queue", f"{len(found)} jobs stand in it, {cluster.waiting} are counted")
    return set(found)


def _check_holders(state: NodesState, believed_end_s: dict[int, float]) -> set[int]:
    """Those that run or vacate are listed once, each where it says; returns their slots."""
    listed = [int(slot) for slot in state.holders[: state.pool[0].holders]]
    for at, slot in enumerate(listed):
        if state.needs[slot].holder != at:
            raise _broken("holders", f"slot {slot} is listed at {at}, and says {state.needs[slot].holder}")
    ends = [state.leavers[at] for at in range(state.cluster[0].leavers)]
    if ends and sorted(int(end.slot) for end in ends) != sorted(listed):
        raise _broken("leavers", "they are others than those that hold nodes")
    for at, end in enumerate(ends):
        if state.needs[end.slot].leaver != at or end.at_s != believed_end_s[end.slot]:
            raise _broken("leavers", f"slot {end.slot} is at {at}, to end at {end.at_s}, and that is not so")
        if at > 0 and (end.at_s, end.rank) < (ends[(at - 1) // 2].at_s, ends[(at - 1) // 2].rank):
            raise _broken("leavers", f"{at} is before the one above it")
    return set(listed)


def _placed(state: NodesState, slot: int, first: int) -> dict[int, tuple[int, Amount]]:
    """Tasks of the job by node, of the list that begins with `first`, with what is still owed there."""
    found: dict[int, tuple[int, Amount]] = {}
    at = first
    while at >= 0:
        placement = state.placements[at]
        if placement.node in found:
            raise _broken("placements", f"slot {slot} has two on node {placement.node}")
        if placement.slot != slot:
            raise _broken("placements", f"one of slot {slot} says it is of slot {placement.slot}")
        owed = (int(placement.owed_gpu), int(placement.owed_cpu), int(placement.owed_memory))
        found[int(placement.node)] = (int(placement.tasks), owed)
        at = placement.follows
    return found


def _check_job(
    state: NodesState,
    slot: int,
    waits: bool,
    holds: bool,
    held: dict[int, tuple[int, Amount]],
    bound: dict[int, tuple[int, Amount]],
) -> None:
    job, need, progress = state.jobs[slot], state.needs[slot], state.progress[slot]
    eviction = state.evictions[slot]
    name = f"job of row {progress.row} (slot {slot})"
    now = state.pool[0].now
    stands = state_of(state, slot)
    if waits != (stands in {JobState.WAITING, JobState.PREEMPTED}):
        raise _broken("place", f"{name} is {stands.name}, and {'' if waits else 'not '}in the queue")
    if (need.holder >= 0) != holds:
        raise _broken("holders", f"{name} thinks otherwise of whether it holds resources")
    for places, expected in ((held, holds), (bound, len(bound) > 0)):
        tasks = sum(count for count, _ in places.values())
        if tasks != (need.tasks if expected and not need.rented else 0):
            raise _broken("gang", f"{name} has {tasks} of {need.tasks} tasks placed")
    if any(any(amount) for _, amount in held.values()):
        raise _broken("awaited", f"{name} is owed something where it is already")
    owed, at = 0, need.bound
    while at >= 0:
        placement = state.placements[at]
        owed += bool(placement.unready or placement.owed_gpu or placement.owed_cpu or placement.owed_memory)
        at = placement.follows
    if owed != eviction.awaited:
        raise _broken("awaited", f"{name} is owed something on {owed} nodes, and counts {eviction.awaited}")
    if waits and bound:
        raise _broken("place", f"{name} is in the queue, and bound to nodes")
    if not waits and not holds and owed == 0:
        raise _broken("awaited", f"{name} is bound, is owed nothing and does not run")
    if job.units != (job.max_units if holds else 0.0):
        raise _broken("units", f"{name} holds {job.units} units")
    if holds and eviction.vacate_at < math.inf and (progress.rate != 0.0 or progress.finish_at < math.inf):
        raise _broken("vacating", f"{name} has been told to leave and works")
    if holds and eviction.vacate_at == math.inf and progress.finish_at < now:
        raise _broken("missed event", f"{name} was due at {progress.finish_at} s, before {now} s")
    if not waits and progress.work_left < 0.0:
        raise _broken("work left", f"{name} has {progress.work_left} s")


def _amount(state: NodesState, need: Need, node: int, tasks: int) -> Amount:
    """What so many tasks of a job need on a node."""
    demand: Any = need
    if need.demands > 0:
        demand = state.demands[need.demands + state.machines[node].family]
    return int(demand.gpu) * tasks, int(demand.cpu) * tasks, int(demand.memory) * tasks


Places = dict[int, dict[int, tuple[int, Amount]]]


def _check_nodes(state: NodesState, held: Places, bound: Places) -> None:
    """Free and taken add up to what each node has, neither is negative, and nodes have the labels of their jobs."""
    taken: dict[int, Amount] = defaultdict(lambda: (0, 0, 0))
    for slot, places in (*held.items(), *bound.items()):
        for node, (tasks, owed) in places.items():
            lacking = int(state.needs[slot].labels) & ~int(state.nodes[node].labels)
            if lacking:
                raise _broken(
                    "labels", f"slot {slot} is on node {node}, which lacks labels {lacking:b} of its job"
                )
            amount = _amount(state, state.needs[slot], node, tasks)
            taken[node] = tuple(  # type: ignore[assignment]
                before + mine - missing
                for before, mine, missing in zip(taken[node], amount, owed, strict=True)
            )
    for number in range(len(state.nodes)):
        node = state.nodes[number]
        free = (int(node.free_gpu), int(node.free_cpu), int(node.free_memory))
        capacity = (int(node.gpu), int(node.cpu), int(node.memory))
        if min(free) < 0 or any(f + t != c for f, t, c in zip(free, taken[number], capacity, strict=True)):
            raise _broken("capacity", f"node {number} has {capacity}: {free} free and {taken[number]} taken")


def _check_placements(state: NodesState, held: Places, bound: Places) -> None:
    cluster, spare, at = state.cluster[0], 0, state.cluster[0].unused_head
    while at >= 0:
        spare, at = spare + 1, state.placements[at].follows
    used = sum(len(places) for places in (*held.values(), *bound.values()))
    for slot in held:
        at = state.needs[slot].reservation
        while at >= 0:
            used, at = used + 1, state.placements[at].follows
    if spare != cluster.unused or spare + used != len(state.placements):
        raise _broken("placements", f"{used} are used and {spare} spare, of {len(state.placements)}")


def _check_machines(state: NodesState, held: Places, bound: Places) -> None:
    """Every machine lists exactly the placements on it, counts its claims, and runs nothing before it is up."""
    now, there = state.pool[0].now, defaultdict[int, int](int)
    for places in (*held.values(), *bound.values()):
        for node in places:
            there[node] += 1
    rented = 0
    for number in range(len(state.machines)):
        machine, listed, claims, before, at = (
            state.machines[number],
            0,
            0,
            -1,
            state.machines[number].residents,
        )
        while at >= 0:
            placement = state.placements[at]
            if placement.node != number or placement.before != before:
                raise _broken("residents", f"placement {at} is listed on node {number}, and does not say so")
            waits = placement.unready or placement.owed_gpu or placement.owed_cpu or placement.owed_memory
            claims += bool(waits and state.evictions[placement.slot].claims)
            listed, before, at = listed + 1, at, placement.after
        if listed != there[number]:
            raise _broken("residents", f"node {number} lists {listed} of {there[number]} placements")
        if claims != machine.claims:
            raise _broken("claims", f"node {number} counts {machine.claims} of {claims}")
        if machine.state == UNUSED and listed:
            raise _broken("machine", f"{number} is no more, and has jobs")
        rented += bool(machine.state != UNUSED and machine.offer >= 0)
        if machine.offer >= 0 and not machine.up_s <= now:
            for slot, places in held.items():
                if number in places:
                    raise _broken("machine", f"{number} is not up, and runs the job in slot {slot}")
    rented += sum(state.needs[slot].rented for slot in held)
    if rented != state.cluster[0].rented:
        raise _broken("machine", f"{rented} are rented, {state.cluster[0].rented} are counted")


def _check_timers(state: NodesState, live: set[int], holding: set[int]) -> None:
    """Whatever is due has its timer, the right one, and the heap is one."""
    timers, found = state.timers, set[int]()
    for at in range(state.cluster[0].timers):
        timer = timers[at]
        owner = int(timer.owner)
        if state.timer_of[owner] != at:
            raise _broken("timers", f"entry {at} is of owner {owner}, who knows {state.timer_of[owner]}")
        found.add(owner)
        above = timers[(at - 1) // 2]
        if at > 0 and (above.at_s, above.rank) > (timer.at_s, timer.rank):
            raise _broken("timers", f"entry {at} is earlier than the one above it")
        kind, order = divmod(int(timer.rank), KIND)
        if owner == POLICY:
            continue
        slot, number = owner // 2, owner // 2 - 1
        if owner % 2 == 0:
            machine = state.machines[number]
            if (timer.at_s, kind, order) != (machine.due_s, machine.due, number):
                raise _broken("timers", f"entry {at} is not what machine {number} has to expect")
            continue
        when = _dues(state, slot)
        if slot not in live or order != state.jobs[slot].seq or when.get(kind) != timer.at_s:
            raise _broken("timers", f"entry {at} is not what its job (slot {slot}) has to expect")
        if timer.at_s > min(when.values()):
            raise _broken("timers", f"something else happens to slot {slot} before {timer.at_s} s")
    for slot in live:
        if 1 + 2 * slot not in found and min(_dues(state, slot).values()) < math.inf:
            raise _broken("timers", f"something happens to slot {slot}, and it has no timer")
        if slot in holding and 1 + 2 * slot not in found:
            raise _broken("timers", f"slot {slot} holds resources and never ends")
    for number in range(len(state.machines)):
        if 2 + 2 * number not in found and state.machines[number].due_s < math.inf:
            raise _broken("timers", f"something happens to machine {number}, and it has no timer")


def _dues(state: NodesState, slot: int) -> dict[int, float]:
    """What may happen to a live job, by kind."""
    need, progress = state.needs[slot], state.progress[slot]
    eviction = state.evictions[slot]
    found = {int(need.alarm): float(need.alarm_s)}
    if need.holder >= 0:
        found |= {FINISH: progress.finish_at, OUTRUN: progress.outrun_at, VACATE: eviction.vacate_at}
    return found
