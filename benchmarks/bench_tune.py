"""A Pareto front of 1,000 evaluations on 1,000 jobs of a Philly trace, all promised: tens of seconds on two processors.

Philly trace 0e4a51 (PCS, Workload-2) on 64 units, fractions granted, objectives jct:avg and pred_err:avg. The search
is timed with one worker process and with two, their start and the values on the testing part included. An evaluation
is timed by itself with promises and without, for more jobs and more units (the published figure: minutes each). Last,
what the search is worth: the hypervolume found with the heuristics and without, by SPEA2 and by random draws, after as
many evaluations of the shorter trace 2869ce, in one box for all;
before it, configurations on a sample of the promises against all promises.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from measuring import CURVES, Table, arguments, introduce, traces_at
from scipy.stats import rankdata

from betimes.foresight.tuning import Evaluator, Front, Problem, Search, parse_objectives, parts, tune
from betimes.foresight.tuning.search import Box, front_of
from betimes.foresight.tuning.space import space_of
from betimes.kernels import Floats
from betimes.twin.options import SimulationOptions
from betimes.twin.pool.simulation import fit
from betimes.workload import Workload, read_trace
from betimes.workload.speedup import SpeedupTable

TRACE = "gpu/philly_pcs/trace_0e4a51.csv.gz"
SHORT = "gpu/philly_pcs/trace_2869ce.csv.gz"
WANTED = ("jct:avg", "pred_err:avg")
KTH, SDSC = "swf/KTH-SP2-1996-2.swf.gz", "swf/SDSC-SP2-1998-4.2-cln.swf.gz"
UNITS = 64
POLICIES = (
    "wfq:thresholds=3600+400000,weights=90+8+2,zeta_min=0.8,delta=0.1",
    "wfq:thresholds=100000,weights=9+1,zeta_min=0.4,delta=0.3",
    "wfq:weights=1,zeta_min=0.2,delta=0.5",
)
SEARCHES = (("heuristic", "spea2"), ("heuristic", "random"), ("free", "spea2"), ("free", "random"))


def main() -> None:
    given = arguments(__doc__)
    introduce(__doc__)
    folder = traces_at(given.data, CURVES, TRACE, SHORT)
    if folder is None:
        return
    curves, trace = SpeedupTable.read_csv(folder / CURVES), read_trace(folder / TRACE)
    evaluations, jobs = (100, 300) if given.quick else (1000, 1000)
    how = Search(evaluations=evaluations, jobs=jobs, baselines=(), cached=False)
    _searches(trace, curves, how)
    _single(trace, curves, given.repeats, given.quick)
    short = read_trace(folder / SHORT)
    _sampled(folder, trace, short, curves, given.quick)
    _worth(short, curves, replace(how, jobs=len(short) // 2), 1 if given.quick else 3)


def _searches(trace: Workload, curves: SpeedupTable, how: Search) -> None:
    """Evaluations a second on one process and on two, and that both find the same."""
    table = Table("search", "evaluations", "simulations", "s", "evaluations/s", "points", "hypervolume")
    fronts: list[Front] = []
    for processes in (1, 2):
        started = time.perf_counter()
        front = _front(trace, curves, replace(how, processes=processes))
        took_s = time.perf_counter() - started
        fronts.append(front)
        name = f"{processes} process{'es' if processes > 1 else ''}"
        table.line(
            name,
            front.evaluations,
            front.simulations,
            took_s,
            front.evaluations / took_s,
            len(front),
            front.hypervolume,
        )
    print("the same front" if fronts[0].points == fronts[1].points else "DIFFERENT FRONTS", "\n")


def _single(trace: Workload, curves: SpeedupTable, repeats: int, quick: bool) -> None:
    """The cost of one evaluation: medians over configurations, in this process."""
    table = Table(
        "one evaluation", "jobs", "units", "ms, none promised", "ms", "us/job, none promised", "us/job"
    )
    sizes = (250, 500) if quick else (500, 1000, 2000)
    cases = [(jobs, UNITS) for jobs in sizes] + [(sizes[1], units) for units in (128, 256, 512)]
    for jobs, units in cases:
        # The load of 64 units: more of them get as much more to do.
        part = trace.head(jobs)
        part = part.scale_load(part.offered_load(UNITS), units)
        plain, promised = (
            _cost_s(
                Problem(
                    part,
                    parse_objectives(wanted),
                    SimulationOptions(units=units, fractional=True, curves=curves),
                ),
                repeats,
            )
            for wanted in (("jct:avg",), WANTED)
        )
        table.line("", jobs, units, 1e3 * plain, 1e3 * promised, 1e6 * plain / jobs, 1e6 * promised / jobs)
    print()


def _sampled(folder: Path, trace: Workload, short: Workload, curves: SpeedupTable, quick: bool) -> None:
    """The cost of configurations on a sample of the promises against all, and whether their order stays.

    Rank correlation (Spearman) of the mean and the 99th percentile of the prediction error.
    """
    elastic = {"units": UNITS, "fractional": True, "curves": curves}
    cases = [("0e4a51", trace, elastic), ("2869ce", short, elastic)]
    for name, log, units in (("KTH-SP2", KTH, 100), ("SDSC-SP2", SDSC, 128)):
        if (folder / log).exists():
            read = fit(read_trace(folder / log), units, "refuse", None).workload
            cases.append((name, read, {"units": units}))
    table = Table("promises to", "of jobs", "ms", "of all's", "rank, mean", "rank, p99")
    for name, workload, where in cases:
        part, _ = parts(workload, 300 if quick else 1000, 0)
        problem = Problem(
            part, parse_objectives(("pred_err:avg", "pred_err:p99")), SimulationOptions(**where)
        )
        space = space_of("heuristic", Evaluator(problem).sizes())
        draws = np.random.default_rng(1).uniform(
            space.low, space.high, (40 if quick else 240, len(space.low))
        )
        policies = [config.policy for config in map(space.config, draws) if config is not None]
        every_s, every = 0.0, np.empty((0, 2))
        for share in (1, 2, 5):
            sample = replace(problem.options, predict_sample=len(part) // share)
            evaluator = Evaluator(replace(problem, options=sample))
            evaluator.values(policies[0])
            started = time.process_time()
            found = [evaluator.values(policy) or (np.inf, np.inf) for policy in policies]
            took_s = (time.process_time() - started) / len(policies)
            values = np.array(found)
            if share == 1:
                every_s, every = took_s, values
            ranks = [_rank_correlation(every[:, at], values[:, at]) for at in (0, 1)]
            table.line(f"{name}, 1 in {share}", len(part), 1e3 * took_s, took_s / every_s, *ranks)
    print()


def _rank_correlation(one: Floats, other: Floats) -> float:
    """Spearman's: 1 where both put configurations in the same order."""
    return float(np.corrcoef(rankdata(one), rankdata(other))[0, 1])


