"""Believed run times, worked by hand: groups and their back-off, limits, ages, and siblings that still run."""

from __future__ import annotations

import json
import math
from collections import deque
from dataclasses import replace

import numpy as np
import pytest

from betimes.core.work import expected_left_s
from betimes.foresight.run_times import GRID, HALF, KEPT, USUAL_S, Described, RunTimes
from betimes.kernels import FloatTable, entry

left_s = entry(expected_left_s, FloatTable, int, float)

TRAIN = Described("ann", "train.py", math.nan, 4.0)
LIMITED = Described("ann", "train.py", 150.0, 4.0)


def after(*run_s: float, job: Described = TRAIN) -> RunTimes:
    known = RunTimes()
    for at, each in enumerate(run_s):
        known.submitted(str(at), job, 0.0)
        known.started(str(at), 0.0)
        known.ended(str(at), each)
    return known


def test_three_finished_jobs_of_a_group() -> None:
    """Weights 0.81, 0.9 and 1 of 2.71, the latest most: up to 0.299 the first, up to 0.631 the second."""
    grid = after(100.0, 200.0, 400.0).quantiles(TRAIN, 0.0)
    assert grid == pytest.approx([100.0] * 4 + [200.0] * 6 + [400.0] * 5)


def test_an_array_and_what_takes_no_time_say_nothing_of_other_commands() -> None:
    """One element speaks for the array; runs of less than a second are none to compare others with."""
    short = Described("ann", "true", 60.0, 1.0)
    known, other = after(0.2, 0.3, job=short), Described("ann", "other.py", 60.0, 1.0)
    assert known.quantiles(other, 0.0) == pytest.approx([60.0] * GRID)
    for at in range(KEPT):
        known.submitted(str(at), replace(TRAIN, is_repeat=at > 0), 0.0)
        known.ended(str(at), 30.0)
    assert known.groups["ann"].logs == deque([math.log(30.0)])
    for job, middle_s in ((TRAIN, 30.0), (short, 1.0)):
        grid = known.expected(job, 60.0)
        assert grid is not None
        assert grid[HALF] == pytest.approx(middle_s)  # its own kin count


def test_of_a_job_without_finished_kin_nothing_is_expected() -> None:
    known = RunTimes()
    jobs = {
        f"{number}": Described("ann", f"command {number % 3}", 60.0, 1.0 + number % 2) for number in range(12)
    }
    for number, job in jobs.items():
        known.submitted(number, job, 0.0)
    assert known.with_kin() == []
    for number in ("0", "3", "6"):
        known.ended(number, 600.0)
    assert known.with_kin() == ["9"]
    expected = {number for number, job in jobs.items() if known.expected(job, 60.0) is not None}
    assert expected & known.active.keys() == {"9"}


def test_a_thin_group_leaves_weight_to_the_coarser_ones() -> None:
    """One own run of 100 s gets 1/3; of the rest, the user's two get 1/2 and all jobs the other half, 200 s first."""
    known = after(1000.0, job=Described("ann", "other.py", 60.0, 1.0))
    known.submitted("own", TRAIN, 0.0)
    known.ended("own", 100.0)
    grid = known.quantiles(TRAIN, 0.0)
    # At level two (its kin of any width) only the own run counts again: 1/3 + 2/9; of 4/9, 0.526 x 100 s.
    share = 1 / 3 + 2 / 9 + (4 / 9) / 1.9
    below = sum(value < 500.0 for value in grid)
    assert below == math.floor(share * (GRID + 1))


def test_nothing_known() -> None:
    assert RunTimes().quantiles(TRAIN, 0.0) == pytest.approx([USUAL_S] * GRID)
    assert RunTimes().quantiles(LIMITED, 0.0) == pytest.approx([150.0] * GRID)


def test_a_time_limit_bounds_the_belief() -> None:
    grid = after(100.0, 200.0, 400.0, job=LIMITED).quantiles(LIMITED, 0.0)
    assert grid == pytest.approx([100.0] * 4 + [150.0] * 11)


def test_a_new_user_follows_all_jobs_relative_to_their_limits() -> None:
    """All jobs took half their limit: so will this one."""
    known = after(30.0, 30.0, job=Described("ann", "a", 60.0, 1.0))
    assert known.quantiles(Described("bob", "b", 600.0, 2.0), 0.0) == pytest.approx([300.0] * GRID)


def test_an_age_leaves_the_longer_ones() -> None:
    grid = after(100.0, 200.0, 400.0).quantiles(TRAIN, 0.0, age_s=150.0)
    assert grid.min() == pytest.approx(200.0)
    assert np.sum(grid > 300.0) == 8  # 1 of 1.9 of the weight
    assert after(100.0).quantiles(TRAIN, 0.0, age_s=500.0).min() >= 500.0


def test_siblings_that_still_run_are_censored() -> None:
    """Two have run for 300 s: half of the weight, which goes to what is longer."""
    known = after(100.0, 200.0, 400.0)
    for job_id in ("x", "y"):
        known.submitted(job_id, TRAIN, 0.0)
        known.started(job_id, 1000.0)
    longer = known.quantiles(TRAIN, 1300.0)
    assert np.sum(longer > 300.0) > np.sum(known.quantiles(TRAIN, 1000.5) > 300.0) >= 5
    known.stopped("x")
    known.forget("y")
    assert known.quantiles(TRAIN, 1300.0) == pytest.approx(after(100.0, 200.0, 400.0).quantiles(TRAIN, 0.0))


