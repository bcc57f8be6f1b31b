"""The study that `simulate` and `compare` make, and a single run of it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from betimes.cli.simulate.simulation_options import SimulationOptions
from betimes.cli.simulate.sources import GENERATED_UNITS, is_generated, read
from betimes.errors import InputError

if TYPE_CHECKING:
    from betimes.cluster import Cluster
    from betimes.foresight.engines import Engine
    from betimes.outcome import Result
    from betimes.workload import Workload
    from betimes.workload.speedup import SpeedupTable

FAIR = "max-min"
MOST_JOBS_FAIR = 20_000
"""Limit for an unrequested max-min run, whose cost grows with the square of an overload."""


@dataclass(frozen=True)
class Study:
    """The options and their parsed values; checked as far as possible without the trace."""

    options: SimulationOptions
    engines: tuple[Engine, ...]  # of the policies
    cluster: Cluster | None
    curves: SpeedupTable | None
    grace: tuple[float, float | None] | None
    sizes: str | None
    measure: tuple[float, float]
    timeline: bool

    @property
    def predicts(self) -> bool:
        """Whether jobs are promised a finish."""
        return self.options.predict or self.options.predict_sample is not None

    def all_seeds(self) -> range:
        """The seeds to run, in order."""
        return range(self.options.seed, self.options.seed + (self.options.seeds or 1))

    def is_random(self) -> bool:
        """Whether another seed can give another result."""
        noisy = self.sizes is not None and self.sizes.startswith("noise")
        return noisy or self.options.predict_sample is not None or self.draws_jobs()

    def draws_jobs(self) -> bool:
        """Whether another seed can give another workload."""
        trial = self.options.trial
        drawn_trials = trial is not None and trial.startswith(("user", "random"))
        return (
            is_generated(self.options.file) or drawn_trials or (self.grace is not None and self.grace[0] > 0)
        )


@dataclass(frozen=True)
class Loaded:
    """A workload ready to run on each engine, its machine, and the time it took to load (s).

    placed: the jobs with the units of a pool, or the nodes of a cluster.
    """

    workload: Workload
    placed: dict[Engine, tuple[Workload, int | Cluster]]
    load_s: float


@dataclass(frozen=True)
class Run:
    """One simulation to make: of a policy, or (`fair`) of max-min shares for comparison."""

    policy: str
    seed: int
    engine: Engine
    fair: bool = False


def load(study: Study, seed: int) -> Loaded:
    """Read or generate the workload, keep its first jobs, mark trials, rescale its load; raises InputError."""
    started = time.perf_counter()
    nothing_named = "pool" in study.engines and study.options.units is None and study.cluster is None
    units = GENERATED_UNITS if nothing_named else study.options.units
    workload = read(
        study.options.file, units, seed, study.options.form, study.options.on_bad_rows, study.cluster
    )
    if study.options.jobs is not None:
        workload = workload.head(study.options.jobs)
    if not len(workload):
        skipped = sum(workload.notes.skipped.values())
        left_out = f" ({skipped:,} rows were left out: see `betimes trace info`)" if skipped else ""
        raise InputError(f"{study.options.file}: there is no job to simulate{left_out}")
    workload = _marked(study, workload, seed)
    placed: dict[Engine, tuple[Workload, int | Cluster]] = {}
    for engine in study.engines:  # scale the load on the first only, so that all run the same jobs
        load_frac = None if placed else study.options.load
        placed[engine] = (_on_pool if engine == "pool" else _on_nodes)(study, workload, load_frac)
        workload, _ = placed[engine]
    return Loaded(workload, placed, time.perf_counter() - started)


def _marked(study: Study, workload: Workload, seed: int) -> Workload:
    """The jobs marked as trials or best-effort, with grace periods, by the options."""
    from betimes.workload import draw_grace, mark_trials
    from betimes.workload.speedup import bind

    if study.options.trial is not None:
        table, _ = bind(workload.curve_names, int(workload.max_units.max()), study.curves)
        speed = table.at(workload.curve, workload.max_units)
        workload = mark_trials(workload, study.options.trial, seed, speedup_at_max=speed)
    if study.grace is not None:
        workload = draw_grace(workload, *study.grace, seed=seed)
    return workload


def _on_nodes(study: Study, workload: Workload, load_frac: float | None) -> tuple[Workload, Cluster]:
    from betimes.foresight.simulate import check_wide, cluster_for
    from betimes.twin.nodes.offered import scaled_to

    cluster = study.cluster or cluster_for(workload, study.options.units)
    check_wide(
        workload, cluster, study.options.on_wide, rents=bool(cluster.offers)
    )  # refuses now the jobs that any policy would refuse later
    if load_frac is not None:
        workload = scaled_to(workload, cluster, load_frac, study.curves)
    return workload, cluster


def _on_pool(study: Study, workload: Workload, load_frac: float | None) -> tuple[Workload, int | Cluster]:
    from betimes.twin.generate import noted_cluster
    from betimes.twin.pool.simulation import fit

    if study.options.engine == "auto" and noted_cluster(workload) is not None:
        raise InputError(
            f"{study.options.file}: was generated for nodes; give --engine nodes, or pool if you mean it"
        )
    units = study.cluster.units if study.cluster is not None else _units(study, workload)
    fitted = fit(workload, units, study.options.on_wide or "refuse", study.cluster).workload
    if load_frac is not None:
        workload = _rescaled(workload, fitted, units, load_frac, study.curves)
    return workload, study.cluster or units


def wants_fair(study: Study, jobs: int) -> bool:
    """Whether a max-min run is made for comparison."""
    if "pool" not in study.engines:
        return False
    return (
        study.options.fair
        if study.options.fair is not None
        else not study.options.fractional or jobs <= MOST_JOBS_FAIR
    )


def simulate(
    study: Study,
    run: Run,
    loaded: Loaded,
    warn: Callable[[str], object],
    progress: Callable[[int], object] | None,
) -> Result:
    """Make one run."""
    from betimes.foresight.simulate import simulate as run_policy

    workload, machine = loaded.placed[run.engine]
    common: dict[str, Any] = {
        "engine": run.engine,
        "units" if isinstance(machine, int) else "cluster": machine,
        "fractional": study.options.fractional,
        "curves": study.curves,
        "seed": run.seed,
        "on_wide": study.options.on_wide,
        "as_trials": study.options.as_trials,
    }
    if run.fair:
        return run_policy(workload, FAIR, progress=progress, **common)
    result = run_policy(
        workload,
        run.policy,
        predict=study.predicts,
        predict_sample=study.options.predict_sample,
        interval=study.options.interval,
        sizes=study.sizes,
        overrun=study.options.overrun,
        restart_s=study.options.restart_s,
        resize_interval_s=study.options.resize_interval,
        resize_gain=study.options.resize_gain,
        timeline=study.timeline,
        warn=warn,
        progress=progress,
        **common,
    )
    return replace(result, policy=run.policy, timing=replace(result.timing, load_s=loaded.load_s))


def notes_of(workload: Workload) -> list[str]:
    """The notes of reading the trace, a line each."""
    skipped = "; ".join(f"{reason} ({count:,})" for reason, count in workload.notes.skipped.items())
    left_out = [f"{workload.name}: rows left out: {skipped}"] if skipped else []
    return left_out + [f"{workload.name}: {warning}" for warning in workload.notes.warnings]


def _units(study: Study, workload: Workload) -> int:
    if study.options.units is not None:
        return study.options.units
    if workload.machine_units is not None:
        return workload.machine_units
    if is_generated(study.options.file):
        return GENERATED_UNITS
    raise InputError(f"{study.options.file}: the trace does not say how large its machine is; give --units N")


def _rescaled(
    workload: Workload, fitted: Workload, units: int, load_frac: float, curves: SpeedupTable | None
) -> Workload:
    """The workload with gaps such that the jobs accepted by the pool offer `load_frac`."""
    from betimes.workload.speedup import bind

    if not len(fitted):
        raise InputError(f"--load {load_frac:g}: no job of {workload.name} fits into {units} units")
    table, _ = bind(fitted.curve_names, int(fitted.max_units.max()), curves)
    offered = fitted.offered_load(units, table.at(fitted.curve, fitted.max_units))
    if math.isinf(offered):
        raise InputError(f"--load {load_frac:g}: the jobs of {workload.name} are all submitted at one time")
    # `scale_load` computes the load of all jobs, so the target is corrected: gaps grow by offered / load_frac.
    return workload.scale_load(workload.offered_load(units) / offered * load_frac, units)
