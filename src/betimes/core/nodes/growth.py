"""The columns of a cluster of nodes made, made longer, and copied for a play-out."""

from __future__ import annotations

import math
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from betimes.core.closings import Closing
from betimes.core.instruction import Instruction
from betimes.core.nodes.columns import (
    BLOCK,
    CLASSES,
    FEATURE_COLUMNS,
    GROUP,
    OWNED,
    WORD,
    Absence,
    Block,
    Choice,
    Cluster,
    End,
    Entry,
    Eviction,
    Fate,
    Fence,
    Group,
    Lease,
    Machine,
    Need,
    NodesState,
    Renting,
    Residence,
    Room,
    Step,
    Tally,
    TaskDemand,
    Terms,
    Timer,
)
from betimes.core.placements import Node
from betimes.core.pool.columns import UNLIMITED, Job, Pool, Progress, Segment, User
from betimes.core.status import NEED_LOG, NEED_NODES, NEED_PLACEMENTS, NEED_SLOTS, NEED_STEPS
from betimes.kernels import Floats, FloatTable, Ints, Records, as_array, blank

R = TypeVar("R")


def new_nodes_state(
    capacity: NDArray[np.int64],
    kinds: NDArray[np.int64],
    *,
    units: float,
    restart_s: float,
    seed: int,
    by_priority: bool,
    params: Floats,
    guarded: bool = False,
    slots: int,
    placements: int,
    segments: int = 0,
    absences: int = 0,
    steps: int = 1,
    offers: Records[Terms] | None = None,
    fates: int = 0,
    leases: int = 0,
    rents_alone: bool = False,
    log: int = 0,
    quota: int = UNLIMITED,
    lease_s: float = math.inf,
    longest_run_s: float = math.inf,
    observed: bool = False,
    interference: FloatTable | None = None,
    hardware: FloatTable | None = None,
    largest: NDArray[np.int64] | None = None,
    labels: NDArray[np.int64] | None = None,
    families: NDArray[np.int64] | None = None,
    family_count: int = 1,
    demands: Records[TaskDemand] | None = None,
) -> NodesState:
    """A cluster with its own nodes only, and no jobs.

    capacity: (nodes, 3) in thousandths of GPUs, thousandths of cores, MiB; kinds: (nodes,). largest: (3,) the most that
    any machine has of each, owned or on offer; by default of those nodes. labels: (nodes,) as `Node.labels`.
    families: (nodes,) as `Machine.family`, of so many (`family_count`), by default all of one; demands: as
    `State.demands`, by default none.
    by_priority: jobs of a higher priority may preempt those of a lower, and of one priority a trial job the others;
    else only the latter. guarded: the hooks are a user's. quota, lease_s, longest_run_s: as in `Cluster`. observed:
    features are written. rents_alone: machines are rented for one job alone.

    There is room for `slots` live jobs, `placements` of them on nodes, recorded segments, absences, leases and
    instructions, `steps` of a plan of reservations, and `fates` drawn ahead for each offer.
    """
    count = len(capacity)
    terms: Records[Terms] = blank(Terms, 0) if offers is None else offers
    state = _blank_state(max(1, count), slots, placements, steps, params, guarded=guarded).replaced(
        segments=blank(Segment, segments),
        absences=blank(Absence, absences),
        offers=terms,
        fates=blank(Fate, fates * len(terms)),
        orders=_whole(2 * len(terms)),
        leases=blank(Lease, leases),
        rentings=blank(Renting, slots if rents_alone else 0),
        log=blank(Instruction, log),
        interference=np.zeros((0, 0)) if interference is None else interference,
        hardware=np.zeros((0, 0)) if hardware is None else hardware,
        demands=blank(TaskDemand, 0) if demands is None else demands,
    )
    nodes, machines = as_array(state.nodes)[:count], as_array(state.machines)[:count]
    for at, name in enumerate(("gpu", "cpu", "memory")):
        nodes[name] = nodes[f"free_{name}"] = capacity[:, at]
    nodes["up"] = 1
    nodes["labels"] = 0 if labels is None else labels
    machines["state"] = OWNED
    machines["kind"] = kinds
    machines["family"] = 0 if families is None else families
    pool, cluster = state.pool[0], state.cluster[0]
    pool.units, pool.restart_s, pool.free, pool.budget = units, restart_s, slots, UNLIMITED
    pool.wakeup = math.inf
    pool.offender = -1
    most: list[float] = (capacity if largest is None else largest[None]).max(axis=0, initial=1).tolist()
    cluster.most_gpu, cluster.most_cpu, cluster.most_memory = most
    cluster.families = family_count
    cluster.seed = seed
    cluster.level_mask = -1 if by_priority else 1
    cluster.seen_change = cluster.seen_freed = cluster.reserved = -1
    cluster.select_s = math.inf
    cluster.leavers = -1
    cluster.unused = placements
    cluster.quota, cluster.lease_s, cluster.longest_run_s = quota, lease_s, longest_run_s
    cluster.observed = int(observed)
    cluster.owned_cpu, cluster.owned_memory = int(capacity[:, 1].sum()), int(capacity[:, 2].sum())
    cluster.guarded = int(guarded)
    return state


