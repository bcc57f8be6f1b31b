"""The twin's own loop for a pool, compiled, taken one event at a time by its driver."""

from __future__ import annotations

import math

from betimes.core.columns import State, view_of
from betimes.core.external_events import believe, lose, set_width
from betimes.core.order import enter
from betimes.core.pool_placement import place_on, set_demand
from betimes.core.rules import PoolRules
from betimes.core.snapshot import copy_into
from betimes.core.status import BAD_GROUP, BAD_KEY, DONE, REFUSED
from betimes.core.transitions import find_next, finish, speed, submit
from betimes.core.work import set_to_work
from betimes.kernels import entry, kernel
from betimes.twin.pool.event_loop import Trace, advance, arrive, decide

ADVANCE, ARRIVE, DECIDE, FINISH, LEAVE, LOSE, BELIEVE, ENTER, ADOPT, HOLD, COPY, PLAY, WIDTH = range(13)


@entry
@kernel
def step(
    state: State,
    rules: PoolRules,
    trace: Trace,
    what: int,
    slot: int,
    value: float,
    copy: State,
) -> int:
    """One thing happens at pool.now; returns a status of `twin.pool`.

    ADVANCE: timers and finishes up to the instant `value`, as far as the budget goes. ARRIVE: the job of row `slot` of
    trace.arrivals. DECIDE: ask the policy. FINISH: a job that holds units turns out to finish at `value`. LEAVE: a job
    is over. LOSE: a job holds nothing any more, and waits. BELIEVE: it has `value` seconds of work left. WIDTH: it can
    use at most `value` units. ENTER: the job of trace.arrivals[0] has a slot, without a decision. ADOPT: it is ranked.
    HOLD: it has held `value` units since its account was true. COPY: what is believed, into `copy`. PLAY: let
    everything happen that will.
    """
    pool = state.pool[0]
    if what == ADVANCE:
        return advance(state, rules, trace, value, -1)
    if what == ARRIVE:
        return arrive(state, rules, trace, slot)
    if what == DECIDE:
        return decide(state, rules, trace)
    if what == FINISH:
        state.progress[slot].finish_at = value
        find_next(state)
    elif what == LEAVE:
        finish(state, slot, pool.now)
        find_next(state)
    elif what == LOSE:
        lose(state, slot)
    elif what == BELIEVE:
        believe(state, slot, value)
    elif what == ENTER:
        arrival = trace.arrivals[0]
        submit(
            state,
            0,
            arrival.min_units,
            arrival.max_units,
            arrival.curve,
            arrival.work,
            arrival.believed,
            arrival.believed_per_work,
        )
        set_demand(state, slot, arrival.gpu, arrival.cpu, arrival.memory)
    elif what == HOLD:
        _hold(state, slot, value)
    elif what == ADOPT:
        return _adopt(state, rules, trace, slot)
    elif what == COPY:
        copy_into(state, copy, True)
        for at in range(pool.free):
            copy.free[at] = state.free[at]
    elif what == PLAY:
        return advance(state, rules, trace, math.inf, -1)
    elif what == WIDTH:
        set_width(state, slot, int(value))
    return DONE


place_units = entry(place_on)


@kernel
def _hold(state: State, slot: int, units: float) -> None:
    pool, job = state.pool[0], state.jobs[slot]
    job.units = units
    state.holders[pool.holders] = slot
    pool.holders += 1
    pool.used += units
    set_to_work(state, slot, speed(state.speedup, job.curve, units), state.progress[slot].since)
    find_next(state)


@kernel
def _adopt(state: State, rules: PoolRules, trace: Trace, slot: int) -> int:
    view = view_of(state)
    group = rules.classify(view, slot)
    if group < 0 or group >= len(state.groups):
        state.pool[0].offender = slot
        return REFUSED + BAD_GROUP
    job = state.jobs[slot]
    job.group = group
    job.key = 0.0
    if rules.ranked:
        trace.asked[0] = slot
        trace.keys[0] = math.nan
        rules.rank(view, state.pool[0].now, trace.asked[:1], trace.keys[:1])
        if math.isnan(trace.keys[0]):
            state.pool[0].offender = slot
            return REFUSED + BAD_KEY
        job.key = trace.keys[0]
    enter(state, slot)
    return DONE
