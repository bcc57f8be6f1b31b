"""Thresholds from T and weights from W (specification, 1.8)."""

import math
from collections.abc import Sequence
from fractions import Fraction


def squared_variation(sizes: Sequence[float]) -> float:
    """Population variance over squared mean."""
    mean = sum(sizes) / len(sizes)
    return sum((size - mean) ** 2 for size in sizes) / len(sizes) / mean**2


def largest_prefix_variation(sizes: Sequence[float]) -> float:
    """The largest C2 over the prefixes of the sorted sizes: above it, T makes one class."""
    ordered = sorted(sizes)
    return max(squared_variation(ordered[: n + 1]) for n in range(len(ordered)))


def thresholds_from_t(sizes: Sequence[float], t: float, *, published: bool) -> list[float]:
    """Upper limits of the classes of sizes, the last one infinite.

    A class is closed, at the size before, by the size that brings its C2 above T. That size opens the next
    class; in the published code it is counted in neither, and the limit is truncated to a whole number.
    """
    ordered = sorted(sizes)
    limits: list[float] = []
    members: list[float] = []
    for position, size in enumerate(ordered):
        if members and squared_variation([*members, size]) > t:
            before = ordered[position - 1]
            limits.append(int(before) if published else before)
            members = [] if published else [size]
        else:
            members.append(size)
    return [*limits, math.inf]


def weights_from_w(w: float, classes: int) -> list[Fraction] | None:
    """Weights exp(-W i), in thousandths, of the classes from the smallest jobs up; None if one is 0."""
    raw = [math.exp(-w * i) for i in range(classes)]
    thousandths = [round(1000 * value / sum(raw)) for value in raw]
    if 0 in thousandths:
        return None
    weights = [Fraction(value, sum(thousandths)) for value in thousandths]
    return [*weights[:-1], 1 - sum(weights[:-1], start=Fraction(0))]
