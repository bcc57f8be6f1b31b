"""Instants and durations in words."""

from __future__ import annotations

import math

import pytest

from betimes.cli.render.times import both, clock, relative, sentence, since
from betimes.units import length
from tests.cli.views import NOW


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        *((0.0, "0 s"), (0.34, "0.3 s"), (1.0, "1 s"), (45.4, "45 s"), (119.0, "119 s"), (119.7, "2 min")),
        *((720.0, "12 min"), (570.0, "9.5 min"), (7199.0, "120 min"), (7200.0, "2 h"), (5.5 * 3600, "5.5 h")),
        *((47 * 3600.0, "47 h"), (48 * 3600.0, "2 d"), (1e9, "11,574 d"), (None, "-"), (math.inf, "-")),
    ],
)
def test_length(seconds: float | None, text: str) -> None:
    assert length(seconds) == text


@pytest.mark.usefixtures("still")
@pytest.mark.parametrize(
    ("away_s", "text"),
    [
        *(
            (0.0, "08:00:00"),
            (540.0, "08:09:00"),
            (720.0, "08:12"),
            (760.0, "08:13"),
            (0.6, "08:00:01"),
            (-3600.0, "07:00"),
        ),
        *((86_400.0, "Sat 08:00"), (-86_400.0, "Thu 08:00"), (300.0 - 86_400, "Thu 08:05")),
        *((8 * 86_400.0, "23 Jan 08:00"), (-20 * 86_400.0, "26 Dec 2026"), (1e15, "-"), (math.nan, "-")),
    ],
)
def test_clock(away_s: float, text: str) -> None:
    assert clock(NOW + away_s, NOW) == text


@pytest.mark.usefixtures("still")
def test_relative() -> None:
    assert [relative(NOW + away, NOW) for away in (0.4, 61.0, -7200.0)] == ["now", "in 61 s", "2 h ago"]
    assert both(None, NOW) == "-"
    assert both(NOW + 720, NOW) == "08:12, in 12 min"


def test_instants_of_a_replayed_trace_count_from_its_beginning() -> None:
    assert clock(3_661.0, NOW) == both(3_661.0, NOW) == "01:01:01"
    assert clock(2 * 86_400 + 59.4, NOW) == "2 d 00:00:59"
    assert relative(3_661.0, NOW) == ""
    assert since(3_661.0, NOW) is None
    assert since(NOW - 5.0, NOW) == 5.0


@pytest.mark.usefixtures("still")
@pytest.mark.parametrize(
    ("instant", "shown"),
    [
        ("2027-01-15T08:00:05Z", "08:00:05"),
        ("2027-02-15T09:30:00Z", "15 Feb 09:30"),
        ("1970-01-01T01:01:01Z", "01:01:01"),  # of a replayed trace
        ("2027-13-15T08:00:05Z", "2027-13-15T08:00:05Z"),
    ],
)
def test_a_sentence_has_its_instants_by_the_clock_of_the_reader(instant: str, shown: str) -> None:
    assert sentence(f"expected {instant}, or later", NOW) == f"expected {shown}, or later"
