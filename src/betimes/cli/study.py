"""What `simulate` and `compare` are asked to do, and how one run of it is made."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from betimes.cli.sources import GENERATED_UNITS, is_generated, read
from betimes.errors import InputError

if TYPE_CHECKING:
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
    form: str
    on_bad_rows: str
    units: int | None
    fractional: bool
    jobs: int | None
    load_frac: float | None
    curves: SpeedupTable | None
    seed: int
    seeds: int | None
    restart_s: float
    on_wide: str
    predict: bool
    predict_sample: int | None
    sizes: str
    status: str
    measure: tuple[float, float]
    fair: bool | None
    timeline: bool

    def all_seeds(self) -> range:
        """The seeds to run, in order."""
        return range(self.seed, self.seed + (self.seeds or 1))

    def is_random(self) -> bool:
        """Whether another seed can give another result."""
        noisy = self.sizes.startswith("noise")
        return noisy or self.predict_sample is not None or is_generated(self.file)


@dataclass(frozen=True)
class Loaded:
    """A workload ready to run on `units`, and the seconds that reading or generating it took."""

    workload: Workload
    units: int
    load_s: float


@dataclass(frozen=True)
class Run:
    """One simulation to make: of a policy, or (`fair`) of the max-min shares to compare with."""

    policy: str
    seed: int
    fair: bool = False


def load(study: Study, seed: int) -> Loaded:
    """Read or generate the workload, keep its first jobs, rescale its load; raises InputError."""
    from betimes.twin.simulation import fit

    started = time.perf_counter()
    workload = read(study.file, study.units, seed, study.form, study.on_bad_rows)
    if study.jobs is not None:
        workload = workload.head(study.jobs)
    if not len(workload):
        skipped = sum(workload.notes.skipped.values())
        left_out = f" ({skipped:,} rows were left out: see `betimes trace info`)" if skipped else ""
        raise InputError(f"{study.file}: there is no job to simulate{left_out}")
    units = _units(study, workload)
    fitted = fit(workload, units, study.on_wide).workload  # refuses now what would be refused later
    if study.load_frac is not None:
        workload = _rescaled(workload, fitted, units, study.load_frac, study.curves)
    return Loaded(workload, units, time.perf_counter() - started)


def wants_fair(study: Study, jobs: int) -> bool:
    """Whether a max-min run is made for comparison."""
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
        "units": loaded.units,
        "curves": study.curves,
        "seed": run.seed,
        "on_wide": study.on_wide,
    }
    if run.fair:
        return run_policy(loaded.workload, FAIR, fractional=study.fractional, progress=progress, **common)
    result = run_policy(
        loaded.workload,
        run.policy,
        fractional=study.fractional,
        predict=study.predict,
        predict_sample=study.predict_sample,
        sizes=study.sizes,
        restart_s=study.restart_s,
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
