"""The model of promises as a service calls it: submitted, promised, started, ended, and kept over a restart."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from betimes.foresight.intervals import Interval, Source
from betimes.foresight.promise_model import Played, PromiseModel, Queue
from betimes.foresight.run_times import FLOOD, Described

IDLE = Queue(waiting=0, running=0, busy_frac=0.0)


def day(model: PromiseModel, first: int, last: int) -> list[Interval]:
    """Two users, whose jobs take about a tenth and a half of their limit of 1000 s, one after the other."""
    made = list[Interval]()
    for at in range(first, last):
        at_s, job_id, user = 2000.0 * at, str(at), ("ann", "bob")[at % 2]
        job = Described(user, "train.py", 1000.0, 1.0)
        model.submitted(job_id, job, at_s)
        believed_s = model.run_times.quantiles(job, at_s)
        point = model.point(job, at_s, Played(at_s, at_s + float(believed_s[7]), at_s + 1000.0), IDLE)
        learned = model.intervals.learned(point.features)
        quoted = model.intervals.interval(point, learned)
        made.append(model.promise(job_id, at_s, point, learned))
        assert quoted == made[-1]
        model.started(job_id, at_s)
        run_s = (100.0, 500.0)[at % 2] * math.exp(0.1 * np.random.default_rng(at).normal())
        model.ended(job_id, run_s, at_s + run_s)
        model.refit()
    return made


def test_promises_follow_what_each_user_s_jobs_took() -> None:
    model = PromiseModel(0.8)
    made = day(model, 0, 260)
    assert made[0].source == Source("all", 0, others=True)
    assert made[-1].source is not None
    assert not made[-1].source.others
    for each, usual_s in ((made[-2], 100.0), (made[-1], 500.0)):
        assert each.median_s == pytest.approx(usual_s, rel=0.15)
        assert 0.5 * usual_s < each.low_s < each.median_s < each.high_s < 2.0 * usual_s


def test_a_restart_changes_no_promise() -> None:
    model = PromiseModel(0.8)
    day(model, 0, 120)
    job = Described("ann", "train.py", math.nan, 2.0)
    model.submitted("open", job, 3e5)
    model.promise("open", 3e5, model.point(job, 3e5, Played(3e5, 3e5 + 50.0), IDLE), None)
    model.started("open", 3e5)
    again = PromiseModel.from_bytes(model.to_bytes())
    again.refit()
    for each in (model, again):
        each.ended("open", 400.0, 3e5 + 400.0)
    assert day(again, 200, 240) == day(model, 200, 240)
    assert again.to_bytes() == model.to_bytes()


def test_a_job_that_is_cancelled_leaves_nothing_behind() -> None:
    model = PromiseModel(0.8)
    day(model, 0, 10)
    before = model.to_bytes()
    model.submitted("x", Described("ann", "train.py", 1000.0, 1.0), 2e4)
    model.started("x", 2e4)
    model.forget("x")
    assert model.to_bytes() == before


def test_of_a_flood_only_the_request_says_how_long_it_takes() -> None:
    """Ann's jobs have taken a tenth of what they ask for, until today; these may take it all."""
    model = PromiseModel(0.8)
    day(model, 0, 60)
    at_s = 2000.0 * 60
    job = Described("ann", "train.py", 1000.0, 1.0)

    def high_s(wait_s: float = 0.0) -> float:
        played = Played(at_s + wait_s, at_s + wait_s + 100.0, at_s + wait_s + 1000.0)
        return model.intervals.interval(model.point(job, at_s, played, IDLE), None).high_s

    for number in range(FLOOD - 1):
        model.submitted(f"of many {number}", job, at_s)
    assert high_s() < 300.0
    model.submitted("the tenth", job, at_s)
    assert high_s() == pytest.approx(1000.0, rel=1e-3)
    assert high_s(wait_s=50.0) > 1000.0
    model.started("the tenth", at_s)
    model.ended("the tenth", 100.0, at_s + 100.0)
    assert high_s() < 300.0


def test_a_limit_that_nearly_all_keep_bounds_a_job_that_starts_at_once() -> None:
    """Nothing is known of promises, so that the upper end is three times the play-out: 3000 s for a limit of 1000 s."""
    model = PromiseModel(0.8)
    model.intervals.prior = ()
    in_log = Described("ann", "train.py", 1000.0, 1.0)

    def finish(run_s: float) -> None:
        model.submitted("x", in_log, 0.0)
        model.started("x", 0.0)
        model.ended("x", run_s, run_s)

    def high_s(job: Described, wait_s: float = 0.0, age_s: float = 0.0) -> float:
        played = Played(1e5 + wait_s, 1e5 + wait_s + 1000.0)
        return model.intervals.interval(model.point(job, 1e5, played, IDLE, age_s=age_s), None).high_s

    for _ in range(99):
        finish(900.0)
    assert high_s(in_log) == pytest.approx(3000.0, rel=1e-3)  # too few
    finish(1010.0)  # a few seconds more are none
    assert high_s(in_log) == pytest.approx(1050.0, rel=1e-3)
    assert high_s(in_log, age_s=300.0) == pytest.approx(750.0, rel=1e-3)
    assert high_s(in_log, wait_s=500.0) > 4000.0
    assert high_s(replace(in_log, limit_s=math.nan)) == pytest.approx(3000.0, rel=1e-3)
    again = PromiseModel.from_bytes(model.to_bytes())
    again.intervals.prior = ()
    for _ in range(3):
        finish(1100.0)
    ends = replace(in_log, most_s=1000.0)  # whoever reaches it is ended
    assert high_s(in_log) == pytest.approx(3000.0, rel=1e-3)
    assert high_s(ends) == pytest.approx(1000.0, rel=1e-3)
    assert high_s(ends, wait_s=500.0) == pytest.approx(2500.0, rel=1e-3)
    model = again
    assert high_s(in_log) == pytest.approx(1050.0, rel=1e-3)


def test_what_was_asked_for_counts_the_less_the_more_of_a_user_s_jobs_have_finished() -> None:
    model = PromiseModel(0.8)
    played = Played(0.0, 100.0)
    pulls = list[float]()
    for last in (0, 6, 60):
        day(model, 0 if last < 60 else 6, last)
        pulls.append(model.point(Described("ann", "other.py", 3600.0, 1.0), 1e6, played, IDLE).pull)
    assert pulls == [1.0, 1.0 / 4.0, 0.0]  # three of six jobs are Ann's; of sixty more than enough
    instant = Described("eve", "true", 3600.0, 1.0)
    for at in range(20):  # they say nothing of other commands, but of this one
        model.submitted(f"eve {at}", instant, 1e6)
        model.ended(f"eve {at}", 0.1, 1e6)
    assert model.point(instant, 2e6, played, IDLE).pull == 0.0
    assert model.point(replace(instant, command="other"), 2e6, played, IDLE).pull == 1.0
