"""Calls of the compiled loop in slices, so that whoever waits sees progress and can interrupt."""

from __future__ import annotations

import time
from collections.abc import Callable

from betimes.core.columns import Ints

FIRST_ROWS = 1024
SECONDS_A_CALL = 0.25  # between two looks at the keyboard and the progress bar
EVENTS_A_CALL = 1_000_000  # and no more than that


def drive(
    row: Ints,
    jobs: int,
    step: Callable[[int], bool],
    progress: Callable[[int], object] | None = None,
) -> float:
    """Take a simulation through rows row[0] to `jobs`, and until nothing more can happen; returns seconds.

    step: goes on to a row and says whether it has to be called again; progress is told the rows done.
    """
    started = time.perf_counter()
    rows, again = FIRST_ROWS, True
    while again or row[0] < jobs:
        before, called = int(row[0]), time.perf_counter()
        again = step(min(jobs, before + rows))
        pace = (int(row[0]) - before + 1) / (time.perf_counter() - called + 1e-6)
        rows = max(1, min(2 * rows, int(pace * SECONDS_A_CALL)))
        if progress is not None:
            progress(int(row[0]))
    return time.perf_counter() - started
