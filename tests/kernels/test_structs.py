"""Structs: what kernels read and write of them is what Python sees, compiled and interpreted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from betimes.kernels import Floats, Struct, as_array, blank
from tests.kernels.shapes import (
    Item,
    Label,
    Rule,
    chosen,
    failing,
    label_of,
    put,
    rule_of,
    scaled,
    shelf,
    total,
)


def test_a_kernel_reads_every_kind_of_field() -> None:
    s = shelf()
    as_array(s.items)["weight"] = [1.0, 2.0, 4.0]
    as_array(s.items)["count"] = [1, 2, 3]
    assert total(s) == 17.0 + 3.0 + 30.0 + 1500.0 + 15000.0 + 2.5e6 + 7e7 + 1e8
    assert total(s.replaced(strict=False, most=-1, limit=-0.5)) == 17.0 + 33.0 + 16500.0 - 0.5e6 - 1e7


def test_what_a_kernel_writes_is_seen_and_shared() -> None:
    s = shelf()
    other = s.replaced(limit=0.0)
    put(s, 1, 2.5, 4)
    assert (s.items[1].weight, s.items[1].count) == (2.5, 4)
    assert (other.items[1].weight, other.limit, s.limit) == (2.5, 0.0, 2.5)


def test_an_array_can_be_exchanged_for_a_longer_one() -> None:
    s = shelf()
    longer = s.replaced(
        items=blank(Item, 100),
        prices=np.ones(100),
        numbers=np.zeros(100, dtype=np.int64),
        places=np.zeros((0, 2), dtype=np.int64),
    )
    assert total(longer) - total(s.replaced(places=longer.places)) == 100.0 - 33.0


def test_a_view_shows_some_fields_and_another_array_under_a_name() -> None:
    s = shelf()
    as_array(s.items)["weight"], as_array(s.copies)["weight"] = 1.0, 10.0
    assert chosen(s, rule_of(scaled), 2) == 10.0 * 2.5 + 2.0
    view = label_of(s)
    assert isinstance(view, Label)
    assert view.items is s.copies
    assert not hasattr(view, "prices")


def test_an_error_in_a_hook_arrives() -> None:
    s, rule = shelf(), rule_of(failing)
    assert chosen(s, rule, 0) == 0.0
    with pytest.raises(ValueError, match="too dear"):
        chosen(s, rule, 1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"prices": np.zeros(3, dtype=np.float32)},
            r"Shelf\.prices: expected float64, 1 dimensions; found float32",
        ),
        ({"grid": np.zeros(3)}, r"Shelf\.grid: expected float64, 2 dimensions; found float64, 1"),
        ({"prices": np.zeros(6)[::2]}, r"Shelf\.prices: the array is not contiguous"),
        ({"items": blank(Label, 3)}, r"Shelf\.items: expected"),
        ({"prices": [1.0]}, r"Shelf\.prices: expected .* found <class 'list'>"),
        ({"price": np.zeros(3)}, "Shelf: missing or unknown fields price"),
    ],
)
def test_a_value_of_another_type_is_refused(changes: dict[str, Any], message: str) -> None:
    if changes.get("items") is not None:
        changes = {"items": np.zeros(3)}
    with pytest.raises(TypeError, match=message):
        shelf().replaced(**changes)


def test_a_field_cannot_be_set_nor_left_out() -> None:
    with pytest.raises(AttributeError, match=r"Shelf\.limit cannot be set"):
        shelf().limit = 3.0  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(TypeError, match="Rule: missing or unknown fields choose"):
        Rule()  # pyright: ignore[reportCallIssue]


def test_an_annotation_that_is_no_field_is_an_error() -> None:
    class Odd(Struct):
        name: str
        prices: Floats

    with pytest.raises(TypeError, match=r"Odd\.name: <class 'str'> is no array, number or hook"):
        Odd(name="", prices=np.zeros(1))
