"""Intervals: when a miss counts, how the margin follows, what is kept over a restart."""

from __future__ import annotations

import heapq
import math

import numpy as np
import pytest

from betimes.errors import InputError
from betimes.foresight.intervals import CLASSES, FIRST, RATE, Interval, Intervals, Point, Source, fit
from betimes.foresight.past_errors import LEAST, OUTWEIGH, Likeness, Window, errors_of_others


def point(anchor_s: float = 100.0, *features: float, command: str = "x", wait_s: float = 0.0) -> Point:
    like = Likeness("ann", command, "estimate")
    return Point(anchor_s, 0.0, wait_s, [math.log(anchor_s), *features], like)


def issue(known: Intervals, job_id: str, at_s: float, of: Point) -> Interval:
    return known.issue(job_id, at_s, of, known.learned(of.features))


@pytest.mark.parametrize("level", [0.0, 1.0, -0.1, math.nan])
def test_a_level_is_a_share(level: float) -> None:
    with pytest.raises(InputError, match="above 0 and below 1"):
        Intervals(level)


def learn(known: Intervals, ratios: list[float], user: str = "ann", command: str | None = None) -> None:
    """Promises of 100 s, each kept or broken before the next one is made; null: every one of another command."""
    for ratio in ratios:
        number = known.finished
        of = point(command=f"command {number}" if command is None else command)
        issue(known, str(number), 1e4 * number, of._replace(like=of.like._replace(user=user)))
        known.ended(str(number), 1e4 * number + 100.0 * ratio)


def test_it_is_wide_until_enough_promises_that_were_alike_have_come_true() -> None:
    known = Intervals(0.8)
    first = known.interval(point(), None)
    assert (first.low_s, first.high_s, first.few) == (pytest.approx(1.5), pytest.approx(300.5), True)
    learn(known, [0.5] * (LEAST - 1), command="x")
    assert known.interval(point(), None).few
    learn(known, [0.5], command="x")
    made = known.interval(point(), None)
    assert (made.low_s, made.median_s, made.high_s) == pytest.approx((49.5, 50.0, 50.5))
    assert not made.few


def test_the_ends_are_quantiles_of_the_errors() -> None:
    """Of 1.01, 1.02 ... 1.29 a tenth lies below 1.03 and above 1.27, by the rank of (n + 1) / 10."""
    known = Intervals(0.8)
    learn(known, [1.01 + at / 100 for at in range(29)], command="x")
    made = known.interval(point(), None)
    assert (made.low_s, made.high_s) == pytest.approx((102.5, 127.5))


def test_other_commands_widen_the_interval_and_do_not_move_it() -> None:
    """What is said of a job outweighs what became of its user's other jobs, and these those of others."""
    known = Intervals(0.8)
    learn(known, [2.0] * LEAST, "ann")
    learn(known, [0.5] * LEAST, "bob")
    for user, low_s, high_s in (("ann", 100.0, 200.0), ("bob", 50.0, 100.0)):
        like = Likeness(user, "x", "estimate", stated=True)
        made = known.interval(point()._replace(like=like), None)
        assert (made.low_s, made.median_s, made.high_s) == pytest.approx((low_s - 0.5, 100.0, high_s + 0.5))
        of_limit = known.interval(
            point()._replace(like=Likeness(user, "x", "estimate")), None
        )  # nothing is said
        assert of_limit.median_s == pytest.approx(200.0 if user == "ann" else 50.0)
    other = known.interval(point()._replace(like=Likeness("eve", "x", "limit")), None)  # all there is
    assert (other.low_s, other.high_s) == pytest.approx((49.5, 200.5))


def test_a_median_that_is_far_from_what_was_asked_for_moves_towards_it() -> None:
    """The learned one is 80 s, its ends 2 s and 300 s."""
    known = Intervals(0.8)

    def median_s(asked_s: float, pull: float) -> float:
        return known.interval(point()._replace(asked_s=asked_s, pull=pull), None).median_s

    assert median_s(29.0 * 80.0, 0.25) == pytest.approx(80.0)
    assert median_s(31.0 * 80.0, 0.25) == pytest.approx(80.0 * 31.0**0.25)
    assert median_s(1e6, 0.25) == pytest.approx(300.5)  # no further than the upper end
    assert median_s(1e6, 0.0) == pytest.approx(80.0)


