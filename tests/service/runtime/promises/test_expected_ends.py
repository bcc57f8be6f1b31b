"""Jobs of a play-out end when they are expected to; the policy goes by what it believes. Worked by hand."""

from __future__ import annotations

import pytest

from betimes.service.scheduling.fold import recovered
from betimes.service.scheduling.ledger import Ledger
from betimes.service.spec.job_spec import JobSpec
from betimes.testing import InMemoryService


def job(service: InMemoryService, command: str, units: int, estimate_s: float, work_s: float) -> int:
    return service.submit(spec(command, units, estimate_s), work_s=work_s * units).job_id


def spec(command: str, units: int, estimate_s: float) -> JobSpec:
    return JobSpec(command=[command], workdir="/", min_units=units, max_units=units, estimate_s=estimate_s)


def test_a_policy_reserves_by_its_beliefs_and_jobs_end_when_expected() -> None:
    """Of four cores x has three, for 100 s as is believed; jobs like it took 50 s. y, 200 s on all four, has a
    reservation at 100 s; z, 90 s on one core, is let in front by that, and holds y up until 90 s.
    """
    with InMemoryService(policy="easy") as service:
        for _ in range(2):
            job(service, "x", 3, 100.0, 50.0)
            service.finish()
        now_s = service.now_s
        x, y = job(service, "x", 3, 100.0, 50.0), job(service, "y", 4, 200.0, 200.0)
        z = job(service, "z", 1, 90.0, 90.0)
        first = [service.job(number).quotes[0] for number in (x, y, z)]
        assert [quote.finish_at for quote in first] == pytest.approx(
            [now_s + at for at in (50.0, 250.0, 90.0)]
        )
        assert [quote.basis for quote in first] == ["alike", "estimate", "estimate"]
        shown = service.job(y).job.estimate
        assert shown is not None
        assert (shown.start_at, shown.finish_at) == pytest.approx((now_s + 90.0, now_s + 290.0))
        found = {each.job_id: each for each in service.what_if(cancel=[z]).jobs}
        assert found[y].finish_before_at == pytest.approx(now_s + 290.0)
        assert found[y].finish_at == pytest.approx(now_s + 250.0)
        service.advance(10.0)
        later = service.job(y).job.estimate  # the ends of jobs that run do not move
        assert later is not None
        assert later.finish_at == pytest.approx(now_s + 290.0)
        ends = {each.job_id: each.finish_at for each in service.what_if(submit=[spec("x", 3, 100.0)]).jobs}
        job(service, "x", 3, 100.0, 50.0)
        service.finish()
        assert [service.job(n).job.finished_at for n in (x, y, z)] == pytest.approx(
            [ends[n] for n in (x, y, z)]
        )
        assert service.job(z + 1).job.finished_at == pytest.approx(ends[z + 1], abs=1e-6)


def test_one_that_outlasts_all_others_ends_as_believed() -> None:
    with InMemoryService() as service:
        for _ in range(3):
            job(service, "x", 1, 100.0, 20.0)
            service.finish()
        began_s, x = service.now_s, job(service, "x", 1, 100.0, 80.0)
        service.advance(30.0)
        shown = service.job(x).job.estimate
        assert shown is not None
        assert shown.finish_at == pytest.approx(began_s + 100.0)


def test_after_a_restart_the_same_is_expected() -> None:
    with InMemoryService() as service:
        for work_s in (20.0, 30.0, 40.0):
            job(service, "x", 4, 100.0, work_s)
            service.finish()
        x = job(service, "x", 4, 100.0, 30.0)
        controller = service._parts.controller
        kept, now_s = controller.scheduler.ledger, service.now_s
        events = list(controller.store.each_event(0))
        for again in (recovered(None, events), Ledger.from_bytes(kept.to_bytes())):
            grid = again.promise_errors.expected(again.jobs[x], now_s)
            before = kept.promise_errors.expected(kept.jobs[x], now_s)
            assert grid is not None
            assert before is not None
            assert grid.tolist() == before.tolist()