def _cost_s(problem: Problem, repeats: int) -> float:
    evaluator = Evaluator(problem)
    evaluator.values(POLICIES[0])
    costs: list[float] = []
    for policy in POLICIES:
        for _ in range(repeats):
            started = time.process_time()
            evaluator.values(policy)
            costs.append(time.process_time() - started)
    return statistics.median(costs)


def _worth(trace: Workload, curves: SpeedupTable, how: Search, seeds: int) -> None:
    """Hypervolume by space and solver, and how many points of the joint front each found."""
    fronts = {
        (space, solver): [
            _front(trace, curves, replace(how, space=space, solver=solver, processes=2), seed)
            for seed in range(seeds)
        ]
        for space, solver in SEARCHES
    }
    every = np.concatenate([_costs(front) for found in fronts.values() for front in found])
    box = Box.around(every)
    assert box is not None
    joint = {tuple(row) for row in every[front_of(every)]}
    table = Table("space, solver", "hypervolume", "of the joint front")
    for (space, solver), found in fronts.items():
        volume = statistics.mean(box.volume(_costs(front)) for front in found)
        points = {tuple(row) for front in found for row in _costs(front)} & joint
        table.line(f"{space}, {solver}", f"{volume:.4f}", f"{len(points)} of {len(joint)}")


def _costs(front: Front) -> np.ndarray:
    return np.array([[point.train[name] for name in front.objectives] for point in front])


def _front(trace: Workload, curves: SpeedupTable, how: Search, seed: int = 0) -> Front:
    """Several seeds search on one part: only what the solver draws differs."""
    jobs = how.jobs or len(trace)
    return tune(
        trace[:jobs],
        WANTED,
        units=UNITS,
        fractional=True,
        curves=curves,
        how=replace(how, seed=seed),
        test=trace[jobs : 2 * jobs],
    )


if __name__ == "__main__":
    main()