def test_a_hundred_runs_of_one_command_say_little_of_another() -> None:
    known = Intervals(0.8)
    learn(known, [0.25] * FIRST, command="sleep 1")
    assert not known.interval(point(command="sleep 1"), None).few
    assert known.interval(point(command="train.py"), None).few


ASKED = point()._replace(asked_s=100.0)


def with_prior() -> Intervals:
    """Beside it, promises on other clusters: JCTs of 0.1, 0.2 ... 4.0 times the play-out, twice that with a wait, and
    a tenth of either where the play-out rests on what is asked for.
    """
    of_others = [math.log(at / 10.0) for at in range(1, 41)]
    longer = [each + math.log(2.0) for each in of_others]
    shorter, between = ([each - math.log(10.0) for each in errors] for errors in (of_others, longer))
    return Intervals(0.8, [of_others, longer] * 4 + [shorter, between] * 4)


def test_errors_of_other_clusters_are_the_ends_until_there_are_own_ones() -> None:
    """Of 40 a tenth lies below 0.4 and above 3.7, by the rank of 41 / 10; the median is that without them."""
    known = with_prior()
    made = known.interval(ASKED, None)
    assert (made.low_s, made.median_s, made.high_s) == pytest.approx((39.5, 80.0, 370.5))
    assert (made.few, made.source) == (False, Source("all", 0, others=True))
    waiting = known.interval(ASKED._replace(wait_s=50.0), None)
    assert (waiting.low_s, waiting.high_s) == pytest.approx((79.5, 740.5))
    by_request = known.interval(ASKED._replace(by_request=True), None)
    assert (by_request.low_s, by_request.high_s) == pytest.approx((3.5, 80.5))  # the median is none of theirs
    waiting = known.interval(ASKED._replace(by_request=True, wait_s=50.0), None)
    assert (waiting.low_s, waiting.high_s) == pytest.approx((7.5, 80.5))


def test_own_errors_count_beside_those_of_others_until_they_outweigh_them() -> None:
    """Own promises of 100 s, to jobs of as many commands, take 100 s each."""
    known = with_prior()
    learn(known, [1.0] * 10, "bob")
    made = known.interval(ASKED, None)
    assert made.median_s == pytest.approx(100.0)  # the play-out has been right
    assert made.source == Source("all", 10, others=True)
    learn(known, [1.0] * 10, "bob")
    made = known.interval(ASKED, None)  # of 60 the sixth and the 55th: 0.6, and 3.5 behind 20 that are 1
    assert (made.low_s, made.median_s, made.high_s) == pytest.approx((59.5, 100.0, 350.5))
    assert (made.few, made.source) == (False, Source("basis", 20, others=True))
    learn(known, [1.0] * (OUTWEIGH - 20), "bob")
    made = known.interval(ASKED, None)
    assert (made.low_s, made.high_s) == pytest.approx((99.5, 100.5))
    assert made.source == Source("basis", OUTWEIGH)


def test_errors_of_other_clusters_are_of_jobs_that_ask_for_a_time() -> None:
    known, plain = with_prior(), Intervals(0.8)
    for of in (
        ASKED._replace(asked_s=0.0),
        ASKED._replace(like=ASKED.like._replace(stated=True)),
        ASKED._replace(like=ASKED.like._replace(outran=True)),
    ):
        assert known.interval(of, None) == plain.interval(of, None)
        assert known.interval(of, None).few
    learn(known, [1.0] * LEAST, "ann")
    assert known.interval(ASKED, None).source == Source("user", LEAST)  # who is alike says more than others


def test_what_was_fitted_on_this_cluster_says_more_than_others() -> None:
    known = with_prior()
    learn(known, [1.0 + 0.01 * (at % 2) for at in range(FIRST)], "bob", "sleep 1")
    refit(known)
    made = known.interval(ASKED, known.learned(ASKED.features))
    assert made.source == Source("features", FIRST)
    assert (made.low_s, made.high_s) == pytest.approx((100.0, 101.0), abs=1.0)