def grown(state: NodesState, status: int) -> NodesState:
    """The same cluster with the room that one of the statuses in `GROWTH` asks for, about twice as much as before.

    The old state must not be used any more.
    """
    return GROWTH[status](state)


def _with_more_slots(state: NodesState) -> NodesState:
    old = len(state.free)
    bigger = _resized(state, slots=2 * old)
    unused = int(state.pool[0].free)
    bigger.free[:old] = np.arange(old, 2 * old)[::-1]
    bigger.free[old : old + unused] = state.free[:unused]
    bigger.pool[0].free = old + unused
    return bigger


def _with_more_placements(state: NodesState) -> NodesState:
    old = len(state.placements)
    bigger = _resized(state, placements=2 * old)
    cluster = bigger.cluster[0]
    as_array(bigger.placements)["follows"][2 * old - 1] = cluster.unused_head
    cluster.unused_head = old
    cluster.unused += old
    return bigger


def _with_more_nodes(state: NodesState) -> NodesState:
    """Room for twice the machines, and in the log for decisions about them at one instant.

    The ring of nodes that had something freed starts anew, so that all that wait look at every node again.
    """
    nodes = 2 * len(state.nodes)
    wider = _of_nodes(nodes, len(state.free), guarded=bool(state.cluster[0].guarded))
    wider |= {"claimed": _of_steps(len(state.steps), nodes)["claimed"]}
    for name, column in wider.items():
        mine = np.asarray(getattr(state, name))
        np.asarray(column)[: len(mine)] = mine
    as_array(state.needs)["freed_seen"] = -1
    state.cluster[0].changed += 1
    bigger = state.replaced(**wider)
    if 0 < len(bigger.log) < bigger.cluster[0].logged + 8 * len(bigger.nodes):
        return _with_longer_log(bigger)
    return bigger


def _with_more_steps(state: NodesState) -> NodesState:
    return state.replaced(**_of_steps(2 * len(state.steps), len(state.nodes)))


def _with_longer_log(state: NodesState) -> NodesState:
    longer: Records[Instruction] = blank(Instruction, 2 * len(state.log) + 8 * len(state.nodes))
    as_array(longer)[: len(state.log)] = as_array(state.log)
    return state.replaced(log=longer)


GROWTH = {
    NEED_SLOTS: _with_more_slots,
    NEED_PLACEMENTS: _with_more_placements,
    NEED_STEPS: _with_more_steps,
    NEED_NODES: _with_more_nodes,
    NEED_LOG: _with_longer_log,
}
"""The columns that each status asks for, but for records (NEED_SEGMENTS) and fates, which are the driver's."""


def room_to_play(state: NodesState) -> NodesState:
    """A second state of the same shape for `snapshot.copy_into`; nothing is recorded there."""
    shared = ("params", "fates", "interference", "hardware", "demands", "closings")
    recorded = {
        "segments": blank(Segment, 0),
        "absences": blank(Absence, 0),
        "leases": blank(Lease, 0),
        "log": blank(Instruction, 0),
    }
    own = {
        name: mine.copy()
        for name, mine in state.values().items()
        if name not in shared and name not in recorded
    }
    own["shown"] = own["aside" if state.cluster[0].guarded else "nodes"]
    return state.replaced(**own, **recorded)


def _resized(state: NodesState, *, slots: int | None = None, placements: int | None = None) -> NodesState:
    """A copy with at least as much room; slots and placements that are new are not yet on their lists."""
    slots = slots or len(state.free)
    count, old = placements or len(state.placements), len(state.placements)
    fresh = _blank_state(
        len(state.nodes),
        slots,
        count,
        len(state.steps),
        state.params,
        guarded=bool(state.cluster[0].guarded),
    ).replaced(rentings=blank(Renting, slots if len(state.rentings) > 0 else 0))
    follows = as_array(fresh.placements)["follows"][old:].copy()
    recorded = (
        *("segments", "absences", "offers", "fates", "orders", "leases", "log"),
        *("interference", "hardware", "demands", "closings", "users"),
    )
    for name, mine in state.values().items():
        if name not in (*recorded, "params"):
            np.asarray(getattr(fresh, name))[: len(mine)] = np.asarray(mine)
    as_array(fresh.placements)["follows"][old:] = follows
    return fresh.replaced(**{name: getattr(state, name) for name in recorded})


