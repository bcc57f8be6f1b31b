"""Shapes of machines: capacity, labels and family, which decide the jobs that they can hold."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from betimes.cluster.labels import Labels, suits
from betimes.cluster.resources import Amounts


class Room(NamedTuple):
    """The capacity of a machine, and its family, on which a task's demand there depends."""

    amounts: Amounts
    family: str


class Shape(NamedTuple):
    """The same with the labels of the machine, which jobs may require."""

    amounts: Amounts
    labels: Labels
    family: str


Shapes = tuple[Shape, ...]


@lru_cache(maxsize=4096)
def suiting(shapes: Shapes, required: Labels) -> tuple[Room, ...]:
    """The shapes that suit a job, but for those dominated by another of their family."""
    return roomiest(Room(amounts, family) for amounts, labels, family in shapes if suits(labels, required))


def roomiest(rooms: Iterable[Room]) -> tuple[Room, ...]:
    """The undominated shapes of each family: no other has as much of everything."""
    of = dict[str, list[Amounts]]()
    for amounts, family in rooms:
        of.setdefault(family, []).append(amounts)
    return tuple(Room(amounts, family) for family in sorted(of) for amounts in undominated(of[family]))


def distinct_shapes(machines: Iterable[Shape]) -> Shapes:
    """The undominated shapes among machines with the same labels, of one family."""
    alike = dict[tuple[Labels, str], list[Amounts]]()
    for amounts, labels, family in machines:
        alike.setdefault((labels, family), []).append(amounts)
    return tuple(
        Shape(amounts, labels, family)
        for (labels, family), some in alike.items()
        for amounts in undominated(some)
    )


def undominated(shapes: ArrayLike) -> tuple[Amounts, ...]:
    """The undominated capacities (k, 3): no other has as much of everything."""
    rows = np.unique(np.asarray(shapes, np.int64).reshape(-1, 3), axis=0)[::-1]
    kept: list[Amounts] = []
    for gpu, cpu, memory in rows.tolist():
        if not any(has[0] >= gpu and has[1] >= cpu and has[2] >= memory for has in kept):
            kept.append((gpu, cpu, memory))
    return tuple(kept)
