"""The contents of a front's tables and pictures: points and baselines at their values, and an axis an objective.

An axis has a unit that reads well, and a scale that shows both ends.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from betimes.foresight.objectives import Objective
from betimes.foresight.tuning.front import Front, Measured
from betimes.outcome.tables import short_names
from betimes.units import TIME_UNITS, decimals, time_unit

Group = Literal["front", "named", "baseline", "train"]

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
    """The axis of one objective: values are divided by `base` and shown with `places` decimals under `title`.

    floor: on a logarithmic scale, the position of smaller values (zero among them), in shown units; None: linear.
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
                floor /= 2.0  # zero stands apart from the smallest value
        middle = sorted(positive)[len(positive) // 4] if positive else 0.0
        return cls(title, base, decimals([middle], whole=False), floor)

    def shown(self, value: float) -> float:
        """The value in the unit of the axis."""
        return value / self.base

    def placed(self, value: float) -> float:
        """The position at which the value is drawn, in the unit of the axis."""
        return self.shown(value) if self.floor is None else max(self.shown(value), self.floor)

    def text(self, value: float) -> str:
        """The value as text for a table."""
        return f"{self.shown(value):,.{self.places}f}"

    def ticks(self, values: Sequence[float]) -> dict[float, str]:
        """Ticks of a logarithmic axis and their labels; the floor is labelled 0 if there are values below it."""
        assert self.floor is not None
        high = max(self.placed(value) for value in values)
        is_below = any(self.shown(value) < self.floor for value in values)
        powers = range(math.floor(math.log10(self.floor)), math.ceil(math.log10(high)) + 1)
        steps = (1, 2, 5) if len(powers) <= 3 else (1,)
        marks = {step * 10.0**power: f"{step * 10.0**power:,.10g}" for power in powers for step in steps}
        low = self.floor * (1.5 if is_below else 1.0)
        found = {at: text for at, text in marks.items() if low <= at <= high * 1.1}
        return ({self.floor: "0"} if is_below else {}) | found


@dataclass(frozen=True)
class Mark:
    """A mark in a picture; `values`: one an objective; `where`: the part on which they were found."""

    label: str
    policy: str
    group: Group
    values: tuple[float, ...]
    where: str


@dataclass(frozen=True)
class Shown:
    """All marks, and an axis an objective."""

    marks: tuple[Mark, ...]
    axes: tuple[Axis, ...]

    def of(self, group: Group) -> list[Mark]:
        """The marks of a group."""
        return [mark for mark in self.marks if mark.group == group]

    def values(self, axis: int) -> list[float]:
        """The values of all marks on one axis."""
        return [mark.values[axis] for mark in self.marks]


def shown(front: Front) -> Shown:
    """The marks and axes of a front; with a testing part, the points of the training part stand beside.

    A baseline that leaves a job unfinished is not shown.
    """
    return _shown(front, front.test is not None, beside=True)


def shown_by_part(front: Front) -> dict[str, Shown]:
    """The marks and axes of each part by itself, by the name of the part."""
    parts = {"training part": False} | ({"testing part": True} if front.test is not None else {})
    return {name: _shown(front, is_tested, beside=False) for name, is_tested in parts.items()}


def beaten(front: Front) -> list[str]:
    """A sentence for each baseline that is better than named points in every objective, on the reported part."""
    is_tested = front.test is not None
    objectives = front.parsed_objectives
    where = {1: str(objectives[0]), 2: "both objectives"}.get(len(objectives), "every objective")
    names = short_names([each.policy for each in front.baselines])

    def costs(values: Measured | None) -> list[float]:
        return [] if values is None else [each.cost(values[str(each)]) for each in objectives]

    sentences: list[str] = []
    for name, baseline in zip(names, front.baselines, strict=True):
        own = costs(baseline.test if is_tested else baseline.train)
        worse = [
            name_of_point
            for point in front.points
            for name_of_point in point.names
            if (other := costs(point.test if is_tested else point.train))
            and own
            and all(a < b for a, b in zip(own, other, strict=True))
        ]
        if worse:
            part = "testing part" if is_tested else "training part"
            sentences.append(f"{name} is better than {' and '.join(worse)} in {where} on the {part}.")
    return sentences


def _shown(front: Front, is_tested: bool, beside: bool) -> Shown:
    where = "testing part" if is_tested else "training part"
    marks: list[Mark] = []

    def add(label: str, policy: str, group: Group, measured: Measured | None, part: str) -> None:
        if measured is not None:
            values = tuple(measured[name] for name in front.objectives)
            marks.append(Mark(label, policy, group, values, part))

    for point in front.points:
        label = ", ".join([str(point.number), *point.names])
        group: Group = "named" if point.names else "front"
        add(label, point.policy, group, point.test if is_tested else point.train, where)
        if is_tested and beside:
            add(label, point.policy, "train", point.train, "training part")
    names = short_names([each.policy for each in front.baselines])
    for name, each in zip(names, front.baselines, strict=True):
        add(name, each.policy, "baseline", each.test if is_tested else each.train, where)
    found = tuple(marks)
    objectives = front.parsed_objectives
    axes = (Axis.of(each, [mark.values[at] for mark in found]) for at, each in enumerate(objectives))
    return Shown(found, tuple(axes))


def _measure(objective: Objective) -> str:
    if objective.metric == "makespan" or (objective.metric, objective.measure) == ("utilisation", "avg"):
        return ""
    return {"avg": "mean", "max": "max"}.get(objective.measure, objective.measure)
