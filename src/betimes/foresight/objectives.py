"""Objectives of an operator: pairs of a metric and a measure, such as `jct:avg` and `pred_err:p99`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from betimes.errors import InputError, did_you_mean
from betimes.outcome import Result, job_metric, metrics
from betimes.outcome.levels import units_in_use

Array = np.ndarray[Any, np.dtype[Any]]
Unit = Literal["s", "frac", "ratio"]


@dataclass(frozen=True)
class Metric:
    """A quantity to optimise; smaller is better unless it is `maximised`."""

    name: str
    summary: str
    unit: Unit
    maximised: bool = False


METRICS = {
    metric.name: metric
    for metric in (
        Metric("jct", "job completion time, from submission to the end", "s"),
        Metric("pred_err", "absolute prediction error |JCT - promised JCT| / promised JCT", "frac"),
        Metric(
            "unfairness", "how far JCT exceeds that on an equal share, by the contention a job saw", "frac"
        ),
        Metric("slowdown", "JCT over the run time alone", "ratio"),
        Metric("wait", "time from submission to the first start", "s"),
        Metric(
            "makespan", "time from the first submission to the last end: one a run, whatever the measure", "s"
        ),
        Metric("utilisation", "part of the units in use: over all the time, or at any time", "frac", True),
    )
}

MEASURES: dict[str, str] = {
    "avg": "mean",
    "p50": "median",
    "p90": "90th percentile",
    "p95": "95th percentile",
    "p99": "99th percentile",
    "max": "maximum",
}

_COLUMNS = {
    "jct": "jct_s",
    "pred_err": "prediction_error_frac",
    "unfairness": "unfairness_frac",
    "slowdown": "slowdown",
    "wait": "wait_s",
}


@dataclass(frozen=True)
class Objective:
    """A metric and the measure over the jobs' values; `str` gives `jct:avg`. Raises InputError for unknown ones."""

    metric: str
    measure: str

    def __post_init__(self) -> None:
        for kind, name, known in (
            ("metric", self.metric, list(METRICS)),
            ("measure", self.measure, list(MEASURES)),
        ):
            if name not in known:
                hint = did_you_mean(name, known)
                raise InputError(
                    f"objective {self}: there is no {kind} {name!r}{hint}; choose among {', '.join(known)}"
                )

    def __str__(self) -> str:
        return f"{self.metric}:{self.measure}"

    @property
    def unit(self) -> Unit:
        """The unit of its values: seconds, fractions, or ratios."""
        return METRICS[self.metric].unit

    @property
    def maximised(self) -> bool:
        """Whether more is better."""
        return METRICS[self.metric].maximised

    @property
    def predicts(self) -> bool:
        """Whether jobs must be promised a finish."""
        return self.metric == "pred_err"

    @property
    def watches(self) -> bool:
        """Whether the units that each job holds must be recorded over time."""
        return self.metric == "utilisation" and self.measure != "avg"

    def cost(self, value: float) -> float:
        """The quantity that a search minimises: the value, or its negative if more is better."""
        return -value if self.maximised else value

    def value(self, result: Result) -> float:
        """The objective's value for one run, in `unit`; NaN where no job has the metric."""
        jobs = result.jobs
        if self.metric == "makespan":
            return metrics.makespan(jobs.submit_s, jobs.finish_s)
        if self.metric == "utilisation":
            return self._utilisation(result)
        values = job_metric(result, _COLUMNS[self.metric])[jobs.finished]
        if self.metric == "pred_err":
            values = np.abs(values[~np.isnan(values)])
        return self.measured(values)

    def measured(self, values: Array) -> float:
        """The jobs' values of a metric as one; NaN of none."""
        return metrics.mean(values) if self.measure == "avg" else metrics.percentile(values, self._percent())

    def _percent(self) -> float:
        return 100.0 if self.measure == "max" else float(self.measure.removeprefix("p"))

    def _utilisation(self, result: Result) -> float:
        makespan_s = metrics.makespan(result.jobs.submit_s, result.jobs.finish_s)
        if self.measure == "avg":
            return metrics.utilisation(result.jobs.units_s, result.units, makespan_s)
        if result.segments is None:
            raise ValueError(f"{self} needs a result with its allocations")
        held = result.segments
        first = float(result.jobs.submit_s.min())
        at, units = units_in_use(held.start_s, held.end_s, held.units)
        lasts = np.diff(np.append(at, first + makespan_s))
        idle = (np.append(0.0, units), np.append(at[0] - first, lasts))  # before the first start
        return _over_time(*idle, self._percent()) / result.units


def parse_objective(text: str) -> Objective:
    """Read `jct:avg`; raises InputError that lists the known metrics and measures."""
    metric, colon, measure = text.strip().partition(":")
    if not colon:
        raise InputError(
            f"objective {text!r}: write METRIC:MEASURE, as in jct:avg; metrics are {', '.join(METRICS)}, "
            f"measures {', '.join(MEASURES)}"
        )
    return Objective(metric.strip(), measure.strip())


def parse_objectives(texts: Sequence[str | Objective]) -> tuple[Objective, ...]:
    """Several objectives, each once; raises InputError, also for none."""
    found = tuple(text if isinstance(text, Objective) else parse_objective(text) for text in texts)
    if not found:
        raise InputError("no objective is given; name some, such as jct:avg and pred_err:p99")
    for objective in found:
        if found.count(objective) > 1:
            raise InputError(f"objective {objective} is given {found.count(objective)} times; give it once")
    return found


def _over_time(levels: Array, lasts_s: Array, percent: float) -> float:
    """The level that is not exceeded for `percent` of the time."""
    order = np.argsort(levels, kind="stable")
    passed = np.cumsum(lasts_s[order])
    at = int(np.searchsorted(passed, float(passed[-1]) * percent / 100.0 * (1.0 - 1e-12)))
    return float(levels[order][min(at, len(levels) - 1)])


Values = tuple[float, ...]
"""One value an objective, in their order."""

Evaluate = Callable[[str], "Values | None"]
"""From a policy's text to its values; None: it never finishes some job."""
