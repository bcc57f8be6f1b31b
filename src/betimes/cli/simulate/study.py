"""The study that `simulate` and `compare` make, and a single run of it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from betimes.cli.simulate.flags import SimulationFlags
from betimes.cli.simulate.sources import GENERATED_UNITS, is_generated, read
from betimes.errors import InputError

if TYPE_CHECKING:
    from betimes.foresight.engines import Engine
    from betimes.outcome import Result
    from betimes.policies.pool.renting import RentingRule
    from betimes.twin.options import SimulationOptions
    from betimes.workload import Workload
    from betimes.workload.speedup import SpeedupTable

FAIR = "max-min"
MOST_JOBS_FAIR = 20_000
"""Limit for an unrequested max-min run, whose cost grows with the square of an overload."""


@dataclass(frozen=True)
class Study:
    """Flags as given, and what they mean; checked as far as possible without the trace.

    workload: the jobs of the first seed, where they had to be read to know what the flags mean. rule: by which the
    first policy that rents for a pool does.
    """

    flags: SimulationFlags
    options: SimulationOptions  # of all runs; those of one run have its engine, seed and machine
    engines: tuple[Engine, ...]  # of the policies
    grace: tuple[float, float | None] | None
    measure: tuple[float, float]
    workload: Workload | None = None
    rule: RentingRule | None = None

    def all_seeds(self) -> range:
        """The seeds to run, in order."""
        return range(self.flags.seed, self.flags.seed + (self.flags.seeds or 1))

    def is_random(self) -> bool:
        """Whether another seed can give another result."""
        noisy = self.options.sizes is not None and self.options.sizes.kind == "noise"
        return noisy or self.options.predict_sample is not None or self.draws_jobs()

    def draws_jobs(self) -> bool:
        """Whether another seed can give another workload."""
        trial = self.flags.trial
        drawn_trials = trial is not None and trial.startswith(("user", "random"))
        return is_generated(self.flags.file) or drawn_trials or (self.grace is not None and self.grace[0] > 0)


@dataclass(frozen=True)
class Loaded:
    """A workload ready to run on each engine, and the time it took to load (s).

    placed: the jobs, and the options that name the units of a pool or the nodes.
    """

    workload: Workload
    placed: dict[Engine, tuple[Workload, SimulationOptions]]
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
    nothing_named = "pool" in study.engines and study.flags.units is None and study.flags.cluster is None
    units = GENERATED_UNITS if nothing_named else study.flags.units
    workload = study.workload if seed == study.flags.seed else None
    if workload is None:
        workload = read(
            study.flags.file, units, seed, study.flags.form, study.flags.on_bad_rows, study.options.cluster
        )
    if study.flags.jobs is not None:
        workload = workload.head(study.flags.jobs)
    if not len(workload):
        skipped = sum(workload.notes.skipped.values())
        left_out = f" ({skipped:,} rows were left out: see `betimes trace info`)" if skipped else ""
        raise InputError(f"{study.flags.file}: there is no job to simulate{left_out}")
    workload = _marked(study, workload, seed)
    placed: dict[Engine, tuple[Workload, SimulationOptions]] = {}
    for engine in study.engines:  # scale the load on the first only, so that all run the same jobs
        load_frac = None if placed else study.flags.load
        placed[engine] = (_on_pool if engine == "pool" else _on_nodes)(study, workload, load_frac)
        workload, _ = placed[engine]
    return Loaded(workload, placed, time.perf_counter() - started)


def _marked(study: Study, workload: Workload, seed: int) -> Workload:
    """The jobs marked as trials or best-effort, with grace periods, by the options."""
    from betimes.workload import draw_grace, mark_trials
    from betimes.workload.speedup import bind

    if study.flags.trial is not None:
        table, _ = bind(workload.curve_names, int(workload.max_units.max()), study.options.curves)
        speed = table.at(workload.curve, workload.max_units)
        workload = mark_trials(workload, study.flags.trial, seed, speedup_at_max=speed)
    if study.grace is not None:
        workload = draw_grace(workload, *study.grace, seed=seed)
    return workload


def _on_nodes(
    study: Study, workload: Workload, load_frac: float | None
) -> tuple[Workload, SimulationOptions]:
    from betimes.foresight.nodes.simulate import check_wide
    from betimes.twin.nodes.offered import scaled_to

    cluster = study.options.nodes_for(workload)
    # Refuses now the jobs that any policy would refuse later.
    check_wide(workload, cluster, study.options.on_wide, rents=bool(cluster.offers))
    if load_frac is not None:
        workload = scaled_to(workload, cluster, load_frac, study.options.curves)
    return workload, replace(study.options, engine="nodes", cluster=cluster, units=None)


def _on_pool(study: Study, workload: Workload, load_frac: float | None) -> tuple[Workload, SimulationOptions]:
    from betimes.twin.noted_cluster import noted_cluster
    from betimes.twin.pool.simulation import fit

    flags, options = study.flags, study.options
    if flags.engine == "auto" and noted_cluster(workload) is not None:
        raise InputError(
            f"{flags.file}: was generated for nodes; give --engine nodes, or pool if you mean it"
        )
    if options.units is None and workload.machine_units is None and is_generated(flags.file):
        units = GENERATED_UNITS if options.cluster is None else options.cluster.units
    else:
        units = options.pool_units(workload)
    fitted = fit(workload, units, options.on_wide or "refuse", options.cluster, study.rule).workload
    if load_frac is not None:
        workload = _rescaled(workload, fitted, units, load_frac, options.curves)
    return workload, replace(options, engine="pool", units=units if options.cluster is None else None)


def wants_fair(study: Study, jobs: int) -> bool:
    """Whether a max-min run is made for comparison."""
    if "pool" not in study.engines:
        return False
    if study.rule is not None and study.flags.fair is None:
        return False  # max-min rents nothing: shares of owned units alone, too few for the widest jobs
    return (
        study.flags.fair
        if study.flags.fair is not None
        else not study.flags.fractional or jobs <= MOST_JOBS_FAIR
    )


def simulate(
    run: Run,
    loaded: Loaded,
    warn: Callable[[str], object],
    progress: Callable[[int], object] | None,
) -> Result:
    """Make one run."""
    from betimes.foresight.simulate import simulate as run_policy

    workload, options = loaded.placed[run.engine]
    options = replace(options, seed=run.seed)
    if run.fair:
        return run_policy(workload, FAIR, options.max_min(), progress=progress)
    result = run_policy(workload, run.policy, options, warn=warn, progress=progress)
    return replace(result, policy=run.policy, timing=replace(result.timing, load_s=loaded.load_s))


def notes_of(workload: Workload) -> list[str]:
    """The notes of reading the trace, a line each."""
    skipped = "; ".join(f"{reason} ({count:,})" for reason, count in workload.notes.skipped.items())
    left_out = [f"{workload.name}: rows left out: {skipped}"] if skipped else []
    return left_out + [f"{workload.name}: {warning}" for warning in workload.notes.warnings]


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
