"""What `simulate` and `compare` are asked to do, and how one run of it is made."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

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
"""Up to here the max-min run, whose cost grows with the square of an overload, is made without being asked for."""


@dataclass(frozen=True)
class Study:
    """The options of `simulate` and `compare`, checked as far as they can be without the trace."""

    file: str
    engine: Engine
    asked: str  # the engine that was asked for, which may be auto
    cluster: Cluster | None
    form: str
    on_bad_rows: str
    units: int | None
    fractional: bool
    jobs: int | None
    load_frac: float | None
    curves: SpeedupTable | None
    seed: int
    seeds: int | None
    trial: str | None
    grace: tuple[float, float | None] | None
    restart_s: float
    resize_interval_s: float
    resize_gain: bool
    as_trials: bool
    on_wide: str | None
    overrun: str | None
    predict: bool
    predict_sample: int | None
    sizes: str | None
    status: str
    measure: tuple[float, float]
    fair: bool | None
    timeline: bool

    def all_seeds(self) -> range:
        """The seeds to run, in order."""
        return range(self.seed, self.seed + (self.seeds or 1))

    def is_random(self) -> bool:
        """Whether another seed can give another result."""
        noisy = self.sizes is not None and self.sizes.startswith("noise")
        return noisy or self.predict_sample is not None or self.draws_jobs()

    def draws_jobs(self) -> bool:
        """Whether another seed can give another workload."""
        drawn_trials = self.trial is not None and self.trial.startswith(("user", "random"))
        return is_generated(self.file) or drawn_trials or (self.grace is not None and self.grace[0] > 0)


@dataclass(frozen=True)
class Loaded:
    """A workload ready to run on the units of a pool or on the nodes of a cluster, and how long getting it took (s)."""

    workload: Workload
    machine: int | Cluster
    load_s: float


@dataclass(frozen=True)
class Run:
    """One simulation to make: of a policy, or (`fair`) of the max-min shares to compare with."""

    policy: str
    seed: int
    fair: bool = False


def load(study: Study, seed: int) -> Loaded:
    """Read or generate the workload, keep its first jobs, mark trials, rescale its load; raises InputError."""
    started = time.perf_counter()
    nothing_named = study.engine == "pool" and study.units is None and study.cluster is None
    units = GENERATED_UNITS if nothing_named else study.units
    workload = read(study.file, units, seed, study.form, study.on_bad_rows, study.cluster)
    if study.jobs is not None:
        workload = workload.head(study.jobs)
    if not len(workload):
        skipped = sum(workload.notes.skipped.values())
        left_out = f" ({skipped:,} rows were left out: see `betimes trace info`)" if skipped else ""
        raise InputError(f"{study.file}: there is no job to simulate{left_out}")
    workload = _marked(study, workload, seed)
    make = _on_pool if study.engine == "pool" else _on_nodes
    workload, machine = make(study, workload)
    return Loaded(workload, machine, time.perf_counter() - started)


def _marked(study: Study, workload: Workload, seed: int) -> Workload:
    """The jobs as trials or best-effort, with grace periods, as the options say."""
    from betimes.workload import draw_grace, mark_trials
    from betimes.workload.speedup import bind

    if study.trial is not None:
        table, _ = bind(workload.curve_names, int(workload.max_units.max()), study.curves)
        speed = table.at(workload.curve, workload.max_units)
        workload = mark_trials(workload, study.trial, seed, speedup_at_max=speed)
    if study.grace is not None:
        workload = draw_grace(workload, *study.grace, seed=seed)
    return workload


def _on_nodes(study: Study, workload: Workload) -> tuple[Workload, Cluster]:
    from betimes.foresight.simulate import check_wide, cluster_for
    from betimes.twin.nodes.offered import scaled_to

    cluster = study.cluster or cluster_for(workload, study.units)
    check_wide(workload, cluster, study.on_wide)  # refuses now what would be refused later
    if study.load_frac is not None:
        workload = scaled_to(workload, cluster, study.load_frac, study.curves)
    return workload, cluster


def _on_pool(study: Study, workload: Workload) -> tuple[Workload, int | Cluster]:
    from betimes.twin.generate import noted_cluster
    from betimes.twin.pool.simulation import fit

    if study.asked == "auto" and noted_cluster(workload) is not None:
        raise InputError(
            f"{study.file}: was generated for nodes; give --engine nodes, or pool if you mean it"
        )
    units = study.cluster.units if study.cluster is not None else _units(study, workload)
    fitted = fit(workload, units, study.on_wide or "refuse", study.cluster).workload
    if study.load_frac is not None:
        workload = _rescaled(workload, fitted, units, study.load_frac, study.curves)
    return workload, study.cluster or units


def wants_fair(study: Study, jobs: int) -> bool:
    """Whether a max-min run is made for comparison."""
    if study.engine != "pool":
        return False
    return study.fair if study.fair is not None else not study.fractional or jobs <= MOST_JOBS_FAIR


def simulate(
    study: Study,
    run: Run,
    loaded: Loaded,
    warn: Callable[[str], object],
    progress: Callable[[int], object] | None,
) -> Result:
    """Make one run."""
    from betimes.foresight.simulate import simulate as run_policy

    common: dict[str, Any] = {
        "engine": study.engine,
        "units" if isinstance(loaded.machine, int) else "cluster": loaded.machine,
        "fractional": study.fractional,
        "curves": study.curves,
        "seed": run.seed,
        "on_wide": study.on_wide,
        "as_trials": study.as_trials,
    }
    if run.fair:
        return run_policy(loaded.workload, FAIR, progress=progress, **common)
    result = run_policy(
        loaded.workload,
        run.policy,
        predict=study.predict,
        predict_sample=study.predict_sample,
        sizes=study.sizes,
        overrun=study.overrun,
        restart_s=study.restart_s,
        resize_interval_s=study.resize_interval_s,
        resize_gain=study.resize_gain,
        timeline=study.timeline,
        warn=warn,
        progress=progress,
        **common,
    )
    return replace(result, timing=replace(result.timing, load_s=loaded.load_s))


def notes_of(workload: Workload) -> list[str]:
    """What reading the trace had to say, a line each."""
    skipped = "; ".join(f"{reason} ({count:,})" for reason, count in workload.notes.skipped.items())
    left_out = [f"{workload.name}: rows left out: {skipped}"] if skipped else []
    return left_out + [f"{workload.name}: {warning}" for warning in workload.notes.warnings]


def _units(study: Study, workload: Workload) -> int:
    if study.units is not None:
        return study.units
    if workload.machine_units is not None:
        return workload.machine_units
    if is_generated(study.file):
        return GENERATED_UNITS
    raise InputError(f"{study.file}: the trace does not say how large its machine is; give --units N")


def _rescaled(
    workload: Workload, fitted: Workload, units: int, load_frac: float, curves: SpeedupTable | None
) -> Workload:
    """The workload with gaps such that those of its jobs that the pool takes offer `load_frac`."""
    from betimes.workload.speedup import bind

    if not len(fitted):
        raise InputError(f"--load {load_frac:g}: no job of {workload.name} fits into {units} units")
    table, _ = bind(fitted.curve_names, int(fitted.max_units.max()), curves)
    offered = fitted.offered_load(units, table.at(fitted.curve, fitted.max_units))
    if math.isinf(offered):
        raise InputError(f"--load {load_frac:g}: the jobs of {workload.name} are all submitted at one time")
    # `scale_load` stretches by its own idea of the load to what it is given: here by offered / load_frac.
    return workload.scale_load(workload.offered_load(units) / offered * load_frac, units)
