"""Durations and digits as people read them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes.outcome.tables import short_names
from betimes.units import TIME_UNITS, decimals, humanise_s, time_unit, usd, within


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 s"),
        (0.25, "250 ms"),
        (1.0, "1 s"),
        (45.25, "45.2 s"),
        (119.0, "119 s"),
        (150.0, "2.50 min"),
        (7200.0, "2 h"),
        (100_000.0, "27.8 h"),
        (407_797.0, "4.72 d"),
        (4.3e-5, "43.0 us"),
        (-90.0, "-90 s"),
        (86400.0 * 12_345, "12,345 d"),
        (None, "-"),
        (math.nan, "-"),
        (math.inf, "-"),
    ],
)
def test_humanise(seconds: float | None, text: str) -> None:
    assert humanise_s(seconds) == text


@pytest.mark.parametrize(
    ("low_s", "high_s", "level", "text"),
    [
        (100.0, 2000.0, 0.8, " (1100 to 3000)"),  # 20 times
        (100.0, 2001.0, 0.8, "; by 3001 (90 % sure)"),
        (0.1, 20.0, 0.8, " (1000 to 1020)"),  # less than a second is as a second
        (10.0, 1000.0, 0.95, "; by 2000 (97.5 % sure)"),
    ],
)
def test_a_range_that_says_nothing_is_its_upper_end(
    low_s: float, high_s: float, level: float, text: str
) -> None:
    said = "{:.0f}".format
    assert within(1000 + low_s, 1000 + high_s, 1000.0, level, said) == text
    alone = within(1000 + low_s, 1000 + high_s, 1000.0, level, said, alone=True)
    assert alone == text.removeprefix("; ").strip().removeprefix("(").removesuffix(")" * text.startswith(" "))


def test_the_smallest_value_chooses_the_unit() -> None:
    assert time_unit([1e6, 150.0, 0.0, math.nan]) == "min"
    assert time_unit([]) == "s"


@given(st.floats(1e-6, 1e9))
def test_three_digits_are_enough_and_there(seconds: float) -> None:
    number, unit = humanise_s(seconds).split(" ")
    shown = float(number.replace(",", "")) * TIME_UNITS[unit]
    assert shown == pytest.approx(seconds, rel=0.005)


def test_money_has_no_exponent() -> None:
    amounts = (1234.5, 0.996, 0.5, 0.00011, 5.6e-5, 1e-9, 0.0, -1e-9, -0.25, None)
    assert [usd(each) for each in amounts] == (
        ["$1,234.50", "$1.00", "$0.5", "$0.00011", "$0.000056", "$0.00", "$0.00", "$0.00", "-$0.25", ""]
    )


def test_decimals_show_the_smallest_value() -> None:
    assert decimals([1234.5, 5.25]) == 2
    assert decimals([0.00012]) == 4
    assert decimals([3.0, 10.0]) == 0
    assert decimals([3.0, 10.0], whole=False) == 2


def test_short_names_stay_apart() -> None:
    assert short_names(["fifo", "wfq:T=1", "wfq:T=2"]) == ["fifo", "wfq (1)", "wfq (2)"]
    assert short_names(["./mine.py:shortest_first", "srsf"]) == ["mine.py:shortest_first", "srsf"]
    assert short_names(["portfolio:members=easy+compound/t=10m,objective=cost:10"]) == ["portfolio"]
