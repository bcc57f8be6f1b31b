"""The loop over a trace on nodes."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from betimes.core.nodes.columns import FEATURE_COLUMNS, NodesState
from betimes.core.nodes.rules import NodesRules
from betimes.kernels import Ints, Struct, as_array, blank, entry, kernel
from betimes.twin.history import History
from betimes.twin.nodes.event_loop import Arrival, Outcome, Trace, advance


@entry
@kernel
def run_rows(
    state: NodesState,
    rules: NodesRules,
    trace: Trace,
    row: Ints,
    stop: int,
    until: float,
) -> int:
    """Submit the jobs from row[0] up to `stop`, and after the last of all let everything happen up to `until`, s.

    row[0] is the next row when this returns.
    """
    return advance(state, rules, trace, row, stop, until)


class Loop(Struct):
    """The loop as other entries call it: compiled once, instead of within each of them."""

    advance: Callable[[NodesState, NodesRules, Trace, Ints, int, float], int]


@cache
def compiled_loop() -> Loop:
    """The loop, compiled or loaded."""
    return Loop(advance=run_rows.pointer())


def new_trace(jobs: int, users: int, observed: bool = False) -> Trace:
    """A trace of records still to be filled in; observed: with the features of each job when it began to wait."""
    return Trace(
        arrivals=blank(Arrival, jobs),
        outcomes=blank(Outcome, jobs),
        finished=np.zeros(1, dtype=np.int64),
        history=blank(History, users),
        features=np.full((jobs if observed else 0, FEATURE_COLUMNS), math.nan),
        first=np.zeros(1, dtype=np.int64),
    )


def in_rows(trace: Trace, name: str, otherwise: float) -> NDArray[Any]:
    """A column of the outcomes in the order of the trace; `otherwise` for rows that have none."""
    outcomes = as_array(trace.outcomes)
    column = np.full(len(outcomes), otherwise, dtype=outcomes.dtype[name])
    finished = outcomes[: trace.finished[0]]
    column[finished["row"]] = finished[name]
    return column
