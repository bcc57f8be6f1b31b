"""The cluster's state as columns: one row a live job, re-used when the job is finished.

Three groups, by who may touch them: `Jobs` is what a policy reads, `Progress` is the engine's own account of
every job, `Queue` keeps the active jobs in the policy's order. `State` holds them together with the scalars of
the clock. Everything is a NumPy array, so that a copy of the state is a few array copies.

Accounting is lazy: a job's row is brought up to date only when the job's own grant changes, never because
something else happened. What nobody asked for (a heartbeat, a quote) therefore cannot change a schedule, not
even in the last bit.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar, get_type_hints

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Group = TypeVar("Group", bound=NamedTuple)

# Cells of `State.clock`.
NOW = 0  # seconds
WAKEUP = 1  # when the policy wants to decide again, if nothing happens before
PERIOD = 2  # > 0: until something else happens, every wake-up decides the same, this many seconds apart
CONTENTION = 3  # sum over all events so far of the number of active jobs just before the event
NEXT_FINISH = 4
NEXT_OUTRUN = 5
CLOCK_CELLS = 6

# Cells of `State.tally`.
ACTIVE = 0  # jobs submitted and not finished
HOLDERS = 1  # length of `State.holders`
FINISHER = 2  # slot of the job that finishes at NEXT_FINISH, -1: none
OUTRUNNER = 3  # slot of the job that outruns its estimate at NEXT_OUTRUN, -1: none
EVENTS = 4  # events so far; each is one sample of the contention
ARRIVALS = 5  # jobs submitted so far; the next job's `seq`
FREE = 6  # length of the stack `State.free`
STAMP = 7  # grows with every decision; marks whom it served
SEGMENTS = 8  # length of `State.segments`
OFFENDER = 9  # slot named by a refused decision
TIED = 10  # how many holders finish at NEXT_FINISH
TALLY_CELLS = 11

# Columns of `Queue.ends`.
HEAD = 0
TAIL = 1


class Jobs(NamedTuple):
    """What a policy may read; shape (slots,) each."""

    seq: Ints  # order of submission; the tie-break everywhere
    min_units: Ints  # fewest units the job can run on
    max_units: Ints  # most units it can use
    least: Floats  # smallest grant the core accepts: min_units, or any fraction of one unit
    curve: Ints  # row of `View.speedup`
    full_speed: Floats  # speed-up at max_units
    submit_s: Floats
    group: Ints  # the class the policy's `classify` put it in
    seen_sum: Floats  # contention: `CONTENTION` at submission, less what the job saw at that moment
    seen_count: Floats  # and `EVENTS` likewise
    size: Floats  # total work as believed, seconds on one unit
    remaining: Floats  # work left as believed, at the moment of the decision
    attained: Floats  # unit-seconds held so far, at the moment of the decision
    units: Floats  # units held
    key: Floats  # the policy's rank, smaller first


class Progress(NamedTuple):
    """The engine's account of each job, true at the instant `since`; shape (slots,) each."""

    row: Ints  # row of the job in the workload
    since: Floats  # when the present grant began
    work_left: Floats  # true remaining work, seconds on one unit
    believed_left: Floats  # remaining work as believed
    believed_per_work: Floats  # how much belief shrinks for a second of work
    rate: Floats  # work a second under the present grant
    stall: Floats  # restart seconds still to pass before work goes on
    attained: Floats  # unit-seconds
    finish_at: Floats  # infinity: not under the present grant
    outrun_at: Floats  # when the work done reaches the believed size; infinity: never
    units_before: Floats  # the grant in force before `since`
    stall_before: Floats
    started_s: Floats  # NaN: never
    stalled_s: Floats  # seconds lost to restarts
    preemptions: Ints
    resizes: Ints
    mark: Ints  # the last decision that served the job; -1: the slot is free


class Queue(NamedTuple):
    """The active jobs of each group, in the order of (key, seq)."""

    order: Ints  # (groups, places) slots
    ends: Ints  # (groups, 2): the jobs are order[g, ends[g, HEAD]:ends[g, TAIL]]
    demand: Floats  # (groups,) sum of max_units


class Machine(NamedTuple):
    """The pool and its physics."""

    units: float
    fractional: bool  # grants may be any real number
    restart_s: float  # lost whenever a job's grant changes after it has run


class Grants(NamedTuple):
    """A decision: units for the jobs named, nothing for all others."""

    count: Ints  # (1,)
    job: Ints  # (slots,)
    units: Floats  # (slots,)
    period: Floats  # (1,) > 0: the decision is the same at wake-ups this far apart, until something else happens


