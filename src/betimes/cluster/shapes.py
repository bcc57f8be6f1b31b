"""What machines have of each resource, with their labels and their family: what decides which jobs they can hold."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from betimes.cluster.labels import Labels, suits
from betimes.cluster.resources import Amounts


class Room(NamedTuple):
    """What a machine has of each resource, and the family on which it depends what a task needs there."""

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
    """Those that suit a job, less what another of their family has as much of, or more, of everything."""
    return roomiest(Room(amounts, family) for amounts, labels, family in shapes if suits(labels, required))


def roomiest(rooms: Iterable[Room]) -> tuple[Room, ...]:
    """Of each family those of which no other has as much of everything."""
    of = dict[str, list[Amounts]]()
    for amounts, family in rooms:
        of.setdefault(family, []).append(amounts)
    return tuple(Room(amounts, family) for family in sorted(of) for amounts in undominated(of[family]))


def distinct_shapes(machines: Iterable[Shape]) -> Shapes:
    """Of machines with the same labels, of one family, those of which no other has as much of everything."""
    alike = dict[tuple[Labels, str], list[Amounts]]()
    for amounts, labels, family in machines:
        alike.setdefault((labels, family), []).append(amounts)
    return tuple(
        Shape(amounts, labels, family)
        for (labels, family), some in alike.items()
        for amounts in undominated(some)
    )


def undominated(shapes: ArrayLike) -> tuple[Amounts, ...]:
    """Those (k, 3) of which no other has as much of everything."""
    rows = np.unique(np.asarray(shapes, np.int64).reshape(-1, 3), axis=0)[::-1]
    kept: list[Amounts] = []
    for gpu, cpu, memory in rows.tolist():
        if not any(has[0] >= gpu and has[1] >= cpu and has[2] >= memory for has in kept):
            kept.append((gpu, cpu, memory))
    return tuple(kept)
