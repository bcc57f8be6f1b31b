"""The twin's outer loop over a trace, and the types that make it compile once for all policies."""

from __future__ import annotations

from typing import Any

import numpy as np

from betimes.core.columns import FREE, HOLDERS, SEGMENTS, Floats, Ints, Machine, State, blank, new_state
from betimes.core.kernel import INTERPRETED, compile_for, kernel
from betimes.policies.hooks import hook_types
from betimes.twin.pool import (
    NEED_SEGMENTS,
    NEED_SLOTS,
    REACHED,
    Arrivals,
    History,
    Outcome,
    Rules,
    advance,
    arrive,
)


@kernel
def next_arrival(  # type: ignore[no-untyped-def]
    state: State,
    rules: Rules,
    rank,
    classify,
    allocate,
    keys: Floats,
    arrivals: Arrivals,
    history: History,
    outcome: Outcome,
    row: int,
) -> int:
    """Let everything happen up to the submission of `row`, and submit it."""
    tally = state.visible.tally
    if tally[FREE] == 0:
        return NEED_SLOTS
    until = arrivals.submit_s[row]
    status = advance(state, rules, rank, allocate, keys, arrivals, history, outcome, until, -1)
    if status != REACHED:
        return status
    if len(state.segments.row) > 0 and tally[SEGMENTS] + tally[HOLDERS] > len(state.segments.row):
        return NEED_SEGMENTS
    return arrive(state, rules, rank, classify, allocate, keys, arrivals, history, row)


@kernel
def run_rows(  # type: ignore[no-untyped-def]
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
) -> int:
    """Submit the jobs from row[0] up to `stop`; row[0] is the next one when this returns."""
    while row[0] < stop:
        status = next_arrival(
            state, rules, rank, classify, allocate, keys, arrivals, history, outcome, row[0]
        )
        if status == NEED_SLOTS or status == NEED_SEGMENTS:
            return status
        row[0] += 1
        if status != REACHED:
            return status
    return REACHED


@kernel
def run_out(  # type: ignore[no-untyped-def]
    state: State,
    rules: Rules,
    rank,
    allocate,
    keys: Floats,
    arrivals: Arrivals,
    history: History,
    outcome: Outcome,
    until: float,
) -> int:
    """Let everything happen up to `until` with no further submissions."""
    return advance(state, rules, rank, allocate, keys, arrivals, history, outcome, until, -1)


def argument_types() -> dict[str, Any]:
    """The Numba type of every argument of the loops, by name."""
    from numba import float64, int64, typeof

    machine = Machine(1.0, False, 0.0)
    state = new_state(1, 1, machine, np.zeros((1, 2)), np.zeros(1), np.zeros((1, 1), dtype=np.int64))
    rank, classify, allocate = hook_types()

    return {
        "state": typeof(state),
        "rules": typeof(Rules(True, True, True)),
        "rank": rank,
        "classify": classify,
        "allocate": allocate,
        "floats": float64[::1],
        "ints": int64[::1],
        "int": int64,
        "float": float64,
        "arrivals": typeof(blank(Arrivals, 1)),
        "history": typeof(History(np.zeros((1, 2)), np.zeros(1, dtype=np.int64))),
        "outcome": typeof(blank(Outcome, 1)),
    }


def compiled_loops() -> tuple[Any, Any]:
    """`run_rows` and `run_out`, compiled for hooks passed as function pointers."""
    if INTERPRETED:
        return run_rows, run_out
    t = argument_types()
    hooks = (t["rank"], t["classify"], t["allocate"])
    tail = (t["floats"], t["arrivals"], t["history"], t["outcome"])
    rows = t["int"](t["state"], t["rules"], *hooks, *tail, t["ints"], t["int"])
    out = t["int"](t["state"], t["rules"], t["rank"], t["allocate"], *tail, t["float"])
    return compile_for(run_rows, rows), compile_for(run_out, out)
