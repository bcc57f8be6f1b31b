"""What is made of reported progress."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes.service.scheduling.beliefs import ProgressRate, differs


def running(speed: float = 1.0, at_s: float = 0.0) -> ProgressRate:
    pace = ProgressRate()
    pace.begin(at_s, speed)
    return pace


def test_a_steady_job() -> None:
    pace = running()
    said = [pace.report(10.0 * step, step, 100) for step in range(101)]
    assert said[0] is None
    assert said[1:] == pytest.approx([max(10.0 * (100 - step), 0.01) for step in range(1, 101)])
    # It goes on as believed, so nothing differs from the first belief on.
    assert not any(differs(said[step] or 0.0, 990.0 - 10.0 * (step - 1)) for step in range(1, 101))


def test_work_is_counted_on_one_unit() -> None:
    pace = running(speed=4.0)
    pace.report(0.0, 0, 100)
    assert pace.report(10.0, 10, 100) == pytest.approx(360.0)
    pace.resize(10.0, 8.0)
    assert pace.report(15.0, 20, 100) == pytest.approx(320.0), (
        "twice as fast on twice as many, as is believed"
    )
    pace.resize(20.0, 2.0)
    assert pace.report(40.0, 40, 100) == pytest.approx(240.0)


def test_progress_that_has_not_changed_has_no_consequence() -> None:
    pace, told = running(), running()
    for at_s in range(1, 300):
        done = at_s // 30
        new = pace.report(at_s * 0.7, done, 50)
        if at_s > 1 and done == (at_s - 1) // 30:
            assert new is None
        else:
            assert new == told.report(at_s * 0.7, done, 50), "to the last bit"


def test_too_little_was_seen() -> None:
    pace = running()
    assert pace.report(100.0, 0, 1000) is None
    assert pace.report(100.001, 200, 1000) is None, "a burst is not speed"
    assert pace.report(101.0, 201, 1000) is None
    for at_s in range(103, 106):
        pace.report(at_s, at_s + 100, 1000)
    assert pace.report(106.0, 206, 1000) == pytest.approx(794.0, rel=0.5)


def test_steps_from_before_the_first_report_are_not_speed() -> None:
    pace = running()
    assert pace.report(60.0, 500, 1000) is None
    assert pace.report(70.0, 510, 1000) == pytest.approx(490.0)


def test_a_restart_keeps_the_pace_and_counts_neither_its_cost_nor_what_it_repeats() -> None:
    pace = running()
    for step in range(11):
        pace.report(10.0 * step, step, 20)
    pace.begin(500.0, 2.0)
    assert pace.report(900.0, 7, 20) == pytest.approx(130.0), "the same pace, and three steps to do again"
    assert pace.report(905.0, 8, 20) == pytest.approx(120.0)
    pace.begin(1000.0, 1.0)
    assert pace.report(1600.0, 15, 20) == pytest.approx(50.0), "another checkpoint ahead"


def test_a_slow_start_hardly_counts() -> None:
    pace = running()
    pace.report(0.0, 0, 10_000)
    pace.report(300.0, 1, 10_000)
    left_s = [pace.report(300.0 + step, 1 + step, 10_000) for step in range(1, 1200)]
    assert left_s[50] == pytest.approx(9950.0, rel=0.2)
    assert left_s[-1] == pytest.approx(8800.0, rel=0.001)


def test_a_stall_hardly_counts() -> None:
    pace = running()
    for step in range(500):
        pace.report(step, step, 10_000)
    assert pace.report(5000.0, 500, 10_000) == pytest.approx(9500.0, rel=0.2)
    left_s = [pace.report(5000.0 + step, 500 + step, 10_000) for step in range(1, 1300)]
    assert left_s[-1] == pytest.approx(8200.0, rel=0.001)


def test_a_burst_hardly_counts() -> None:
    # The first half was done before; the job runs through it without doing anything.
    pace = running()
    for step in range(5001):
        pace.report(step / 5000, step, 10_000)
    left_s = [pace.report(1.0 + 10.0 * step, 5000 + step, 10_000) for step in range(1, 200)]
    assert left_s[50] == pytest.approx(49_500.0, rel=0.2)
    assert left_s[-1] == pytest.approx(48_000.0, rel=0.001)


def test_another_pace_is_learnt() -> None:
    pace = running()
    for step in range(1001):
        pace.report(step, step, 10_000)
    left_s = [pace.report(1000.0 + 3.0 * step, 1000 + step, 10_000) for step in range(1, 1001)]
    assert left_s[100] == pytest.approx(9000.0, rel=0.5)
    assert left_s[-1] == pytest.approx(24_000.0, rel=0.01)


@pytest.mark.parametrize("lump", [1, 7, 50])
def test_regular_pauses_and_bursts_are_averaged_over(lump: int) -> None:
    # A step takes a second, every 100th takes 60 more; they are reported in lumps.
    pace, at_s = running(), 0.0
    for step in range(1, 2001):
        at_s += 61.0 if step % 100 == 0 else 1.0
        if step % lump == 0:
            left = pace.report(at_s, step, 5000)
            if step > 1000:
                assert left == pytest.approx(1.6 * (5000 - step), rel=0.2)


def test_the_total_may_change() -> None:
    pace = running()
    pace.report(0.0, 0, 100)
    pace.report(10.0, 10, 100)
    assert pace.report(10.0, 10, 200) == pytest.approx(190.0)
    assert pace.report(20.0, 20, 50) == pytest.approx(30.0)
    assert pace.report(30.0, 30, 30) == 0.01, "there is always something left"
    assert pace.report(40.0, 35, 30) == 0.01


def test_going_back_keeps_the_pace() -> None:
    pace = running()
    pace.report(0.0, 0, 100)
    pace.report(50.0, 50, 100)
    assert pace.report(51.0, 20, 100) == pytest.approx(80.0)
    assert pace.report(61.0, 30, 100) == pytest.approx(70.0)


def test_other_steps_begin_anew() -> None:
    pace = running()
    pace.report(0.0, 0, 1000)
    assert pace.report(50.0, 500, 1000) == pytest.approx(50.0)
    assert pace.report(60.0, 6, 10) is None, "now it counts epochs"
    assert pace.report(70.0, 7, 10) == pytest.approx(30.0)


def test_before_a_run_begins_nothing_is_known() -> None:
    pace = ProgressRate()
    assert pace.report(10.0, 1, 10) is None
    assert pace.report(20.0, 2, 10) is None


@pytest.mark.parametrize(
    ("done", "total"),
    [(-1, 10), (1, 0), (1, -5), (math.nan, 10), (1, math.nan), (math.inf, math.inf), (1, math.inf)],
)
def test_what_is_no_progress(done: float, total: float) -> None:
    with pytest.raises(ValueError, match="expected steps done, and a total above 0"):
        running().report(0.0, done, total)


NUMBERS = st.one_of(st.floats(0, 1e308), st.floats(0, 100), st.integers(0, 10))


@given(
    st.lists(st.tuples(st.sampled_from(["report", "report", "begin", "resize"]), NUMBERS, NUMBERS, NUMBERS))
)
def test_whatever_is_reported_the_belief_is_a_number(steps: list[tuple[str, float, float, float]]) -> None:
    pace, at_s = running(), 0.0
    for what, passed_s, done, total in steps:
        at_s = min(at_s + passed_s, 1e300)
        if what == "report":
            left = pace.report(at_s, done, total or 1.0)
            assert left is None or 0.01 <= left < math.inf
        elif what == "begin":
            pace.begin(at_s, 1.0 + done % 10)
        else:
            pace.resize(at_s, 1.0 + done % 10)


@given(st.integers(0, 2**32), st.floats(0.1, 10), st.integers(200, 3000))
def test_noise_stays_within_the_tolerance_later_on(seed: int, step_s: float, total: int) -> None:
    draw, pace, at_s = random.Random(seed), running(), 0.0
    ends = [0.0]
    for _ in range(total):
        ends.append(ends[-1] + step_s * draw.uniform(0.8, 1.2))
    believed, changes = math.nan, 0
    for step, at_s in enumerate(ends):
        new = pace.report(at_s, step, total)
        if new is None:
            continue
        if math.isnan(believed) or differs(new, believed - at_s):
            believed, changes = new + at_s, changes + 1
        assert step < 100 or new == pytest.approx(max(0.01, ends[-1] - at_s), rel=0.1, abs=2 * step_s)
    assert changes <= 25


@given(st.integers(1, 20), st.floats(1e-3, 1e3), st.integers(1, 5000))
def test_memory_is_bounded(lump: int, step_s: float, steps: int) -> None:
    pace = running()
    for step in range(0, steps, lump):
        pace.report(step * step_s, step, 10_000)
    assert len(pace._stretches) < 128


def test_a_burst_of_any_length_takes_no_memory() -> None:
    pace = running()
    for step in range(5000):
        pace.report(1.0, step, 10_000)
    assert len(pace._stretches) < 128


@pytest.mark.parametrize(
    ("new_s", "old_s", "expected"),
    [(100, 100, False), (104, 100, False), (106, 100, True), (94, 100, True), (1.5, 1, False), (0.01, 0.9, False),
     (2.5, 1, True), (0.01, -5, True)],
)  # fmt: skip
def test_what_differs(new_s: float, old_s: float, expected: bool) -> None:
    assert differs(new_s, old_s) is expected
