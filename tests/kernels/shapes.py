"""A struct of every kind of field, and kernels that use it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from betimes.kernels import (
    Floats,
    FloatTable,
    Ints,
    IntTable,
    Records,
    Struct,
    blank,
    entry,
    full_kernel,
    hook,
    kernel,
    view_by,
)


class Item:
    weight: float
    count: int


class Shelf(Struct):
    items: Records[Item]
    copies: Records[Item]
    prices: Floats
    numbers: Ints
    grid: FloatTable
    places: IntTable
    limit: float
    most: int
    strict: bool


class Label(Struct):
    items: Records[Item]
    limit: float


class Rule(Struct):
    choose: Callable[[Label, int, Floats], float]


label_of = view_by(Label, Shelf, items="copies")


def shelf(count: int = 3) -> Shelf:
    return Shelf(
        items=blank(Item, count),
        copies=blank(Item, 2 * count),
        prices=np.arange(count, dtype=np.float64),
        numbers=np.arange(count, dtype=np.int64),
        grid=np.arange(6.0).reshape(2, 3),
        places=np.arange(6, dtype=np.int64).reshape(3, 2),
        limit=2.5,
        most=7,
        strict=True,
    )


@kernel
def scaled(label: Label, at: int, prices: Floats) -> float:
    return label.items[at].weight * label.limit + prices[at]


@full_kernel
def failing(label: Label, at: int, prices: Floats) -> float:
    if prices[at] > 0.0:
        raise ValueError("too dear")
    return 0.0


@kernel
def weigh(items: Records[Item], at: int) -> float:
    return items[at].weight * items[at].count


@entry
@kernel
def total(s: Shelf) -> float:
    """All fields into one number, each with a factor of its own."""
    found = 0.0
    for at in range(len(s.items)):
        found += weigh(s.items, at) + s.prices[at] + 10 * s.numbers[at]
    for row in range(s.grid.shape[0]):
        for column in range(s.grid.shape[1]):
            found += 100 * s.grid[row, column]
    for row in range(s.places.shape[0]):
        for place in s.places[row]:
            found += 1000 * place
    return found + 1e6 * s.limit + 1e7 * s.most + (1e8 if s.strict else 0.0)


@entry
@kernel
def put(s: Shelf, at: int, weight: float, count: int) -> None:
    item = s.items[at]
    item.weight = weight
    item.count = count


@entry
@kernel
def chosen(s: Shelf, rule: Rule, at: int) -> float:
    return rule.choose(label_of(s), at, s.prices)


@entry
@kernel
def first_and_second(s: Shelf) -> float:
    return weigh(s.items, 0) + weigh(s.items, 1)


def rule_of(function: Callable[..., float]) -> Rule:
    return Rule(choose=hook(function, Rule, "choose"))
