"""A promise at every arrival: the state is copied and played forward under the same policy (PCS, section 4).

No further submissions happen in a play-out, and what the scheduler believes about sizes is true there. It stops
as soon as the job that has just been submitted is done.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

from betimes.core.columns import Floats, Ints, State
from betimes.core.kernel import INTERPRETED, compile_for, lean_kernel
from betimes.core.snapshot import copy_into
from betimes.core.transitions import newest
from betimes.foresight.class_queues import NOT_NOW, drain
from betimes.foresight.shortcuts import applies, hand_down, share_equally
from betimes.policies.hooks import BY_CLASS, EQUAL_SHARES, ONE_EACH_IN_ORDER
from betimes.twin.loop import argument_types, next_arrival, run_out
from betimes.twin.pool import FORESEEN, PAUSED, REACHED, REFUSED, WATCHED, Hook, Rules, Trace, advance, decide

MOST_EVENTS = 50_000_000  # of a play-out: a policy that decides so often and does not finish a job never will


@lean_kernel
def play_out(
    copy: State, rules: Rules, rank: Hook, allocate: Hook, trace: Trace, slot: int, way: int
) -> float:
    """When the job in `slot` finishes if nothing more is submitted; NaN: never under this policy.

    A refused decision is told by a negative number, that of its status (`pool.FORESEEN` + reason).
    """
    status = REACHED
    if applies(copy, way):
        if way == BY_CLASS:
            status = _play_out_classes(copy, rules, rank, allocate, trace, slot)
        else:
            if way == EQUAL_SHARES:
                finish_at = share_equally(copy, slot)
            else:
                finish_at = hand_down(copy, way == ONE_EACH_IN_ORDER, slot)
            if not math.isnan(finish_at):
                return finish_at
            status = decide(copy, rules, rank, allocate, trace.keys, trace.asked)
    if status == REACHED:
        copy.pool[0].budget = MOST_EVENTS
        status = advance(copy, rules, rank, allocate, trace, math.inf, slot)
    if status >= REFUSED:
        return float(REFUSED - FORESEEN - status)
    return copy.pool[0].next_finish if status == WATCHED else math.nan


@lean_kernel
def _play_out_classes(copy: State, rules: Rules, rank: Hook, allocate: Hook, trace: Trace, slot: int) -> int:
    """Draining classes where that goes, an event at a time elsewhere; returns the status, as `advance` does."""
    pool, status = copy.pool[0], REACHED
    while status == REACHED:
        finish_at = drain(copy, slot)
        if finish_at >= 0.0:
            pool.next_finish = finish_at
            return WATCHED
        if finish_at == NOT_NOW:
            pool.budget = 1
            status = advance(copy, rules, rank, allocate, trace, math.inf, slot)
            if status == REACHED:
                break  # nothing more will happen
            if status == PAUSED:
                status = REACHED
        else:
            status = decide(copy, rules, rank, allocate, trace.keys, trace.asked)
    return status


@lean_kernel
def run_rows_predicting(
    state: State,
    rules: Rules,
    rank: Hook,
    classify: Hook,
    allocate: Hook,
    trace: Trace,
    row: Ints,
    stop: int,
    copy: State,
    believing: bool,
    wanted: Ints,
    predicted: Floats,
    way: int,
) -> int:
    """As `loop.run_rows`, and predicted[r] is the promised finish of row r, for the rows with wanted[r] > 0."""
    while row[0] < stop:
        at = row[0]
        status = next_arrival(state, rules, rank, classify, allocate, trace, at)
        if status != REACHED:
            return status
        row[0] += 1
        if wanted[at] > 0:
            copy_into(state, copy, believing)
            finish_at = play_out(copy, rules, rank, allocate, trace, newest(state), way)
            if finish_at < 0.0:
                state.pool[0].offender = copy.pool[0].offender
                return int(-finish_at)
            predicted[at] = finish_at
    return run_out(state, rules, rank, allocate, trace, stop)


@cache
def compiled_prediction() -> Any:
    """`run_rows_predicting`, compiled for hooks passed as function pointers."""
    if INTERPRETED:
        return run_rows_predicting
    from numba import boolean, float64, int64

    state, *others = argument_types()
    signature = int64(state, *others, int64[::1], int64, state, boolean, int64[::1], float64[::1], int64)
    return compile_for(run_rows_predicting, signature)
