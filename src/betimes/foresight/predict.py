"""A promise at every arrival: the state is copied and played forward under the same policy (PCS, section 4).

A play-out has no further submissions, takes the scheduler's beliefs about sizes as true or lets jobs end when they
are expected to (`snapshot.expect_ends`), and stops as soon as the newly submitted job is done.
"""

from __future__ import annotations

import math

from betimes.core.pool.columns import PoolRules, State
from betimes.core.pool.snapshot import copy_into, expect_ends
from betimes.core.pool.transitions import newest
from betimes.core.status import DONE, FORESEEN, PAUSED, REFUSED, WATCHED
from betimes.foresight.class_queues import NOT_NOW, drain
from betimes.foresight.shortcuts import applies, hand_down, share_equally
from betimes.kernels import Floats, FloatTable, Ints, entry, kernel
from betimes.policies.hooks import BY_CLASS, EQUAL_SHARES, ONE_EACH_IN_ORDER
from betimes.twin.pool.event_loop import Trace, advance, decide
from betimes.twin.pool.trace_loop import next_arrival, run_out

MOST_EVENTS = 50_000_000  # limit of a play-out: a policy that decides more often never finishes the job


@kernel
def play_out(copy: State, rules: PoolRules, trace: Trace, slot: int, way: int) -> float:
    """The finish of the job in `slot` if nothing more is submitted; NaN: never under this policy.

    Returns a negative status (`pool.FORESEEN` + reason) if the policy's decision was refused.
    """
    status = DONE
    if applies(copy, way):
        if way == BY_CLASS:
            status = _play_out_classes(copy, rules, trace, slot)
        else:
            if way == EQUAL_SHARES:
                finish_at = share_equally(copy, slot)
            else:
                finish_at = hand_down(copy, way == ONE_EACH_IN_ORDER, slot)
            if not math.isnan(finish_at):
                return finish_at
            status = decide(copy, rules, trace)
    if status == DONE:
        copy.pool[0].budget = MOST_EVENTS
        status = advance(copy, rules, trace, math.inf, slot)
    if status >= REFUSED:
        return float(REFUSED - FORESEEN - status)
    return copy.pool[0].next_finish if status == WATCHED else math.nan


@kernel
def _play_out_classes(copy: State, rules: PoolRules, trace: Trace, slot: int) -> int:
    """Drain classes where possible, else advance event by event; returns the status, as `advance` does."""
    pool, status = copy.pool[0], DONE
    while status == DONE:
        finish_at = drain(copy, slot)
        if finish_at >= 0.0:
            pool.next_finish = finish_at
            return WATCHED
        if finish_at == NOT_NOW:
            pool.budget = 1
            status = advance(copy, rules, trace, math.inf, slot)
            if status == DONE:
                break  # nothing more will happen
            if status == PAUSED:
                status = DONE
        else:
            status = decide(copy, rules, trace)
    return status


@entry
@kernel
def run_rows_predicting(
    state: State,
    rules: PoolRules,
    trace: Trace,
    row: Ints,
    stop: int,
    copy: State,
    believing: bool,
    wanted: Ints,
    predicted: Floats,
    starts: Floats,
    believed: Floats,
    expected: FloatTable,
    way: int,
) -> int:
    """As `loop.run_rows`, and predicted[r] is the promised finish of row r, for the rows with wanted[r] > 0.

    starts[r] is when the job starts in that play-out. expected: as of `snapshot.expect_ends`, and believed[r] is the
    finish if all beliefs come true; of length 0 where that is what is promised.
    """
    while row[0] < stop:
        at = row[0]
        status = next_arrival(state, rules, trace, at)
        if status != DONE:
            return status
        row[0] += 1
        if wanted[at] > 0:
            finish_at = math.nan
            for expecting in range(2 if len(expected) > 0 else 1):
                believed[at] = finish_at
                copy_into(state, copy, believing)
                if expecting == 1:
                    expect_ends(copy, expected)
                finish_at = play_out(copy, rules, trace, newest(state), way)
                if finish_at < 0.0:
                    state.pool[0].offender = copy.pool[0].offender
                    return int(-finish_at)
            predicted[at] = finish_at
            starts[at] = copy.progress[newest(state)].started_s
    return run_out(state, rules, trace, stop)
