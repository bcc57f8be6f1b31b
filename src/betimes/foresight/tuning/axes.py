"""Objectives as axes of a picture and as columns of a table: units that read well, and scales that show both ends."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from betimes.foresight.objectives import Objective
from betimes.units import TIME_UNITS, decimals, time_unit

_WIDE = 30  # a span of values beyond which only a logarithmic scale shows both ends
_TITLES = {
    "jct": "JCT",
    "pred_err": "Prediction error",
    "unfairness": "Unfairness",
    "slowdown": "Slowdown",
    "wait": "Wait",
    "makespan": "Makespan",
    "utilisation": "Utilisation",
}


@dataclass(frozen=True)
class Axis:
    """How values of one objective are shown: divided by `base`, with `places` decimals, as `title`.

    floor: on a logarithmic scale, in shown units, where values of less are drawn (zero among them); None: linear.
    """

    title: str
    base: float
    places: int
    floor: float | None

    @classmethod
    def of(cls, objective: Objective, values: Sequence[float]) -> Axis:
        """The axis for these values of an objective."""
        title = f"{_TITLES[objective.metric]} {_measure(objective)}".rstrip()
        base = 1.0
        if objective.unit == "s":
            unit = time_unit([sorted(values)[len(values) // 2]])
            base, title = TIME_UNITS[unit], f"{title} ({unit})"
        elif objective.unit == "frac":
            base, title = 0.01, f"{title} (%)"
        shown = [abs(value) / base for value in values]
        largest, positive = max(shown, default=0.0), [value for value in shown if value > 0]
        floor = None
        if positive and largest > _WIDE * max(min(shown), 1e-12):
            floor = max(min(positive), largest / 1e5)
            if min(shown) < floor:
                floor /= 2.0  # zero stands apart from the least that there is
        middle = sorted(positive)[len(positive) // 4] if positive else 0.0
        return cls(title, base, decimals([middle], whole=False), floor)

    def shown(self, value: float) -> float:
        """The value in the unit of the axis."""
        return value / self.base

    def placed(self, value: float) -> float:
        """Where the value is drawn, in the unit of the axis."""
        return self.shown(value) if self.floor is None else max(self.shown(value), self.floor)

    def text(self, value: float) -> str:
        """The value as it is read in a table."""
        return f"{self.shown(value):,.{self.places}f}"

    def ticks(self, values: Sequence[float]) -> dict[float, str]:
        """Where a logarithmic axis has marks, and what they say; the floor says 0 where there are values below it."""
        assert self.floor is not None
        high = max(self.placed(value) for value in values)
        is_below = any(self.shown(value) < self.floor for value in values)
        powers = range(math.floor(math.log10(self.floor)), math.ceil(math.log10(high)) + 1)
        steps = (1, 2, 5) if len(powers) <= 3 else (1,)
        marks = {step * 10.0**power: f"{step * 10.0**power:,.10g}" for power in powers for step in steps}
        low = self.floor * (1.5 if is_below else 1.0)
        found = {at: text for at, text in marks.items() if low <= at <= high * 1.1}
        return ({self.floor: "0"} if is_below else {}) | found


def _measure(objective: Objective) -> str:
    if objective.metric == "makespan" or (objective.metric, objective.measure) == ("utilisation", "avg"):
        return ""
    return {"avg": "mean", "max": "max"}.get(objective.measure, objective.measure)
