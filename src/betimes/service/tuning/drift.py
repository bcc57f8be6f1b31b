"""Whether the workload, or the error of promises, has drifted from that tuned on: three tests, each of one sentence.

Sizes: the two-sample Kolmogorov-Smirnov test between the jobs tuned on and as many of those since as are looked at, at
a level of a thousandth (the asymptotic critical value; Smirnov 1948).

Load: the offered load of the jobs since on the present units, against the least and the most of any stretch of as many
jobs among those tuned on, on the units of then, with a quarter to spare.

Errors: an exponentially weighted moving average of log(1 + |JCT - promised JCT| / promised JCT) of the jobs as they
finish, with weight 0.1 and an upper limit at 5 of its standard deviations above the mean of the first hundred (Roberts
1959). The limit is wide because errors are skewed and their spread is learnt from few: drawn independently from
exponential, lognormal and mostly zero distributions there is a false alarm within 100 jobs in 1 to 7 of 100 cases, and
errors that have trebled are found after 9 to 40 jobs.
"""

from __future__ import annotations

import math
import statistics

import numpy as np
from pydantic import BaseModel, ConfigDict

from betimes.service.tuning.recent import Recent
from betimes.service.views.models import Reason

LEVEL = 0.001
SPARE = 1.25
WEIGHT, LIMIT, LEARNT_FROM = 0.1, 5.0, 100
LEAST_DEVIATION = 0.01  # promises that are off by less than a percent need no search

MOST_LOOKED_AT, LEAST_LOOKED_AT = 200, 20

Floats = np.ndarray[tuple[int], np.dtype[np.float64]]


class Range(BaseModel):
    """The jobs tuned on: the work of each (s on one unit), its wanted unit-seconds, and its submission."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    size_s: tuple[float, ...]
    wanted_unit_s: tuple[float, ...]
    submit_s: tuple[float, ...]
    units: int

    @classmethod
    def of(cls, recent: Recent, units: int) -> Range:
        """That of these jobs on so many units."""
        jobs = recent.workload
        wanted = recent.wanted_unit_s.tolist()
        return cls(
            size_s=jobs.work_s.tolist(), wanted_unit_s=wanted, submit_s=jobs.submit_s.tolist(), units=units
        )

    @property
    def looks_at(self) -> int:
        """The number of jobs to compare with these: enough for a test, few enough to fit several times in these."""
        return min(MOST_LOOKED_AT, max(LEAST_LOOKED_AT, len(self.size_s) // 4))


def drifted(tuned: Range, now: Range) -> Reason | None:
    """Why the jobs of `now` are not like those tuned on; null: they are."""
    return _sizes(tuned, now) or _load(tuned, now)


def distance(first: Floats, second: Floats) -> float:
    """The statistic of Kolmogorov and Smirnov: the largest distance between two empirical distributions."""
    at = np.concatenate([first, second])
    shares = [np.searchsorted(np.sort(each), at, side="right") / len(each) for each in (first, second)]
    return float(np.abs(shares[0] - shares[1]).max())


def _sizes(tuned: Range, now: Range) -> Reason | None:
    found = distance(np.array(tuned.size_s), np.array(now.size_s))
    n, m = len(tuned.size_s), len(now.size_s)
    critical = math.sqrt(-math.log(LEVEL / 2.0) / 2.0 * (n + m) / (n * m))
    if found <= critical:
        return None
    return Reason(
        code="sizes",
        text=f"the sizes of the last {m:,} jobs are distributed otherwise than those tuned on (Kolmogorov-Smirnov "
        f"{found:.3f}, limit {critical:.3f})",
        evidence={"jobs": m, "statistic": found, "limit": critical},
    )


def _load(tuned: Range, now: Range) -> Reason | None:
    many = len(now.size_s)
    starts = range(0, max(1, len(tuned.size_s) - many + 1), max(1, many // 4))
    loads = [offered for start in starts if (offered := _offered(tuned, start, many)) is not None]
    offered = _offered(now, 0, many)
    if offered is None or not loads:
        return None
    low, high = min(loads) / SPARE, max(loads) * SPARE
    if low <= offered <= high:
        return None
    return Reason(
        code="load",
        text=f"the last {many:,} jobs offer {offered:.0%} of what the cluster can do, and those tuned on offered "
        f"{min(loads):.0%} to {max(loads):.0%}",
        evidence={"jobs": many, "load": offered, "low": low, "high": high},
    )


def _offered(jobs: Range, start: int, many: int) -> float | None:
    """The load of some of the jobs; null: all were submitted at one time."""
    stretch = slice(start, start + many)
    at = jobs.submit_s[stretch]
    span_s = at[-1] - at[0]
    return sum(jobs.wanted_unit_s[stretch]) / (jobs.units * span_s) if span_s > 0.0 else None


class ErrorChart:
    """The control chart of prediction errors: takes one job after another, and reports when its limit is passed."""

    def __init__(self) -> None:
        self._learnt: list[float] = []
        self.average: float | None = None
        self.limit = math.inf

    def take(self, error_frac: float) -> Reason | None:
        """Another job has finished; why the errors are out of control, or null."""
        logged = math.log1p(error_frac)
        if self.average is None:
            self._learnt.append(logged)
            if len(self._learnt) == LEARNT_FROM:
                self.average = statistics.fmean(self._learnt)
                deviation = max(LEAST_DEVIATION, statistics.stdev(self._learnt))
                self.limit = self.average + LIMIT * deviation * math.sqrt(WEIGHT / (2.0 - WEIGHT))
            return None
        self.average += WEIGHT * (logged - self.average)
        if self.average <= self.limit:
            return None
        average, limit = math.expm1(self.average), math.expm1(self.limit)
        return Reason(
            code="errors",
            text=f"promises are off by {average:.0%} of late (moving average; limit {limit:.0%})",
            evidence={"average_frac": average, "limit_frac": limit},
        )
