"""Estimators of scikit-learn for waits and run times, with the published parameters."""

from __future__ import annotations

import math
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from betimes.core.nodes.wait_predictor import Predictor, Split, predict_rows
from betimes.errors import BetimesError, InputError
from betimes.kernels import Floats, FloatTable, as_array, blank

DEPTH, SEED = 114, 137  # as published
NET = 32  # neurons in the hidden layer; not published
SCALED = ("svr", "net")  # estimators that need features and targets of one scale
MOST_SCALED = 5_000  # rows that these are fitted to: the cost of support vectors is quadratic
QUANTILE_TREES = {
    "max_iter": 30,
    "learning_rate": 0.2,
    "max_leaf_nodes": 8,
    "min_samples_leaf": 30,
    "max_bins": 64,
}
LEAF = 20  # jobs in a leaf of the forest, at least; the library's default of one makes trees as large as the trace


def fitted(kind: str, x: Floats, y: Floats) -> Any:
    """An estimator of a kind (`linear`, `forest`, `boosting`, `svr`, `net`) fitted to x (n, features) and y (n,).

    Raises InputError for an unknown kind. The library is loaded here: it takes seconds.
    """
    classes: dict[str, tuple[str, str, dict[str, Any]]] = {
        "linear": ("sklearn.linear_model", "LinearRegression", {}),
        "forest": (
            "sklearn.ensemble",
            "RandomForestRegressor",
            {"max_depth": DEPTH, "random_state": SEED, "min_samples_leaf": LEAF},
        ),
        "boosting": (
            "sklearn.ensemble",
            "HistGradientBoostingRegressor",
            {"max_depth": DEPTH, "random_state": SEED},
        ),
        "svr": ("sklearn.svm", "SVR", {}),
        "net": (
            "sklearn.neural_network",
            "MLPRegressor",
            {"hidden_layer_sizes": (NET,), "early_stopping": True, "random_state": SEED},
        ),
    }
    if kind not in classes:
        raise InputError(f"model {kind!r}: choose {', '.join(classes)}")
    module, name, parameters = classes[kind]
    make: Any = getattr(import_module(module), name)
    limits: Any = import_module("threadpoolctl")  # comes with scikit-learn
    # Spinning threads are slower than a single one if other work needs the cores.
    with limits.threadpool_limits(limits=1):
        if kind not in SCALED:
            return make(**parameters).fit(x, y)
        compose, pipeline, scaling = (
            import_module(f"sklearn.{name}") for name in ("compose", "pipeline", "preprocessing")
        )
        rows = np.linspace(0, len(x) - 1, min(len(x), MOST_SCALED)).astype(np.int64)
        scaled: Any = compose.TransformedTargetRegressor(
            pipeline.make_pipeline(scaling.StandardScaler(), make(**parameters)),
            transformer=scaling.StandardScaler(),
        )
        return scaled.fit(x[rows], y[rows])


def boosted_quantile(quantile: float, x: FloatTable, y: Floats) -> Predictor:
    """A predictor of a quantile of y (n,) given features x (n, features), none of them NaN.

    Raises BetimesError if this version of the library keeps its trees in another form.
    """
    ensemble: Any = import_module("sklearn.ensemble")
    limits: Any = import_module("threadpoolctl")
    make = ensemble.HistGradientBoostingRegressor(
        loss="quantile", quantile=quantile, early_stopping=False, random_state=SEED, **QUANTILE_TREES
    )
    with limits.threadpool_limits(limits=1):
        made = make.fit(x, y)
        theirs = made.predict(x[:20])
    constant, trees = boosted_trees(made)
    roots, splits = joined(trees)
    features = x.shape[1]
    predictor = Predictor(
        trees=splits,
        roots=roots,
        weights=np.concatenate([[constant], np.zeros(features)]),
        seen=np.repeat([[-math.inf], [math.inf]], features, axis=1),
    )
    ours = np.zeros(len(theirs))
    predict_rows(predictor, np.ascontiguousarray(x[:20]), ours)
    if not np.allclose(ours, theirs):
        raise BetimesError("scikit-learn keeps its trees in another form than expected; install an older one")
    return predictor


Tree = tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]
"""Feature, threshold, left, right and value of every node; left is -1 in a leaf."""


def boosted_trees(made: Any) -> tuple[float, list[Tree]]:
    """The constant and the trees of a fitted HistGradientBoostingRegressor, which add up to its prediction."""
    trees = list[Tree]()
    for (predictor,) in made._predictors:
        nodes, leaf = predictor.nodes, predictor.nodes["is_leaf"] == 1
        left = np.where(leaf, -1, nodes["left"].astype(np.int64))
        right = np.where(leaf, -1, nodes["right"].astype(np.int64))
        trees.append((nodes["feature_idx"], nodes["num_threshold"], left, right, nodes["value"]))
    return float(np.ravel(made._baseline_prediction)[0]), trees


def joined(trees: list[Tree]) -> tuple[NDArray[np.int64], Any]:
    """All trees in one array, and the offset of each."""
    roots = np.cumsum([0, *(len(tree[0]) for tree in trees)])
    splits = blank(Split, int(roots[-1]))
    columns: Any = as_array(splits)
    for begin, (feature, threshold, left, right, value) in zip(roots.tolist(), trees, strict=False):
        part = columns[begin : begin + len(feature)]
        inner = left >= 0
        part["feature"], part["threshold"] = feature, np.where(inner, threshold, 0.0)
        part["left"], part["right"] = np.where(inner, left + begin, -1), np.where(inner, right + begin, -1)
        part["value"] = np.where(inner, 0.0, value)
    return roots[:-1].astype(np.int64), splits
