"""The measures of a schedule, as pure functions of columns; NaN stands for unknown, in arguments and results."""

from __future__ import annotations

import math
from itertools import chain
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

SUMMED = 1 << 16  # values that become Python objects at a time


def jct(submit_s: Array, finish_s: Array) -> Array:
    """Job completion time, seconds: finish - submit."""
    return finish_s - submit_s


def wait(submit_s: Array, start_s: Array) -> Array:
    """Seconds from submission to the first start."""
    return start_s - submit_s


def slowdown(jct_s: Array, run_alone_s: Array) -> Array:
    """JCT over the run time alone, at the job's greatest width; 1 is undisturbed."""
    return jct_s / run_alone_s


def bounded_slowdown(jct_s: Array, run_alone_s: Array, bound_s: float = 10.0) -> Array:
    """Slowdown in which runs shorter than `bound_s` count as that long, and nothing counts less than 1.

    Source: Feitelson et al., Theory and practice in parallel job scheduling, 1997.
    """
    return np.maximum(1.0, jct_s / np.maximum(run_alone_s, bound_s))


def prediction_error(submit_s: Array, finish_s: Array, predicted_finish_s: Array) -> Array:
    """Signed (JCT_true - JCT_pred) / JCT_pred, a fraction; positive where the job came late.

    Source: PCS, section 2. The published figures are the absolute value: take `np.abs` of this.
    """
    predicted = predicted_finish_s - submit_s
    return (finish_s - submit_s - predicted) / predicted


def fair_finish_time(work_s: Array, max_units: Array, contention_mean: Array, units: float) -> Array:
    """Seconds a job would need on its equal share of the units: S / min(M/N, max_units).

    N is the number of active jobs averaged over the events the job saw; linear scaling is assumed, so a job
    that scales worse falls behind it even undisturbed. Source: PCS, released simulator.
    """
    return work_s / np.minimum(units / contention_mean, max_units)


def unfairness(jct_s: Array, fair_jct_s: Array) -> Array:
    """The excess of a job's JCT over its fair one: max(0, JCT / fair - 1), a fraction."""
    return np.maximum(0.0, jct_s / fair_jct_s - 1.0)


def unfairness_fair_run(submit_s: Array, finish_s: Array, fair_finish_s: Array) -> Array:
    """Unfairness against a max-min run of the same workload. Source: PCS, figure 1."""
    return unfairness(finish_s - submit_s, fair_finish_s - submit_s)


def makespan(submit_s: Array, finish_s: Array) -> float:
    """Seconds from the first submission to the last finish; NaN where nothing finished."""
    finished = finish_s[~np.isnan(finish_s)]
    return float(finished.max() - submit_s.min()) if len(finished) else math.nan


def utilisation(units_s: Array, units: float, makespan_s: float) -> float:
    """Unit-seconds held over unit-seconds available, a fraction; NaN for an empty makespan."""
    return total(units_s) / (units * makespan_s) if makespan_s > 0 else math.nan


def total(values: Array) -> float:
    """The sum, correctly rounded: the same on every machine and in any order."""
    parts = (values[begin : begin + SUMMED].tolist() for begin in range(0, len(values), SUMMED))
    return math.fsum(chain.from_iterable(parts))


def mean(values: Array) -> float:
    """The mean, NaN of nothing."""
    return total(values) / len(values) if len(values) else math.nan


def percentile(values: Array, percent: float) -> float:
    """A percentile by linear interpolation, NaN of nothing."""
    return float(np.percentile(values, percent, method="linear")) if len(values) else math.nan


def effective_price(cost_usd: float, run_s: Array, units: Array) -> float:
    """The cost of a unit-hour of the jobs: `cost_usd` / (jobs x mean hours x mean units); NaN for no jobs.

    Over the price of a core on demand this is the effective price of Waiting Game (SoCC 2021).
    """
    hours = mean(run_s) / 3600.0 * mean(units) * len(run_s)
    return cost_usd / hours if hours > 0 else math.nan