def _blank_state(
    nodes: int, slots: int, placements: int, steps: int, params: Floats, *, guarded: bool
) -> NodesState:
    """Columns of this length in which there is nothing, with lists of what is not in use."""
    room = _blocks_for(slots)
    groups = room // GROUP + 1
    spare = blank(Residence, placements)
    as_array(spare)["follows"] = np.append(np.arange(1, placements), -1)
    progress = blank(Progress, slots)
    as_array(progress)["served_by"] = -1
    return NodesState(
        **_of_nodes(nodes, slots, guarded=guarded),
        jobs=blank(Job, slots),
        needs=blank(Need, slots),
        evictions=blank(Eviction, slots),
        rentings=blank(Renting, 0),
        progress=progress,
        placements=spare,
        cluster=blank(Cluster, 1),
        pool=blank(Pool, 1),
        params=np.ascontiguousarray(params, dtype=np.float64),
        holders=_whole(slots),
        features=np.full((slots, FEATURE_COLUMNS), math.nan),
        free=np.arange(slots, dtype=np.int64)[::-1].copy(),
        queue=blank(Entry, BLOCK * room),
        blocks=blank(Block, room),
        directory=_fences(room),
        block_least_s=np.full((room, CLASSES), math.inf),
        groups=blank(Group, groups),
        group_least_s=np.full((groups, CLASSES), math.inf),
        rooms=blank(Room, 2),
        tally=blank(Tally, 2),
        tally_least_s=np.zeros(CLASSES),
        newcomers=_whole(slots),
        segments=blank(Segment, 0),
        absences=blank(Absence, 0),
        offers=blank(Terms, 0),
        fates=blank(Fate, 0),
        orders=_whole(0),
        leases=blank(Lease, 0),
        log=blank(Instruction, 0),
        interference=np.zeros((0, 0)),
        hardware=np.zeros((0, 0)),
        demands=blank(TaskDemand, 0),
        closings=blank(Closing, 0),
        users=blank(User, 0),
        chosen=_whole(slots),
        ends=blank(End, 2 * slots),
        leavers=blank(End, slots),
        **_of_steps(steps, nodes),
    )


def _of_steps(steps: int, nodes: int) -> dict[str, Any]:
    """The columns of a blank state whose length depends on the length of a plan."""
    return {
        "steps": blank(Step, steps),
        "claimed": _whole((steps + 1) * (nodes // WORD + 1)),
        "spans": blank(End, 2 * steps),
        "open_spans": blank(End, 2 * steps),
        "span_ends_s": np.zeros(2 * steps),
    }


def _of_nodes(nodes: int, slots: int, *, guarded: bool) -> dict[str, Any]:
    """The columns of a blank state whose length depends on the number of nodes."""
    machines = blank(Machine, nodes)
    for name, nothing in (("offer", -1), ("residents", -1), ("due_s", math.inf)):
        as_array(machines)[name] = nothing
    rooms, aside = blank(Node, nodes), blank(Node, nodes)
    return {
        "nodes": rooms,
        "machines": machines,
        "timers": blank(Timer, slots + nodes + 1),
        "timer_of": np.full(2 * max(slots, nodes) + 1, -1),
        "vacated": _whole(nodes),
        "sketch": blank(Node, nodes),
        "beside": blank(Node, nodes),
        "aside": aside,
        "shown": aside if guarded else rooms,
        "plan": blank(Choice, nodes),
        "fitting": _whole(nodes),
        "asked": _whole(max(slots, nodes)),
        "score": np.zeros(max(slots, nodes)),
        "cursor": _whole(nodes),
    }


def _blocks_for(slots: int) -> int:
    """Blocks for a queue of `slots` jobs: twice as many as they fill three quarters (`queue.insert`)."""
    return 2 * (slots // (3 * BLOCK // 4) + 2)


def _fences(count: int) -> Records[Fence]:
    """A directory of blocks that are not in use."""
    fences = blank(Fence, count)
    as_array(fences)["block"] = np.arange(count)
    return fences


def _whole(length: int) -> Ints:
    return np.zeros(length, dtype=np.int64)
