"""Distributions of a spot machine's age when it is taken away, as data.

The bathtub is that of spec A.5 of the waiting policies, after Kadupitiya et al. (HPDC'20): many machines are taken away
early, few in the middle of their life, and the rest at its limit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from betimes.cluster.checks import check_amount

MOST_HOURS = 1e9


@dataclass(frozen=True)
class Never:
    """Never taken away."""

    def cdf(self, age_h: float) -> float:
        """The probability of having been taken away by this age (hours)."""
        return 0.0

    def age_s(self, u: float) -> float:
        """The age (s) at which a machine is taken away; u in [0, 1) is its draw."""
        return math.inf


@dataclass(frozen=True)
class Exponential:
    """At a constant rate, after `mean_h` hours in the mean. Raises ClusterError, naming the field."""

    mean_h: float

    def __post_init__(self) -> None:
        check_amount("mean_h", self.mean_h, MOST_HOURS, above=0.0)

    def cdf(self, age_h: float) -> float:
        """The probability of having been taken away by this age (hours)."""
        return -math.expm1(-age_h / self.mean_h)

    def age_s(self, u: float) -> float:
        """The age (s) at which a machine is taken away; u in [0, 1) is its draw."""
        return -math.log1p(-u) * self.mean_h * 3600.0


@dataclass(frozen=True)
class Bathtub:
    """F(x) = a (1 - exp(-x / tau1_h) + exp((x - b_h) / tau2_h)), x in hours, and at `limit_h` what is left of 1.

    The defaults are those of the specification. Raises ClusterError, naming the field.
    """

    a: float = 0.45
    tau1_h: float = 1.0
    tau2_h: float = 0.8
    b_h: float = 24.0
    limit_h: float = 24.0

    def __post_init__(self) -> None:
        check_amount("a", self.a, 1.0, above=0.0)
        check_amount("b_h", self.b_h, MOST_HOURS)
        for field in ("tau1_h", "tau2_h", "limit_h"):
            check_amount(field, getattr(self, field), MOST_HOURS, above=0.0)

    def cdf(self, age_h: float) -> float:
        """The probability of having been taken away by this age (hours), without the mass at the limit itself."""
        if age_h < 0.0:
            return 0.0
        return bathtub_cdf(min(age_h, self.limit_h), self.a, self.tau1_h, self.tau2_h, self.b_h)

    def age_s(self, u: float) -> float:
        """The age (s) at which a machine is taken away; u in [0, 1) is its draw."""
        return 3600.0 * bathtub_age_h(u, self.a, self.tau1_h, self.tau2_h, self.b_h, self.limit_h)


Revocation = Never | Exponential | Bathtub

REVOCATIONS: dict[str, type[Never] | type[Exponential] | type[Bathtub]] = {
    "never": Never,
    "exponential": Exponential,
    "bathtub": Bathtub,
}


def parameters(kind: type[Never] | type[Exponential] | type[Bathtub]) -> tuple[str, ...]:
    """The names of a distribution's parameters."""
    return tuple(each.name for each in fields(kind))


def bathtub_cdf(age_h: float, a: float, tau1_h: float, tau2_h: float, b_h: float) -> float:
    """The bathtub's F at an age of 0 or more, at most 1."""
    late = (age_h - b_h) / tau2_h
    if late > 700.0:  # exp overflows, and is far above 1 / a
        return 1.0
    return min(1.0, a * (1.0 - math.exp(-age_h / tau1_h) + math.exp(late)))


def bathtub_age_h(u: float, a: float, tau1_h: float, tau2_h: float, b_h: float, limit_h: float) -> float:
    """The least age (hours) at which F is `u` or more, by bisection to neighbouring floats; the limit where none is."""
    low, high = 0.0, limit_h
    if bathtub_cdf(low, a, tau1_h, tau2_h, b_h) >= u:
        return low
    if bathtub_cdf(high, a, tau1_h, tau2_h, b_h) < u:
        return high
    while True:
        middle = low + (high - low) / 2.0
        if middle in (low, high):
            return high
        if bathtub_cdf(middle, a, tau1_h, tau2_h, b_h) >= u:
            high = middle
        else:
            low = middle
