"""The cluster's state: a few arrays of records, one record a live job, re-used when the job is finished.

Three groups, by who may touch them: policies read `jobs`, `progress` is the engine's account of
every job, `groups` and `order` keep the active jobs in the policy's order. A field of such an array is a column
(`as_array(state.jobs)["units"]`), and a copy of the state is a few array copies.

Accounting is lazy: a job's record is brought up to date only when the job's own grant changes, never because
something else happened. An input without a decision (a heartbeat, a quote) therefore cannot change a schedule, not
even in the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from betimes.core.closings import Closing
from betimes.core.instruction import Instruction
from betimes.core.placements import Footprint, Node, Placement
from betimes.core.status import NEED_LOG, NEED_SLOTS
from betimes.kernels import Floats, FloatTable, Ints, IntTable, Records, Struct, as_array, blank, view_by

UNLIMITED = 1 << 62  # events


class Job:
    """The fields of a job that a policy may read, in a pool or on nodes: a cache line."""

    seq: int  # order of submission; the tie-break everywhere
    max_units: int  # most units the job can use
    units: float  # units held
    key: float  # the policy's rank, smaller first
    remaining_s: float  # work left as believed, at the moment of the decision: seconds on one unit
    attained: float  # unit-seconds held so far, at the moment of the decision
    size_s: float  # total work as believed, seconds on one unit
    submit_s: float


class PoolJob(Job):
    """The further fields that a policy for a pool may read. The fields that every decision reads come first."""

    least: float  # smallest grant the core accepts: min_units, or any fraction of one unit
    full_speed: float  # speed-up at max_units
    group: int  # the class the policy's `classify` put it in
    min_units: int  # fewest units it can run on
    curve: int  # row of `speedup`
    seen_sum: float  # contention: the pool's `contention` at submission, less what the job saw then
    seen_count: float  # and its `events` likewise


class Progress:
    """The engine's account of a job, in a pool or on nodes."""

    served_by: int  # the last decision that served the job; -1: the slot is free
    finish_at: float  # infinity: not under the present grant
    outrun_at: float  # when the work done reaches the believed size; infinity: never
    since: float  # when the present grant began; the fields below are true at that instant
    rate: float  # work a second under the present grant
    stall: float  # restart seconds still to pass before work goes on
    believed_left: float  # remaining work as believed
    believed_per_work: float  # how much belief shrinks for a second of work
    work_left: float  # true remaining work, seconds on one unit
    attained: float  # unit-seconds
    started_s: float  # NaN: never
    stalled_s: float  # seconds lost to restarts
    preemptions: int
    row: int  # row of the job in the workload
    # What `core.shares` needs, where users share:
    user: int  # row of `State.users`
    priority: int  # among the jobs of its user
    charge: float  # what a unit counts for its user
    unit_memory: float  # MiB of a unit, for the user's limit


class User:
    """A user's share: the weight, what the user's jobs hold now and have held of late, and the limits (`core.shares`).

    Of length 0 where users do not share.
    """

    weight: float
    half_life_s: float
    recent: float  # charge held of late: a mean in which the past counts half as much after each half-life
    since_s: float  # when that was true
    charge: float  # held now
    running: int  # jobs that hold something
    units: float  # that these can use
    memory: float  # MiB, on those
    bound: int  # jobs that hold nothing yet, and are bound to nodes: limits count them, too
    bound_units: float
    bound_memory: float
    most_running: float  # limits of these three; infinity: none
    most_units: float
    most_memory: float
    ahead: float  # while jobs are put in order: the charge of those of the user before the next one
    next_running: float  # likewise, of those that may run
    next_units: float
    next_memory: float
    # Under policies that divide units in no order, in a pool (`core.pool.order.divide`):
    demand: float  # units that the user's jobs can use
    holds: float  # that they hold
    part: float  # that they may have now


class PoolProgress(Progress):
    """The pool engine's account of a job, whose grant can be of any width."""

    units_before: float  # the grant in force before `since`
    stall_before: float
    resizes: int
    resized_s: float  # when its present width began
    resized_before_s: float  # and the width in force before `since`
    asked_units: (
        float  # units that the policy gave it, before the decision was curtailed (`curtailing.asked_for`)
    )
    curtailed: int  # why it got another number: `curtailing`'s codes, 0: it got them


