"""The interval around a promise, from the errors of earlier ones."""

from __future__ import annotations

import json
import math
import random
from typing import Any

import pytest

from betimes.service.scheduling.promise_errors import LEAST, SLACK_S, PromiseErrors
from betimes.testing import InMemoryService


def quote(
    errors: PromiseErrors, at: float, promised_s: float, level: float = 0.8, user: str = "ann"
) -> dict[str, Any]:
    found = errors.around(user, "anything", "estimate", at, at + promised_s, level)
    row = {"made_at": at, "finish_at": at + promised_s, "basis": "estimate"}
    if found is None:
        return row
    low_at, median_at, high_at = found
    return {
        **row,
        "finish_low_at": low_at,
        "finish_median_at": median_at,
        "finish_high_at": high_at,
        "level": level,
    }


def take(errors: PromiseErrors, ratios: list[float], user: str = "ann") -> None:
    """Promises of 99 s, each kept before the next one is made."""
    for at, ratio in enumerate(ratios):
        errors.promised(at, user, f"command {at}", quote(errors, 1e3 * at, 99.0, user=user))
        errors.finished(at, 1e3 * at + 100.0 * ratio - SLACK_S)


def test_there_is_no_interval_until_enough_promises_have_come_true() -> None:
    errors = PromiseErrors()
    take(errors, [1.0] * (LEAST - 1))
    assert errors.around("ann", "anything", "estimate", 0.0, 10.0, 0.8) is None
    take(errors, [1.0])
    assert errors.around("ann", "anything", "estimate", 0.0, 10.0, 0.8) == (10.0, 10.0, 10.0)
    assert errors.around("ann", "anything", "estimate", 0.0, None, 0.8) is None


def test_the_ends_are_quantiles_of_the_ratios() -> None:
    """Of 1.01, 1.02 ... 1.99 a tenth lies below 1.10 and above 1.90, by the rank of (n + 1) / 10."""
    errors = PromiseErrors()
    for at in range(99):
        errors.promised(at, "ann", f"command {at}", {"made_at": 0.0, "finish_at": 99.0, "basis": "estimate"})
        errors.finished(at, 100.0 * (1.01 + at / 100) - SLACK_S)
    assert errors.around("ann", "anything", "estimate", 0.0, 99.0, 0.8) == pytest.approx(
        (109.0, 149.0, 189.0)
    )
    assert errors.around("bob", "anything", "limit", 0.0, 99.0, 0.8) == pytest.approx(
        (109.0, 149.0, 189.0)
    )  # all there is
    assert errors.around("ann", "anything", "estimate", 0.0, 99.0, 0.5) == pytest.approx(
        (124.0, 149.0, 174.0)
    )


def test_a_user_with_a_history_gets_an_interval_of_that() -> None:
    errors = PromiseErrors()
    take(errors, [2.0] * LEAST, "ann")
    take(errors, [1.0] * LEAST, "bob")
    assert errors.around("ann", "anything", "estimate", 0.0, 99.0, 0.8) == pytest.approx(
        (199.0, 199.0, 199.0)
    )
    assert errors.around("bob", "anything", "estimate", 0.0, 99.0, 0.8) == pytest.approx((99.0, 99.0, 99.0))


def test_a_hundred_runs_of_one_command_say_little_of_another() -> None:
    errors = PromiseErrors()
    for at in range(LEAST):
        errors.promised(at, "ann", "sleep 1", {"made_at": 0.0, "finish_at": 99.0, "basis": "estimate"})
        errors.finished(at, 24.0)
    assert errors.around("ann", "sleep 1", "estimate", 0.0, 99.0, 0.8) == pytest.approx((24.0, 24.0, 24.0))
    assert errors.around("ann", "python train.py", "estimate", 0.0, 99.0, 0.8) is None


def test_jobs_that_did_not_finish_say_nothing() -> None:
    errors = PromiseErrors()
    take(errors, [1.0] * LEAST)
    errors.promised(100, "ann", "command 100", quote(errors, 0.0, 99.0))
    errors.dropped(100)
    before = errors.to_json()
    errors.passed(1e9)
    errors.finished(100, 1e9)
    assert errors.to_json() == before


