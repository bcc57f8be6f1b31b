"""The state of a cluster of nodes: the pool engine's columns, and where everything is.

`jobs`, `progress` and `pool` are the records of `core.columns`: a job holds all its units or none. Beside them
stand what a job needs (`needs`), the nodes, the placements that tie one to the other, the queue of those that
wait (`core.nodes.queue`) and the heap of what is due (`core.nodes.dues`).

Resources are whole numbers - thousandths of a GPU, thousandths of a core, MiB - so that what is taken and given
back a million times never drifts.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from betimes.core.columns import UNLIMITED, Job, Pool, Progress, Segment
from betimes.core.places import Node, Placement
from betimes.kernels import Floats, Ints, Records, Struct, as_array, blank, view_by

BLOCK = 64
"""Entries in a block of the queue: a change moves at most half as many."""

LARGEST_PRIORITY = 10**6


class Need:
    """What a job needs, and what it has to do with nodes."""

    gpu: int  # of each task: thousandths
    cpu: int  # thousandths of a core
    memory: int  # MiB
    tasks: int  # start together, end together
    seen: int  # length of the log of freed nodes when it last did not fit, -1: not tried yet
    placed: int  # its first placement, -1: none
    holder: int  # its place in `State.holders`, -1: holds nothing
    left_s: float  # when it last vacated; NaN: it has not been preempted, or runs again
    vacate_at: float  # infinity: it has not been told to leave
    preemptor: int  # slot of the job that it makes room for, -1: none
    owed: int  # placements that are still owed something by victims; > 0: nominated
    trial: int  # 1: trial and error, 0: best effort
    level: int  # twice the priority, and one more for a trial job
    grace_s: float  # from being told to leave until it has left
    share: float  # Euclidean norm of the whole job's demand, each resource over the largest node's
    told_s: float  # when it was told to leave
    promised_s: float  # start of its reservation; infinity: it has none
    booked: int  # the first placement of its reservation, -1: none


class Step:
    """What a node has free from an instant on, in the plan of reservations, until the next step."""

    at_s: float
    free_gpu: int
    free_cpu: int
    free_memory: int
    follows: int  # the next step of the same node, -1: none


class Due:
    """Something that will happen to a job at a time that is known."""

    at_s: float
    rank: int  # kind, then order of submission (`dues.kind_of`)
    holder: int  # its place in `State.holders`


class End:
    """When a job begins or ends, while a pass thinks ahead."""

    at_s: float
    rank: int  # whose turn it is at the same time: the smallest first
    slot: int


class Entry:
    """A waiting job in the queue."""

    key: float
    seq: int
    slot: int


class Fence:
    """Where a block stands in the queue."""

    key: float  # no entry of the block ranks before (key, its `seq`), and every entry of earlier blocks does
    block: int  # its number


class Block:
    """A stretch of the queue."""

    head: int  # its entries are queue[block * BLOCK + head : block * BLOCK + tail]
    tail: int
    seq: int  # together with the key of its fence: where it begins
    gpu: int  # no task of any entry needs less than this
    cpu: int
    memory: int


class Choice:
    """So many tasks on this node."""

    node: int
    tasks: int


class Absence:
    """A preemption: when the job was told to leave, when it had left, and when it ran again."""

    row: int
    told_s: float
    left_s: float
    resumed_s: float


class Cluster:
    """The scalars that only this engine has; an array of one record."""

    most_gpu: float  # the largest capacity of any node; 1 where no node has any
    most_cpu: float
    most_memory: float
    waiting: int  # jobs in the queue
    blocks: int  # blocks of the queue in use: directory[front : front + blocks]
    front: int  # the others are before and behind: the first is opened and closed without moving any
    nominated: int  # jobs bound to nodes that their victims have not left yet
    spare: int  # head of the list of unused placements, -1: none
    unused: int  # their number
    freed: int  # nodes that have had something freed, counted since the beginning
    pending: int  # what the driver has still to do at this instant, 0: nothing
    changed: int  # grows whenever something starts, stops, or is expected to stop at another time
    passed: int  # `changed` at the end of the last complete pass, -1: none
    arrived: int  # jobs that have entered the queue since then: newcomers[:arrived]
    seed: int  # of whatever is decided by lot
    draws: int  # decisions on victims taken so far
    absences: int  # length of `State.absences`
    upset: (
        int  # 1: reservations may have to move: since the last pass something has ended early or outrun its
    )
    # belief, a node was opened or closed, or the last pass itself has moved some
    moved: int  # 1: this pass has moved a reservation
    steps: int  # length of the plan of reservations, 0: there is none
    idle: int  # head of the list of its steps that are not used any more, -1: none
    planning: int  # 1: a pass has been interrupted for want of room, and goes on with what it has worked out
    shadow_s: float  # when the job with the reservation can start
    reserved: int  # its slot, -1: nobody has one
    outlasts: int  # 1: a job has started beside it that is believed to run longer
    level_mask: int  # what of a level counts: -1: all of it; 1: only whether it is a trial job
    guarded: int  # 1: hooks are a user's: they are shown copies, and what they answer is looked at twice


class NodesView(Struct):
    """What a policy's hooks are given to read."""

    params: Floats  # the policy's parameters, in the order it declares them
    pool: Records[Pool]  # (1,)
    cluster: Records[Cluster]  # (1,)
    placements: Records[Placement]
    nodes: Records[Node]  # (nodes,); a user's hooks are shown copies
    progress: Records[Progress]  # (slots,)
    needs: Records[Need]  # (slots,)
    jobs: Records[Job]  # (slots,)


