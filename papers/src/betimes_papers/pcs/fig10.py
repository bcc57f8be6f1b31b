"""PCS (OSDI 2024), figure 10: the cost of wrong sizes, and of tuning for another load.

(a), (b): believed sizes are off by a factor drawn uniformly from 1 - F to 1 + F; trace 2869ce, whole, 64 GPUs. PCS
is the balanced point of figure 7, found on the first half with true sizes. Five seeds of the noise. With F = 100 % some
believed sizes would be 0, so 99 % stands for it.

(c): configurations found on Workload-1 at 60 % load are run at 80 %, on other jobs; beside them, those found at 80 %.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from betimes_papers.experiment import Experiment, Pace, Progress, Row, Workers
from betimes_papers.pcs.published import error_mean, jct_mean_s, near_front
from betimes_papers.pcs.runs import (
    CURVES,
    SEED,
    TABLES,
    UNITS,
    Outcome,
    OverSeeds,
    Planned,
    best_jct_s,
    problem_of,
    trace_file,
    workload_1,
)
from betimes_papers.pcs.study import OF_BEST, Searched, Study, study

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from betimes.foresight.tuning import Problem

TRACE = "2869ce"
SIZE_ERRORS = (0, 5, 10, 20, 30, 40, 60, 80, 99)  # %
NOISE_SEEDS = (0, 1, 2, 3, 4)
EVALUATIONS = 400

JOBS = 1000  # of (c)
TUNED, RUN = 0.6, 0.8
TRAIN_SEED = 42  # of the jobs for the search; the jobs for the runs have the published seed
NEAR = 0.10


@dataclass(frozen=True, eq=False)
class Noisy(OverSeeds):
    """A policy with sizes that are off by a number of %, once a seed of the noise."""

    name: str
    size_error: int
    outcomes: list[Outcome]


@dataclass(frozen=True, eq=False)
class Moved:
    """Configurations found at one load, and their values at the load of the runs.

    values: (points, objectives), s and fractions. front: (points, objectives) the front found at that load.
    """

    tuned_load: float
    values: NDArray[np.float64]
    front: NDArray[np.float64]

    @property
    def away(self) -> float:
        """75th percentile of the distances from the front, in % of its span (`distances`)."""
        import numpy as np

        return 100.0 * float(np.percentile(distances(self.values, self.front), 75.0))

    def near(self) -> float:
        """The share of points within 10 % of the front's span, %."""
        return 100.0 * float((distances(self.values, self.front) <= NEAR).mean())

    def near_by_ratio(self) -> float:
        """The share of points that are in every objective at most 10 % above one point of the front, %."""
        import numpy as np

        within = self.values[:, None, :] <= (1.0 + NEAR) * self.front[None, :, :]
        return 100.0 * float(np.mean(np.any(np.all(within, axis=2), axis=1)))


def run(data: Path | None, progress: Progress, workers: Workers) -> list[Row]:
    """The rows of (a), (b) and (c)."""
    if data is None:
        raise ValueError("figure 10 needs the data directory")
    problems = _problems(data)
    runs = 3 * sum(len(_seeds(error)) for error in SIZE_ERRORS)
    jobs, half = (len(problems[name].workload) for name in (_off(0, NOISE_SEEDS[0]), _HALF))
    pace = Pace(progress, jobs * runs + half * (EVALUATIONS + 2) + JOBS * 3 * EVALUATIONS)
    with study(problems, workers, pace) as of_problems:
        noisy = _noisy(_balanced(of_problems), of_problems)
        moved = _moved(of_problems)
    progress("done", pace.total, pace.total)
    return [*_noise_rows(noisy), *_load_rows(moved)]


def distances(values: NDArray[np.float64], front: NDArray[np.float64]) -> NDArray[np.float64]:
    """(points,) distance of each of the (points, objectives) values from the nearest point of a front.

    The distance is that in the worst objective, over the front's span there: prediction errors may be zero, which rules
    out ratios. 0: as good as a point of the front, or better.
    """
    import numpy as np

    spans = np.ptp(front, axis=0)
    behind = (values[:, None, :] - front[None, :, :]) / np.where(spans > 0, spans, 1.0)
    return np.maximum(behind.max(axis=2), 0.0).min(axis=1)


