"""What the pictures of a front show: points and baselines at their values on a part of the workload."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from betimes.foresight.tuning.axes import Axis
from betimes.foresight.tuning.front import Front, Measured
from betimes.outcome.tables import short_names

Group = Literal["front", "named", "baseline", "train"]


@dataclass(frozen=True)
class Mark:
    """One thing in a picture; `values`: one an objective. `where`: on which part they were found."""

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
    """What there is to show of a front; points as found on the training part stand beside, if there is a testing part.

    A baseline that leaves a job unfinished is not shown.
    """
    return _shown(front, front.test is not None, beside=True)


def shown_by_part(front: Front) -> dict[str, Shown]:
    """The same of each part by itself, by what the part is called."""
    parts = {"training part": False} | ({"testing part": True} if front.test is not None else {})
    return {name: _shown(front, is_tested, beside=False) for name, is_tested in parts.items()}


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
