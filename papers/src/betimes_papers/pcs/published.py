"""Published values of PCS, from its figures and from the data of its public release (abdullahfsm/PCS, MIT).

`published.csv` holds the values and `configurations.csv` the points that the study names, with weights to three digits
where the files have fractions. Errors are mean absolute prediction errors in %, unless a percentile is named.

pcs-fig3: `simulation/wfq_configurations`, searches of `EVALUATIONS` on the first `JOBS` jobs of Philly traces: the ends
of every front, its points and the seconds that it took; pcs-fig3-points: two points, as (T, W, zeta_min, delta).
pcs-fig6a, pcs-fig6b: `data/fig6` and `data/fig4`, 101 AutoML jobs on 16 GPUs, mean of three seeds.
pcs-fig7: `data/fig7`; trace 2869ce is in the files and not in the paper, and none was configured for it.
pcs-fig8: `data/fig8`, where 5 points are added to each bar of 8a, as the 99th percentiles of 8b show, and JCTs are over
those of a policy that is not in the file. pcs-fig9: `data/fig9`, on ten machines. pcs-fig10: `data/fig10` and the
text; the workload is not named, and no prefix of a released trace has these JCTs.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeVar

T = TypeVar("T")
K = TypeVar("K")

JOBS = 2001
EVALUATIONS = 370

_ADDED = 5.0  # to each error of figure 8a


class Front(NamedTuple):
    """A released front: mean JCT in s and error at its ends, its points, and the search's seconds."""

    least_jct_s: float
    most_error: float
    most_jct_s: float
    least_error: float
    points: float
    seconds: float


class Stored(NamedTuple):
    """A released point: its variables, mean JCT in s and error."""

    T: float
    W: float
    zeta_min: float
    delta: float
    jct_s: float
    error: float


class Unfairness(NamedTuple):
    """Excess of JCT over the fair one, %: mean, percentiles and maximum over the jobs."""

    mean: float
    p50: float
    p90: float
    p95: float
    p99: float
    largest: float


class Point(NamedTuple):
    """Error, and mean JCT over that of PCS-JCT."""

    error_mean: float
    jct_over_pcs: float


class OnTrace(NamedTuple):
    """Mean JCT over the smallest of the trace; mean and 99th percentile of errors."""

    jct_over_best: float
    error_mean: float
    error_p99: float


class OnWorkload3(NamedTuple):
    """Mean JCT over that of SRSF (Tiresias); mean and 99th percentile of errors; None: not in the file."""

    jct_over_srsf: float | None = None
    error_mean: float | None = None
    error_p99: float | None = None


class Cost(NamedTuple):
    """The time of one simulation in minutes, and of one search in seconds."""

    simulation_min: float
    search_s: float


class Configuration(NamedTuple):
    """One of the points that the study names."""

    name: str
    policy: str


def configurations(workload: str) -> tuple[Configuration, ...]:
    """The configurations of a trace, of workload-1 or of workload-3; () if none was released."""
    rows = _rows("configurations.csv")
    return tuple(Configuration(row["name"], row["policy"]) for row in rows if row["workload"] == workload)


def fronts() -> dict[str, Front]:
    """By trace."""
    return _table("pcs-fig3", Front)


def stored(trace: str) -> list[Stored]:
    """Points of the front of a trace."""
    return [each for case, each in _table("pcs-fig3-points", Stored).items() if case.startswith(f"{trace}/")]


def unfairness() -> dict[str, Unfairness]:
    """By policy."""
    return _table("pcs-fig6a", Unfairness)


def testbed_front() -> dict[str, Point]:
    """Of figures 4 and 6b."""
    return _table("pcs-fig6b", Point)


def figure_7() -> dict[str, dict[str, OnTrace]]:
    """By trace and policy."""
    return _nested(_table("pcs-fig7", OnTrace), str)


def figure_8() -> dict[str, OnWorkload3]:
    """By policy, without the points added in the figure, and over SRSF, the fastest in the file."""
    found = _cases("pcs-fig8")
    fastest = found["srsf"]["jct_ratio"]
    return {
        policy: OnWorkload3(
            each["jct_ratio"] / fastest,
            each["error_mean_and_5"] - _ADDED if "error_mean_and_5" in each else None,
            each["error_p99"],
        )
        for policy, each in found.items()
    }


def costs() -> dict[int, dict[int, Cost]]:
    """By jobs, then by GPUs."""
    found = _nested(_table("pcs-fig9-cost", Cost), int)
    return {int(jobs): by_units for jobs, by_units in found.items()}


def found_after() -> dict[str, dict[int, float]]:
    """Percent of Pareto points found, by `heuristic` or `free` and then by evaluations."""
    return _one("pcs-fig9-found", "found")


def error_mean() -> dict[str, dict[int, float]]:
    """By policy and then by size error, %."""
    return _one("pcs-fig10-error", "error_mean")


def jct_mean_s() -> dict[str, dict[int, float]]:
    """By policy and then by size error, %."""
    return _one("pcs-fig10-jct", "jct_s")


def near_front() -> float:
    """Percent of the configurations found at 60 % load that are near the front at 80 %."""
    return _cases("pcs-fig10-front")["60"]["near_front"]


@cache
def _rows(file: str) -> list[dict[str, str]]:
    with Path(__file__).with_name(file).open(encoding="utf-8", newline="") as open_file:
        return list(csv.DictReader(open_file))


def _cases(experiment: str) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for row in _rows("published.csv"):
        if row["experiment"] == experiment:
            found.setdefault(row["case"], {})[row["metric"]] = float(row["value"])
    return found


def _table(experiment: str, of: Callable[..., T]) -> dict[str, T]:
    return {case: of(**metrics) for case, metrics in _cases(experiment).items()}


def _one(experiment: str, metric: str) -> dict[str, dict[int, float]]:
    return _nested({case: metrics[metric] for case, metrics in _cases(experiment).items()}, int)


def _nested(flat: dict[str, T], key: Callable[[str], K]) -> dict[str, dict[K, T]]:
    found: dict[str, dict[K, T]] = {}
    for case, each in flat.items():
        first, _, second = case.partition("/")
        found.setdefault(first, {})[key(second)] = each
    return found
