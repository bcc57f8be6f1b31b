"""A promise at every arrival: the state is copied and played forward under the same policy (spec 1.6).

No further submissions happen in a play-out, and what the scheduler believes about sizes is true there. It stops
as soon as the job that has just been submitted is done.
"""

from __future__ import annotations

import math
from typing import Any

from betimes.core.columns import NEXT_FINISH, Floats, Ints, State
from betimes.core.kernel import INTERPRETED, compile_for, kernel
from betimes.core.snapshot import copy_into
from betimes.core.transitions import newest
from betimes.twin.loop import argument_types, next_arrival
from betimes.twin.pool import (
    NEED_SEGMENTS,
    NEED_SLOTS,
    REACHED,
    WATCHED,
    Arrivals,
    History,
    Outcome,
    Rules,
    advance,
)


@kernel
def play_out(  # type: ignore[no-untyped-def]
    copy: State,
    rules: Rules,
    rank,
    allocate,
    keys: Floats,
    arrivals: Arrivals,
    history: History,
    outcome: Outcome,
    job: int,
) -> float:
    """When the job in slot `job` finishes if nothing more is submitted; NaN: never under this policy."""
    status = advance(copy, rules, rank, allocate, keys, arrivals, history, outcome, math.inf, job)
    return copy.visible.clock[NEXT_FINISH] if status == WATCHED else math.nan


@kernel
def run_rows_predicting(  # type: ignore[no-untyped-def]
    state: State,
    rules: Rules,
    rank,
    classify,
    allocate,
    keys: Floats,
    arrivals: Arrivals,
    history: History,
    outcome: Outcome,
    row: Ints,
    stop: int,
    copy: State,
    believing: bool,
    wanted: Ints,
    predicted: Floats,
) -> int:
    """As `loop.run_rows`, and predicted[r] is the promised finish of row r, for the rows with wanted[r] > 0."""
    while row[0] < stop:
        at = row[0]
        status = next_arrival(state, rules, rank, classify, allocate, keys, arrivals, history, outcome, at)
        if status == NEED_SLOTS or status == NEED_SEGMENTS:
            return status
        row[0] += 1
        if status != REACHED:
            return status
        if wanted[at] > 0:
            copy_into(state, copy, believing)
            predicted[at] = play_out(
                copy, rules, rank, allocate, keys, arrivals, history, outcome, newest(state)
            )
    return REACHED


def compiled_prediction() -> Any:
    """`run_rows_predicting`, compiled for hooks passed as function pointers."""
    if INTERPRETED:
        return run_rows_predicting
    from numba import boolean

    t = argument_types()
    return compile_for(
        run_rows_predicting,
        t["int"](
            t["state"],
            t["rules"],
            t["rank"],
            t["classify"],
            t["allocate"],
            t["floats"],
            t["arrivals"],
            t["history"],
            t["outcome"],
            t["ints"],
            t["int"],
            t["state"],
            boolean,
            t["ints"],
            t["floats"],
        ),
    )


