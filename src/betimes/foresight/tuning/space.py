"""The search space: configurations of weighted fair queueing (PCS, section 3.3).

By the paper's heuristics four numbers make a configuration: T bounds the squared coefficient of variation of the sizes
in a class, and so gives the thresholds; W gives the weights e^(-iW); zeta_min is the efficiency below which a job gets
no more units; delta is the step by which that is relaxed, which the released search tunes too. Without the heuristics
every threshold and every weight is a separate variable.

A configuration stores its thresholds and weights, so that it means the same on any workload and on the live service.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np

from betimes.errors import InputError, PolicyError
from betimes.kernels import Floats
from betimes.policies.pool.wfq_classes import exponential_weights, largest_variation, thresholds_by_variation

SPACES = ("heuristic", "free")

MOST_CLASSES = 5  # without the heuristics
LEAST_WEIGHT = Fraction(1, 1000)


@dataclass(frozen=True)
class WFQConfig:
    """A configuration of `wfq`: its variables, and the thresholds and weights that they give.

    thresholds: the largest size of every class but the last, seconds on one unit. weights: one a class, that of the
    smallest jobs first, of sum 1.
    """

    variables: dict[str, float]
    thresholds: tuple[float, ...]
    weights: tuple[Fraction, ...]
    zeta_min: float
    delta: float

    @property
    def policy(self) -> str:
        """The policy as `--policy` takes it, with thresholds and weights written out."""
        parts = {
            "thresholds": "+".join(_number(end) for end in self.thresholds),
            "weights": "+".join(str(weight) for weight in self.weights),
            "zeta_min": _number(self.zeta_min),
            "delta": _number(self.delta),
        }
        return "wfq:" + ",".join(f"{name}={text}" for name, text in parts.items() if text)

    def __str__(self) -> str:
        return self.policy


class Space(Protocol):
    """Bounded variables, and the configuration that they give.

    names: of the variables; low, high: (variables,) the least and the greatest value of each.
    """

    names: tuple[str, ...]
    low: Floats
    high: Floats

    def config(self, variables: Floats) -> WFQConfig | None:
        """The configuration of these variables; None: an impossible one."""
        ...


class HeuristicSpace:
    """(T, W, zeta_min, delta) in the bounds of the released search, weights in thousandths as there.

    sizes: (jobs,) seconds on one unit as the scheduler believes them. published: classes as the released code makes
    them (`thresholds_by_variation`). A class that would get less than a thousandth of the units makes a
    configuration impossible. Raises InputError if all sizes are equal, as there is only one class then.
    """

    names: tuple[str, ...] = ("T", "W", "zeta_min", "delta")

    def __init__(self, sizes: Floats, published: bool = False) -> None:
        _check_sizes(sizes)
        self.sizes, self.published = np.sort(sizes), published
        self.low = np.array([0.001, -3.0, 0.0, 0.01])
        self.high = np.array([largest_variation(self.sizes) + 1.0, 3.0, 1.0, 0.9])

    def config(self, variables: Floats) -> WFQConfig | None:
        """The configuration of (T, W, zeta_min, delta); None: a class would get nothing."""
        most, decay, zeta_min, delta = (float(value) for value in variables)
        thresholds = thresholds_by_variation(self.sizes, most, self.published)
        try:
            weights = exponential_weights(decay, len(thresholds) + 1, published=True)
        except PolicyError:
            return None
        named = {"T": most, "W": decay, "zeta_min": zeta_min, "delta": delta}
        return WFQConfig(named, thresholds, weights, zeta_min, delta)


class FreeSpace:
    """The space without heuristics: the number of classes, every threshold and weight, zeta_min and delta.

    sizes: as of `HeuristicSpace`; raises as it does. Source: the variant of the released search that figure 9c of PCS
    compares with.
    """

    names: tuple[str, ...] = (
        "classes",
        *(f"threshold_{at}" for at in range(1, MOST_CLASSES + 1)),
        *(f"weight_{at}" for at in range(1, MOST_CLASSES + 1)),
        "zeta_min",
        "delta",
    )

    def __init__(self, sizes: Floats) -> None:
        _check_sizes(sizes)
        largest = float(np.max(sizes))
        ends, weights = [largest] * MOST_CLASSES, [1.0] * MOST_CLASSES
        self.low = np.array([1.0, *[min(1.0, largest)] * MOST_CLASSES, *[0.0] * MOST_CLASSES, 0.0, 0.01])
        self.high = np.array([MOST_CLASSES + 0.5, *ends, *weights, 1.0, 0.9])

    def config(self, variables: Floats) -> WFQConfig | None:
        """The configuration of as many of the thresholds and weights as there are classes."""
        classes = int(variables[0])
        ends = tuple(sorted({float(end) for end in variables[1:classes]}))
        given = [Fraction(float(weight)).limit_denominator(1000) for weight in variables[6 : 6 + classes]]
        total = sum(given, Fraction(0))
        if len(ends) != classes - 1 or total == 0 or min(given) / total < LEAST_WEIGHT:
            return None
        zeta_min, delta = float(variables[11]), float(variables[12])
        named = {name: float(value) for name, value in zip(self.names, variables, strict=True)}
        return WFQConfig(named, ends, tuple(weight / total for weight in given), zeta_min, delta)


def space_of(kind: str, sizes: Floats, published: bool = False) -> HeuristicSpace | FreeSpace:
    """The space of a name; raises InputError for another name, or sizes that are all equal."""
    if kind == "heuristic":
        return HeuristicSpace(sizes, published)
    if kind != "free":
        raise InputError(f"space {kind!r}: choose {' or '.join(SPACES)}")
    if published:
        raise InputError("published classes come from the heuristics; leave published out, or the free space")
    return FreeSpace(sizes)


def _check_sizes(sizes: Floats) -> None:
    if len(sizes) < 2:
        raise InputError("tuning needs at least two jobs; give a longer trace")
    if float(np.max(sizes)) == float(np.min(sizes)):
        raise InputError(
            f"all {len(sizes):,} jobs have the same size ({float(sizes[0]):g} s on one unit): "
            "classes by size cannot tell them apart; give a workload with jobs of several sizes"
        )


def _number(value: float) -> str:
    return repr(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