class NodesState(Struct):
    """Everything the engine knows about a cluster at one instant, and room to think."""

    jobs: Records[Job]
    needs: Records[Need]
    progress: Records[Progress]
    nodes: Records[Node]
    placements: Records[Placement]
    cluster: Records[Cluster]
    pool: Records[Pool]
    params: Floats
    holders: Ints  # (slots,) those that run or are vacating, in no order
    free: Ints  # (slots,) stack of unused slots
    dues: Records[Due]  # (slots,) heap of one for each of the holders
    due_of: Ints  # (slots,) of each of the holders, where in the heap its own stands
    queue: Records[Entry]  # (BLOCK * blocks,)
    blocks: Records[Block]
    directory: Records[Fence]  # (blocks,) those in use in order, then the others
    log: Ints  # (nodes,) the last nodes that had something freed, a ring
    newcomers: Ints  # (slots,)
    segments: Records[Segment]  # of length 0 where none are recorded
    absences: Records[Absence]
    shown: Records[Node]  # what hooks are shown: the nodes themselves, or `aside`
    # Room to think, of no meaning between two passes:
    sketch: Records[Node]  # (nodes,) the nodes as they would be
    beside: Records[Node]  # (nodes,) what a job may take that outlasts the reservation
    aside: Records[Node]  # (nodes,) what a user's hook is shown of them
    plan: Records[Choice]  # (nodes,)
    fitting: Ints  # (nodes,)
    chosen: Ints  # (slots,)
    asked: Ints  # (slots or nodes, whichever is more) what a user's hook is shown of either
    score: Floats  # (slots or nodes, whichever is more)
    ends: Records[End]  # (2 * slots,) begins and ends
    steps: Records[Step]  # the plan of reservations; node n's begins with step n
    cursor: Ints  # (nodes,) a step of each


