"""PCS (OSDI 2024), figure 9: the time of a simulation and of a search, and the gain from the heuristics.

The study does not name the workload; here it is Workload-1 at load 0.8, the released search's default, on any number of
GPUs. The objectives are mean JCT and mean error. For (a) and (b) this process is timed, whatever the workers, so their
rows depend on the machine and its other load. For (c) four searches of 1,280 evaluations each (the released code's
budget) on 64 GPUs are compared with seeds 0, 1 and 2: the configurations of the heuristics, or any classes and weights;
evolved, or drawn. They run on 512 jobs of Workload-1, and on the first 512 of a Philly trace, whose sizes differ far
more.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from betimes_papers.experiment import Experiment, Pace, Progress, Row, Workers
from betimes_papers.pcs.published import costs, found_after
from betimes_papers.pcs.runs import CURVES, TABLES, problem_of, trace_file, workload_1
from betimes_papers.pcs.study import Searched, Study, study

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from betimes.foresight.tuning import Problem

EVALUATIONS = 1000  # of a timed search, as in the paper's text
BUDGET = 1280
SEEDS = (0, 1, 2)
JOBS, UNITS = 512, 64  # of (c)
LOAD = 0.8


@dataclass(frozen=True)
class Arm:
    """A way to search: the space of configurations, and the solver."""

    name: str
    space: str
    solver: str


ARMS = (
    Arm("heuristic", "heuristic", "spea2"),
    Arm("free", "free", "spea2"),
    Arm("heuristic, drawn", "heuristic", "random"),
    Arm("free, drawn", "free", "random"),
)


@dataclass(frozen=True, eq=False)
class Timed:
    """The time of a search: seconds in all, and the mean of a simulation."""

    jobs: int
    units: int
    search_s: float
    simulation_s: float


@dataclass(frozen=True)
class Gain:
    """The progress of an arm after a number of evaluations, in %, the mean of the seeds.

    own: of the points on its last front. joint: of those on the joint front of all arms and seeds. volume: of the joint
    front's hypervolume. A point counts as found once a point as good has been tried, to 1 % of the front's span: the
    front of everything tried has hundreds of points side by side.
    """

    own: float
    joint: float
    volume: float


Gains = dict[str, dict[int, Gain]]
"""By arm, then by evaluations."""

AS_GOOD = 0.01
TRACE = "2869ce"


def run(data: Path | None, progress: Progress, workers: Workers) -> list[Row]:
    """The rows of (a), (b) and (c)."""
    if data is None:
        raise ValueError("figure 9 needs the data directory")
    asked = {"Workload-1": problem(data, JOBS, UNITS), TRACE: _of_trace(data)}
    pace = Pace(
        progress,
        sum(jobs * EVALUATIONS * len(by_units) for jobs, by_units in costs().items())
        + JOBS * BUDGET * len(ARMS) * len(SEEDS) * len(asked),
    )
    timed = [
        _timed(problem(data, jobs, units), pace) for jobs, by_units in costs().items() for units in by_units
    ]
    with study(asked, workers, pace) as of_both:
        gained = {name: gains(_searches(name, of_both), tuple(found_after()["heuristic"])) for name in asked}
    progress("done", pace.total, pace.total)
    return [*_cost_rows(timed), *(row for name, each in gained.items() for row in _gain_rows(name, each))]


def _of_trace(data: Path) -> Problem:
    from betimes.workload import read_trace
    from betimes.workload.speedup import SpeedupTable

    jobs = read_trace(data / trace_file(TRACE), format="philly-pcs").head(JOBS)
    return problem_of(jobs, units=UNITS, curves=SpeedupTable.read_csv(data / CURVES))


def problem(data: Path, jobs: int, units: int) -> Problem:
    """Workload-1 on `units` units, with the same offered load for any number."""
    return problem_of(workload_1(data, jobs=jobs, load=LOAD, units=units), units=units)


def gains(found: dict[str, list[Searched]], budgets: tuple[int, ...]) -> Gains:
    """The progress of each arm after each number of evaluations."""
    import numpy as np

    from betimes.foresight.tuning.search import Box, front_of

    tried = np.concatenate([each.tried for of_arm in found.values() for each in of_arm])
    joint = tried[front_of(tried)]
    box = Box.around(joint)
    if box is None:
        raise ValueError("no configuration that was tried is possible")
    whole = box.volume(joint)

    def gain(of_arm: list[Searched], budget: int) -> Gain:
        own, of_joint, volume = [], [], []
        for each in of_arm:
            so_far = _possible(each.tried[:budget])
            own.append(covered(each.tried[front_of(each.tried)], so_far))
            of_joint.append(covered(joint, so_far))
            volume.append(100.0 * box.volume(so_far) / whole)
        return Gain(*(float(np.mean(values)) for values in (own, of_joint, volume)))

    return {arm: {budget: gain(of_arm, budget) for budget in budgets} for arm, of_arm in found.items()}


def covered(front: NDArray[np.float64], tried: NDArray[np.float64]) -> float:
    """The share of a front's points matched by a tried one, %; both (points, objectives), without impossible ones."""
    import numpy as np

    if not len(tried):
        return 0.0
    spans = np.ptp(front, axis=0)
    behind = (tried[:, None, :] - front[None, :, :]) / np.where(spans > 0, spans, 1.0)
    return 100.0 * float(np.mean(behind.max(axis=2).min(axis=0) <= AS_GOOD))


