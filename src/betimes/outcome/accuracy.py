"""How well promises held: pure functions of columns, for a service's account and a simulation's alike.

All instants count from the same zero, in seconds; NaN stands for unknown, in arguments and results. A promise is for a
job that finished: others have no truth.
"""

from __future__ import annotations

import math
from bisect import insort
from dataclasses import dataclass, fields
from typing import Self

import numpy as np

from betimes.outcome.metrics import Array, mean, percentile, prediction_error
from betimes.outcome.result import Result

SAME_S = 1e-3  # instants that are no further apart are one
SLACK_S = 1.0  # added to both times of a ratio: a second more or less is no error
LEAST_RATIOS = 20  # before the constant-ratio baseline promises anything
FAR_TIMES, FAR_S = 5.0, 3600.0  # a promise that was off by more than both was of no use
HORIZONS_S = {"< 10 min": 600.0, "< 1 h": 3600.0, "< 6 h": 21_600.0, ">= 6 h": math.inf}
"""Classes of promises by their time to the promised end."""


@dataclass(frozen=True)
class Promises:
    """Promises beside the truth: columns of equal length, a row a promise."""

    made_s: Array
    predicted_s: Array  # the end that was stated: the median where there was an interval
    finished_s: Array  # the truth
    low_s: Array  # NaN: no interval was given
    high_s: Array
    level: Array  # probability of an end between the two

    def __len__(self) -> int:
        return len(self.made_s)

    def take(self, rows: Array) -> Self:
        """Some of them, by a mask or by indices."""
        return type(self)(*(getattr(self, column.name)[rows] for column in fields(self)))

    @property
    def jct_s(self) -> Array:
        """Promised JCT of each, from the promise on, and a second."""
        return self.predicted_s - self.made_s + SLACK_S

    @property
    def error_frac(self) -> Array:
        """(JCT_true - JCT_pred) / JCT_pred of each, where JCTs count from the promise. Source: PCS, section 2.

        NaN where a promise is for the instant at which it was made.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            error = prediction_error(self.made_s, self.finished_s, self.predicted_s)
        return np.where(self.predicted_s - self.made_s > SAME_S, error, np.nan)


def accuracy(promises: Promises) -> dict[str, float | int]:
    """The figures of some promises; NaN where nothing is known.

    `promises` counts them, `kept`, `early` and `late` those with an interval, by where the truth fell. `cover_frac` is
    the share kept, `level` what it should be. `width_p50_frac`: width over promised JCT. `score`: mean interval score
    of log JCT over promised JCT (Gneiting and Raftery 2007), smaller is better. `err_*_frac` are of the absolute error,
    `bias_*_frac` of the signed one, and so, in seconds, `err_p50_s` and `bias_mean_s`; `within_1min_frac`,
    `within_10min_frac`: shares that were off by no more; `off_twice_frac`: the share that took twice as long as
    promised, or less than half. `far_late_frac` and `far_early_frac`: those that were off by more than five times and
    by more than an hour, which is what users feel.
    """
    error = promises.error_frac[~np.isnan(promises.error_frac)]
    off_s = np.abs(promises.finished_s - promises.predicted_s)
    known = promises.take(~np.isnan(promises.low_s) & ~np.isnan(promises.high_s))
    early = int(np.sum(known.finished_s < known.low_s - SAME_S))
    late = int(np.sum(known.finished_s > known.high_s + SAME_S))
    kept = len(known) - early - late
    ratio = (promises.finished_s - promises.made_s + SLACK_S) / promises.jct_s
    return {
        "promises": len(promises),
        "kept": kept,
        "early": early,
        "late": late,
        "cover_frac": kept / len(known) if len(known) else math.nan,
        "level": mean(known.level),
        "width_p50_frac": percentile((known.high_s - known.low_s) / known.jct_s, 50),
        "score": mean(_score(known)),
        "err_mean_frac": mean(np.abs(error)),
        "err_p50_frac": percentile(np.abs(error), 50),
        "err_p90_frac": percentile(np.abs(error), 90),
        "err_p99_frac": percentile(np.abs(error), 99),
        "bias_mean_frac": mean(error),
        "bias_p50_frac": percentile(error, 50),
        "err_p50_s": percentile(off_s, 50),
        "bias_mean_s": mean(promises.finished_s - promises.predicted_s),
        "within_1min_frac": mean(off_s <= 60.0),
        "within_10min_frac": mean(off_s <= 600.0),
        "off_twice_frac": mean((ratio >= 2.0) | (ratio <= 0.5)),
        "far_late_frac": mean((off_s > FAR_S) & (ratio > FAR_TIMES)),
        "far_early_frac": mean((off_s > FAR_S) & (ratio < 1.0 / FAR_TIMES)),
    }


def horizon(promises: Promises) -> Array:
    """The class of each promise by its time to the promised end: a name of `HORIZONS_S`."""
    names = np.array([*HORIZONS_S])
    ends_s = np.array([*HORIZONS_S.values()])
    return names[np.searchsorted(ends_s, promises.predicted_s - promises.made_s, side="right")]


def constant_ratio(promises: Promises, level: float, played_out_s: Array) -> Promises:
    """The same promises as a baseline makes them: the end that was played out times one ratio for all.

    The ratio, and its quantiles for an interval of probability `level`, are of true over played-out time of the
    promises that had come true before; none where these are fewer than 20.
    """
    ends, order = np.argsort(promises.finished_s, kind="stable"), np.argsort(promises.made_s, kind="stable")
    jct_s = np.maximum(0.0, played_out_s - promises.made_s) + SLACK_S
    ratios = (promises.finished_s - promises.made_s + SLACK_S) / jct_s
    seen, done = list[float](), 0
    found = np.full((3, len(promises)), np.nan)
    outside = (1.0 - level) / 2.0
    for row in order.tolist():
        while done < len(ends) and promises.finished_s[ends[done]] < promises.made_s[row]:
            insort(seen, float(ratios[ends[done]]))
            done += 1
        if len(seen) >= LEAST_RATIOS:
            low = max(math.floor((len(seen) + 1) * outside + 1e-9) - 1, 0)
            found[:, row] = seen[low], seen[len(seen) // 2], seen[-1 - low]
    low_s, median_s, high_s = promises.made_s + np.maximum(0.0, found * jct_s - SLACK_S)
    levels = np.where(np.isnan(low_s), np.nan, level)
    return Promises(promises.made_s, median_s, promises.finished_s, low_s, high_s, levels)


OF_SIMULATION = ("cover_frac", "width_p50_frac", "err_p50_frac", "score", "far_late_frac", "far_early_frac")
"""Figures of `accuracy` that a simulation with intervals has, too."""


def accuracy_of(result: Result, rows: Array) -> dict[str, float]:
    """The figures of a simulation's promises to the finished jobs among `rows`, and of two baselines; {}: no intervals.

    `pred_cover_frac` and the others of `OF_SIMULATION` are as of `accuracy`. The same with `_estimate`: by the users'
    own estimates, and with `_ratio`: by quantiles of the latest ratios of JCT to that in the play-out.
    """
    intervals, level = result.intervals, result.interval_frac
    if intervals is None or level is None:
        return {}
    jobs = result.jobs
    rows = rows[jobs.finished[rows]]
    of = intervals.take(rows)
    found = dict[str, float]()
    for name, low_s, predicted_s, high_s in (
        ("", of.predicted_low_s, jobs.predicted_finish_s[rows], of.predicted_high_s),
        ("_estimate", of.played_start_s, of.estimate_finish_s, of.estimate_finish_s),
        ("_ratio", of.ratio_low_s, of.ratio_finish_s, of.ratio_high_s),
    ):
        given = ~np.isnan(low_s) & ~np.isnan(predicted_s)
        levels = np.full(len(rows), level)
        promises = Promises(jobs.submit_s[rows], predicted_s, jobs.finish_s[rows], low_s, high_s, levels)
        figures = accuracy(promises.take(given))
        for figure in OF_SIMULATION:
            found[f"pred_{figure}{name}"] = figures[figure]
    return found


def interval_score(low: Array, high: Array, true: Array, level: float | Array) -> Array:
    """(high - low) + 2 / (1 - level) x (distance of `true` outside), smaller is better.

    Source: Gneiting and Raftery, Strictly proper scoring rules, 2007, section 6.2.
    """
    outside = np.maximum(low - true, 0.0) + np.maximum(true - high, 0.0)
    return high - low + 2.0 / (1.0 - level) * outside


def _score(promises: Promises) -> Array:
    """The interval score of each, in logarithms of times over promised JCT."""
    low, true, high = (
        np.log(np.maximum(0.0, each - promises.made_s) + SLACK_S) - np.log(promises.jct_s)
        for each in (promises.low_s, promises.finished_s, promises.high_s)
    )
    return interval_score(low, high, true, promises.level)
