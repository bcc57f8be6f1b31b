"""The twin's outer loop over a trace."""

from __future__ import annotations

import math

import numpy as np

from betimes.core.pool.columns import PoolRules, State
from betimes.core.status import DONE, NEED_SEGMENTS, NEED_SLOTS
from betimes.kernels import Ints, Records, as_array, blank, entry, kernel
from betimes.twin.history import History
from betimes.twin.pool.event_loop import Arrival, Outcome, Trace, advance, arrive


@kernel
def next_arrival(state: State, rules: PoolRules, trace: Trace, row: int) -> int:
    """Let everything happen up to the submission of `row`, and submit it."""
    pool = state.pool[0]
    if pool.free == 0:
        return NEED_SLOTS
    status = advance(state, rules, trace, trace.arrivals[row].submit_s, -1)
    if status != DONE:
        return status
    if len(state.segments) > 0 and pool.segments + pool.holders > len(state.segments):
        return NEED_SEGMENTS
    return arrive(state, rules, trace, row)


@entry
@kernel
def run_rows(state: State, rules: PoolRules, trace: Trace, row: Ints, stop: int) -> int:
    """Submit the jobs from row[0] up to `stop`, and after the last of all let everything happen.

    row[0] is the next row when this returns.
    """
    while row[0] < stop:
        status = next_arrival(state, rules, trace, row[0])
        if status != DONE:
            return status
        row[0] += 1
    return run_out(state, rules, trace, stop)


@kernel
def run_out(state: State, rules: PoolRules, trace: Trace, row: int) -> int:
    """Once the last job has been submitted, let everything happen that still will."""
    if row < len(trace.arrivals):
        return DONE
    return advance(state, rules, trace, math.inf, -1)


def new_trace(jobs: int, users: int, slots: int) -> Trace:
    """A trace of records still to be filled in."""
    return Trace(
        arrivals=blank(Arrival, jobs),
        outcome=new_outcomes(jobs),
        history=blank(History, users),
        keys=np.zeros(slots),
        asked=np.zeros(slots, dtype=np.int64),
    )


def new_outcomes(jobs: int) -> Records[Outcome]:
    """Room for the outcomes of jobs that have not finished."""
    outcome = blank(Outcome, jobs)
    for name in ("start_s", "finish_s", "contention"):
        as_array(outcome)[name] = np.nan
    return outcome