view_of = view_by(NodesView, NodesState, nodes="shown")
"""What a policy may read of the state."""


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
) -> NodesState:
    """An empty cluster: capacity (nodes, 3) in thousandths of GPUs, thousandths of cores, MiB; kinds (nodes,).

    by_priority: jobs of a higher priority may preempt those of a lower, and of one priority a trial job the others;
    else only the latter. guarded: the hooks are a user's.

    There is room for `slots` live jobs, `placements` of them on nodes, recorded segments and absences, and `steps`
    of a plan of reservations.
    """
    count, room = len(capacity), _blocks_for(slots)
    nodes = blank(Node, count)
    columns = as_array(nodes)
    for at, name in enumerate(("gpu", "cpu", "memory")):
        columns[name] = columns[f"free_{name}"] = capacity[:, at]
    columns["up"] = 1
    columns["kind"] = kinds
    pools, clusters = blank(Pool, 1), blank(Cluster, 1)
    pool, cluster = pools[0], clusters[0]
    pool.units, pool.restart_s, pool.free, pool.budget = units, restart_s, slots, UNLIMITED
    pool.wakeup = math.inf
    pool.offender = -1
    largest: list[float] = capacity.max(axis=0, initial=1).tolist()
    cluster.most_gpu, cluster.most_cpu, cluster.most_memory = largest
    cluster.seed = seed
    cluster.level_mask = -1 if by_priority else 1
    cluster.passed = cluster.reserved = -1
    cluster.unused = placements
    spare = blank(Placement, placements)
    as_array(spare)["follows"] = np.append(np.arange(1, placements), -1)
    progress = blank(Progress, slots)
    as_array(progress)["mark"] = -1
    aside = blank(Node, count)
    cluster.guarded = int(guarded)
    return NodesState(
        jobs=blank(Job, slots),
        needs=blank(Need, slots),
        progress=progress,
        nodes=nodes,
        placements=spare,
        cluster=clusters,
        pool=pools,
        params=np.ascontiguousarray(params, dtype=np.float64),
        holders=_whole(slots),
        free=np.arange(slots, dtype=np.int64)[::-1].copy(),
        dues=blank(Due, slots),
        due_of=_whole(slots),
        queue=blank(Entry, BLOCK * room),
        blocks=blank(Block, room),
        directory=_fences(room),
        log=_whole(count),
        newcomers=_whole(slots),
        segments=blank(Segment, segments),
        absences=blank(Absence, absences),
        sketch=blank(Node, count),
        beside=blank(Node, count),
        aside=aside,
        shown=aside if guarded else nodes,
        plan=blank(Choice, count),
        fitting=_whole(count),
        chosen=_whole(slots),
        asked=_whole(max(slots, count)),
        score=np.zeros(max(slots, count)),
        ends=blank(End, 2 * slots),
        steps=blank(Step, steps),
        cursor=_whole(count),
    )


def with_more_slots(state: NodesState) -> NodesState:
    """The same cluster with room for twice the live jobs; the old state must not be used any more."""
    old = len(state.free)
    bigger = _resized(state, 2 * old, len(state.placements))
    unused = int(state.pool[0].free)
    bigger.free[:old] = np.arange(old, 2 * old)[::-1]
    bigger.free[old : old + unused] = state.free[:unused]
    bigger.pool[0].free = old + unused
    return bigger


def with_more_placements(state: NodesState) -> NodesState:
    """The same cluster with room for twice the placements; the old state must not be used any more."""
    old = len(state.placements)
    bigger = _resized(state, len(state.free), 2 * old)
    cluster = bigger.cluster[0]
    as_array(bigger.placements)["follows"][2 * old - 1] = cluster.spare
    cluster.spare = old
    cluster.unused += old
    return bigger


def with_more_steps(state: NodesState) -> NodesState:
    """The same cluster with room for a plan of reservations twice as long."""
    return state.replaced(steps=blank(Step, 2 * len(state.steps)))


def room_to_play(state: NodesState) -> NodesState:
    """A second state of the same shape for `snapshot.copy_into`."""
    copy = _resized(state, len(state.free), len(state.placements))
    return copy.replaced(segments=blank(Segment, 0), absences=blank(Absence, 0))


def _resized(state: NodesState, slots: int, placements: int) -> NodesState:
    """A copy with at least as much room; slots and placements that are new are not yet on their lists."""
    nodes = as_array(state.nodes)
    fresh = new_nodes_state(
        np.stack([nodes[name] for name in ("gpu", "cpu", "memory")], axis=1),
        nodes["kind"],
        units=0.0,
        restart_s=0.0,
        seed=0,
        by_priority=False,
        params=state.params,
        guarded=bool(state.cluster[0].guarded),
        slots=slots,
        placements=placements,
        steps=len(state.steps),
    )
    follows = np.append(np.arange(1, placements), -1)
    for name, mine in state.values().items():
        theirs = getattr(fresh, name)
        if len(mine) == len(theirs):
            np.asarray(theirs)[...] = np.asarray(mine)
        elif name not in ("segments", "absences", "directory"):
            np.asarray(theirs)[: len(mine)] = np.asarray(mine)
    as_array(fresh.placements)["follows"][len(state.placements) :] = follows[len(state.placements) :]
    blocks = len(state.directory)
    as_array(fresh.directory)[:blocks] = as_array(state.directory)
    return fresh.replaced(segments=state.segments, absences=state.absences)


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
