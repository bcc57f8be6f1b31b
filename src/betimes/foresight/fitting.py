"""Fits of intervals in a process of their own: the library takes a second to load, and much memory."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from betimes.core.nodes.wait_predictor import Predictor, Split, predict_rows
from betimes.foresight.intervals import fit
from betimes.kernels import Floats, Records, as_array, blank
from betimes.processes import Do, Processes

NICE = 15  # of a process that fits


def fit_aside(rows: Sequence[tuple[Floats, float]], level: float) -> tuple[Predictor, ...]:
    """As `fit`, in a process that ends with it and gives way to others. Raises BetimesError as that does."""
    with Processes(_fitter, (level,), 1) as process:
        _, fitted = next(process.answers([rows]))
    model = tuple(Predictor(trees=_records(trees), **others) for trees, others in fitted)
    predict_rows(model[0], np.array([rows[0][0]]), np.zeros(1))  # loads what is compiled
    return model


def _fitter(level: float) -> Do:
    def do(rows: Sequence[tuple[Floats, float]], _: object) -> list[tuple[Any, dict[str, Any]]]:
        return [
            (np.asarray(values.pop("trees")), values)
            for values in (dict(predictor.values()) for predictor in fit(rows, level))
        ]

    os.nice(NICE)
    return do


def _records(values: Any) -> Records[Split]:
    """Records as kernels want them; on their way between processes they are plain."""
    splits = blank(Split, len(values))
    as_array(splits)[...] = values
    return splits
