"""Models of waits, fitted to the waits of a simulation (SoCC 2021; spec/waiting.md A.7).

scikit-learn fits; the model is exported as arrays (`policies.nodes.wait_model`) and checked against the original.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from betimes.cluster import Cluster
from betimes.core.nodes.wait_features import DECIDED_S, FEATURES
from betimes.core.nodes.wait_predictor import Predictor
from betimes.errors import InputError, PolicyError
from betimes.foresight.waits.estimators import Tree, boosted_trees, fitted, joined
from betimes.kernels import Floats, as_array
from betimes.policies import ChosenPolicy
from betimes.policies.nodes.hooks import NodesPolicy
from betimes.policies.nodes.wait_model import WaitModel
from betimes.twin.nodes.simulation import NodesSimulation
from betimes.twin.options import SimulationOptions
from betimes.workload import Workload

CENSORED = (1.1, 1.5, 2.5)
"""Candidate factors: a job that waited for `b` in vain counts with this many `b`, as its true wait is unknown."""

HELD_BACK = 0.2  # fraction of the fitted waits, the latest, held back to choose among these factors
TRIED = 10_000  # waits to which a model of each factor is fitted

FEWEST = 50  # waits that a model needs
MOST = 50_000
"""Limit of the waits that a model is fitted to, evenly spread: more do not improve it, and forests take minutes."""

BINS = 5  # of the calibration


@dataclass(frozen=True)
class Observed:
    """Jobs that could not start at once, in the order in which they began to wait.

    `features` (n, 9); `decided_s`, `wait_s` (n,); `vain` (n,): the job waited in vain, and its wait_s is `b_s`.
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
    """The quality of a model's predictions for jobs that it was not fitted to.

    mcc: Matthews correlation of predicted and true waits above a threshold, by threshold in seconds. error_s: mean
    absolute error over jobs that did not wait in vain. abstained_frac: of all jobs. calibration: for bins of equally
    many jobs, the mean predicted and the mean true wait, both cut at b.
    """

    jobs: int
    vain_frac: float
    mcc: dict[float, float]
    error_s: float
    abstained_frac: float
    calibration: tuple[tuple[float, float], ...]


def observe(workload: Workload, policy: ChosenPolicy[NodesPolicy], cluster: Cluster) -> Observed:
    """Jobs and their waits under a policy whose waits are known for sure.

    Raises PolicyError for a policy that predicts no waits.
    """
    if "waits" not in policy.values:
        raise PolicyError(f"policy {policy}: under it no wait is to be predicted; choose sww or compound")
    certain = replace(policy, values={**policy.values, "waits": "oracle", "model": None})
    run = NodesSimulation(workload, certain, SimulationOptions(cluster=cluster), observed=True)
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
    """A model of a kind (`KINDS`) fitted to `observed`; raises InputError for too few waits.

    censored: the length of a wait in vain, in units of b; by default that of `choose_censored`.
    """
    if len(observed) < FEWEST:
        raise InputError(
            f"{len(observed)} jobs had to wait, and a model needs {FEWEST}; take a longer trace or fewer owned machines"
        )
    return _fit(kind, observed, censored or choose_censored(kind, observed), MOST)


def choose_censored(kind: str, observed: Observed) -> float:
    """Choose the factor of CENSORED that best predicts waits in vain on the latest observations; the least of equals.

    These are not the jobs on which the model is tried later.
    """
    cut = int((1.0 - HELD_BACK) * len(observed))
    earlier, later = observed[slice(0, cut)], observed[slice(cut, None)]
    if not (later.vain.any() and earlier.vain.any()):
        return CENSORED[0]
    quality = [evaluate(_fit(kind, earlier, of_b, TRIED), later).mcc[observed.b_s] for of_b in CENSORED]
    return CENSORED[int(np.argmax(quality))]


def _fit(kind: str, observed: Observed, censored: float, most: int) -> WaitModel:
    """A model fitted to at most `most` waits; waits in vain count as `censored` times b."""
    # Forests split between single-precision numbers.
    rows = np.linspace(0, len(observed) - 1, min(len(observed), most)).astype(np.int64)
    x = observed.features[rows].astype(np.float32).astype(np.float64)
    y = np.where(observed.vain, censored * observed.b_s, observed.wait_s)[rows]
    made = fitted(kind, x, y)
    weights, trees = {"linear": _linear, "forest": _forest, "boosting": _boosting}[kind](made)
    roots, splits = joined(trees)
    seen = np.stack([x.min(axis=0), x.max(axis=0)])
    model = WaitModel(kind, Predictor(trees=splits, roots=roots, weights=weights, seen=seen))
    sample = slice(None, None, max(1, len(x) // 1000))
    if not np.allclose(model.predict(x[sample]), made.predict(x[sample]), rtol=1e-3, atol=1.0):
        raise InputError(
            f"model {kind}: this version of scikit-learn keeps its trees in another form; install an older one"
        )
    return model


def evaluate(model: WaitModel, observed: Observed) -> Evaluation:
    """The quality of the model's predictions for jobs that it was not fitted to."""
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
) -> tuple[WaitModel, Evaluation]:
    """A model fitted to the first `train_frac` of the jobs that waited, and its evaluation on the others."""
    if not 0.0 < train_frac < 1.0:
        raise InputError(f"--train {train_frac:g}: expected a share above 0 and below 1")
    observed = observe(workload, policy, cluster)
    cut = int(train_frac * len(observed))
    model = fit(kind, observed[slice(0, cut)])
    found = evaluate(model, observed[slice(cut, None)])
    return replace(model, error_s=found.error_s), found


def mcc(predicted: NDArray[np.bool_], true: NDArray[np.bool_]) -> float:
    """Matthews correlation of two columns; 0 if one of them is constant."""
    tp, tn = float(np.sum(predicted & true)), float(np.sum(~predicted & ~true))
    fp, fn = float(np.sum(predicted & ~true)), float(np.sum(~predicted & true))
    product = (tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)
    return (tp * tn - fp * fn) / product**0.5 if product > 0.0 else 0.0


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
    constant, trees = boosted_trees(made)
    return np.concatenate([[constant], np.zeros(len(FEATURES))]), trees
