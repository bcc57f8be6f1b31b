"""Means over runs with different seeds, and their confidence intervals."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Interval:
    """A mean over `n` runs; the true mean lies within `half_width` of it with 95 % confidence.

    `half_width` is NaN for a single run, which has no spread.
    """

    mean: float
    half_width: float
    n: int


def interval(values: Sequence[float]) -> Interval:
    """Mean and 95 % confidence interval (Student's t) of independent values; NaN for none."""
    n = len(values)
    if n < 2:
        return Interval(values[0] if n else math.nan, math.nan, n)
    from scipy.special import stdtrit

    half_width = float(stdtrit(n - 1, 0.975)) * statistics.stdev(values) / math.sqrt(n)
    return Interval(math.fsum(values) / n, half_width, n)


def over_seeds(summaries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Summaries of runs that differ in their seed as one: an `Interval` for every figure.

    Runs in which a figure is unknown (None) do not count for that figure: its `n` is smaller. `policy` stays a
    string; `timing` is left out. Raises ValueError for no runs or several policies.
    """
    if len({summary["policy"] for summary in summaries}) != 1:
        raise ValueError("expected the summaries of one policy under several seeds")
    out: dict[str, Any] = {"policy": summaries[0]["policy"]}
    # A figure may be missing from some runs altogether (no job of a class was drawn), so keys are united.
    for key in dict.fromkeys(key for summary in summaries for key in summary):
        if key not in ("policy", "timing"):
            known = [summary[key] for summary in summaries if summary.get(key) is not None]
            out[key] = interval(known)
    return out
