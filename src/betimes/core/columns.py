"""The cluster's state: a few arrays of records, one record a live job, re-used when the job is finished.

Three groups, by who may touch them: `jobs` is what a policy reads, `progress` is the engine's own account of
every job, `groups` and `order` keep the active jobs in the policy's order. A field of such an array is a column
(`state.jobs.units`); a copy of the state is a few array copies. Records, and not an array a column, because a
compiled call copies the header of every array it is given.

Accounting is lazy: a job's record is brought up to date only when the job's own grant changes, never because
something else happened. What nobody asked for (a heartbeat, a quote) therefore cannot change a schedule, not
even in the last bit.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Records = np.recarray[Any, np.dtype[np.record]]


def record(**fields: str) -> np.dtype[np.record]:
    """A record type from field names and `f8` or `i8`; all fields take eight bytes."""
    if hidden := [name for name in fields if hasattr(np.record, name)]:
        raise ValueError(f"NumPy's records have attributes {hidden} of their own; choose other names")
    return np.dtype((np.record, np.dtype(list(fields.items()), align=True)))


# The fields that every decision reads come first, so that they share a cache line.
JOB = record(
    seq="i8",  # order of submission; the tie-break everywhere
    max_units="i8",  # most units the job can use
    least="f8",  # smallest grant the core accepts: min_units, or any fraction of one unit
    units="f8",  # units held
    key="f8",  # the policy's rank, smaller first
    remaining_s="f8",  # work left as believed, at the moment of the decision: seconds on one unit
    full_speed="f8",  # speed-up at max_units
    group="i8",  # the class the policy's `classify` put it in
    attained="f8",  # unit-seconds held so far, at the moment of the decision
    min_units="i8",  # fewest units it can run on
    curve="i8",  # row of `speedup`
    size_s="f8",  # total work as believed, seconds on one unit
    submit_s="f8",
    seen_sum="f8",  # contention: the pool's `contention` at submission, less what the job saw then
    seen_count="f8",  # and its `events` likewise
)
"""What a policy may read of a job."""

PROGRESS = record(
    mark="i8",  # the last decision that served the job; -1: the slot is free
    finish_at="f8",  # infinity: not under the present grant
    outrun_at="f8",  # when the work done reaches the believed size; infinity: never
    since="f8",  # when the present grant began; the fields below are true at that instant
    rate="f8",  # work a second under the present grant
    stall="f8",  # restart seconds still to pass before work goes on
    believed_left="f8",  # remaining work as believed
    believed_per_work="f8",  # how much belief shrinks for a second of work
    work_left="f8",  # true remaining work, seconds on one unit
    attained="f8",  # unit-seconds
    units_before="f8",  # the grant in force before `since`
    stall_before="f8",
    started_s="f8",  # NaN: never
    stalled_s="f8",  # seconds lost to restarts
    preemptions="i8",
    resizes="i8",
    row="i8",  # row of the job in the workload
)
"""The engine's account of a job."""

GROUP = record(
    head="i8",  # the group's jobs are order[g, head:tail]
    tail="i8",
    demand="f8",  # sum of their max_units
)

POOL = record(
    units="f8",  # size of the pool
    fractional="i8",  # 1: grants may be any real number
    restart_s="f8",  # lost whenever a job's grant changes after it has run
    now="f8",  # s
    wakeup="f8",  # when the policy wants to decide again, if nothing happens before
    period="f8",  # > 0: until something else happens, wake-ups this far apart all decide the same
    contention="f8",  # sum over all events of the number of active jobs just before the event
    events="i8",  # events so far; each is one sample of the contention
    next_finish="f8",
    finisher="i8",  # slot of the job that finishes then, -1: none
    tied="i8",  # how many jobs finish then
    next_outrun="f8",
    outrunner="i8",  # slot of the job that outruns its estimate then, -1: none
    active="i8",  # jobs submitted and not finished
    holders="i8",  # length of `State.holders`
    wide="i8",  # active jobs that need more than one unit
    used="f8",  # units held by all
    submitted="i8",  # jobs so far; the next job's `seq`
    free="i8",  # length of the stack `State.free`
    kept="i8",  # how many holders the last decision served again
    asked="f8",  # units that the last decision handed out
    stamp="i8",  # grows with every decision; marks whom it served
    segments="i8",  # length of `State.segments`
    offender="i8",  # slot named by a refused decision, -1: none
)
"""The scalars of the state; an array of one record."""

