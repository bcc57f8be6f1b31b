"""Models of waits, fitted to what a simulation has seen (SoCC 2021; spec/waiting.md A.7).

scikit-learn fits; what it has fitted is taken out as arrays (`policies.nodes.wait_model`), and checked against it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from betimes.cluster import Cluster
from betimes.core.nodes.wait_features import DECIDED_S, FEATURES
from betimes.core.nodes.wait_predictor import Predictor, Split
from betimes.errors import InputError, PolicyError
from betimes.foresight.waits.estimators import fitted
from betimes.kernels import Floats, as_array, blank
from betimes.policies import ChosenPolicy
from betimes.policies.nodes.hooks import NodesPolicy
from betimes.policies.nodes.wait_model import WaitModel
from betimes.twin.nodes.simulation import NodesSimulation
from betimes.workload import Workload

CENSORED = (1.1, 1.5, 2.5)
"""What may count as the wait of a job that waited for `b` in vain, in units of `b`: its true wait is not known."""

HELD_BACK = 0.2  # of the waits that a model is fitted to, the latest: they choose among these
TRIED = 10_000  # waits to which each of them is fitted

FEWEST = 50  # waits from which a model can be fitted
MOST = 50_000
"""Waits that a model is fitted to, evenly spread: more do not make it better, and forests take minutes."""

BINS = 5  # of the calibration


@dataclass(frozen=True)
class Observed:
    """Jobs that could not start at once, in the order in which they began to wait.

    `features` (n, 9); `decided_s`, `wait_s` (n,); `vain` (n,): it waited for `b_s` in vain, which wait_s then is.
    """

    features: Floats
    decided_s: Floats
    wait_s: Floats
    vain: NDArray[np.bool_]
    b_s: float

    def __len__(self) -> int:
        return len(self.wait_s)

    def __getitem__(self, rows: slice) -> Observed:
        """Some of them."""
        return replace(
            self,
            **{name: getattr(self, name)[rows] for name in ("features", "decided_s", "wait_s", "vain")},
        )


@dataclass(frozen=True)
class Evaluation:
    """How good a model's predictions are for jobs that it has not seen.

    mcc: Matthews correlation of being predicted to wait longer than a threshold and doing so, by threshold in seconds.
    error_s: mean absolute error over those that did not wait in vain. abstained_frac: of all jobs. calibration: for
    equally many jobs each, the mean predicted and the mean true wait, both of no more than b.
    """

    jobs: int
    vain_frac: float
    mcc: dict[float, float]
    error_s: float
    abstained_frac: float
    calibration: tuple[tuple[float, float], ...]


def observe(
    workload: Workload, policy: ChosenPolicy[NodesPolicy], cluster: Cluster, **options: Any
) -> Observed:
    """What waited, and for how long, under a policy whose waits are known for sure; options of `NodesSimulation`.

    Raises PolicyError for a policy under which jobs do not wait for at most b.
    """
    if "waits" not in policy.values:
        raise PolicyError(f"policy {policy}: under it no wait is to be predicted; choose sww or compound")
    certain = replace(policy, values={**policy.values, "waits": "oracle", "model": None})
    run = NodesSimulation(workload, certain, cluster, observed=True, **options)
    run.run()
    outcomes = as_array(run.trace.outcomes)[: run.trace.finished[0]]
    rows = run.trace.features[: run.trace.finished[0]]
    b_s = float(str(certain.values["b"]))
    vain = (outcomes["offer"] >= 0) & ~np.isnan(rows[:, DECIDED_S])
    wait_s = np.where(vain, b_s, outcomes["start_s"] - rows[:, DECIDED_S])
    kept = np.flatnonzero((wait_s > 0.0) & np.isfinite(wait_s))
    kept = kept[np.argsort(rows[kept, DECIDED_S], kind="stable")]
    return Observed(
        np.ascontiguousarray(rows[kept, : len(FEATURES)]),
        rows[kept, DECIDED_S].copy(),
        wait_s[kept],
        vain[kept],
        b_s,
    )


def fit(kind: str, observed: Observed, censored: float | None = None) -> WaitModel:
    """A model of a kind (`KINDS`) of what was observed; raises InputError where that is too little.

    censored: what a wait in vain counts as, in units of b; by default as `choose_censored` says.
    """
    if len(observed) < FEWEST:
        raise InputError(
            f"{len(observed)} jobs had to wait, and a model needs {FEWEST}; take a longer trace or fewer owned machines"
        )
    return _fit(kind, observed, censored or choose_censored(kind, observed), MOST)


def choose_censored(kind: str, observed: Observed) -> float:
    """Which of CENSORED tells waits in vain best among the latest of what was observed; the least of equals.

    So nothing of the jobs that a model is tried on is known when it is fitted.
    """
    cut = int((1.0 - HELD_BACK) * len(observed))
    earlier, later = observed[slice(0, cut)], observed[slice(cut, None)]
    if not (later.vain.any() and earlier.vain.any()):
        return CENSORED[0]
    quality = [evaluate(_fit(kind, earlier, of_b, TRIED), later).mcc[observed.b_s] for of_b in CENSORED]
    return CENSORED[int(np.argmax(quality))]


def _fit(kind: str, observed: Observed, censored: float, most: int) -> WaitModel:
    """Fitted to at most so many waits, of which those in vain are `censored` times b."""
    # Forests split between single-precision numbers.
    rows = np.linspace(0, len(observed) - 1, min(len(observed), most)).astype(np.int64)
    x = observed.features[rows].astype(np.float32).astype(np.float64)
    y = np.where(observed.vain, censored * observed.b_s, observed.wait_s)[rows]
    made = fitted(kind, x, y)
    weights, trees = {"linear": _linear, "forest": _forest, "boosting": _boosting}[kind](made)
    roots, splits = _joined(trees)
    seen = np.stack([x.min(axis=0), x.max(axis=0)])
    model = WaitModel(kind, Predictor(trees=splits, roots=roots, weights=weights, seen=seen))
    sample = slice(None, None, max(1, len(x) // 1000))
    if not np.allclose(model.predict(x[sample]), made.predict(x[sample]), rtol=1e-3, atol=1.0):
        raise InputError(
            f"model {kind}: this version of scikit-learn keeps its trees in another form; install an older one"
        )
    return model


def evaluate(model: WaitModel, observed: Observed) -> Evaluation:
    """How good the predictions are for jobs that the model was not fitted to."""
    predicted, b_s = model.predict(observed.features), observed.b_s
    known = ~np.isnan(predicted)
    guess, true, vain = predicted[known], observed.wait_s[known], observed.vain[known]
    thresholds = [b_s * part for part in (1.0, 0.5, 0.25)]
    parts = np.array_split(np.argsort(guess, kind="stable"), BINS) if len(guess) >= BINS else []
    return Evaluation(
        jobs=len(observed),
        vain_frac=float(np.mean(observed.vain)) if len(observed) else 0.0,
        mcc={at_s: mcc(guess > at_s, (true > at_s) | vain) for at_s in thresholds},
        error_s=float(np.mean(np.abs(guess - true)[~vain])) if np.any(~vain) else float("nan"),
        abstained_frac=float(np.mean(~known)) if len(observed) else 0.0,
        calibration=tuple(
            (float(np.minimum(guess[part], b_s).mean()), float(np.minimum(true[part], b_s).mean()))
            for part in parts
        ),
    )


def learn(
    workload: Workload,
    policy: ChosenPolicy[NodesPolicy],
    cluster: Cluster,
    kind: str = "forest",
    train_frac: float = 0.7,
    **options: Any,
) -> tuple[WaitModel, Evaluation]:
    """A model fitted to the first `train_frac` of the jobs that waited, and how it does on the others."""
    if not 0.0 < train_frac < 1.0:
        raise InputError(f"--train {train_frac:g}: expected a share above 0 and below 1")
    observed = observe(workload, policy, cluster, **options)
    cut = int(train_frac * len(observed))
    model = fit(kind, observed[slice(0, cut)])
    found = evaluate(model, observed[slice(cut, None)])
    return replace(model, error_s=found.error_s), found


def mcc(said: NDArray[np.bool_], true: NDArray[np.bool_]) -> float:
    """Matthews correlation of two columns; 0 where one of them has one value only."""
    tp, tn = float(np.sum(said & true)), float(np.sum(~said & ~true))
    fp, fn = float(np.sum(said & ~true)), float(np.sum(~said & true))
    product = (tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)
    return (tp * tn - fp * fn) / product**0.5 if product > 0.0 else 0.0


Tree = tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]
"""Feature, threshold, left, right and value of every node; left is -1 in a leaf."""


def _linear(made: Any) -> tuple[Floats, list[Tree]]:
    return np.concatenate([[made.intercept_], made.coef_]), []


def _forest(made: Any) -> tuple[Floats, list[Tree]]:
    trees = [
        (
            np.maximum(tree.feature, 0),
            tree.threshold,
            tree.children_left,
            tree.children_right,
            tree.value[:, 0, 0] / len(made.estimators_),
        )
        for tree in (each.tree_ for each in made.estimators_)
    ]
    return np.zeros(1 + len(FEATURES)), trees


def _boosting(made: Any) -> tuple[Floats, list[Tree]]:
    trees = list[Tree]()
    for (predictor,) in made._predictors:
        nodes, leaf = predictor.nodes, predictor.nodes["is_leaf"] == 1
        left = np.where(leaf, -1, nodes["left"].astype(np.int64))
        right = np.where(leaf, -1, nodes["right"].astype(np.int64))
        trees.append((nodes["feature_idx"], nodes["num_threshold"], left, right, nodes["value"]))
    weights = np.zeros(1 + len(FEATURES))
    weights[0] = float(np.ravel(made._baseline_prediction)[0])
    return weights, trees


def _joined(trees: list[Tree]) -> tuple[NDArray[np.int64], Any]:
    """All trees in one array, and where each begins."""
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
