"""The loop over a trace on nodes, and the types that make it compile once for all policies."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from betimes.core.columns import Ints, as_array, blank
from betimes.core.kernel import INTERPRETED, compile_for, lean_kernel, type_of
from betimes.core.nodes.columns import NodesState
from betimes.core.nodes.preemption import EvictHook
from betimes.core.nodes.room import PlaceHook
from betimes.core.nodes.schedule import RankHook, Rules
from betimes.policies.nodes.hooks import empty_cluster, hook_types
from betimes.twin.history import History
from betimes.twin.nodes.events import Arrival, Outcome, Trace, advance

NO_RULES = Rules(
    ranked=False,
    dynamic=False,
    backfill=0,
    window=1,
    spreads=False,
    preempts=False,
    most_preemptions=0,
    trims=True,
    later_first=False,
    learns=False,
)
"""Strictly in order, nobody makes room."""


@lean_kernel
def run_rows(
    state: NodesState,
    rules: Rules,
    rank: RankHook,
    place: PlaceHook,
    evict: EvictHook,
    trace: Trace,
    row: Ints,
    stop: int,
) -> int:
    """Submit the jobs from row[0] up to `stop`, and after the last of all let everything happen.

    row[0] is the next row when this returns.
    """
    return advance(state, rules, rank, place, evict, trace, row, stop, math.inf)


def new_trace(jobs: int, users: int) -> Trace:
    """A trace of records still to be filled in."""
    return Trace(
        blank(Arrival, jobs), blank(Outcome, jobs), np.zeros(1, dtype=np.int64), blank(History, users)
    )


def in_rows(trace: Trace, name: str, otherwise: float) -> NDArray[Any]:
    """A column of the outcomes in the order of the trace; `otherwise` for rows that have none."""
    outcomes = as_array(trace.outcomes)
    column = np.full(len(outcomes), otherwise, dtype=outcomes.dtype[name])
    finished = outcomes[: trace.finished[0]]
    column[finished["row"]] = finished[name]
    return column


@cache
def argument_types() -> tuple[Any, ...]:
    """The Numba types of what every loop is given: state, rules, the three hooks, trace."""
    return (type_of(empty_cluster()), type_of(NO_RULES), *hook_types(), type_of(new_trace(1, 1)))


@cache
def compiled_loop() -> Any:
    """`run_rows`, compiled for hooks passed as function pointers."""
    if INTERPRETED:
        return run_rows
    from numba import int64

    return compile_for(run_rows, int64(*argument_types(), int64[::1], int64))