def _possible(costs: NDArray[np.float64]) -> NDArray[np.float64]:
    import numpy as np

    return costs[np.isfinite(costs).all(axis=1)]


def _timed(asked: Problem, pace: Pace) -> Timed:
    from betimes.foresight.tuning import Evaluator

    jobs, units = len(asked.workload), asked.units
    Evaluator(asked).values("wfq:weights=1")  # load and compile before the search is timed
    what = f"search, {jobs:,} jobs, {units:,} GPUs"
    with study({what: asked}, Workers(), pace) as here:
        found = here.searched(what, EVALUATIONS, what=what)
    evaluator = Evaluator(asked)
    started = time.perf_counter()
    for config in found.configs:
        evaluator.values(config.policy)
    return Timed(jobs, units, found.seconds, (time.perf_counter() - started) / len(found.configs))


def _searches(name: str, of_both: Study) -> dict[str, list[Searched]]:
    return {
        arm.name: [
            of_both.searched(
                name,
                BUDGET,
                seed=seed,
                solver=arm.solver,
                space=arm.space,
                what=f"{name}, {arm.name}, seed {seed}",
            )
            for seed in SEEDS
        ]
        for arm in ARMS
    }


def _cost_rows(timed: list[Timed]) -> list[Row]:
    rows: list[Row] = []
    for each in timed:
        case = f"{each.jobs} jobs/{each.units} GPUs"
        published = costs()[each.jobs][each.units]
        rows += [
            Row(
                case, "simulation", 60.0 * published.simulation_min, each.simulation_s, "s",
                "with predictions, mean over the front; published in whole minutes",
            ),
            Row(
                case, "search", published.search_s, each.search_s, "s",
                f"published: ten machines; ours: {EVALUATIONS:,} evaluations in one process, seed 0",
            ),
        ]  # fmt: skip
    return rows


def _gain_rows(workload: str, gained: Gains) -> list[Row]:
    seeds = "mean of seeds 0, 1 and 2"
    rows: list[Row] = []
    for arm, by_budget in gained.items():
        for budget, gain in by_budget.items():
            case = f"{workload}/{arm}/{budget}"
            rows += [
                Row(
                    case, "of_own_front", found_after().get(arm, {}).get(budget), gain.own, "%",
                    f"of the points on its front after {BUDGET:,} evaluations; {seeds}",
                ),
                Row(case, "of_joint_front", None, gain.joint, "%", f"of the points on the front of all; {seeds}"),
                Row(case, "hypervolume", None, gain.volume, "%", f"of that of the front of all; {seeds}"),
            ]  # fmt: skip
    return rows


EXPERIMENT = Experiment(
    name="pcs-fig9",
    summary="PCS, figure 9: what a search costs, and what its heuristics are worth",
    needs=(TABLES, CURVES, trace_file(TRACE)),
    run=run,
)
