"""The steps of live nodes, compiled: the twin's own loop, taken one instant at a time."""

from __future__ import annotations

import math

from betimes.core.columns import UNLIMITED
from betimes.core.nodes.columns import NodesState
from betimes.core.nodes.dedicated_machines import (
    resume_alone,
    speculate_until,
    start_alone,
    stop_alone,
    wait_until,
)
from betimes.core.nodes.external_events import (
    believe,
    bind,
    expect_finish,
    expect_leaving,
    hold,
    lose,
    open_node,
    unbind,
    withdraw,
)
from betimes.core.nodes.rules import NodesRules
from betimes.core.nodes.snapshot import copy_into
from betimes.core.nodes.transitions import book
from betimes.core.status import DONE
from betimes.kernels import Ints, entry, kernel
from betimes.twin.nodes.event_loop import EVERYTHING, Trace, enter, wait
from betimes.twin.nodes.trace_loop import Loop

ADVANCE, AGAIN, FINISH, GO, WITHDRAW, UNBIND, LOSE, BELIEVE = range(8)
OPEN, ENTER, QUEUE, HOLD, BIND, BOOK, COPY, PLAY = range(8, 16)
RESUME_ALONE, START_ALONE, WAIT_UNTIL, SPECULATE_UNTIL = range(16, 20)


@entry
@kernel
def step(
    loop: Loop,
    state: NodesState,
    rules: NodesRules,
    trace: Trace,
    row: Ints,
    what: int,
    slot: int,
    value: float,
    copy: NodesState,
) -> int:
    """One thing happens at pool.now; returns a status of `twin.nodes.events`.

    ADVANCE: submissions from row[0] on and whatever is due up to the instant `value`, as far as the budget goes.
    AGAIN: at pool.now, whatever is due and a pass over the queue. FINISH: a job turns out to finish at `value`. GO: one
    that has been told to leave does so at `value`. WITHDRAW: a job that does not run is no more. UNBIND: a nominated
    job waits again. LOSE: a job has lost its nodes, and waits; machines of its own for the
    cause `value`. BELIEVE: it has `value` seconds left. OPEN: node `slot`
    takes new tasks (value 1) or none (0). ENTER: the job of trace.arrivals[0] has
    a slot, and no place yet. QUEUE: it waits. HOLD, BIND, BOOK: it has, is bound to, or is promised from `value` on the
    nodes of state.plan[:row[0]]. COPY: what is believed, into `copy`.
    PLAY: let everything happen that will. RESUME_ALONE: it has machines of its own (`needs`), for a speculative run
    until `value`. START_ALONE: these are up now. WAIT_UNTIL: it waits, until `value` at most. SPECULATE_UNTIL: its
    speculative run goes on until `value`.
    """
    if what == ADVANCE:
        return loop.advance(state, rules, trace, row, len(trace.arrivals), value)
    if what == AGAIN:
        state.cluster[0].pending = EVERYTHING
        return loop.advance(state, rules, trace, row, len(trace.arrivals), state.pool[0].now)
    if what == FINISH:
        expect_finish(state, slot, value)
    elif what == GO:
        expect_leaving(state, slot, value)
    elif what == WITHDRAW:
        withdraw(state, slot)
    elif what == UNBIND:
        unbind(state, slot)
        return wait(state, rules, slot)
    elif what == LOSE:
        if state.needs[slot].rented > 0:
            stop_alone(state, slot, int(value))
        else:
            lose(state, slot)
        return wait(state, rules, slot)
    elif what == BELIEVE:
        believe(state, slot, value)
    elif what == OPEN:
        open_node(state, slot, int(value))
    elif what == ENTER:
        enter(state, rules, trace, 0)
    elif what == QUEUE:
        return wait(state, rules, slot)
    elif what == HOLD:
        hold(state, slot, row[0])
    elif what == BIND:
        bind(state, slot, row[0])
    elif what == BOOK:
        book(state, slot, row[0], value)
    elif what == COPY:
        copy_into(state, copy, True)
    elif what == RESUME_ALONE:
        resume_alone(state, slot, value)
    elif what == START_ALONE:
        start_alone(state, slot, rules.speculate_s)
    elif what == WAIT_UNTIL:
        wait_until(state, slot, value)
    elif what == SPECULATE_UNTIL:
        speculate_until(state, slot, value)
    elif what == PLAY:
        state.pool[0].budget = UNLIMITED
        return loop.advance(state, rules, trace, row, len(trace.arrivals), math.inf)
    return DONE