class View(NamedTuple):
    """What a policy's hooks are given to read."""

    jobs: Jobs
    queue: Queue
    machine: Machine
    clock: Floats
    tally: Ints
    speedup: Floats  # (curves, widest + 1)
    params: Floats  # the policy's parameters, in the order it declares them
    table: Ints  # (rows, columns) what its `prepare` worked out


class Segments(NamedTuple):
    """Who held what, when: one row each time a grant that lasted ends."""

    row: Ints
    start_s: Floats
    end_s: Floats
    units: Floats


class State(NamedTuple):
    """Everything the engine knows about a pool at one instant."""

    visible: View
    progress: Progress
    holders: Ints  # slots that hold units, in the order granted
    free: Ints  # stack of unused slots
    grants: Grants
    segments: Segments


# The columns that a play-out changes; the others are shared between a state and its copies.
PLAYED_JOBS = ("remaining", "attained", "units", "key")
PLAYED_PROGRESS = tuple(name for name in Progress._fields if name != "row")


def new_state(
    slots: int,
    groups: int,
    machine: Machine,
    speedup: Floats,
    params: Floats,
    table: Ints,
    segments: int = 0,
) -> State:
    """An empty pool with room for `slots` live jobs and `segments` recorded segments."""
    floats: dict[str, Any] = {"dtype": np.float64}
    ints: dict[str, Any] = {"dtype": np.int64}
    jobs, progress = blank(Jobs, slots), blank(Progress, slots)
    progress.mark[:] = -1
    clock = np.zeros(CLOCK_CELLS, **floats)
    clock[[WAKEUP, NEXT_FINISH, NEXT_OUTRUN]] = np.inf
    tally = np.zeros(TALLY_CELLS, **ints)
    tally[[FINISHER, OUTRUNNER, OFFENDER]] = -1
    tally[FREE] = slots
    view = View(
        jobs=jobs,
        queue=Queue(
            np.zeros((groups, 2 * slots), **ints), np.zeros((groups, 2), **ints), np.zeros(groups, **floats)
        ),
        machine=machine,
        clock=clock,
        tally=tally,
        speedup=np.ascontiguousarray(speedup, dtype=np.float64),
        params=np.ascontiguousarray(params, dtype=np.float64),
        table=np.ascontiguousarray(table, dtype=np.int64),
    )
    return State(
        visible=view,
        progress=progress,
        holders=np.zeros(slots, **ints),
        free=np.arange(slots, **ints)[::-1].copy(),
        grants=Grants(
            np.zeros(1, **ints), np.zeros(slots, **ints), np.zeros(slots, **floats), np.zeros(1, **floats)
        ),
        segments=blank(Segments, segments),
    )


def grown(state: State) -> State:
    """The same pool with twice the slots; the old state must not be used any more."""
    old = len(state.free)
    view = state.visible
    bigger = new_state(
        2 * old,
        len(view.queue.demand),
        view.machine,
        view.speedup,
        view.params,
        view.table,
        len(state.segments.row),
    )
    for column, fresh in zip(view.jobs, bigger.visible.jobs, strict=True):
        fresh[:old] = column
    for column, fresh in zip(state.progress, bigger.progress, strict=True):
        fresh[:old] = column
    bigger.visible.queue.order[:, : 2 * old] = view.queue.order
    bigger.visible.queue.ends[:] = view.queue.ends
    bigger.visible.queue.demand[:] = view.queue.demand
    bigger.visible.clock[:] = view.clock
    bigger.visible.tally[:] = view.tally
    bigger.holders[:old] = state.holders
    unused = view.tally[FREE]
    bigger.free[:old] = np.arange(old, 2 * old)[::-1]
    bigger.free[old : old + unused] = state.free[:unused]
    bigger.visible.tally[FREE] = old + unused
    for column, fresh in zip(state.segments, bigger.segments, strict=True):
        fresh[:] = column
    return bigger


def twin_of(state: State) -> State:
    """A second state for play-outs: shares what a play-out only reads, has its own room for the rest."""
    view = state.visible
    own = new_state(
        len(state.free), len(view.queue.demand), view.machine, view.speedup, view.params, view.table
    )
    jobs = view.jobs._replace(**{name: getattr(own.visible.jobs, name) for name in PLAYED_JOBS})
    progress = state.progress._replace(**{name: getattr(own.progress, name) for name in PLAYED_PROGRESS})
    # NamedTuple._replace keeps the array objects, so table, params and speedup stay shared as well.
    shared = view._replace(jobs=jobs, queue=own.visible.queue, clock=own.visible.clock, tally=own.visible.tally)
    return own._replace(visible=shared, progress=progress)


def blank(group: type[Group], length: int) -> Group:
    """A group of columns of zeros, each of the type that the group declares for it."""
    kinds = get_type_hints(group)
    return group(**{name: np.zeros(length, np.int64 if kinds[name] == Ints else np.float64) for name in kinds})