GRANT = record(job="i8", units="f8")
"""One line of a decision: units for the job in a slot. Jobs not named get nothing."""

AGAIN = record(
    at_s="f8",  # when the policy wants to be asked again if nothing happens before; infinity: never
    period_s="f8",  # > 0: it would decide the same at at_s, at_s + period_s, ... until something else happens
)
"""When a policy wants to decide again."""

SEGMENT = record(row="i8", start_s="f8", end_s="f8", units="f8")
"""Who held what, when: one record each time a grant that lasted ends."""


class View(NamedTuple):
    """What a policy's hooks are given to read."""

    jobs: Records  # (slots,) JOB
    groups: Records  # (groups,) GROUP
    order: Ints  # (groups, places) slots in the order of (key, seq)
    pool: Records  # (1,) POOL
    speedup: Floats  # (curves, widest + 1)
    params: Floats  # the policy's parameters, in the order it declares them
    table: Ints  # (rows, columns) what its `prepare` worked out


class State(NamedTuple):
    """Everything the engine knows about a pool at one instant."""

    jobs: Records
    groups: Records
    order: Ints
    pool: Records
    speedup: Floats
    params: Floats
    table: Ints
    progress: Records  # (slots,) PROGRESS
    holders: Ints  # (slots,) slots that hold units
    free: Ints  # (slots,) stack of unused slots
    grants: Records  # (slots,) GRANT
    again: Records  # (1,) AGAIN
    segments: Records  # SEGMENT; of length 0 where none are recorded


def blank(kind: np.dtype[np.record], length: int) -> Records:
    """An array of `length` records, all zero."""
    return np.zeros(length, dtype=kind).view(np.recarray)


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
) -> State:
    """An empty pool with room for `slots` live jobs and `segments` recorded segments."""
    progress = blank(PROGRESS, slots)
    progress.mark[:] = -1
    pool = blank(POOL, 1)
    pool.units, pool.fractional, pool.restart_s = units, fractional, restart_s
    pool.wakeup = pool.next_finish = pool.next_outrun = math.inf
    pool.finisher = pool.outrunner = pool.offender = -1
    pool.free = slots
    return State(
        jobs=blank(JOB, slots),
        groups=blank(GROUP, groups),
        order=np.zeros((groups, 2 * slots), dtype=np.int64),
        pool=pool,
        speedup=np.ascontiguousarray(speedup, dtype=np.float64),
        params=np.ascontiguousarray(params, dtype=np.float64),
        table=np.ascontiguousarray(table, dtype=np.int64),
        progress=progress,
        holders=np.zeros(slots, dtype=np.int64),
        free=np.arange(slots, dtype=np.int64)[::-1].copy(),
        grants=blank(GRANT, slots),
        again=blank(AGAIN, 1),
        segments=blank(SEGMENT, segments),
    )


def grown(state: State) -> State:
    """The same pool with twice the slots; the old state must not be used any more."""
    old = len(state.free)
    bigger = _like(state, 2 * old, len(state.segments))
    bigger.jobs[:old] = state.jobs
    bigger.progress[:old] = state.progress
    bigger.groups[:] = state.groups
    bigger.order[:, : 2 * old] = state.order
    bigger.holders[:old] = state.holders
    bigger.segments[:] = state.segments
    bigger.pool[:] = state.pool
    unused = int(state.pool[0].free)
    bigger.free[:old] = np.arange(old, 2 * old)[::-1]
    bigger.free[old : old + unused] = state.free[:unused]
    bigger.pool.free = old + unused
    return bigger


def room_to_play(state: State) -> State:
    """A second state of the same shape for `snapshot.copy_into`; shares what no transition changes."""
    return _like(state, len(state.free), 0)


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
    return fresh._replace(speedup=state.speedup, params=state.params, table=state.table)
