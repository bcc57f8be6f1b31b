"""The account of promises: what jobs were promised, beside when they were done."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from betimes.outcome.accuracy import HORIZONS_S, Promises, accuracy, constant_ratio, horizon
from betimes.outcome.metrics import Array
from betimes.service.spec.job_spec import JobSpec
from betimes.service.store.batch import Row
from betimes.service.views.models import AccuracyFigures, AccuracyGroup, AccuracyView, By, JudgedPromise

MOST_LISTED = 10_000  # promises, the newest


def account(
    rows: Iterable[Row], since_at: float, until_at: float, level: float, by: By | None, listed: bool
) -> AccuracyView:
    """The account of these rows of `Reader.promises`: first and latest promises, estimates and a constant ratio.

    level: of the baseline's interval. listed: with the first promises one by one, the newest at most.
    """
    rows = list(rows)
    first = [row for row in rows if row["is_first"]]
    promises = _columns(first)
    return AccuracyView(
        since_at=since_at,
        until_at=until_at,
        level=level,
        first=_figures(promises),
        latest=_figures(_columns([row for row in rows if row["is_latest"]])),
        estimate=_figures(_estimates(first)),
        ratio=_figures(constant_ratio(promises, level, _column(first, "finish_at"))),
        by=by,
        groups=[] if by is None else _groups(promises, first, by),
        promises=[_judged(row) for row in first[-MOST_LISTED:]] if listed else [],
    )


def _column(rows: Sequence[Mapping[str, Any]], name: str) -> Array:
    """A column of numbers; null becomes NaN."""
    return np.array([math.nan if row[name] is None else row[name] for row in rows], dtype=np.float64)


def _columns(rows: Sequence[Row]) -> Promises:
    made_at, finished_at = _column(rows, "made_at"), _column(rows, "finished_at")
    low_at, median_at, high_at, level = (
        _column(rows, name) for name in ("finish_low_at", "finish_median_at", "finish_high_at", "level")
    )
    stated_at = np.where(np.isnan(median_at), _column(rows, "finish_at"), median_at)
    return Promises(made_at, stated_at, finished_at, low_at, high_at, level)


def _estimates(rows: Sequence[Row]) -> Promises:
    """The promises as their users would have made them: the start promised, and the user's own estimate or limit."""
    started = [(row, _estimate_s(JobSpec(**row["spec"]))) for row in rows if row["start_at"] is not None]
    known = [(row, estimate_s) for row, estimate_s in started if estimate_s is not None]
    ends_at = np.array([row["start_at"] + estimate_s for row, estimate_s in known], dtype=np.float64)
    made_at, finished_at = (_column([row for row, _ in known], name) for name in ("made_at", "finished_at"))
    none = np.full(len(known), np.nan)
    return Promises(made_at, ends_at, finished_at, none, none, none)


def _estimate_s(spec: JobSpec) -> float | None:
    return spec.time_limit_s if math.isnan(spec.runtime_estimate_s) else spec.runtime_estimate_s


def _groups(promises: Promises, rows: Sequence[Row], by: By) -> list[AccuracyGroup]:
    """The figures of each group, the largest first; of horizons, in their order."""
    names = horizon(promises) if by == "horizon" else np.array([row[by] for row in rows], dtype=object)
    counts = Counter(names.tolist())
    ordered = [*HORIZONS_S] if by == "horizon" else [name for name, _ in counts.most_common()]
    return [
        AccuracyGroup(name=name, figures=_figures(promises.take(names == name)))
        for name in ordered
        if name in counts
    ]


def _figures(promises: Promises) -> AccuracyFigures:
    found: dict[str, Any] = {
        name: None if isinstance(value, float) and math.isnan(value) else value
        for name, value in accuracy(promises).items()
    }
    return AccuracyFigures(**found)


def _judged(row: Row) -> JudgedPromise:
    return JudgedPromise(**{name: row[name] for name in JudgedPromise.model_fields})
