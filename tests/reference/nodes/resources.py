"""Arithmetic on vectors of resources, component by component."""

from tests.reference.nodes.model import Resources

NOTHING: Resources = (0, 0, 0)


def plus(one: Resources, other: Resources) -> Resources:
    return (one[0] + other[0], one[1] + other[1], one[2] + other[2])


def minus(one: Resources, other: Resources) -> Resources:
    return (one[0] - other[0], one[1] - other[1], one[2] - other[2])


def times(count: int, one: Resources) -> Resources:
    return (count * one[0], count * one[1], count * one[2])


def lesser(one: Resources, other: Resources) -> Resources:
    return (min(one[0], other[0]), min(one[1], other[1]), min(one[2], other[2]))


def greater(one: Resources, other: Resources) -> Resources:
    return (max(one[0], other[0]), max(one[1], other[1]), max(one[2], other[2]))


def fits(need: Resources, room: Resources) -> bool:
    return need[0] <= room[0] and need[1] <= room[1] and need[2] <= room[2]


def shares(amount: Resources, whole: Resources) -> list[tuple[int, int]]:
    """The parts of each resource as (amount, whole); a resource that nobody has is left out."""
    return [(part, of) for part, of in zip(amount, whole, strict=True) if of > 0]