def test_the_errors_that_are_shipped_are_forty_of_each_class_in_order() -> None:
    shipped = errors_of_others()
    assert [len(each) for each in shipped] == [40] * 2 * CLASSES
    assert all(list(each) == sorted(each) for each in shipped)
    assert all(-15.0 < each[0] < 0.0 < each[-1] < 10.0 for each in shipped)


def known_well() -> Intervals:
    known = Intervals(0.8)
    learn(known, [0.9 + at / 200 for at in range(LEAST)])
    assert known.rate == pytest.approx(0.2)
    return known


def test_a_miss_counts_when_the_bound_passes_and_only_once() -> None:
    known = known_well()
    made = issue(known, "late", 1e6, point())
    known.passed(1e6 + made.high_s - 0.1)
    assert known.rate == pytest.approx(0.2)  # it may still end within
    known.passed(1e6 + made.high_s + 0.1)
    assert known.rate == pytest.approx(0.2 - RATE * 0.8)
    known.ended("late", 1e6 + 900.0)
    assert known.rate == pytest.approx(0.2 - RATE * 0.8)


def test_an_end_counts_as_early_or_kept() -> None:
    known = known_well()
    for job in ("early", "kept", "cancelled"):
        issue(known, job, 1e6, point())
    assert known.ended("early", 1e6 + 1.2) == pytest.approx(math.log(0.012))
    assert known.rate == pytest.approx(0.2 - RATE * 0.8)
    known.ended("kept", 1e6 + 95.0)
    assert known.rate == pytest.approx(0.2 - RATE * 0.6)
    known.forget("cancelled")
    known.passed(1e9)
    assert known.rate == pytest.approx(0.2 - RATE * 0.6)


def test_an_end_that_was_known_late_is_no_miss() -> None:
    """The service was away when the bound passed; the supervisor has noted when the job ended."""
    known, other = known_well(), known_well()
    for each in (known, other):
        issue(each, "x", 1e6, point())
    known.passed(2e6)
    for each in (known, other):
        each.ended("x", 1e6 + 95.0)
    assert known.rate == pytest.approx(other.rate)


def test_a_run_ends_at_its_limit_however_late_it_starts() -> None:
    known = Intervals(0.8)
    learn(known, [0.5, 2.0] * LEAST)
    made = known.interval(point(wait_s=40.0)._replace(most_s=80.0), None)
    assert made.starts_s == pytest.approx((19.8, 40.0, 80.2))  # as far off as the end
    assert made.high_s == pytest.approx(80.2 + 80.0 + 0.5)


@pytest.mark.parametrize("level", [0.5, 0.8, 0.9])
def test_the_coverage_is_that_asked_for_also_after_a_shift(level: float) -> None:
    """Jobs overlap: the ends of long ones are known late, and half way all take four times as long."""
    draw, known = np.random.default_rng(7), Intervals(level)
    running, kept = list[tuple[float, str]](), list[bool]()
    for job in range(6000):
        at_s = 10.0 * job
        while running and running[0][0] <= at_s:
            end_s, ended = heapq.heappop(running)
            known.ended(ended, end_s)
        made = issue(known, str(job), at_s, point(command=f"command {job}"))
        jct_s = 100.0 * math.exp(0.7 * draw.normal()) * (4.0 if job > 3000 else 1.0)
        heapq.heappush(running, (at_s + jct_s, str(job)))
        kept.append(made.low_s <= jct_s <= made.high_s)
    assert sum(kept[500:3000]) / 2500 == pytest.approx(level, abs=0.03)
    assert sum(kept[-2500:]) / 2500 == pytest.approx(level, abs=0.03)


def refit(known: Intervals) -> None:
    while (count := known.next_due()) is not None:
        known.take(count, fit(known.training(count), known.level))


def stream(known: Intervals, first: int, last: int, made: list[Interval]) -> int:
    """Jobs of which a feature says how long they take, and how sure that is; returns how many were kept."""
    kept = 0
    for at in range(first, last):
        rng = np.random.default_rng(at)
        long, unsure = float(rng.random()), float(rng.random() < 0.5)
        jct_s = 100.0 * math.exp(2.0 * long + (0.1 + unsure) * rng.normal())
        each = issue(known, str(at), 1e5 * at, point(100.0, long, unsure))
        made.append(each)
        kept += each.low_s <= jct_s <= each.high_s
        known.ended(str(at), 1e5 * at + jct_s)
        refit(known)
    return kept