def _problems(data: Path) -> dict[str, Problem]:
    """The trace with wrong sizes, its first half, and Workload-1 at each load, by their names here."""
    from betimes.workload import read_trace
    from betimes.workload.speedup import SpeedupTable

    curves = SpeedupTable.read_csv(data / CURVES)
    trace = read_trace(data / trace_file(TRACE), format="philly-pcs")
    problems = {_HALF: problem_of(trace[: len(trace) // 2], curves=curves)}
    for error in SIZE_ERRORS:
        for seed in _seeds(error):
            sizes = f"noise:{error / 100}" if error else "true"
            problems[_off(error, seed)] = problem_of(trace, curves=curves, sizes=sizes, seed=seed)
    for load, seed in ((RUN, SEED), (TUNED, TRAIN_SEED), (RUN, TRAIN_SEED)):
        problems[_at(load, seed)] = problem_of(workload_1(data, jobs=JOBS, load=load, units=UNITS, seed=seed))
    return problems


_HALF = f"{TRACE}, first half"


def _off(size_error: int, seed: int) -> str:
    return f"{TRACE}, sizes off by {size_error} %, seed {seed}"


def _at(load: float, seed: int) -> str:
    return f"Workload-1 at {load:.0%} load, seed {seed}"


def _balanced(of_problems: Study) -> Planned:
    front = of_problems.searched(_HALF, EVALUATIONS, what=f"{_HALF}, search")
    best = best_jct_s(of_problems.outcomes([(_HALF, Planned(name, name)) for name in ("srsf", "afs")]))
    return Planned("PCS", front.picked(OF_BEST * best)["PCS-bal"].policy)


def _noisy(pcs: Planned, of_problems: Study) -> list[Noisy]:
    policies = (Planned("fifo", "fifo"), pcs, Planned("afs", "afs"))
    runs = [(run, error, seed) for run in policies for error in SIZE_ERRORS for seed in _seeds(error)]
    outcomes = of_problems.outcomes(
        [(_off(error, seed), run) for run, error, seed in runs], "sizes that are off, "
    )
    found: dict[tuple[str, int], list[Outcome]] = {}
    for (run, error, _), each in zip(runs, outcomes, strict=True):
        found.setdefault((run.name, error), []).append(each)
    return [Noisy(name, error, of_seeds) for (name, error), of_seeds in found.items()]


def _seeds(size_error: int) -> tuple[int, ...]:
    return NOISE_SEEDS if size_error else NOISE_SEEDS[:1]  # without noise all seeds give the same


def _moved(of_problems: Study) -> list[Moved]:
    """The configurations found at each load on other jobs, against the front at the load of the runs."""
    import numpy as np

    def found(load: float, seed: int) -> Searched:
        return of_problems.searched(_at(load, seed), EVALUATIONS, what=f"{_at(load, seed)}, search")

    front = found(RUN, SEED)
    moved: list[Moved] = []
    for load in (TUNED, RUN):
        policies = [config.policy for config in found(load, TRAIN_SEED).configs]
        values = [each for each in of_problems.values(_at(RUN, SEED), policies) if each is not None]
        moved.append(Moved(load, np.array(values), front.values))
    return moved


def _noise_rows(noisy: list[Noisy]) -> list[Row]:
    afs_s = next(each.jct_mean_s for each in noisy if each.name == "afs" and each.size_error == 0)
    their_afs_s = jct_mean_s()["afs"][0]
    rows: list[Row] = []
    for each in noisy:
        case = f"sizes off by {each.size_error} %/{each.name}"
        values = [outcome.error() for outcome in each.outcomes]
        spread = f"noise seeds 0 to 4 give {min(values):.4g} to {max(values):.4g}" if each.size_error else ""
        error = error_mean()[each.name].get(each.size_error)
        jct_s = jct_mean_s()[each.name].get(each.size_error)
        rows += [
            Row(case, "pred_err_mean", error, each.error, "%", spread),
            Row(
                case, "jct_mean_over_afs", None if jct_s is None else jct_s / their_afs_s,
                each.jct_mean_s / afs_s, "ratio", "over that of AFS with true sizes, another workload",
            ),
        ]  # fmt: skip
    return rows


def _load_rows(moved: list[Moved]) -> list[Row]:
    rows: list[Row] = []
    for each in moved:
        case = f"found at {each.tuned_load:.0%} load, run at {RUN:.0%}"
        found = f"{len(each.values)} configurations, found on other jobs; seed 0"
        published = near_front() if each.tuned_load == TUNED else None
        rows += [
            Row(
                case,
                "near_front",
                published,
                each.near(),
                "%",
                f"within 10 % of what the front spans; {found}",
            ),
            Row(
                case,
                "near_front_by_ratio",
                published,
                each.near_by_ratio(),
                "%",
                f"within 10 % of a point; {found}",
            ),
            Row(case, "away_p75", None, each.away, "%", f"of what the front spans; {found}"),
        ]
    return rows


EXPERIMENT = Experiment(
    name="pcs-fig10",
    summary="PCS, figure 10: sizes that are not known exactly, and a load that was not tuned for",
    needs=(CURVES, TABLES, trace_file(TRACE)),
    run=run,
)
