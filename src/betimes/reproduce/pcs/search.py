"""What a Pareto search came to, everything that was tried kept, and the points picked from its front."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from betimes.foresight.tuning import Problem, WFQConfig

OF_BEST = 4.0  # times the smallest mean JCT, what a picked point may cost: the price that the paper names
OF_FIFO = 0.85  # of FIFO's mean JCT, what a picked point may cost where FIFO itself is affordable
NAMES = {"PCS-JCT": "PCS-JCT", "PCS-balanced": "PCS-bal", "PCS-pred": "PCS-pred"}
"""The named points, from the fastest on, and what the study's data call them."""


@dataclass(frozen=True, eq=False)
class Searched:
    """What a search came to.

    configs: on the front, by the first objective. values: (points, objectives) in s and fractions. tried:
    (evaluations, objectives) in the order of asking, infinite where impossible; whatever the objectives, all are to
    be small. seconds: how long it took.
    """

    problem: Problem
    configs: tuple[WFQConfig, ...]
    values: NDArray[np.float64]
    tried: NDArray[np.float64]
    seconds: float

    def picked(self, most_jct_s: float) -> dict[str, WFQConfig]:
        """The named points among those with at most so long a mean JCT; where there are none, of the fastest point.

        The front ends in FIFO, which keeps every promise at any price. No operator would take it, nor does the study,
        which does not say how it picks; its PCS-pred costs about 4 times the best where FIFO costs more, and 0.84 of
        FIFO's JCT on Workload-3.
        """
        import numpy as np

        from betimes.foresight.tuning import named_points

        within = np.flatnonzero(self.values[:, 0] <= max(most_jct_s, float(self.values[:, 0].min())))
        names = named_points(self.values[within], self.problem.objectives)
        return {label: self.configs[within[names[name]]] for name, label in NAMES.items()}
