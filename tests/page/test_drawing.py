"""Geometry of the pictures, by hand."""

from __future__ import annotations

import pytest

from betimes.page.drawing import OPEN_LANES, Axis, Stretch, bar, dots, equally_likely, lanes, usage


def test_marks_of_an_axis_are_at_round_instants() -> None:
    ticks = Axis(90.0, 4000.0).ticks
    assert [tick.at for tick in ticks] == [1800.0, 3600.0]
    assert len(Axis(0.0, 3e7).ticks) <= 7


def test_a_bar_is_solid_until_it_is_sure_and_fades_to_its_high_end() -> None:
    axis = Axis(0.0, 100.0)
    running = bar(axis, 20.0, 10.0, (40.0, 50.0, 80.0), 45.0, is_running=True)
    assert (running.ran, running.ran_width) == (10.0, 10.0)
    assert (running.sure, running.sure_width) == (20.0, 20.0)
    assert (running.fade, running.fade_width) == (40.0, 40.0)
    assert (running.tick, running.promise) == (50.0, 45.0)
    waiting = bar(axis, 20.0, 30.0, (60.0, 60.0, 60.0), None, is_running=False)
    assert (waiting.ran_width, waiting.sure, waiting.sure_width, waiting.fade_width) == (0.0, 30.0, 30.0, 0.0)


def test_bars_that_overlap_stand_in_lanes_and_those_that_touch_in_pixels_are_one() -> None:
    axis = Axis(0.0, 1000.0)
    long = [Stretch(0.0, 500.0, 1, "finished", "a"), Stretch(100.0, 600.0, 2, "running", "b")]
    after = [Stretch(500.0, 900.0, 3, "running", "c")]
    pieces, height = lanes(axis, 550.0, [*long, *after])
    assert [(piece.job, piece.lane) for piece in pieces] == [(1, 0), (2, 1), (3, 0)]
    assert height == 2
    assert [piece.goes_on for piece in pieces] == [0.0, 10.0, 87.5]
    short = [Stretch(200.0 + n / 100, 200.5, n, "failed" if n == 7 else "finished", "s") for n in range(10)]
    pieces, height = lanes(axis, 550.0, [*long, *short])
    assert [(piece.jobs, piece.status) for piece in pieces if piece.lane == 2] == [(10, "failed")]
    assert height == 3


def test_a_bar_in_a_row_fades_where_it_may_end_and_shows_its_grace_period_and_its_move() -> None:
    axis = Axis(0.0, 100.0)
    moved = Stretch(10.0, 50.0, 1, "running", "a", (30.0, 35.0), True)
    over = Stretch(60.0, 70.0, 2, "running", "b")
    pieces, height = lanes(axis, 20.0, [over, moved], lambda job, _: (40.0, 55.0, 80.0) if job == 1 else None)
    first, second = pieces
    assert (first.x, first.width, first.fade, first.tick) == (10.0, 30.0, (40.0, 40.0), 55.0)
    assert (first.grace, first.is_moved, height) == ((30.0, 5.0), True, 1)
    assert (second.x, second.width, second.fade, second.tick) == (60.0, 10.0, None, None)


def test_a_row_of_thousands_is_a_few_bars() -> None:
    axis = Axis(0.0, 1000.0)
    pieces, height = lanes(axis, 0.0, [Stretch(n / 10, n / 10 + 50, n, "running", "x") for n in range(9000)])
    assert sum(piece.jobs for piece in pieces) == 9000
    assert len(pieces) < 250
    assert height <= 7


def test_of_twenty_dots_two_end_before_the_low_end_and_two_after_the_high_one() -> None:
    ends = equally_likely((80.0, 100.0, 160.0))
    assert len(ends) == 20
    assert sum(at < 80.0 for at in ends) == sum(at > 160.0 for at in ends) == 2
    assert sum(at < 100.0 for at in ends) == 10
    heap = dots(Axis(0.0, 200.0), ends, bins=10)
    assert (
        max(dot.y for dot in heap)
        == max(sum(dot.x == x for dot in heap) for x in {dot.x for dot in heap}) - 1
    )


def test_what_was_held_is_a_share_of_each_part_of_the_axis() -> None:
    held = [(0.0, 50.0, 2.0), (40.0, 60.0, 2.0)]
    assert usage(Axis(0.0, 100.0), held, 4.0, 5) == [50.0, 50.0, 75.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("name", "hours", "shown"),
    [("train", 1.0, "train"), ("train-resnet50", 1.0, "train-res…"), ("train-resnet50", 0.3, "")],
)
def test_a_bar_has_the_part_of_a_name_that_there_is_room_for(name: str, hours: float, shown: str) -> None:
    """An hour of fourteen is 71 pixels of 1,000: ten characters."""
    axis = Axis(0.0, 14 * 3600.0)
    (piece,), _ = lanes(axis, 0.0, [Stretch(0.0, hours * 3600.0, 1, "running", "1", name=name)])
    assert piece.name == shown


@pytest.mark.parametrize(("hours", "least"), [(0.8, 1000), (1.0, 600), (2.0, 360)])
def test_a_name_is_left_to_pictures_that_are_wide_enough_for_it(hours: float, least: int) -> None:
    """`train` takes 39 pixels, which 0.8 hours of 14 have at 674 pixels, 1 hour at 539, and 2 at 270."""
    axis = Axis(0.0, 14 * 3600.0)
    (piece,), _ = lanes(axis, 0.0, [Stretch(0.0, hours * 3600.0, 1, "running", "1", name="train")])
    assert (piece.name, piece.from_pixels) == ("train", least)


@pytest.mark.parametrize(("jobs", "shown", "least"), [(9, "9", 600), (120, "120", 1000), (2900, "2k", 1000)])
def test_several_jobs_in_one_place_show_their_number_where_it_fits(jobs: int, shown: str, least: int) -> None:
    """Their bar is 22 pixels of 1,000: a digit takes 8 of them, two 15, three 21; of 600 it is 13."""
    runs = [Stretch(100.0, 100.1, number, "failed", "x") for number in range(jobs)]
    (piece,), _ = lanes(Axis(0.0, 1000.0), 0.0, runs)
    assert (piece.jobs, piece.name, piece.from_pixels) == (jobs, shown, least)


def test_an_open_row_has_more_lanes() -> None:
    axis = Axis(0.0, 1000.0)
    runs = [Stretch(0.0, 500.0, number, "running", f"{number}") for number in range(20)]
    assert [piece.jobs for piece in lanes(axis, 0.0, runs)[0]] == [1] * 6 + [14]
    assert [piece.jobs for piece in lanes(axis, 0.0, runs, most_lanes=OPEN_LANES)[0]] == [1] * 20
