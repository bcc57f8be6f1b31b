"""What becomes of a belief about a job's size when the job turns out to be larger.

The rule is shared by the twin, by play-outs and by the live service: a job that has done as much work as it was
believed to have in all, and is not finished, is believed to be twice as large. It then counts as half done, so
that it does not stay the shortest job for ever.
"""

from __future__ import annotations

from betimes.kernels import kernel

SMALLEST_BELIEF_S = 0.01
"""Least remaining work that is ever believed, seconds on one unit (PCS's simulator has the same floor)."""


@kernel
def doubled(size: float, done: float) -> float:
    """The believed size after `done` seconds of work: `size`, doubled until it exceeds what is done."""
    while size <= done:
        size *= 2.0
    return size
