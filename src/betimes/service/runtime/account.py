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
from betimes.service.views.models import (
    AccuracyFigures,
    AccuracyGroup,
    AccuracyView,
    BesideSlurm,
    By,
    JudgedPromise,
)

MOST_LISTED = 10_000  # promises, the newest
WAITED_S = 300.0
"""Jobs that waited for longer count apart beside Slurm: of others a start tells little."""


def account(
    rows: Iterable[Row],
    since_at: float,
    until_at: float,
    level: float,
    by: By | None,
    listed: bool,
    watches: bool = False,
) -> AccuracyView:
    """The account of these rows of `Reader.promises`: first and latest promises, estimates and a constant ratio.

    level: of the baseline's interval. listed: with the first promises one by one, the newest at most. watches: they
    are of a service that watches Slurm, whose own answers stand beside.
    """
    rows = list(rows)
    first = [row for row in rows if row["is_first"]]
    promises = _columns(first)
    waited = np.array([row["started_at"] - row["submitted_at"] > WAITED_S for row in first], dtype=np.bool_)
    all_and_waited = (("all", np.ones_like(waited)), ("waited over 5 min", waited)) if watches else ()
    return AccuracyView(
        since_at=since_at,
        until_at=until_at,
        level=level,
        first=_figures(promises),
        latest=_figures(_columns([row for row in rows if row["is_latest"]])),
        estimate=_figures(_estimates(first)),
        ratio=_figures(constant_ratio(promises, level, _column(first, "finish_at"))),
        by=by,
        groups=[] if by is None else _groups(promises, first, by, watches),
        beside_slurm=[_group(name, promises, first, of, watches) for name, of in all_and_waited],
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
    return _without_interval([row for row, _ in known], ends_at)


def _estimate_s(spec: JobSpec) -> float | None:
    return spec.time_limit_s if math.isnan(spec.runtime_estimate_s) else spec.runtime_estimate_s


def _groups(promises: Promises, rows: Sequence[Row], by: By, watches: bool) -> list[AccuracyGroup]:
    """The figures of each group, the largest first; of horizons, in their order."""
    names = horizon(promises) if by == "horizon" else np.array([_name(row, by) for row in rows], dtype=object)
    counts = Counter(names.tolist())
    ordered = [*HORIZONS_S] if by == "horizon" else [name for name, _ in counts.most_common()]
    return [_group(name, promises, rows, names == name, watches) for name in ordered if name in counts]


def _name(row: Row, by: By) -> str:
    return row["spec"].get("labels", {}).get("partition", "-") if by == "partition" else row[by]


def _group(name: str, promises: Promises, rows: Sequence[Row], which: Array, watches: bool) -> AccuracyGroup:
    of = [row for row, is_one in zip(rows, which.tolist(), strict=True) if is_one]
    figures = _figures(promises.take(which))
    return AccuracyGroup(name=name, figures=figures, slurm=_beside_slurm(of) if watches else None)


def _beside_slurm(rows: Sequence[Row]) -> BesideSlurm:
    """The promises to jobs that Slurm planned a start for, its start and the limit, and from now on the limit."""
    planned = [row for row in rows if row["slurm_start_at"] is not None]
    limit_s = np.array([JobSpec(**row["spec"]).time_limit_s for row in planned], dtype=np.float64)
    promises = _columns(planned)
    return BesideSlurm(
        promises=_figures(promises),
        slurm=_figures(_without_interval(planned, _column(planned, "slurm_start_at") + limit_s)),
        limit=_figures(_without_interval(planned, promises.made_s + limit_s)),
    )


def _without_interval(rows: Sequence[Row], ends_at: Array) -> Promises:
    """Promises of these ends, made when those of the rows were."""
    none = np.full(len(rows), np.nan)
    return Promises(_column(rows, "made_at"), ends_at, _column(rows, "finished_at"), none, none, none)


def _figures(promises: Promises) -> AccuracyFigures:
    found: dict[str, Any] = {
        name: None if isinstance(value, float) and math.isnan(value) else value
        for name, value in accuracy(promises).items()
    }
    return AccuracyFigures(**found)


def _judged(row: Row) -> JudgedPromise:
    return JudgedPromise(**{name: row[name] for name in JudgedPromise.model_fields})