class Group:
    """A class of jobs, by the policy's `classify`."""

    head: int  # the group's jobs are order[g, head:tail]
    tail: int
    demand: float  # sum of what each can use of the pool
    left_out: int  # jobs behind `tail` while a policy decides, which their users' limits keep from running


class Pool:
    """The scalars of the state; an array of one record."""

    units: float  # size of the pool
    fractional: int  # 1: grants may be any real number
    restart_s: float  # lost whenever a job's grant changes after it has run
    resize_interval_s: float  # a width stands at least so long, unless the job is preempted; 0: no such rule
    resize_gain: int  # 1: a width changes only where that pays
    now: float  # s
    wakeup: float  # when the policy, or the gate on resizes, wants a decision if nothing happens before
    exempts: int  # 1: some closings do not concern all jobs (`core.closings`)
    opens_at: float  # when the first resize that came too soon is let through, or a closed node opens; else infinity
    period: float  # > 0: until something else happens, wake-ups this far apart all decide the same
    contention: float  # sum over all events of the number of active jobs just before the event
    events: int  # events so far; each is one sample of the contention
    next_finish: float
    finisher: int  # slot of the job that finishes then, -1: none
    tied: int  # how many jobs finish then
    next_outrun: float
    outrunner: int  # slot of the job that outruns its estimate then, -1: none
    active: int  # jobs submitted and not finished
    holders: int  # length of `State.holders`
    with_minimum: int  # active jobs that need more than one unit
    budget: int  # events that may still happen before the loop lets its caller look at the keyboard
    used: float  # units held by all
    submitted: int  # jobs so far; the next job's `seq`
    free: int  # length of the stack `State.free`
    still_served: int  # how many holders the last decision served again
    asked_units: float  # units that the last decision handed out
    decision: int  # grows with every decision; marks whom it served
    segments: int  # length of `State.segments`
    offender: int  # slot named by a refused decision, -1: none
    unused_head: int  # head of the list of unused placements, -1: none
    unused: int  # their number
    touched: int  # a slot whose placements have changed at `instant`, the head of their list; -1: none
    instant: float  # of the last decision, s
    pending: int  # 1: the policy is to be asked before anything else happens
    logged: int  # length of `State.log`


class Grant:
    """One line of a decision: units for the job in a slot. Jobs not named get nothing."""

    job: int
    units: float


class Again:
    """The time of a policy's next decision."""

    at_s: float  # the policy is asked again then if nothing happens before; infinity: never
    period_s: (
        float  # > 0: it would decide the same at at_s, at_s + period_s, ... until something else happens
    )


class Segment:
    """The units that a job held, and when: one record each time a grant that lasted ends."""

    row: int
    start_s: float
    end_s: float
    units: float


class View(Struct):
    """The part of the state that a policy's hooks read."""

    jobs: Records[PoolJob]  # (slots,)
    groups: Records[Group]  # (groups,)
    order: IntTable  # (groups, places) slots in the order of (key, seq)
    pool: Records[Pool]  # (1,)
    speedup: FloatTable  # (curves, widest + 1)
    params: Floats  # the policy's parameters, in the order it declares them
    table: IntTable  # (rows, columns) what its `prepare` worked out


class State(Struct):
    """Everything the engine knows about a pool at one instant."""

    jobs: Records[PoolJob]
    groups: Records[Group]
    order: IntTable
    pool: Records[Pool]
    speedup: FloatTable
    params: Floats
    table: IntTable
    progress: Records[PoolProgress]  # (slots,)
    holders: Ints  # (slots,) slots that hold units
    free: Ints  # (slots,) stack of unused slots
    grants: Records[Grant]  # (slots,)
    wakeups: Records[Again]  # (1,)
    segments: Records[Segment]  # ; of length 0 where none are recorded
    # Of length 0 where units are nowhere in particular:
    nodes: Records[Node]
    footprints: Records[Footprint]  # (slots,)
    placements: Records[Placement]
    closings: Records[Closing]  # of length 0 where no node closes
    log: Records[Instruction]  # of length 0 where it is not read (`grant_log`)
    users: Records[User]  # of length 0 where users do not share


view_of = view_by(View, State)
"""The fields of the state that a policy may read."""