def test_ten_of_a_kin_within_five_minutes_are_a_flood_until_one_has_finished() -> None:
    known = RunTimes()
    for at in range(10):
        assert not known.is_flooded(TRAIN, 20.0 * at)
        known.submitted(str(at), replace(TRAIN, width=float(at)), 20.0 * at)
    assert known.is_flooded(TRAIN, 180.0)
    assert known.is_flooded(TRAIN, 300.0)
    assert not known.is_flooded(TRAIN, 301.0)
    assert not known.is_flooded(replace(TRAIN, command="other.py"), 180.0)
    again = RunTimes.from_state(json.loads(json.dumps(known.state())))
    again.changed("9", replace(TRAIN, command="other.py"))
    assert not again.is_flooded(TRAIN, 180.0)
    again.changed("9", TRAIN)
    assert again.is_flooded(TRAIN, 180.0)
    known.forget("9")  # cancelled: it was none of them
    assert not known.is_flooded(TRAIN, 180.0)
    again.ended("3", 10.0)
    for number in range(20, 30):
        again.submitted(str(number), TRAIN, 200.0)
    assert not again.is_flooded(TRAIN, 360.0)  # the fourth, of 60 s, is heard of
    assert again.is_flooded(TRAIN, 361.0)


def test_only_the_latest_count() -> None:
    known = after(*[10.0] * 200, *[90.0] * KEPT)
    assert len(known.groups[TRAIN.groups()[0]].logs) == KEPT
    assert known.quantiles(TRAIN, 0.0)[GRID // 2] == pytest.approx(90.0)


def test_the_state_survives_json() -> None:
    known = after(100.0, 200.0, 400.0, job=LIMITED)
    known.submitted("x", LIMITED, 0.0)
    known.started("x", 5.0)
    again = RunTimes.from_state(json.loads(json.dumps(known.state())))
    assert again.quantiles(LIMITED, 90.0).tolist() == known.quantiles(LIMITED, 90.0).tolist()
    again.ended("x", 90.0)
    assert len(again.groups[LIMITED.groups()[0]].logs) == 4


def test_expected_time_left() -> None:
    """The median of what is left; a job that has outlived all quantiles is expected to take twice as long."""
    table = np.array([[10.0, 20.0, 30.0, 40.0, 50.0]])
    assert left_s(table, 0, 0.0) == 30.0
    assert left_s(table, 0, 10.0) == 25.0  # the median of 20, 30, 40, 50 is 35
    assert left_s(table, 0, 45.0) == 5.0
    assert left_s(table, 0, 60.0) == 60.0


OTHER = Described("ann", "other.py", 150.0, 4.0)
WIDER, LONGER = replace(LIMITED, width=8.0), replace(LIMITED, limit_s=900.0)


@pytest.mark.parametrize(
    ("known", "of", "believed_s", "middle_s"),
    [
        (after(), LIMITED, 150.0, None),
        (after(30.0, job=LIMITED), LIMITED, 150.0, None),  # 7/16 of the weight
        (after(30.0, 40.0, job=LIMITED), LIMITED, 150.0, 40.0),
        (after(30.0, 40.0, 40.0, job=WIDER), LIMITED, 150.0, None),  # another width: half
        (after(30.0, 40.0, 40.0, 40.0, job=WIDER), LIMITED, 150.0, 40.0),
        (after(30.0, 40.0, job=LONGER), LIMITED, 150.0, 40.0),  # whatever was asked for
        (after(30.0, 40.0, job=TRAIN), TRAIN, 150.0, 40.0),
        (after(*[30.0] * KEPT, job=LIMITED), OTHER, 150.0, None),  # the same request, but no kin
        (after(200.0, 200.0, job=LIMITED), LIMITED, 150.0, 150.0),  # at most its limit
        (after(0.1, 0.1, job=LIMITED), LIMITED, 150.0, 1.0),
        (after(0.1, 0.1, job=LIMITED), LIMITED, 0.2, 0.2),
    ],
)
def test_a_few_alike_outweigh_what_is_believed(
    known: RunTimes, of: Described, believed_s: float, middle_s: float | None
) -> None:
    grid = known.expected(of, believed_s)
    assert (None if grid is None else grid[HALF]) == (None if middle_s is None else pytest.approx(middle_s))


def test_what_is_expected_follows_each_end_and_survives() -> None:
    known = after(30.0, 30.0, job=LIMITED)
    for run_s in (100.0, 100.0, 100.0):
        before = known.expected(LIMITED, 150.0)
        assert before is known.expected(LIMITED, 150.0)
        known.submitted("next", LIMITED, 0.0)
        known.ended("next", run_s)
    grid = known.expected(LIMITED, 150.0)
    assert grid is not None
    assert left_s(grid[None], 0, 0.0) == pytest.approx(100.0)
    again = RunTimes.from_state(json.loads(json.dumps(known.state()))).expected(LIMITED, 150.0)
    assert again is not None
    assert again.tolist() == grid.tolist()
