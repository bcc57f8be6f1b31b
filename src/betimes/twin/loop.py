"""The twin's outer loop over a trace, and the types that make it compile once for all policies."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from betimes.core.columns import Ints, State, as_array, blank
from betimes.core.kernel import INTERPRETED, compile_for, lean_kernel, type_of
from betimes.policies.hooks import empty_pool, hook_types
from betimes.twin.history import History
from betimes.twin.pool import (
    NEED_SEGMENTS,
    NEED_SLOTS,
    REACHED,
    Arrival,
    Hook,
    Outcome,
    Rules,
    Trace,
    advance,
    arrive,
)


@lean_kernel
def next_arrival(
    state: State, rules: Rules, rank: Hook, classify: Hook, allocate: Hook, trace: Trace, row: int
) -> int:
    """Let everything happen up to the submission of `row`, and submit it."""
    pool = state.pool[0]
    if pool.free == 0:
        return NEED_SLOTS
    status = advance(state, rules, rank, allocate, trace, trace.arrivals[row].submit_s, -1)
    if status != REACHED:
        return status
    if len(state.segments) > 0 and pool.segments + pool.holders > len(state.segments):
        return NEED_SEGMENTS
    return arrive(state, rules, rank, classify, allocate, trace, row)


@lean_kernel
def run_rows(
    state: State, rules: Rules, rank: Hook, classify: Hook, allocate: Hook, trace: Trace, row: Ints, stop: int
) -> int:
    """Submit the jobs from row[0] up to `stop`, and after the last of all let everything happen.

    row[0] is the next row when this returns.
    """
    while row[0] < stop:
        status = next_arrival(state, rules, rank, classify, allocate, trace, row[0])
        if status != REACHED:
            return status
        row[0] += 1
    return run_out(state, rules, rank, allocate, trace, stop)


@lean_kernel
def run_out(state: State, rules: Rules, rank: Hook, allocate: Hook, trace: Trace, row: int) -> int:
    """Once the last job has been submitted, let everything happen that still will."""
    if row < len(trace.arrivals):
        return REACHED
    return advance(state, rules, rank, allocate, trace, math.inf, -1)


def new_trace(jobs: int, users: int, slots: int) -> Trace:
    """A trace of records still to be filled in."""
    outcome = blank(Outcome, jobs)
    for name in ("start_s", "finish_s", "contention"):
        as_array(outcome)[name] = np.nan
    return Trace(
        blank(Arrival, jobs), outcome, blank(History, users), np.zeros(slots), np.zeros(slots, dtype=np.int64)
    )


@cache
def argument_types() -> tuple[Any, ...]:
    """The Numba types of what every loop is given: state, rules, the three hooks, trace."""
    return (
        type_of(empty_pool()),
        type_of(Rules(True, True, True)),
        *hook_types(),
        type_of(new_trace(1, 1, 1)),
    )


@cache
def compiled_loop() -> Any:
    """`run_rows`, compiled for hooks passed as function pointers."""
    if INTERPRETED:
        return run_rows
    from numba import int64

    return compile_for(run_rows, int64(*argument_types(), int64[::1], int64))
