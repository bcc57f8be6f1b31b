"""Charges by the second."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes.service.machines.tariff import Tariff

INSTANTS = st.floats(0, 200)
PRICES = st.floats(0, 100)


@pytest.mark.parametrize(
    ("until_s", "seconds"), [(5.0, 0), (4.0, 0), (5.0000001, 1), (6.0, 1), (6.5, 2), (3605.0, 3600)]
)
def test_every_second_begun_counts(until_s: float, seconds: int) -> None:
    assert Tariff(3.6).charge(5.0, until_s) == seconds * Fraction(3.6) / 3600


def test_a_second_costs_what_it_cost_when_it_began() -> None:
    tariff = Tariff(3600.0)
    tariff.change(2.0, 7200.0)
    tariff.change(3.5, 36000.0)
    assert tariff.usd_per_h == 36000.0
    # Seconds begin at 0.5, 1.5; 2.5; 3.5 and 4.5.
    assert tariff.charge(0.5, 5.0) == 1 + 1 + 2 + 10 + 10
    assert tariff.charge(10.0, 12.0) == 20


@given(
    since_s=INSTANTS,
    life_s=INSTANTS,
    first=PRICES,
    changes=st.lists(st.tuples(INSTANTS, PRICES), max_size=5).map(sorted),
)
def test_the_sum_over_seconds(
    since_s: float, life_s: float, first: float, changes: list[tuple[float, float]]
) -> None:
    tariff = Tariff(first)
    for change in changes:
        tariff.change(*change)
    until_s = since_s + life_s
    total, second = Fraction(0), Fraction(since_s)
    while second < until_s:
        price = [first, *(price for at_s, price in changes if at_s <= second)][-1]
        total += Fraction(price) / 3600
        second += 1
    assert tariff.charge(since_s, until_s) == total
