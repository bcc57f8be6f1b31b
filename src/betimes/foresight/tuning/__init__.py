"""The Pareto front of weighted fair queueing: configurations and their objectives (PCS, section 3).

Nothing in this package is a kernel: it drives the twin.
"""

from betimes.foresight.objectives import (
    MEASURES,
    METRICS,
    Objective,
    parse_objective,
    parse_objectives,
)
from betimes.foresight.tuning.evaluation import Evaluator
from betimes.foresight.tuning.front import NAMES, Baseline, Front, Part, Point, named_points
from betimes.foresight.tuning.problem import Problem, parts
from betimes.foresight.tuning.search import Progress
from betimes.foresight.tuning.solvers import SOLVERS
from betimes.foresight.tuning.space import FreeSpace, HeuristicSpace, WFQConfig
from betimes.foresight.tuning.tune import BASELINES, Search, Tuner, tune

__all__ = [
    "BASELINES",
    "MEASURES",
    "METRICS",
    "NAMES",
    "SOLVERS",
    "Baseline",
    "Evaluator",
    "FreeSpace",
    "Front",
    "HeuristicSpace",
    "Objective",
    "Part",
    "Point",
    "Problem",
    "Progress",
    "Search",
    "Tuner",
    "WFQConfig",
    "named_points",
    "parse_objective",
    "parse_objectives",
    "parts",
    "tune",
]
