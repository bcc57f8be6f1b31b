"""`betimes.tune`, and step by step `Tuner`: a workload and objectives in; the Pareto front of wfq out."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from types import FrameType
from typing import Any

import numpy as np

from betimes import __version__
from betimes.crew import crew
from betimes.errors import Conflict, InputError
from betimes.foresight.objectives import Objective, Values, parse_objectives
from betimes.foresight.tuning.evaluation import TEST, TRAIN, Evaluations, Evaluator, Task, worker
from betimes.foresight.tuning.front import NAMES, Baseline, Front, Measured, Part, Point, named_points
from betimes.foresight.tuning.problem import Problem, parts
from betimes.foresight.tuning.search import Found, Progress, search
from betimes.foresight.tuning.solvers import solver_of
from betimes.foresight.tuning.space import WFQConfig, space_of
from betimes.policies import parse_policy
from betimes.twin.options import SimulationOptions
from betimes.twin.pool.simulation import fit
from betimes.twin.sizes import Sizes
from betimes.workload import Workload
from betimes.workload.speedup import bind

EVALUATIONS = 1000
JOBS = 1000
BASELINES = ("fifo", "srsf", "themis", "afs", "max-min")


@dataclass(frozen=True, kw_only=True)
class Search:
    """How a front is searched for.

    evaluations: how many configurations are tried at most; budget_s: for so long at most, with judging the front.
    solver: one of `SOLVERS`; space: `heuristic` or `free`; published: classes as the released code makes them.
    jobs: of each part (None: half of all). processes: at once; with `ray` on its cluster, None: as many as it has.
    baselines: policies to compare with. cached: keep evaluations in the user's cache directory, and use those there.
    """

    evaluations: int = EVALUATIONS
    budget_s: float | None = None
    solver: str = "spea2"
    space: str = "heuristic"
    published: bool = False
    seed: int = 0
    jobs: int | None = JOBS
    processes: int | None = 1
    ray: bool = False
    baselines: tuple[str, ...] = BASELINES
    cached: bool = True

    def __post_init__(self) -> None:
        """Refuse impossible fields; raises InputError and PolicyError."""
        if self.evaluations < 1:
            raise InputError(f"--evaluations {self.evaluations}: at least one")
        if self.budget_s is not None and not 0 < self.budget_s < math.inf:
            raise InputError(f"--budget {self.budget_s:g}s: a time above 0, such as 20s")
        if self.seed < 0:
            raise InputError(f"--seed {self.seed}: a whole number of 0 or more")
        if self.processes is not None and self.processes < 1:
            raise InputError(f"--processes {self.processes}: at least one")
        solver_of(self.solver, np.zeros(1), np.ones(1), 1, 0, 1)
        for baseline in self.baselines:
            parse_policy(baseline)


def tune(
    workload: Workload,
    objectives: Sequence[str | Objective],
    options: SimulationOptions | None = None,
    *,
    test: Workload | None = None,
    how: Search | None = None,
    stopped: Callable[[], bool] | None = None,
    progress: Callable[[Progress], object] | None = None,
    **fields: Any,
) -> Front:
    """Search for the configurations of `wfq` that no other beats in every objective (PCS, section 3.3).

    objectives: such as `jct:avg`, `pred_err:p99`. options, fields: as of `simulate`, on a pool; the search sets seed,
    promises and timeline. The workload is split in two parts, one to search on, one to report on, unless `test` gives
    the second. With `predict_sample` only the search is on a sample of promises: the second part is judged by all.
    how: the search; by default 1,000 evaluations with SPEA2 in this process. Once `stopped()` is true, or
    Ctrl-C was pressed, the search ends with the front so far. The same seed gives the same front, however many
    processes there are.

    Raises InputError (and its children) for bad input, PolicyViolation for a baseline's bad decision, and
    KeyboardInterrupt where there is no front yet.
    """
    how = how or Search()
    asked = parse_objectives(objectives)
    options = replace(SimulationOptions.of(options, **fields), seed=how.seed)
    if str(options.sizes) == "learned":
        raise InputError("--sizes learned: a search learns no run times; choose true, estimate or last-two")
    if options.predict_sample is not None and not any(objective.predicts for objective in asked):
        raise InputError(
            f"--predict-sample {options.predict_sample}: no objective is about promises; "
            "leave it out, or add pred_err:avg"
        )
    units, cluster, on_wide = options.pool_units(workload), options.cluster, options.on_wide or "refuse"
    if cluster is None:
        options = replace(options, units=units)
    workload = fit(workload, units, on_wide, cluster).workload
    if test is None:
        train, test = parts(workload, how.jobs, how.seed)
    else:
        train, test = workload, fit(test, units, on_wide, cluster).workload
    problem = Problem(train, asked, options)
    problems = {TRAIN: problem} | ({TEST: problem.judging(test)} if test is not None else {})
    return _Tuning(workload, problems, how, progress).front(stopped)


@dataclass(frozen=True)
class _Tuning:
    """One search with its inputs."""

    workload: Workload
    problems: dict[str, Problem]
    how: Search
    progress: Callable[[Progress], object] | None
    started: float = field(default_factory=time.monotonic)

    def front(self, stopped: Callable[[], bool] | None) -> Front:
        """Search, judge the front found, and assemble the result."""
        how, problem = self.how, self.problems[TRAIN]
        space = space_of(how.space, Evaluator(problem).sizes(), how.published)
        solver = solver_of(
            how.solver, space.low, space.high, len(problem.objectives), how.seed, how.evaluations
        )
        workers = crew(worker, (self.problems,), how.processes, ray=how.ray)
        with workers, interruptible() as interrupted:
            evaluations = Evaluations(self.problems, workers, kept=how.cached)
            found = search(
                space,
                solver,
                evaluations,
                problem.objectives,
                most=how.evaluations,
                budget_s=how.budget_s,
                stopped=lambda: interrupted() or (stopped is not None and stopped()),
                progress=self.progress,
            )
            if not found.front:
                raise KeyboardInterrupt
            judged = self._judged(found, evaluations)
        return self._put_together(found, judged, evaluations.done)

    def _judged(self, found: Found, evaluations: Evaluations) -> dict[Task, Values | None]:
        """The front on the testing part, and the baselines on both."""
        policies = [config.policy for config in _configs(found)]
        tasks: list[Task] = [(TEST, policy) for policy in policies]
        tasks += [(part, policy) for part in (TRAIN, TEST) for policy in self.how.baselines]
        tasks = [task for task in tasks if task[0] in self.problems]
        judged: dict[Task, Values | None] = {}
        for number, values in evaluations.values(tasks):
            judged[tasks[number]] = values
            if self.progress is not None:
                self.progress(Progress("judging", len(judged), len(tasks), len(policies), found.hypervolume))
        return judged

    def _put_together(self, found: Found, judged: dict[Task, Values | None], simulations: int) -> Front:
        how, problem = self.how, self.problems[TRAIN]
        objectives = problem.objectives

        def measured(values: Values | None) -> Measured | None:
            return None if values is None else dict(zip(map(str, objectives), values, strict=True))

        values = [found.tried[row].values or () for row in found.front]
        costs = np.array([[o.cost(v) for o, v in zip(objectives, row, strict=True)] for row in values])
        names = named_points(costs, objectives)
        assert found.box is not None  # there is a front
        return Front(
            objectives=tuple(map(str, objectives)),
            units={str(objective): objective.unit for objective in objectives},
            points=tuple(
                Point(
                    number=number,
                    names=tuple(name for name in NAMES if names[name] == number),
                    policy=config.policy,
                    variables=config.variables,
                    train=measured(values[number]) or {},
                    test=measured(judged.get((TEST, config.policy))),
                )
                for number, config in enumerate(_configs(found))
            ),
            baselines=tuple(
                Baseline(
                    policy=policy,
                    train=measured(judged.get((TRAIN, policy))),
                    test=measured(judged.get((TEST, policy))),
                )
                for policy in how.baselines
            ),
            workload=self.workload.name,
            fingerprint=self.workload.fingerprint(),
            jobs=len(self.workload),
            train=_part(problem),
            test=_part(self.problems[TEST]) if TEST in self.problems else None,
            pool_units=problem.units,
            cluster=None if problem.options.cluster is None else problem.options.cluster.name,
            fractional=problem.options.fractional,
            sizes=str(problem.options.sizes or Sizes("true")),
            restart_s=problem.options.restart_s,
            predict_sample=problem.options.predict_sample,
            space=how.space,
            solver=how.solver,
            seed=how.seed,
            evaluations=len(found.tried),
            impossible=sum(tried.values is None for tried in found.tried),
            ended=found.ended,
            seconds=time.monotonic() - self.started,
            simulations=simulations,
            hypervolume=found.hypervolume,
            reference={str(o): o.cost(cost) for o, cost in zip(objectives, found.box.reference, strict=True)},
            versions={"betimes": __version__}
            | {package: version(package) for package in ("numpy", "numba", "pymoo", "moocore")},
        )


def _configs(found: Found) -> list[WFQConfig]:
    """The configurations on the front, in its order."""
    configs = [found.tried[row].config for row in found.front]
    return [config for config in configs if config is not None]


def _part(problem: Problem) -> Part:
    workload = problem.workload
    widest = int(workload.max_units.max())
    table, _ = bind(workload.curve_names, widest, problem.options.curves)
    load = workload.offered_load(problem.units, table.at(workload.curve, workload.max_units))
    low, middle, high = np.percentile(workload.work_s, (10, 50, 90)).tolist()
    return Part(
        fingerprint=workload.fingerprint(),
        jobs=len(workload),
        first_job=str(workload.job_id[0]),
        last_job=str(workload.job_id[-1]),
        load_frac=load if math.isfinite(load) else None,
        sizes_s=(low, middle, high),
    )


@contextmanager
def interruptible() -> Generator[Callable[[], bool]]:
    """Inside, a first Ctrl-C only makes the yielded function return True; a second ends the program.

    Python receives signals in its main thread only, and a caller's handler is kept: in other threads, or with such a
    handler, the function never returns True.
    """
    ours = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
    came: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        came.append(number)
        signal.signal(signal.SIGINT, signal.default_int_handler)

    if ours:
        signal.signal(signal.SIGINT, note)
    try:
        yield lambda: bool(came)
    finally:
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)


class Tuner:
    """The operator's interface of PCS (section 3.1): `set_preference`, `pareto_front`, `set_config`, on one workload.

    where: how the workload runs, as `tune` takes it: `units`, `curves`, `fractional` and so on. apply: told the policy
    that `set_config` chooses, such as what sets the policy of a live service; the policy is kept in `policy` too.

        tuner = Tuner(workload, units=64, apply=client.set_policy)
        tuner.set_preference("jct:avg", "pred_err:p99")
        front = tuner.pareto_front()
        tuner.set_config(front.named("PCS-balanced"))
    """

    def __init__(
        self, workload: Workload, *, apply: Callable[[str], object] | None = None, **where: Any
    ) -> None:
        self.workload = workload
        self.policy: str | None = None
        self._apply, self._where = apply, where
        self._objectives: tuple[Objective, ...] = ()
        self._front: Front | None = None

    def set_preference(self, *objectives: str | Objective) -> None:
        """Set the objectives, any number of them, such as "jct:avg", "pred_err:p99"; raises InputError."""
        self._objectives, self._front = parse_objectives(objectives), None

    def pareto_front(self, **how: Any) -> Front:
        """The configurations that no other tried beats, each with its values; searched for when first asked.

        how: the fields of `Search`, and `progress` and `stopped` of `tune`; with any of them it is searched for anew.
        Raises Conflict where no preference is set, else as `tune` does.
        """
        if not self._objectives:
            raise Conflict("no preference is set; say what you want with set_preference first")
        if self._front is None or how:
            reporting = {name: how.pop(name) for name in ("progress", "stopped") if name in how}
            self._front = tune(self.workload, self._objectives, how=Search(**how), **self._where, **reporting)
        return self._front

    def set_config(self, config: Point | WFQConfig | str) -> str:
        """Choose a point, a configuration, or a policy's text; returns the policy, applied where there is a way to.

        Raises PolicyError for a text that is no policy.
        """
        policy = config if isinstance(config, str) else config.policy
        parse_policy(policy)
        if self._apply is not None:
            self._apply(policy)
        self.policy = policy
        return policy