def test_a_miss_widens_the_next_interval_before_the_job_has_ended() -> None:
    errors = PromiseErrors()
    ratios = [1.0 + at / 100 for at in range(60)]
    take(errors, ratios)
    before = errors.around("ann", "anything", "estimate", 0.0, 99.0, 0.8)
    for job in range(100, 110):
        errors.promised(job, "ann", f"command {job}", quote(errors, 1e6, 99.0))
    errors.passed(1e6 + 1e4)  # and all of them run on
    after = errors.around("ann", "anything", "estimate", 0.0, 99.0, 0.8)
    assert before is not None
    assert after is not None
    assert after.high_at > before.high_at
    assert errors.to_json()["known"] == PromiseErrors.from_json(errors.to_json()).to_json()["known"]


def test_an_end_that_was_known_late_is_no_miss() -> None:
    """The service was away when the bound passed; the supervisor has noted when the job ended."""
    errors, other = PromiseErrors(), PromiseErrors()
    for each in (errors, other):
        take(each, [1.0, 1.5] * LEAST)
        each.promised(100, "ann", "command 100", quote(each, 1e6, 99.0))
    errors.passed(2e6)
    for each in (errors, other):
        each.finished(100, 1e6 + 120.0)
    assert errors.to_json()["high"] == pytest.approx(other.to_json()["high"])


@pytest.mark.parametrize("level", [0.5, 0.8, 0.9])
def test_the_coverage_is_that_asked_for_also_after_a_shift(level: float) -> None:
    """Jobs overlap: the ends of long ones are known late, and half way all take four times as long."""
    draw, errors = random.Random(7), PromiseErrors()
    running: list[tuple[float, int, dict[str, Any]]] = []
    kept: list[bool] = []
    for job in range(6000):
        at = 10.0 * job
        for end_at, number, promise in sorted(running, key=lambda each: each[0]):
            if end_at <= at:
                errors.passed(end_at)
                errors.finished(number, end_at)
                running.remove((end_at, number, promise))
                if "level" in promise:
                    kept.append(promise["finish_low_at"] <= end_at <= promise["finish_high_at"])
        errors.passed(at)
        promise = quote(errors, at, 100.0, level)
        errors.promised(job, "ann", f"command {job}", promise)
        running.append(
            (at + 100.0 * draw.lognormvariate(0.0, 0.7) * (4.0 if job > 3000 else 1.0), job, promise)
        )
    assert sum(kept[:2500]) / 2500 == pytest.approx(level, abs=0.03)
    assert sum(kept[-2500:]) / 2500 == pytest.approx(level, abs=0.03)


def test_a_snapshot_goes_on_as_the_whole_does() -> None:
    draw = random.Random(3)
    errors = PromiseErrors()
    for job in range(200):
        errors.passed(10.0 * job)
        errors.promised(
            job,
            draw.choice("ab"),
            draw.choice("xyz"),
            quote(errors, 10.0 * job, 50.0 * draw.random(), user="a"),
        )
        if job > 5:
            errors.finished(job - 5, 10.0 * job)
        if job % 50 == 49:
            again = PromiseErrors.from_json(json.loads(json.dumps(errors.to_json())))
            assert again.to_json() == errors.to_json()
            errors = again
    assert math.isfinite(errors.to_json()["high"])


def test_a_service_gives_intervals_once_it_has_a_history() -> None:
    """Each job truly takes twice its estimate."""
    with InMemoryService() as service:
        first = service.submit(command=["x"], estimate_s=100.0, work_s=200.0)
        assert first.quote is not None
        assert (first.quote.level, first.quote.finish_low_at) == (None, None)
        service.finish()
        for _ in range(LEAST):
            service.submit(command=["x"], estimate_s=100.0, work_s=200.0)
            service.finish()
        now_s = service.now_s
        asked = service.quote(command=["x"], estimate_s=100.0)
        taken = service.submit(command=["x"], estimate_s=100.0, work_s=200.0)
        assert taken.quote is not None
        for quote in (asked, taken.quote):
            assert quote.level == 0.8
            assert quote.finish_at == now_s + 100.0
            ends = (quote.finish_low_at, quote.finish_median_at, quote.finish_high_at)
            assert ends == pytest.approx((now_s + 200.0,) * 3, abs=2.0)
        service.finish()
        job = service.job(taken.job_id).job
        ends = (job.promised_low_at, job.promised_median_at, job.promised_high_at)
        assert ends == (taken.quote.finish_low_at, taken.quote.finish_median_at, taken.quote.finish_high_at)
        assert job.promised_level == 0.8
