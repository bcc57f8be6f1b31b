"""The account of promises of a service."""

from __future__ import annotations

import pytest

from betimes.errors import Refused
from betimes.service.spec.job_spec import JobSpec
from betimes.testing import InMemoryService


def job(estimate_s: float | None = 100.0, **fields: object) -> JobSpec:
    return JobSpec(command=["x"], workdir="/", estimate_s=estimate_s, **fields)  # type: ignore[arg-type]


def test_first_and_latest_promises_are_both_judged() -> None:
    """A job that takes three times its estimate is promised anew when it outruns it, at 100 s and at 200 s."""
    with InMemoryService() as service:
        service.submit(job(name="slow"), work_s=300.0)
        service.submit(job(None, name="unknown", time_limit_s=1000.0), work_s=500.0)
        service.submit(job(name="fails"), work_s=10.0, exit_code=1)
        service.submit(job(name="waits", min_units=4, max_units=4), work_s=40.0)
        service.finish()
        found = service.accuracy(by="name", promises=True)
    assert [(one.name, one.made_at, one.finish_at) for one in found.promises] == [
        ("slow", 0.0, 100.0),
        ("unknown", 0.0, 1000.0),
        ("waits", 0.0, 1100.0),
    ]
    assert [one.finished_at for one in found.promises] == [300.0, 500.0, 510.0]
    assert found.first.promises == 3
    assert found.first.err_p99_frac == pytest.approx(2.0, abs=0.1)  # the slow one
    assert found.latest.promises == 3
    assert found.latest.err_p99_frac == pytest.approx(0.5, abs=0.05)  # promised 400 s at 200 s
    # Too few for an interval but of the one that asks for a time and states no estimate.
    assert (found.first.kept, found.first.cover_frac) == (1, 1.0)
    assert {group.name: group.figures.promises for group in found.groups} == {
        "slow": 1,
        "unknown": 1,
        "waits": 1,
    }
    assert found.estimate.promises == 3
    assert found.ratio.err_p50_frac is None


def test_a_period_selects_jobs_by_their_end() -> None:
    with InMemoryService() as service:
        for _ in range(3):
            service.submit(job())
            service.finish()
        assert service.accuracy(150.0).first.promises == 2
        assert service.accuracy(150.0, 50.0).first.promises == 1
        assert service.accuracy().first.promises == 3
        for period in ((50.0, 100.0), (50.0, 50.0)):
            with pytest.raises(Refused, match="ends before it begins"):
                service.accuracy(*period)


def test_a_promise_before_a_hold_is_void() -> None:
    with InMemoryService() as service:
        service.submit(job(min_units=4, max_units=4))
        held = service.submit(job(name="held")).job_id
        service.hold(held)
        service.advance(500.0)
        service.release(held)
        service.finish()
        (one,) = [each for each in service.accuracy(promises=True).promises if each.job_id == held]
    assert (one.made_at, one.finish_at, one.finished_at) == (500.0, 600.0, 600.0)


def test_what_is_kept_is_counted_once_there_are_intervals() -> None:
    with InMemoryService() as service:
        for at in range(60):
            service.submit(job(), work_s=100.0 + at % 10)
            service.finish()
        found = service.accuracy(by="policy")
    first = found.first
    assert first.promises == 60
    assert first.kept + first.early + first.late >= 40
    assert first.level == 0.8
    assert first.cover_frac is not None
    assert first.cover_frac > 0.6
    assert [group.name for group in found.groups] == ["fifo"]
    assert found.ratio.err_p50_frac == pytest.approx(first.err_p50_frac, abs=0.05)
