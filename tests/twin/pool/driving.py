"""The real engine, driven with the reference model's jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from betimes import simulate
from betimes.foresight.simulate import predicting
from betimes.kernels import as_array
from betimes.outcome import Result
from betimes.policies import parse_policy
from betimes.twin.options import SimulationOptions
from betimes.twin.pool.simulation import Simulation
from betimes.twin.sizes import Sizes
from betimes.workload import Workload
from betimes.workload.speedup import SpeedupTable
from tests.reference import Job

Segment = tuple[int, float, float, float]  # row, start, end, units


@dataclass(frozen=True)
class Setup:
    """One simulation; `sizes` is true, estimate or noise (each job's own `factor`)."""

    jobs: tuple[Job, ...]
    units: int
    policy: str
    fractional: bool = False
    restart_s: float = 0.0
    sizes: str = "true"
    predict: bool = True


def curve_name(curve: Sequence[float] | None) -> str:
    return "linear" if curve is None else "measured:" + ",".join(repr(float(speed)) for speed in curve)


def measured_curves(jobs: Sequence[Job]) -> SpeedupTable | None:
    """A table of the jobs' own curves; None where all are linear."""
    curves = {curve_name(job.speedup): job.speedup for job in jobs if job.speedup is not None}
    if not curves:
        return None
    widest = max(2, *(len(curve) for curve in curves.values()))
    rows = np.array(
        [[*map(float, curve), *[float(curve[-1])] * (widest - len(curve))] for curve in curves.values()]
    )
    return SpeedupTable(tuple(curves), rows, np.array([len(curve) - 1 for curve in curves.values()]))


def full_speed(job: Job) -> float:
    if job.speedup is None:
        return float(job.max_units)
    return float(job.speedup[min(job.max_units, len(job.speedup) - 1)])


def workload_of(jobs: Sequence[Job]) -> Workload:
    """The same jobs in columns. A believed size becomes the run time on all units that a user would state."""
    return Workload.from_columns(
        submit_s=[float(job.submit) for job in jobs],
        work_s=[float(job.work) for job in jobs],
        min_units=[job.min_units for job in jobs],
        max_units=[job.max_units for job in jobs],
        curve=[curve_name(job.speedup) for job in jobs],
        estimate_s=[
            float(job.work if job.estimate is None else job.estimate) / full_speed(job) for job in jobs
        ],
        name="jobs",
    )


def as_stated(job: Job) -> Job:
    """The job with the very estimate that the engine makes of the stated run time, to the last bit."""
    if job.estimate is None:
        return job
    return replace(job, estimate=float(job.estimate) / full_speed(job) * full_speed(job))


def run_engine(setup: Setup) -> Result:
    if setup.sizes == "noise":
        return _run_with_factors(setup)
    return simulate(
        workload_of(setup.jobs),
        setup.policy,
        units=setup.units,
        fractional=setup.fractional,
        curves=measured_curves(setup.jobs),
        predict=setup.predict,
        sizes=setup.sizes,
        restart_s=float(setup.restart_s),
        timeline=True,
    )


def _run_with_factors(setup: Setup) -> Result:
    """As `simulate` with `sizes="noise:F"`, with the factors given instead of drawn."""
    run = Simulation(
        workload_of(setup.jobs),
        parse_policy(setup.policy),
        SimulationOptions(
            units=setup.units,
            fractional=setup.fractional,
            curves=measured_curves(setup.jobs),
            sizes=Sizes("noise", 0.5),
            restart_s=float(setup.restart_s),
            timeline=True,
        ),
    )
    arrivals = as_array(run.trace.arrivals)
    factors = [1.0 if job.factor is None else float(job.factor) for job in setup.jobs]
    arrivals["believed"] = factors * run.workload.work_s
    arrivals["believed_per_work"] = factors
    run.run(predicting(run, np.ones(len(setup.jobs), dtype=np.int64)) if setup.predict else None)
    return run.result()


def recorded_segments(result: Result) -> list[Segment]:
    """Who held what, when; what only was thought over at one instant and kept is one segment."""
    assert result.segments is not None
    s = result.segments
    rows = sorted(zip(s.row.tolist(), s.start_s.tolist(), s.end_s.tolist(), s.units.tolist(), strict=True))
    joined: list[Segment] = []
    for row, start, end, units in rows:
        if joined and (joined[-1][0], joined[-1][2], joined[-1][3]) == (row, start, units):
            joined[-1] = (row, joined[-1][1], end, units)
        else:
            joined.append((row, start, end, units))
    return sorted(joined, key=lambda segment: (segment[1], segment[0]))


def units_after_arrivals(jobs: Sequence[Job], units: int, policy: str, *, fractional: bool) -> list[float]:
    """What each job holds once all have arrived, at 0."""
    result = run_engine(Setup(tuple(jobs), units, policy, fractional, predict=False))
    held = [0.0] * len(jobs)
    for row, start, _, grant in recorded_segments(result):
        if start == 0.0:
            held[row] = grant
    return held
