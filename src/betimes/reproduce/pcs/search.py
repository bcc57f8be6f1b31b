"""A Pareto search as the experiments make it, everything that was tried kept, and the points picked from its front."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from betimes.foresight.tuning import Problem, WFQConfig
    from betimes.workload import Workload
    from betimes.workload.speedup import SpeedupTable

OBJECTIVES = ("jct:avg", "pred_err:avg")  # of the released fronts
TAIL = ("jct:avg", "pred_err:p99")
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


def problem_of(
    workload: Workload,
    objectives: tuple[str, ...] = OBJECTIVES,
    *,
    units: int,
    curves: SpeedupTable | None = None,
) -> Problem:
    """What is asked of these jobs, on a pool that grants fractions."""
    from betimes.foresight.tuning import Problem, parse_objectives
    from betimes.twin.pool.simulation import fit

    fitted = fit(workload, units).workload
    return Problem(fitted, units, parse_objectives(objectives), fractional=True, curves=curves)


def searched(
    problem: Problem,
    evaluations: int,
    *,
    seed: int = 0,
    solver: str = "spea2",
    space: str = "heuristic",
    published: bool = False,
    progress: Callable[[int], object] | None = None,
) -> Searched:
    """Search on all jobs of the problem; progress receives the number of evaluations done.

    Nothing is kept or taken from the user's cache: what a search costs is a result here. published: classes as the
    released code makes them.
    """
    import numpy as np

    from betimes.foresight.tuning.evaluations import TRAIN, Evaluations
    from betimes.foresight.tuning.evaluator import Evaluator
    from betimes.foresight.tuning.search import search
    from betimes.foresight.tuning.solvers import solver_of
    from betimes.foresight.tuning.space import space_of

    chosen = space_of(space, Evaluator(problem).sizes(), published)
    proposing = solver_of(solver, chosen.low, chosen.high, len(problem.objectives), seed, evaluations)
    started = time.perf_counter()
    with Evaluations({TRAIN: problem}, kept=False) as made:
        found = search(
            chosen,
            proposing,
            made,
            problem.objectives,
            most=evaluations,
            progress=None if progress is None else lambda now: progress(now.done),
        )
    seconds = time.perf_counter() - started
    impossible = (np.inf,) * len(problem.objectives)
    tried = np.array([each.values or impossible for each in found.tried])
    front = [found.tried[row] for row in found.front]
    return Searched(
        problem,
        tuple(each.config for each in front if each.config is not None),
        np.array([each.values for each in front]),
        tried,
        seconds,
    )