def new_state(
    slots: int,
    groups: int,
    *,
    units: float,
    fractional: bool,
    restart_s: float,
    speedup: Floats,
    params: Floats,
    table: Ints,
    segments: int = 0,
    resize_interval_s: float = 0.0,
    resize_gain: bool = False,
    capacity: NDArray[np.int64] | None = None,
    logs: bool = False,
) -> State:
    """An empty pool with room for `slots` live jobs and `segments` recorded segments; logs: for the log of decisions.

    capacity: (nodes, 3) in thousandths of GPUs, thousandths of cores, MiB, where the units are on nodes. Units on
    nodes are whole, and so are those of a pool that holds resizes back: raises ValueError with `fractional`.
    """
    if fractional and (resize_interval_s > 0.0 or resize_gain or capacity is not None):
        raise ValueError("fractions of a unit have no place on nodes, and are never held back")
    nodes = _nodes_of(np.zeros((0, 3), dtype=np.int64) if capacity is None else capacity)
    # At any time no more than `units` hold a placement each, and no more held one when the instant began.
    room = 2 * int(units) if len(nodes) > 0 else 0
    progress = blank(PoolProgress, slots)
    as_array(progress)["served_by"] = -1
    pools = blank(Pool, 1)
    pool = pools[0]
    pool.units, pool.fractional, pool.restart_s = units, int(fractional), restart_s
    pool.resize_interval_s, pool.resize_gain = resize_interval_s, int(resize_gain)
    pool.wakeup = pool.opens_at = pool.next_finish = pool.next_outrun = math.inf
    pool.finisher = pool.outrunner = pool.offender = pool.touched = -1
    pool.instant = -math.inf  # what is placed before the first decision was there when its instant began
    pool.unused, pool.unused_head = room, 0 if room else -1
    pool.free = slots
    pool.budget = UNLIMITED
    return State(
        jobs=blank(PoolJob, slots),
        groups=blank(Group, groups),
        order=np.zeros((groups, 2 * slots), dtype=np.int64),
        pool=pools,
        speedup=np.ascontiguousarray(speedup, dtype=np.float64),
        params=np.ascontiguousarray(params, dtype=np.float64),
        table=np.ascontiguousarray(table, dtype=np.int64),
        progress=progress,
        holders=np.zeros(slots, dtype=np.int64),
        free=np.arange(slots, dtype=np.int64)[::-1].copy(),
        grants=blank(Grant, slots),
        wakeups=blank(Again, 1),
        segments=blank(Segment, segments),
        nodes=nodes,
        footprints=blank(Footprint, slots if len(nodes) > 0 else 0),
        placements=chained(blank(Placement, room)),
        closings=blank(Closing, 0),
        log=_log_for(slots, room) if logs else blank(Instruction, 0),
        users=blank(User, 0),
    )


def _log_for(slots: int, placements: int) -> Records[Instruction]:
    """Room for all that one event can bring (`grant_log.has_room_for_an_event`)."""
    return blank(Instruction, 2 * slots + placements)


def with_longer_log(state: State) -> State:
    """The same pool with twice the room in its log."""
    longer: Records[Instruction] = blank(Instruction, 2 * len(state.log))
    as_array(longer)[: len(state.log)] = as_array(state.log)
    return state.replaced(log=longer)


def chained(placements: Records[Placement], first: int = 0) -> Records[Placement]:
    """The same records, those from `first` on as a list of unused ones."""
    as_array(placements)["follows"][first:] = [*range(first + 1, len(placements)), -1][
        : len(placements) - first
    ]
    return placements


def with_nodes(state: State, capacity: NDArray[np.int64], most_units: int) -> State:
    """The same pool with further nodes behind those that it has, and room for `most_units` units on all of them.

    capacity: of the new nodes, as in `new_state`. The old state, whose log has been read, must not be used any more.
    Raises ValueError for a pool that was made without nodes.
    """
    if len(state.footprints) < len(state.free):
        raise ValueError("this pool was made without nodes")
    added, old = _nodes_of(capacity), len(state.placements)
    nodes = blank(Node, len(state.nodes) + len(added))
    as_array(nodes)[: len(state.nodes)] = as_array(state.nodes)
    as_array(nodes)[len(state.nodes) :] = as_array(added)
    more = max(0, 2 * most_units - old)
    placements = blank(Placement, old + more)
    as_array(placements)[:old] = as_array(state.placements)
    if more:
        pool = state.pool[0]
        chained(placements, old)
        as_array(placements)["follows"][-1] = pool.unused_head
        pool.unused_head, pool.unused = old, pool.unused + more
    log = _log_for(len(state.free), len(placements)) if len(state.log) > 0 else state.log
    return state.replaced(nodes=nodes, placements=placements, log=log)


