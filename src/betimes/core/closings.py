"""Maintenance and ends of leases: from an instant on a node takes no tasks, before it only those that are over by then.

The one gate is `placements.takes`. It compares two numbers of a node and a job, which stand here: for how long the node
takes work from now on (`Node.up`), and how long the job takes at most (`lasts_s`). Passes bring the first up to date.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from betimes.core.placements import CLOSED_SOON, Node
from betimes.kernels import Each, Records, as_array, blank, kernel

LEAST_S = 1e-3
"""No job takes less: none starts on a node that is closed."""


class Closing:
    """A node takes no tasks for a while, but for those of jobs that are exempt."""

    node: int
    from_s: float
    to_s: float
    bit: int  # that exempt jobs have in `exempt`; 0: no job is


def closings_of(times: Sequence[tuple[int, float, float, int]]) -> Records[Closing]:
    """The column of closings: of each a node, by number, from when until when it takes no tasks, s, and its bit."""
    column = blank(Closing, len(times))
    for at, name in enumerate(("node", "from_s", "to_s", "bit")):
        as_array(column)[name] = [each[at] for each in times]
    return column


@kernel
def see_closings(nodes: Each[Node], closings: Records[Closing], now: float, exempt: int) -> None:
    """Let the nodes that are up take work until they close, to the millisecond (rounded up).

    exempt: the bits of the closings that do not concern the job which is looked at; 0: all of them do.
    """
    for at in range(len(closings)):
        node = nodes[closings[at].node]
        node.up = min(node.up, 1)
    for at in range(len(closings)):
        closing = closings[at]
        node = nodes[closing.node]
        if node.up > 0 and now < closing.to_s and closing.bit & exempt == 0:
            left = up_until(now, closing.from_s)
            node.up = left if node.up == 1 else min(node.up, left)


@kernel
def up_until(now: float, closes_s: float) -> int:
    """`Node.up` of a node that is up, and takes work until it closes."""
    return CLOSED_SOON + (1 + int(1000.0 * (closes_s - now)) if now < closes_s else 0)


@kernel
def next_opening_s(closings: Records[Closing], now: float, node: int) -> float:
    """When a node next takes any work again, -1: any of the nodes; infinity: never, as none closes."""
    opens_s = math.inf
    for at in range(len(closings)):
        closing = closings[at]
        if now < closing.to_s and (node < 0 or node == closing.node):
            opens_s = min(opens_s, closing.to_s)
    return opens_s
