"""Predicts waits from features, compiled: a linear function and regression trees, fitted elsewhere."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from betimes.kernels import Floats, FloatTable, Ints, Records, Struct, blank, entry, kernel


class Split:
    """A node of a regression tree: goes left where the feature is no more than the threshold."""

    feature: int
    threshold: float
    left: int  # -1: a leaf
    right: int
    value: float  # of a leaf, s


class Predictor(Struct):
    """A predictor of a wait from features: a linear function and trees, all added up."""

    trees: Records[Split]
    roots: Ints
    weights: Floats  # (1 + features,) a constant, and the weight of each
    seen: FloatTable  # (2, features) the least and the greatest value that it was trained on


@kernel
def predicted_s(
    trees: Records[Split], roots: Ints, weights: Floats, seen: FloatTable, features: Floats
) -> float:
    """The predicted wait of a job with these features, s; NaN: nothing like it was seen in training."""
    total = weights[0]
    for at in range(len(weights) - 1):
        if not seen[0, at] <= features[at] <= seen[1, at]:
            return math.nan
        total += weights[1 + at] * features[at]
    for root in roots:
        at = root
        while trees[at].left >= 0:
            split = trees[at]
            at = split.left if features[split.feature] <= split.threshold else split.right
        total += trees[at].value
    return total


@entry
@kernel
def predict_rows(predictor: Predictor, features: FloatTable, predicted: Floats) -> None:
    """The predictions of many rows of features."""
    for row in range(len(features)):
        predicted[row] = predicted_s(
            predictor.trees, predictor.roots, predictor.weights, predictor.seen, features[row]
        )


def no_predictor() -> dict[str, Any]:
    """The fields of `Predictor` where none is in force."""
    return {
        "trees": blank(Split, 0),
        "roots": np.zeros(0, dtype=np.int64),
        "weights": np.zeros(0),
        "seen": np.zeros((2, 0)),
    }
