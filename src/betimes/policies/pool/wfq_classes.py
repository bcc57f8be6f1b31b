"""The two rules that reduce weighted fair queueing to two numbers (PCS, section 4.2).

Thresholds: sorted by size, jobs share a class while the squared coefficient of variation of its sizes stays at
or below T. Weights: class i has e^(-iW).
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from betimes.errors import PolicyError
from betimes.kernels import Floats


def thresholds_by_variation(sizes: Floats, most: float, published: bool = False) -> tuple[float, ...]:
    """The upper ends of all classes but the last, so that each has a squared coefficient of variation <= `most`.

    sizes: seconds on one unit, any order. The job that would break the bound opens the next class, together with
    all jobs of its size: a threshold separates sizes, so that none falls between equal ones. With `published`, as
    the released code has it, that job counts in neither class and thresholds are cut to whole seconds (the simulator
    published with PCS, `wfq_tuner.py`).
    """
    ordered = np.sort(np.asarray(sizes, dtype=np.float64))
    ends: list[float] = []
    count, mean, squares = 0, 0.0, 0.0
    equal_since = 0  # the first place with this size
    for index, size in enumerate(ordered):
        if size != ordered[equal_since]:
            equal_since = index
        step = size - mean
        grown = mean + step / (count + 1)
        spread = squares + step * (size - grown)
        # Welford's recurrence; variance / mean^2 of the class with this job in it
        if count > 0 and spread / (count + 1) > most * grown * grown:
            if published:
                end = float(int(ordered[index - 1]))
                if not ends or end > ends[-1]:
                    ends.append(end)
                count, mean, squares = 0, 0.0, 0.0
            else:
                ends.append(float(ordered[equal_since - 1]))
                count, mean, squares = index - equal_since + 1, float(size), 0.0
        else:
            count, mean, squares = count + 1, grown, spread
    return tuple(ends)


def largest_variation(sizes: Floats) -> float:
    """The largest squared coefficient of variation of any prefix of the sorted sizes: a larger T makes one class."""
    ordered = np.sort(np.asarray(sizes, dtype=np.float64))
    count = np.arange(1, len(ordered) + 1)
    mean = np.cumsum(ordered) / count
    variance = np.cumsum(ordered * ordered) / count - mean * mean
    return float(np.max(variance / (mean * mean)))


USUAL_DECAY = 2.0
DECAY_STEP = 0.125
USUAL_LEAST_WEIGHT = 0.002  # with this weight the class of the largest jobs runs slowly, but it runs
LEAST_WEIGHT = 1e-9  # as of the parameter `weights`


def steepest_decay(classes: int) -> float:
    """The default decay: `USUAL_DECAY`, or less if the last class would have nearly no weight."""
    decay = USUAL_DECAY
    while decay > 0.0 and _parts(decay, classes)[-1] < USUAL_LEAST_WEIGHT:
        decay -= DECAY_STEP
    return decay


def exponential_weights(decay: float, classes: int, published: bool = False) -> tuple[Fraction, ...]:
    """Weights proportional to e^(-i decay), of sum one; class 0: the smallest jobs (PCS, section 4.2).

    published: rounded to thousandths as in the released code, whose last weight is the rest to one. Raises PolicyError
    if a weight is less than `LEAST_WEIGHT`, or rounds to 0: such a class would never run.
    """
    parts = _parts(decay, classes)
    if published:
        parts = [round(part, 3) for part in parts]
    if min(parts) < LEAST_WEIGHT:
        raise PolicyError(
            f"policy wfq, parameter W: with {decay:g} and {classes} classes a class has less than "
            f"{'a thousandth' if published else 'a billionth'} of the units; choose a W nearer to 0 or a larger T"
        )
    if not published:
        return tuple(Fraction(part) for part in parts)
    rounded = [Fraction(part).limit_denominator(1000) for part in parts]
    whole = sum(rounded, Fraction(0))
    weights = [value / whole for value in rounded]
    weights[-1] = 1 - sum(weights[:-1], Fraction(0))
    return tuple(weights)


def _parts(decay: float, classes: int) -> list[float]:
    raw = [math.exp(-decay * i) for i in range(classes)]
    return [value / sum(raw) for value in raw]
