"""Estimators of scikit-learn for waits and run times, with the published parameters."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from betimes.errors import InputError
from betimes.kernels import Floats

DEPTH, SEED = 114, 137  # as published
NET = 32  # neurons in the hidden layer; not published
SCALED = ("svr", "net")  # estimators that need features and targets of one scale
MOST_SCALED = 5_000  # rows that these are fitted to: the cost of support vectors is quadratic
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
