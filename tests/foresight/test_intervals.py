"""Intervals: when a miss counts, how the margin follows, what is kept over a restart."""

from __future__ import annotations

import math

import numpy as np
import pytest

from betimes.errors import InputError
from betimes.foresight.intervals import FEW, FIRST, RATE, Interval, Intervals, Point, Window, fit


def point(anchor_s: float = 100.0, *features: float) -> Point:
    return Point(anchor_s, 0.0, 0.0, [math.log(anchor_s), *features])


@pytest.mark.parametrize("level", [0.0, 1.0, -0.1, math.nan])
def test_a_level_is_a_share(level: float) -> None:
    with pytest.raises(InputError, match="above 0 and below 1"):
        Intervals(level)


def test_a_miss_counts_when_the_bound_passes_and_only_once() -> None:
    known = Intervals(0.8)
    made = known.issue("late", 0.0, point())
    assert made.high_s == pytest.approx(300.5)
    known.passed(300.4)
    assert known.rate == pytest.approx(0.2)  # it may still end within
    known.passed(300.6)
    assert known.rate == pytest.approx(0.2 - RATE * 0.8)
    known.ended("late", 900.0)
    assert known.rate == pytest.approx(0.2 - RATE * 0.8)


def test_an_end_counts_as_early_or_kept() -> None:
    known = Intervals(0.8)
    known.issue("early", 0.0, point())
    known.issue("kept", 0.0, point())
    assert known.ended("early", 1.2) == pytest.approx(math.log(0.012))
    assert known.rate == pytest.approx(0.2 - RATE * 0.8)
    known.ended("kept", 100.0)
    assert known.rate == pytest.approx(0.2 - RATE * 0.8 + RATE * 0.2)
    known.issue("cancelled", 100.0, point())
    known.forget("cancelled")
    known.passed(1e9)
    assert known.rate == pytest.approx(0.2 - RATE * 0.6)


def test_it_is_wide_while_little_is_known_and_follows_what_happened() -> None:
    known, made = Intervals(0.8), list[Interval]()
    for at in range(FEW + 1):
        made.append(known.issue(str(at), 1000.0 * at, point()))
        known.ended(str(at), 1000.0 * at + 50.0)
    assert all(each.few for each in made)
    assert (made[0].low_s, made[0].high_s) == pytest.approx((1.5, 300.5))
    assert (made[-1].low_s, made[-1].median_s, made[-1].high_s) == pytest.approx((49.5, 50.0, 50.5))


def stream(known: Intervals, first: int, last: int, made: list[Interval]) -> int:
    """Jobs of which a feature says how long they take, and how sure that is; returns how many were kept."""
    kept = 0
    for at in range(first, last):
        rng = np.random.default_rng(at)
        long, unsure = float(rng.random()), float(rng.random() < 0.5)
        jct_s = 100.0 * math.exp(2.0 * long + (0.1 + unsure) * rng.normal())
        each = known.issue(str(at), 1e5 * at, point(100.0, long, unsure))
        made.append(each)
        kept += each.low_s <= jct_s <= each.high_s
        known.ended(str(at), 1e5 * at + jct_s)
        if known.is_due:
            known.take(fit(*known.training(), known.level))
    return kept


def test_coverage_is_the_level_and_features_make_it_narrow() -> None:
    known, made = Intervals(0.8), list[Interval]()
    stream(known, 0, 2 * FIRST, made)
    assert stream(known, 2 * FIRST, 1500, made) / (1500 - 2 * FIRST) == pytest.approx(0.8, abs=0.04)
    sure = known.interval(point(100.0, 0.5, 0.0))
    unsure = known.interval(point(100.0, 0.5, 1.0))
    assert not sure.few
    assert math.log(unsure.high_s / unsure.low_s) > 2.0 * math.log(sure.high_s / sure.low_s)
    assert sure.median_s == pytest.approx(100.0 * math.e, rel=0.15)


def test_a_restart_changes_no_later_interval() -> None:
    known, made = Intervals(0.8), list[Interval]()
    stream(known, 0, FIRST + 30, made)
    known.issue("open", 1e9, point(100.0, 0.1, 0.0))
    again = Intervals.from_state(*known.state())
    one, other = list[Interval](), list[Interval]()
    stream(known, 10_000, 10_200, one)
    stream(again, 10_000, 10_200, other)
    assert one == other
    assert known.rate == again.rate


def test_a_window_has_the_quantiles_of_the_latest_values() -> None:
    values = np.random.default_rng(3).normal(size=50)
    window = Window(20, values)
    for level in (0.0, 0.1, 0.5, 0.93, 1.0):
        assert window.quantile(level) == pytest.approx(np.quantile(values[-20:], level))
