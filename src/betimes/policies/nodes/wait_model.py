"""A model that predicts waits: made by `betimes policy learn-waits`, kept as arrays in a file, evaluated compiled.

A file is a NumPy archive of plain arrays: it contains no code, and reading it does not need scikit-learn.
"""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from betimes.core.nodes.rules import NodesRules
from betimes.core.nodes.wait_features import FEATURES
from betimes.core.nodes.wait_predictor import Predictor, Split, predict_rows
from betimes.errors import PolicyError
from betimes.kernels import Floats, as_array, blank

VERSION = 1
KINDS = ("linear", "forest", "boosting")
AGAIN = "make it anew with `betimes policy learn-waits`"

_TREES = ("feature", "threshold", "left", "right", "value")


@dataclass(frozen=True)
class WaitModel:
    """A predictor with its kind and error.

    kind: one of KINDS. error_s: its mean absolute error on the later part of the trace that it was fitted to.
    """

    kind: str
    predictor: Predictor
    error_s: float = float("nan")

    def predict(self, features: Floats) -> Floats:
        """Waits (n,) in seconds for features (n, 9), in the order of `FEATURES`; NaN where it abstains."""
        rows = np.ascontiguousarray(features, dtype=np.float64)
        predicted: Floats = np.full(len(rows), np.nan)
        predict_rows(self.predictor, rows, predicted)
        return predicted

    def into(self, rules: NodesRules) -> NodesRules:
        """The same rules, with this model in force."""
        return rules.replaced(learned=True, **self.predictor.values())

    def save(self, path: Path) -> None:
        """Write it to a file; raises PolicyError where that cannot be written."""
        trees = as_array(self.predictor.trees)
        columns: dict[str, Any] = {
            "version": np.array(VERSION),
            "features": np.array(FEATURES),
            "kind": np.array(self.kind),
            "error_s": np.array(self.error_s),
            "roots": self.predictor.roots,
            "weights": self.predictor.weights,
            "seen": self.predictor.seen,
            **{name: trees[name] for name in _TREES},
        }
        write: Any = np.savez_compressed
        try:
            with path.open("wb") as file:
                write(file, **columns)
        except OSError as error:
            raise PolicyError(
                f"model {path}: cannot be written ({error.strerror}); choose another place"
            ) from error

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a model; raises PolicyError for another kind of file, another version or other features."""
        try:
            with np.load(path, allow_pickle=False) as archive:
                found = {name: archive[name] for name in archive.files}
        except OSError as error:
            raise PolicyError(
                f"model {path}: cannot be read ({error.strerror}); name another file"
            ) from error
        except (ValueError, zipfile.BadZipFile, EOFError) as error:
            raise PolicyError(f"model {path}: this is no model of waits; {AGAIN}") from error
        version, features = found.get("version"), found.get("features")
        if version is None or features is None or version.shape != ():
            raise PolicyError(f"model {path}: this is no model of waits; {AGAIN}")
        if int(version) != VERSION:
            raise PolicyError(
                f"model {path}: version {int(version)}, and this Betimes reads {VERSION}; {AGAIN}"
            )
        if tuple(features.tolist()) != FEATURES:
            given = ", ".join(map(str, features.tolist()))
            raise PolicyError(f"model {path}: trained on other features ({given}); {AGAIN}")
        try:
            trees = blank(Split, len(found["left"]))
            for name in _TREES:
                as_array(trees)[name] = found[name]
            roots, weights = found["roots"].astype(np.int64), found["weights"].astype(np.float64)
            seen = np.ascontiguousarray(found["seen"], dtype=np.float64)
            model = cls(
                str(found["kind"]),
                Predictor(trees=trees, roots=roots, weights=weights, seen=seen),
                float(found["error_s"]),
            )
        except (KeyError, ValueError, TypeError) as error:
            raise PolicyError(f"model {path}: damaged ({error}); {AGAIN}") from error
        if not _is_sound(model.predictor):
            raise PolicyError(f"model {path}: damaged (its trees lead nowhere); {AGAIN}")
        return model


def _is_sound(predictor: Predictor) -> bool:
    """Whether every walk from a root ends: children stand behind their parents, and features exist."""
    trees: Any = as_array(predictor.trees)
    count, at = len(trees), np.arange(len(trees))
    inner = trees["left"] >= 0
    children = np.stack([trees["left"], trees["right"]])[:, inner]
    return bool(
        predictor.weights.shape == (1 + len(FEATURES),)
        and predictor.seen.shape == (2, len(FEATURES))
        and np.all((predictor.roots >= 0) & (predictor.roots < count))
        and np.all((children > at[inner]) & (children < count))
        and np.all((trees["feature"] >= 0) & (trees["feature"] < len(FEATURES)))
        and np.all(np.isfinite(trees["value"]))
        and np.all(np.isfinite(predictor.weights))
    )
