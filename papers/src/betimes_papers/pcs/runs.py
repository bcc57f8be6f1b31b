"""The problems and runs of the PCS study: every job is promised a finish, grants are fractional, changes are free."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from betimes_papers.experiment import Experiment, Progress, Row, Workers

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from betimes.foresight.tuning import Problem
    from betimes.outcome import Result
    from betimes.workload import Workload

UNITS = 64  # of the study's simulations
OBJECTIVES = ("jct:avg", "pred_err:avg")  # of the released fronts
TAIL = ("jct:avg", "pred_err:p99")
CURVES = "scaling/afs_pcs_speedup.csv.gz"
TABLES = "pcs/pcs_workload_cdfs.csv.gz"
TIRESIAS = "Tiresias in the paper"
SEED = 4567  # of the published generator


@dataclass(frozen=True)
class Planned:
    """A run: the policy's name in the figure, its specification, and notes on its published values."""

    name: str
    policy: str
    note: str = ""


@dataclass(frozen=True, eq=False)
class Outcome:
    """The outcome of a run."""

    run: Planned
    result: Result

    @property
    def jobs(self) -> int:
        """The number of jobs."""
        return len(self.result.jobs)

    @cached_property
    def jct_mean_s(self) -> float:
        """Mean JCT of all jobs, s."""
        import numpy as np

        return float(np.mean(self.jct_s))

    @cached_property
    def jct_s(self) -> NDArray[np.float64]:
        """JCT of every job, s."""
        from betimes.outcome import job_metric

        return job_metric(self.result, "jct_s")

    @cached_property
    def errors(self) -> NDArray[np.float64]:
        """Absolute prediction errors of the jobs that were promised a finish, %."""
        import numpy as np

        from betimes.outcome import job_metric

        found = 100.0 * np.abs(job_metric(self.result, "prediction_error_frac"))
        return found[~np.isnan(found)]

    @cached_property
    def unfairness(self) -> NDArray[np.float64]:
        """The excess of every job's JCT over its fair one (event-averaged contention), %."""
        from betimes.outcome import job_metric

        return 100.0 * job_metric(self.result, "unfairness_frac")

    def error(self, percent: float | None = None) -> float:
        """The mean, or a percentile, of the absolute prediction error, %."""
        import numpy as np

        return float(np.mean(self.errors) if percent is None else np.percentile(self.errors, percent))


class OverSeeds:
    """Means over the same run with several seeds."""

    outcomes: list[Outcome]

    @property
    def jct_mean_s(self) -> float:
        """Mean JCT of all jobs, s, mean over the seeds."""
        return sum(each.jct_mean_s for each in self.outcomes) / len(self.outcomes)

    @property
    def error(self) -> float:
        """Mean absolute prediction error, %, mean over the seeds."""
        return sum(each.error() for each in self.outcomes) / len(self.outcomes)


def on_philly(
    name: str,
    summary: str,
    run_traces: Callable[[tuple[str, ...], Path, Progress, Workers], list[Row]],
    chosen: tuple[str, ...],
    traces: tuple[str, ...],
) -> Experiment:
    """An experiment on chosen Philly traces with measured curves; on others as `name:TRACE+TRACE`."""

    def experiment(chosen: tuple[str, ...], full_name: str) -> Experiment:
        def run(data: Path | None, progress: Progress, workers: Workers) -> list[Row]:
            if data is None:
                raise ValueError(f"{full_name} needs the data directory")
            return run_traces(chosen, data, progress, workers)

        return Experiment(
            name=full_name,
            summary=summary,
            needs=(CURVES, *map(trace_file, chosen)),
            run=run,
            parts=traces,
            narrowed=lambda parts: experiment(parts, f"{name}:{'+'.join(parts)}"),
        )

    return experiment(chosen, name)


def problem_of(workload: Workload, objectives: tuple[str, ...] = OBJECTIVES, **fields: Any) -> Problem:
    """The problem of these jobs; fields: of `SimulationOptions`, by default fractions of the figures' units."""
    from betimes.foresight.tuning import Problem, parse_objectives
    from betimes.twin.options import SimulationOptions
    from betimes.twin.pool.simulation import fit

    options = SimulationOptions.of(None, **{"units": UNITS, "fractional": True, **fields})
    fitted = fit(workload, options.pool_units(workload)).workload
    return Problem(fitted, parse_objectives(objectives), options)


def compared(
    case: str,
    outcome: Outcome,
    best_s: float,
    published: tuple[float | None, float | None, float | None] | None,
    notes: tuple[str, str, str],
) -> list[Row]:
    """The rows of a policy in figures 3 and 7: mean JCT over the best, and the mean and p99 of the error, %."""
    jct, mean, p99 = published or (None, None, None)
    return [
        Row(case, "jct_mean_over_best", jct, outcome.jct_mean_s / best_s, "ratio", notes[0]),
        Row(case, "pred_err_mean", mean, outcome.error(), "%", notes[1]),
        Row(case, "pred_err_p99", p99, outcome.error(99.0), "%", notes[2]),
    ]


def best_jct_s(outcomes: Sequence[Outcome]) -> float:
    """The smallest mean JCT, the figures' divisor."""
    return min(outcome.jct_mean_s for outcome in outcomes)


def trace_file(trace: str) -> str:
    """The path of a Philly virtual cluster's trace in the data directory."""
    return f"gpu/philly_pcs/trace_{trace}.csv.gz"


def workload_1(
    data: Path, *, jobs: int, load: float, units: int, seed: int = SEED, table: str = "themis1"
) -> Workload:
    """AutoML jobs: trials drawn from the table, with equal work, none sped up by more units.

    As in the published simulator a job can use one unit, or two or three, for each of its trials, with linear
    speed-up. Jobs wider than the machine are narrowed.
    """
    from betimes.workload.generators.registry import generate

    spec = f"workload-1:cdf={data / TABLES},table={table},jobs={jobs},load={load},published=true"
    return generate(spec, units=units, seed=seed)


def workload_3(*, jobs: int, load: float, units: int, seed: int = SEED) -> Workload:
    """Gavel's continuous-multiple trace; the published simulator takes its minutes for seconds, and so do we."""
    from betimes.workload.generators.registry import generate

    spec = f"workload-3:jobs={jobs},load={load},unit_s=1,published=true"
    return generate(spec, units=units, seed=seed)