def test_coverage_is_the_level_and_features_make_it_narrow() -> None:
    known, made = Intervals(0.8), list[Interval]()
    stream(known, 0, 2 * FIRST, made)
    assert stream(known, 2 * FIRST, 1500, made) / (1500 - 2 * FIRST) == pytest.approx(0.8, abs=0.04)
    sure, unsure = (
        known.interval(of, known.learned(of.features))
        for of in (point(100.0, 0.5, 0.0), point(100.0, 0.5, 1.0))
    )
    assert not sure.few
    assert math.log(unsure.high_s / unsure.low_s) > 2.0 * math.log(sure.high_s / sure.low_s)
    assert sure.median_s == pytest.approx(100.0 * math.e, rel=0.15)


def test_a_restart_changes_no_later_interval() -> None:
    known, made = Intervals(0.8), list[Interval]()
    stream(known, 0, FIRST + 30, made)
    issue(known, "open", 1e9, point(100.0, 0.1, 0.0))
    again = Intervals.from_state(*known.state())
    refit(again)
    one, other = list[Interval](), list[Interval]()
    stream(known, 10_000, 10_200, one)
    stream(again, 10_000, 10_200, other)
    assert one == other
    assert known.rate == again.rate


def test_the_errors_of_alike_promises_stay_where_they_are_better_than_the_fits() -> None:
    """The features say nothing, and are drawn anew for every job."""
    known, draw = Intervals(0.8), np.random.default_rng(5)
    for at in range(600):
        features = draw.normal(size=20)
        issue(known, str(at), 1e5 * at, point(100.0, *features, command=f"command {at % 5}"))
        known.ended(str(at), 1e5 * at + 100.0 * (1.0 + at % 5))
        refit(known)
    of = point(100.0, *draw.normal(size=20), command="command 3")
    made = known.interval(of, known.learned(of.features))
    assert (made.low_s, made.high_s) == pytest.approx((399.5, 400.5), abs=2.0)


def test_a_window_has_the_quantiles_of_the_latest_values() -> None:
    values = np.random.default_rng(3).normal(size=50)
    window = Window(20, values)
    for level in (0.0, 0.1, 0.5, 0.93, 1.0):
        assert window.quantile(level) == pytest.approx(np.quantile(values[-20:], level))


def test_an_interval_names_the_promises_that_it_is_from() -> None:
    known = Intervals(0.8)
    assert known.interval(point(), None).source is None
    learn(known, [2.0] * (LEAST + 5), command="x")
    assert known.interval(point(), None).source == Source("command", LEAST + 5)
    learn(known, [2.0] * LEAST, "ann")
    of_user = 3 + LEAST  # of one command three count
    assert known.interval(point(command="y"), None).source == Source("user", of_user)
    stated = Likeness("ann", "y", "estimate", stated=True)
    assert known.interval(point()._replace(like=stated), None).source == Source("user", of_user, stated=True)
    assert known.interval(point()._replace(like=Likeness("bob", "y", "limit")), None).source == Source(
        "all", of_user
    )


def test_an_interval_of_fitted_models_names_the_jobs_that_they_were_fitted_to() -> None:
    known = Intervals(0.8)
    learn(known, [1.0 + at % 2 for at in range(FIRST)])
    count = known.next_due()
    assert count == FIRST
    known.take(count, fit(known.training(count), known.level))
    learn(known, [1.0 + at % 2 for at in range(10)])
    known.compared, known.scores = 1000, [1.0, 0.5]  # the models did better of late
    assert known.interval(point(), known.learned(point().features)).source == Source("features", FIRST)


def test_a_promise_is_read_again_from_the_log_before_there_are_models() -> None:
    known, fitted = Intervals(0.8), (-1.0, -0.5, 0.5)
    read = known.issue("1", 0.0, point(), fitted)
    assert read.source is not None
    assert (read.source.of, read.source.sample) == ("features", 0)
