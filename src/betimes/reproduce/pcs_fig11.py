"""PCS (OSDI 2024), figure 11: neither its size nor the contention it sees tells when a job will be done (Workload-3).

3,000 jobs on 64 GPUs at load 1.2, as in figure 8, with the same five seeds. Under Tiresias: prediction error against
size; under max-min: how many jobs there are, as each job sees it on average over its events. The study reads both off
the picture: errors of up to 200 % for small jobs and above 600 % for long ones, and a tail of contention at four times
the mean. Its data are not in the release.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from betimes.reproduce.experiment import Experiment, Progress, Row
from betimes.reproduce.pace import Pace
from betimes.reproduce.pcs_fig8 import JOBS, SEEDS, workload
from betimes.reproduce.pcs_runs import Outcome, Planned, simulated

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SMALL = 1000.0  # the size that ends the first of the two ranges that sizes are drawn from

# Read off figure 11 by the text, which says "up to", "above" and "times less".
SMALL_ERROR_MAX, LONG_ERROR_MAX, CONTENTION_TAIL_OVER_MEAN = 200.0, 600.0, 4.0


@dataclass(frozen=True, eq=False)
class Seen:
    """One seed: sizes and errors (%) under Tiresias, and contention (jobs) under max-min; one value a job."""

    sizes: NDArray[np.float64]
    errors: NDArray[np.float64]
    contention: NDArray[np.float64]


def run(_: Path | None, out: Path | None, progress: Progress) -> list[Row]:
    """The rows of (a) and (b), and with `out` a picture."""
    pace = Pace(progress, 2 * JOBS * len(SEEDS))
    found = [_seen(seed, pace) for seed in SEEDS]
    progress("done", pace.total, pace.total)
    if out is not None:
        from betimes.reproduce.pcs_fig11_picture import draw

        draw(found, out / "pcs-fig11.svg")
    return rows(found)


def rows(found: list[Seen]) -> list[Row]:
    """What the paper says of the figure, and rank correlations, each with its range over the seeds."""
    import numpy as np

    contention = "with the number of jobs there, averaged over the events that a job sees"
    return [
        _row("Tiresias/small", "pred_err_max", SMALL_ERROR_MAX, [_largest(s, small=True) for s in found], "%"),
        _row("Tiresias/long", "pred_err_max", LONG_ERROR_MAX, [_largest(s, small=False) for s in found], "%"),
        _row(
            "Tiresias", "rank_correlation_size_error", None, [_ranked(s.sizes, s.errors) for s in found], "ratio",
            "Spearman's, of all jobs",
        ),
        _row(
            "Tiresias/long", "rank_correlation_size_error", None,
            [_ranked(s.sizes[s.sizes > SMALL], s.errors[s.sizes > SMALL]) for s in found], "ratio", "Spearman's",
        ),
        _row(
            "max-min", "contention_max_over_mean", CONTENTION_TAIL_OVER_MEAN,
            [float(s.contention.max() / s.contention.mean()) for s in found], "ratio", contention,
        ),
        _row(
            "max-min", "contention_p99_over_mean", None,
            [float(np.percentile(s.contention, 99.0) / s.contention.mean()) for s in found], "ratio", contention,
        ),
    ]  # fmt: skip


def _row(
    case: str, metric: str, published: float | None, values: list[float], unit: str, note: str = ""
) -> Row:
    spread = f"mean over {len(values)} seeds, which give {min(values):.4g} to {max(values):.4g}"
    return Row(
        case, metric, published, sum(values) / len(values), unit, f"{note}; {spread}" if note else spread
    )


def _largest(seen: Seen, small: bool) -> float:
    return float(seen.errors[(seen.sizes <= SMALL) == small].max())


def _ranked(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """Spearman's rank correlation; equal values share the mean of their ranks."""
    import numpy as np
    from scipy.stats import rankdata

    return float(np.corrcoef(rankdata(a), rankdata(b))[0, 1])


def _seen(seed: int, pace: Pace) -> Seen:
    jobs = workload(seed)

    def outcome(policy: str) -> Outcome:
        told = pace.run(f"seed {seed}, {policy}", JOBS)
        return simulated(Planned(policy, policy), jobs, progress=told)

    tiresias = outcome("srsf")
    return Seen(jobs.work_s, tiresias.errors, outcome("max-min").result.jobs.contention_mean)


EXPERIMENT = Experiment(
    name="pcs-fig11",
    summary="PCS, figure 11: size and contention say little about when a job will be done",
    needs=(),
    run=run,
)