def _nodes_of(capacity: NDArray[np.int64]) -> Records[Node]:
    nodes = blank(Node, len(capacity))
    columns = as_array(nodes)
    for at, name in enumerate(("gpu", "cpu", "memory")):
        columns[name] = columns[f"free_{name}"] = capacity[:, at]
    columns["up"] = 1
    return nodes


def grown(state: State) -> State:
    """The same pool with twice the slots; the old state, whose log has been read, must not be used any more."""
    old = len(state.free)
    bigger = _like(state, 2 * old, len(state.segments))
    as_array(bigger.jobs)[:old] = as_array(state.jobs)
    as_array(bigger.progress)[:old] = as_array(state.progress)
    as_array(bigger.groups)[:] = as_array(state.groups)
    bigger.order[:, : 2 * old] = state.order
    bigger.holders[:old] = state.holders
    as_array(bigger.segments)[:] = as_array(state.segments)
    bigger.pool[0] = state.pool[0]
    unused = int(state.pool[0].free)
    bigger.free[:old] = np.arange(old, 2 * old)[::-1]
    bigger.free[old : old + unused] = state.free[:unused]
    bigger.pool[0].free = old + unused
    bigger = bigger.replaced(users=state.users)
    if len(state.nodes) == 0:
        return bigger
    as_array(bigger.footprints)[:old] = as_array(state.footprints)
    log = _log_for(2 * old, len(state.placements)) if len(state.log) > 0 else state.log
    return bigger.replaced(nodes=state.nodes, placements=state.placements, log=log)


GROWTH = {NEED_SLOTS: grown, NEED_LOG: with_longer_log}
"""The columns that each status asks for, but for segments, which are the driver's."""


def room_to_play(state: State) -> State:
    """A second state of the same shape for `snapshot.copy_into`; shares what no transition changes."""
    return _like(state, len(state.free), 0)


def is_room_for(state: State, spare: State) -> bool:
    """Whether a state from `room_to_play` still has the same shape, and shares all unchanging columns."""
    return (
        len(spare.free) == len(state.free)
        and len(spare.nodes) == len(state.nodes)
        and len(spare.placements) == len(state.placements)
        and spare.speedup is state.speedup
        and spare.params is state.params
        and spare.table is state.table
        and spare.closings is state.closings
        and len(spare.users) == len(state.users)
    )


def clear(spare: State) -> None:
    """Reset a played state to that of `room_to_play`; `copy_into` writes pool, groups and nodes."""
    for column in (spare.jobs, spare.progress, spare.grants, spare.wakeups, spare.footprints):
        as_array(column).view(np.uint8)[...] = 0  # as bytes: record by record it takes twenty times as long
    as_array(spare.progress)["served_by"] = -1
    spare.order[...], spare.holders[...] = 0, 0


def _like(state: State, slots: int, segments: int) -> State:
    pool = state.pool[0]
    fresh = new_state(
        slots,
        len(state.groups),
        units=pool.units,
        fractional=bool(pool.fractional),
        restart_s=pool.restart_s,
        speedup=state.speedup,
        params=state.params,
        table=state.table,
        segments=segments,
    )
    return fresh.replaced(
        speedup=state.speedup,
        params=state.params,
        table=state.table,
        nodes=blank(Node, len(state.nodes)),
        footprints=blank(Footprint, slots if len(state.nodes) > 0 else 0),
        placements=blank(Placement, len(state.placements)),
        closings=state.closings,
        users=blank(User, len(state.users)),
    )


class PoolRules(Struct):
    """The parts of the loop that a policy and a choice of sizes need, and the policy's hooks (`policies.hooks`)."""

    ranked: bool
    reads_progress: bool
    learns: bool  # beliefs come from the user's last two jobs
    splits: bool  # where users share, it is asked about the jobs of each user alone, with the user's units
    rank: Callable[[View, float, Ints, Floats], None]
    classify: Callable[[View, int], int]
    allocate: Callable[[View, float, Records[Grant], Records[Again]], int]
    share: Callable[[State, int, Floats], int]  # `order.share_in_group`, where users share
