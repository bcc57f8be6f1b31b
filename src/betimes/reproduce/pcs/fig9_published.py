"""What PCS published of figure 9: minutes a simulation, seconds a search, and points found with evaluations.

Source: `data/fig9` of the public release (abdullahfsm/PCS, MIT).
"""

from __future__ import annotations

from typing import NamedTuple

GPUS = (128, 256, 512, 1024)
BUDGETS = (128, 256, 512, 1024)


class Cost(NamedTuple):
    """What one simulation takes in minutes, and one search in seconds, on ten machines."""

    simulation_min: float
    search_s: float


# By jobs, then by GPUs.
COSTS: dict[int, dict[int, Cost]] = {
    512: dict(zip(GPUS, (Cost(1, 931), Cost(3, 1086), Cost(2, 1305), Cost(2, 2065)), strict=True)),
    1024: dict(zip(GPUS, (Cost(3, 1879), Cost(2, 2157), Cost(4, 2713), Cost(3, 3919)), strict=True)),
}

# % of the Pareto points that are found after so many evaluations, with the heuristics and without.
FOUND: dict[str, dict[int, float]] = {
    "heuristic": dict(zip(BUDGETS, (30.0, 60.0, 70.0, 95.0), strict=True)),
    "free": dict(zip(BUDGETS, (20.0, 46.0, 47.0, 90.0), strict=True)),
}
