"""The interval around a live promise, from the errors of earlier ones: a fold of the log."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from betimes.foresight.fitting import fit_aside
from betimes.foresight.past_errors import LEAST
from betimes.service.runtime.controller import Controller
from betimes.service.scheduling.ledger import Ledger
from betimes.service.spec.job_spec import JobSpec
from betimes.service.views.models import WhatIfSpec
from betimes.testing import InMemoryService


def controller_of(service: InMemoryService) -> Controller:
    return service._parts.controller


def test_a_service_gives_intervals_once_it_has_a_history() -> None:
    """Each job truly takes twice its estimate."""
    with InMemoryService() as service:
        first = service.submit(command=["x"], estimate_s=100.0, work_s=200.0)
        assert first.quote is not None
        assert (first.quote.level, first.quote.finish_low_at, first.quote.start_low_at) == (None, None, None)
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
            assert quote.finish_at == pytest.approx(now_s + 200.0)
            assert (quote.run_s, quote.basis) == (pytest.approx(200.0), "alike")
            ends = (quote.finish_low_at, quote.finish_median_at)
            assert ends == pytest.approx((now_s + 200.0,) * 2, abs=2.0)
            assert quote.finish_high_at == pytest.approx(now_s + 400.0, abs=2.0)  # before jobs were alike
            assert (quote.start_low_at, quote.start_median_at, quote.start_high_at) == (now_s,) * 3
        service.finish()
        job = service.job(taken.job_id).job
        ends = (job.promised_low_at, job.promised_median_at, job.promised_high_at)
        assert ends == (taken.quote.finish_low_at, taken.quote.finish_median_at, taken.quote.finish_high_at)
        assert job.promised_level == 0.8


def test_the_start_of_a_job_that_waits_has_an_interval_too() -> None:
    """A job waits for a whole one, and all take half of their estimates."""
    with InMemoryService() as service:
        for _ in range(LEAST):
            service.submit(command=["x"], max_units=4, estimate_s=100.0, work_s=50.0 * 4)
            service.finish()
        service.submit(command=["x"], min_units=4, max_units=4, estimate_s=100.0, work_s=50.0 * 4)
        quote = service.quote(command=["x"], min_units=4, max_units=4, estimate_s=100.0)
        assert quote.start_at == pytest.approx(service.now_s + 50.0)
        starts = (quote.start_median_at, quote.start_high_at)
        assert starts == pytest.approx((service.now_s + 50.0,) * 2, abs=2.0)
        assert quote.start_low_at == pytest.approx(service.now_s + 25.0, abs=2.0)  # before jobs were alike


def test_sets_of_trials_and_jobs_of_a_file_have_one_too() -> None:
    """Trials take twice their estimates; the time limit is that of a trial, and not of the set."""
    with InMemoryService() as service:
        fields: dict[str, Any] = {"command": ["x"], "array": "1-8", "as_one": True, "estimate_s": 100.0}
        for _ in range(LEAST):
            service.submit(**fields, work_s=200.0)
            service.finish()
        quote = service.quote(**fields, time_limit_s=250.0)
        assert quote.finish_at == service.now_s + 200.0
        assert quote.finish_high_at == pytest.approx(service.now_s + 400.0, abs=2.0)
    with InMemoryService() as service:
        known, other = (JobSpec(command=[name], estimate_s=100.0, workdir="/data") for name in "xy")
        for _ in range(LEAST):
            service.submit(known, work_s=50.0)
            service.finish()
        first, second = service.what_if(WhatIfSpec(submit=[known, other])).jobs
        assert first.finish_at == second.finish_at == pytest.approx(service.now_s + 50.0)  # the same request
        assert (first.finish_high_at, first.level) == (pytest.approx(service.now_s + 50.0, abs=2.0), 0.8)
        assert (second.finish_low_at, second.level) == (None, None)  # few jobs like it


def test_no_job_is_promised_to_run_beyond_its_time_limit() -> None:
    with InMemoryService() as service:
        for at in range(LEAST):
            service.submit(command=["x"], estimate_s=100.0, work_s=100.0 + 20.0 * at)
            service.finish()
        free, limited = (
            service.quote(command=["x"], estimate_s=100.0, time_limit_s=limit_s) for limit_s in (None, 150.0)
        )
        assert free.finish_high_at is not None
        assert free.finish_high_at > service.now_s + 400.0
        assert limited.finish_high_at == pytest.approx(service.now_s + 150.5)


def test_a_replay_of_the_log_and_a_snapshot_go_on_as_the_service_does() -> None:
    with InMemoryService() as service:
        for at in range(2 * LEAST):
            service.submit(command=["x"], estimate_s=100.0, work_s=80.0 + at)
            if at % 3:
                service.finish()
            if at % 7 == 0:
                service.cancel(service.submit(command=["y"], estimate_s=50.0).job_id)
        events = list(controller_of(service).store.each_event(0))
        kept = controller_of(service).scheduler.ledger.promise_errors.to_json()
        half = Ledger.recovered(None, events[: len(events) // 2]).to_bytes()
        again = Ledger.recovered(half, events[len(events) // 2 :])
        assert Ledger.recovered(None, events).promise_errors.to_json() == kept
        assert again.promise_errors.to_json() == kept


@pytest.mark.slow  # a process loads the library and fits
def test_fits_are_made_beside_the_service_and_again_after_a_restart() -> None:
    with InMemoryService() as service:
        for at in range(110):
            service.submit(command=[f"x{at % 3}"], estimate_s=100.0, work_s=50.0 * (1 + at % 3))
            service.finish()
        ledger = controller_of(service).scheduler.ledger
        intervals = ledger.promise_errors.model.intervals
        for _ in range(3000):
            if intervals.models:
                break
            service._do(asyncio.sleep(0.1))
        quote = service.quote(command=["x1"], estimate_s=100.0)
        assert list(intervals.models) == [100]
        again = Ledger.from_bytes(ledger.to_bytes()).promise_errors.model
        again.refit()
        features = [float(at) for at in range(len(intervals.known[0][0]))]
        assert again.intervals.learned(features) == intervals.learned(features)
        assert quote.finish_median_at == pytest.approx(service.now_s + 100.0, rel=0.2)
        again.intervals.models = {100: fit_aside(intervals.training(100), 0.8)}  # as where time is real
        assert again.intervals.learned(features) == intervals.learned(features)
