"""A state of the nodes engine in which nothing has happened yet."""

from __future__ import annotations

import numpy as np

from betimes.core.nodes.columns import NodesState
from betimes.core.nodes.growth import new_nodes_state


def empty_cluster(slots: int) -> NodesState:
    """One node of eight GPUs, and room for so many jobs."""
    return new_nodes_state(
        np.array([[8000, 64000, 65536]]),
        np.zeros(1, dtype=np.int64),
        units=8.0,
        restart_s=0.0,
        seed=0,
        by_priority=False,
        params=np.zeros(0),
        slots=slots,
        placements=4,
    )
