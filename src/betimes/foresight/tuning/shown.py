"""The contents of a front's tables and pictures: points and baselines at their values, and an axis an objective.

An axis has a unit that reads well, and a scale that shows both ends. Names stand where they do not overlap.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from betimes.foresight.objectives import Objective
from betimes.foresight.tuning.front import Baseline, Front, Measured, Point
from betimes.outcome.tables import short_names
from betimes.policies import parse_policy
from betimes.units import TIME_UNITS, decimals, length, time_unit

Group = Literal["front", "named", "baseline"]

_WIDE = 30  # a span of values beyond which only a logarithmic scale shows both ends
_APART = 0.75  # of an axis: a gap that leaves too little room for the rest
_EDGE = 0.2  # of the rest's span: where values that are cut stand
_MARKER = 9  # px around the middle of a mark that no other name covers
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
    ceiling: where values stand that are too large to be drawn to scale; None: all are.
    """

    title: str
    base: float
    places: int
    floor: float | None
    ceiling: float | None

    @classmethod
    def of(cls, objective: Objective, values: Sequence[float]) -> Axis:
        """The axis for these values of an objective.

        A few values (at most a third) that would leave the others less than a quarter of it make it logarithmic; if
        that does not help they are cut.
        """
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
        elif _outliers(shown) and min(shown) > 0 and not _outliers([math.log10(value) for value in shown]):
            floor = min(shown)
        at = shown if floor is None else [math.log10(max(value, floor)) for value in shown]
        ceiling = None
        if cut := _outliers(at):
            rest = sorted(at)[:-cut]
            ceiling = rest[-1] + _EDGE * (rest[-1] - rest[0])
            ceiling = ceiling if floor is None else 10.0**ceiling
        middle = sorted(positive)[len(positive) // 4] if positive else 0.0
        return cls(title, base, decimals([middle], whole=False), floor, ceiling)

    @property
    def heading(self) -> str:
        """The title, with what is unusual about the scale."""
        notes = ["logarithmic"] * (self.floor is not None) + ["larger values at the edge"] * (
            self.ceiling is not None
        )
        return "; ".join([self.title, *notes])

    def shown(self, value: float) -> float:
        """The value in the unit of the axis."""
        return value / self.base

    def placed(self, value: float) -> float:
        """The position at which the value is drawn, in the unit of the axis."""
        at = self.shown(value)
        at = at if self.floor is None else max(at, self.floor)
        return at if self.ceiling is None else min(at, self.ceiling)

    def is_cut(self, value: float) -> bool:
        """Whether the value is larger than where it is drawn."""
        return self.ceiling is not None and self.shown(value) > self.ceiling

    def text(self, value: float) -> str:
        """The value as text for a table."""
        return f"{self.shown(value):,.{self.places}f}"

    def limits(self, values: Sequence[float]) -> tuple[float, float]:
        """Where the axis begins and ends, with room around all values; in shown units, logarithms of them if such."""
        at = [self._at(value) for value in values]
        room = 0.08 * (max(at) - min(at)) or 0.05 * abs(max(at)) or 0.5
        return min(at) - room, max(at) + room

    def fractions(self, values: Sequence[float]) -> list[float]:
        """Where values stand between the limits, 0 to 1."""
        low, high = self.limits(values)
        return [(self._at(value) - low) / (high - low) for value in values]

    def ticks(self, values: Sequence[float]) -> dict[float, str] | None:
        """Ticks and their labels, none at what is cut; None where the library's are right.

        The floor is labelled 0 if there are values below it.
        """
        if self.floor is None and self.ceiling is None:
            return None
        high = max(self.shown(value) for value in values if not self.is_cut(value))
        if self.floor is None:
            low = min(map(self.shown, values))
            step = 10.0 ** math.floor(math.log10((high - low) / 2.0))
            marks = (number * step for number in range(math.ceil(low / step), math.floor(high / step) + 1))
            return {at: f"{at:,.10g}" for at in marks}
        is_below = any(self.shown(value) < self.floor for value in values)
        powers = range(math.floor(math.log10(self.floor)), math.ceil(math.log10(high)) + 1)
        steps = (1, 2, 5) if len(powers) <= 3 else (1,)
        marks = {step * 10.0**power: f"{step * 10.0**power:,.10g}" for power in powers for step in steps}
        low = self.floor * (1.5 if is_below else 1.0)
        found = {at: text for at, text in marks.items() if low <= at <= high * 1.1}
        return ({self.floor: "0"} if is_below else {}) | found

    def _at(self, value: float) -> float:
        return self.placed(value) if self.floor is None else math.log10(self.placed(value))


def _outliers(at: Sequence[float]) -> int:
    """How many of the largest positions leave the others, of which not all are equal, too little room."""
    ordered = sorted(at)
    for number in range(1, len(ordered) // 3 + 1):
        rest, beyond = ordered[:-number], ordered[-number:]
        if rest[-1] > rest[0] and beyond[0] - rest[-1] > _APART * (beyond[-1] - rest[0]):
            return number
    return 0


@dataclass(frozen=True)
class Mark:
    """A mark in a picture; `values`: one an objective."""

    names: tuple[str, ...]
    policy: str
    group: Group
    values: tuple[float, ...]
    number: int | None = None


@dataclass(frozen=True)
class Label:
    """The names of one or several marks that stand close, a line each, beside the position of one of them."""

    lines: tuple[str, ...]
    x: float
    y: float
    is_left: bool


@dataclass(frozen=True)
class Shown:
    """All marks of a part of the workload, and an axis an objective."""

    marks: tuple[Mark, ...]
    axes: tuple[Axis, ...]

    def of(self, *groups: Group) -> list[Mark]:
        """The marks of some groups."""
        return [mark for mark in self.marks if mark.group in groups]

    def values(self, axis: int) -> list[float]:
        """The values of all marks on one axis."""
        return [mark.values[axis] for mark in self.marks]

    def place(self, mark: Mark) -> tuple[float, float]:
        """Where a mark is drawn: across and up, in the units of the axes; with one objective along a line."""
        across, *up = (axis.placed(value) for axis, value in zip(self.axes, mark.values, strict=True))
        return across, up[0] if up else 0.0

    def labels(self, width: float, height: float, letter: float, line: float) -> list[Label]:
        """Names of named points and baselines for a picture of this size, none over another or over its mark.

        letter, line: width and height of text. All in the same unit. Names that would overlap share a label.
        """
        across = self.axes[0].fractions(self.values(0))
        up = self.axes[1].fractions(self.values(1)) if len(self.axes) > 1 else [0.5] * len(across)
        spots = [
            (mark, width * x, height * y)
            for mark, x, y in zip(self.marks, across, up, strict=True)
            if mark.group != "front"
        ]
        groups = [[spot] for spot in spots]

        def box(group: list[tuple[Mark, float, float]]) -> tuple[float, float, float, float]:
            lines = [text for mark, _, _ in group for text in self._lines(mark)]
            wide, high = letter * max(map(len, lines)), line * len(lines)
            left, right = min(x for _, x, _ in group), max(x for _, x, _ in group)
            low, top = min(y for _, _, y in group), max(y for _, _, y in group)
            is_left = right + _MARKER + wide > width
            sides = (left - _MARKER - wide * is_left, right + _MARKER + wide * (not is_left))
            middle = group[0][2]
            return (
                sides[0],
                sides[1],
                min(low - _MARKER, middle - high / 2),
                max(top + _MARKER, middle + high / 2),
            )

        def overlap(one: list[tuple[Mark, float, float]], other: list[tuple[Mark, float, float]]) -> bool:
            left, right, low, top = box(one)
            other_left, other_right, other_low, other_top = box(other)
            return left < other_right and other_left < right and low < other_top and other_low < top

        while pair := next(
            ((a, b) for at, a in enumerate(groups) for b in groups[at + 1 :] if overlap(a, b)), None
        ):
            groups = [group for group in groups if group not in pair] + [[*pair[0], *pair[1]]]
        found: list[Label] = []
        for group in groups:
            lines = tuple(text for mark, _, _ in group for text in self._lines(mark))
            is_left = max(x for _, x, _ in group) + _MARKER + letter * max(map(len, lines)) > width
            side = (min if is_left else max)(group, key=lambda spot: spot[1])[0]
            found.append(Label(lines, self.place(side)[0], self.place(group[0][0])[1], is_left))
        return found

    def _lines(self, mark: Mark) -> list[str]:
        cut = [
            f"{axis.title} {axis.text(value)}"
            for axis, value in zip(self.axes[:2], mark.values, strict=False)
            if axis.is_cut(value)
        ]
        return [*mark.names[:-1], ", ".join([mark.names[-1], *cut])]


def axes_of(front: Front) -> tuple[Axis, ...]:
    """An axis an objective, in units that suit a table of both parts."""
    reported = [each.train if front.test is None else each.test for each in [*front.points, *front.baselines]]
    measured = [
        values for values in [*reported, *(point.train for point in front.points)] if values is not None
    ]
    return tuple(
        Axis.of(each, [values[str(each)] for values in measured]) for each in front.parsed_objectives
    )


def cells(front: Front, axes: Sequence[Axis], each: Point | Baseline) -> list[str]:
    """A cell an objective: the value on the testing part, and in brackets that on the training part."""
    found: list[str] = []
    for axis, name in zip(axes, front.objectives, strict=True):
        train, test = ("-" if part is None else axis.text(part[name]) for part in (each.train, each.test))
        found.append(train if front.test is None else f"{test} ({train})")
    return found


def in_words(policy: str) -> str:
    """A description of a configuration of `wfq` with its classes and weights written out."""
    values: Any = parse_policy(policy).values
    ends = [length(float(end)) for end in values["thresholds"] or ()]
    classes = "All jobs are one class"
    if ends:
        who = [*(f"jobs of up to {end}" for end in ends), "larger jobs"]
        total = sum(values["weights"])
        shares = [f"{100 * float(share / total):.3g} %" for share in values["weights"]]
        parts = ", ".join(f"{one} {share}" for one, share in zip(who, shares, strict=True))
        classes = f"{len(who)} classes by work on one unit share the units: {parts}"
    return (
        f"{classes}. A job widens while its units do at least {100 * values['zeta_min']:.3g} % each of what one alone "
        f"would; units that are left go below that in steps of {100 * values['delta']:.3g} %."
    )


def shown_by_part(front: Front) -> dict[str, Shown]:
    """The marks and axes of each part by itself, by the name of the part.

    A baseline that leaves a job unfinished is not shown.
    """
    parts = {"training part": False} | ({"testing part": True} if front.test is not None else {})
    return {name: _shown(front, is_tested) for name, is_tested in parts.items()}


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


def _shown(front: Front, is_tested: bool) -> Shown:
    marks: list[Mark] = []

    def add(each: Point | Baseline, names: tuple[str, ...], group: Group, number: int | None = None) -> None:
        measured = each.test if is_tested else each.train
        if measured is not None:
            values = tuple(measured[name] for name in front.objectives)
            marks.append(Mark(names, each.policy, group, values, number))

    for point in front.points:
        add(point, point.names, "named" if point.names else "front", point.number)
    names = short_names([each.policy for each in front.baselines])
    for name, each in zip(names, front.baselines, strict=True):
        add(each, (name,), "baseline")
    found = tuple(marks)
    objectives = front.parsed_objectives
    axes = (Axis.of(each, [mark.values[at] for mark in found]) for at, each in enumerate(objectives))
    return Shown(found, tuple(axes))


def _measure(objective: Objective) -> str:
    if objective.metric == "makespan" or (objective.metric, objective.measure) == ("utilisation", "avg"):
        return ""
    return {"avg": "mean", "max": "max"}.get(objective.measure, objective.measure)
