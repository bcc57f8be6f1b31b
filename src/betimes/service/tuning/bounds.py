"""How far a policy may be put in force by itself: a bound on each objective, such as `jct:avg<=1.05`."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from betimes.errors import InputError
from betimes.foresight.tuning import Objective, parse_objective

OPTION = "--retune-apply"
_BOUND = re.compile(
    r"(?P<objective>[a-z_]+:[a-z0-9]+)(?P<sign><=|>=)(?P<number>[0-9]+(?:\.[0-9]+)?)(?P<x>x?)"
)
EXPECTED = "write METRIC:MEASURE<=NUMBER, as in jct:avg<=1.05 or pred_err:p99<=0.2"


@dataclass(frozen=True)
class Bound:
    """What an objective may come to. A `factor` is one of what the policy in force brings on the same workload."""

    objective: Objective
    number: float
    is_factor: bool

    def __str__(self) -> str:
        return (
            f"{self.objective}{'>=' if self.objective.maximised else '<='}{self.number:g}"
            f"{'x' if self.is_factor else ''}"
        )

    def broken_by(self, proposed: Mapping[str, float], in_force: Mapping[str, float] | None) -> str | None:
        """Why these values are not within the bound; null: they are."""
        name = str(self.objective)
        limit = self.number
        if self.is_factor:
            if in_force is None:
                return f"{self}: what the policy in force would bring is not known"
            limit *= in_force[name]
        value = proposed[name]
        if self.objective.cost(value) <= self.objective.cost(limit):
            return None
        return f"{self}: it would be {value:.4g}, and the limit is {limit:.4g}"


def parse_bound(text: str) -> Bound:
    """`jct:avg<=1.05`, `pred_err:p99<=0.2`, `slowdown:p95<=1.1x`, `utilisation:avg>=0.8`. Raises InputError.

    A number with an x is a factor of what the policy in force brings, and so is any number for an objective in seconds;
    other numbers are the objective's own value.
    """
    found = _BOUND.fullmatch(text.replace(" ", ""))
    if found is None:
        raise InputError(f"{OPTION} {text!r}: {EXPECTED}")
    try:
        objective = parse_objective(found["objective"])
    except InputError as error:
        raise InputError(f"{OPTION} {text!r}: {error}") from None
    number = float(found["number"])
    sign = ">=" if objective.maximised else "<="
    if found["sign"] != sign:
        better = "higher" if objective.maximised else "lower"
        raise InputError(f"{OPTION} {text!r}: {better} {objective} is better; write {objective}{sign}NUMBER")
    if not 0.0 < number < math.inf:
        raise InputError(f"{OPTION} {text!r}: give a number above 0")
    return Bound(objective, number, bool(found["x"]) or objective.unit == "s")


def parse_bounds(texts: Sequence[str]) -> tuple[Bound, ...]:
    """Several, one an objective. Raises InputError."""
    bounds = tuple(parse_bound(text) for text in texts)
    for bound in bounds:
        if sum(other.objective == bound.objective for other in bounds) > 1:
            raise InputError(f"{OPTION}: {bound.objective} has more than one bound; give one")
    return bounds
