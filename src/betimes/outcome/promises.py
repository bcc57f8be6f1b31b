"""How well promises with intervals held: coverage, width, error and interval score."""

from __future__ import annotations

import numpy as np

from betimes.outcome.metrics import mean, percentile
from betimes.outcome.result import Array, Result

LEAST_S = 1.0  # a JCT counts as at least that, in ratios


def judge(result: Result, rows: Array) -> dict[str, float]:
    """The figures of the promises made to the finished jobs among `rows`, and of both baselines; {} without intervals.

    `pred_cover_frac` is the share of jobs done within their interval, `pred_width_p50_frac` the median of its width
    over the promised JCT, `pred_err_p50_frac` the median of |JCT / promised JCT - 1|, `pred_score` the mean interval
    score (`interval_score`). The same with `_estimate`: by the users' own estimates, and with `_ratio`: by quantiles of
    the latest ratios of JCT to that in the play-out.
    """
    intervals, level = result.intervals, result.interval_frac
    if intervals is None or level is None:
        return {}
    jobs = result.jobs
    rows = rows[jobs.finished[rows]]
    of = intervals.take(rows)
    at, true = jobs.submit_s[rows], jobs.finish_s[rows]
    figures = _figures(
        at, true, of.predicted_low_s, jobs.predicted_finish_s[rows], of.predicted_high_s, level
    )
    figures |= _figures(
        at, true, of.played_start_s, of.estimate_finish_s, of.estimate_finish_s, level, "_estimate"
    )
    figures |= _figures(at, true, of.ratio_low_s, of.ratio_finish_s, of.ratio_high_s, level, "_ratio")
    return figures


def interval_score(low: Array, high: Array, true: Array, level: float) -> Array:
    """(high - low) + 2 / (1 - level) x (distance of `true` outside), smaller is better; of logarithms of JCTs.

    Source: Gneiting and Raftery, Strictly proper scoring rules, 2007, section 6.2.
    """
    outside = np.maximum(low - true, 0.0) + np.maximum(true - high, 0.0)
    return high - low + 2.0 / (1.0 - level) * outside


def _figures(
    at: Array, true: Array, low: Array, middle: Array, high: Array, level: float, of: str = ""
) -> dict[str, float]:
    known = ~np.isnan(low) & ~np.isnan(middle)
    jct, low_s, middle_s, high_s = (
        np.maximum(instants[known] - at[known], LEAST_S) for instants in (true, low, middle, high)
    )
    inside = (low_s <= jct) & (jct <= high_s)
    score = interval_score(np.log(low_s), np.log(high_s), np.log(jct), level)
    return {
        f"pred_cover_frac{of}": mean(inside.astype(np.float64)),
        f"pred_width_p50_frac{of}": percentile((high_s - low_s) / middle_s, 50),
        f"pred_err_p50_frac{of}": percentile(np.abs(jct / middle_s - 1.0), 50),
        f"pred_score{of}": mean(score),
    }
