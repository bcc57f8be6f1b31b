"""The interval around a live promise, from the errors of earlier ones: a fold of the log."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from betimes.cli.live.jobs.deadline import probability
from betimes.cluster import Cluster
from betimes.foresight.fitting import fit_aside
from betimes.foresight.past_errors import LEAST
from betimes.service.access.auth import Tokens
from betimes.service.runtime.controller import Controller
from betimes.service.runtime.page_reads import PageReads
from betimes.service.scheduling.fold import recovered
from betimes.service.scheduling.ledger import Ledger
from betimes.service.spec.job_spec import JobSpec
from betimes.service.views.models import Quote, WhatIfSpec
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


def test_a_story_and_a_list_name_what_an_interval_is_from() -> None:
    with InMemoryService() as service:
        first = service.submit(command=["x"], estimate_s=100.0).job_id
        (listed,) = service.jobs(intervals=True).items
        assert listed.estimate is not None
        assert (listed.estimate.finish_low_at, listed.estimate.rests_on) == (None, None)
        service.finish()
        for command in "abcdefg":
            for _ in range(3):
                service.submit(command=[command], estimate_s=100.0)
                service.finish()
        number = service.submit(command=["x"], estimate_s=100.0).job_id
        listed = service.jobs(intervals=True).items[0]
        for estimate in (listed.estimate, service.job(number).job.estimate):
            assert estimate is not None
            assert estimate.rests_on == (
                "as 22 promises to jobs of this user turned out; its estimate counts as much as all of them"
            )
            assert estimate.finish_low_at is not None
            assert estimate.level == 0.8
        plain = service.jobs().items[0].estimate
        assert plain is not None
        assert (plain.finish_low_at, plain.rests_on) == (None, None)  # only where it is asked for
        assert service.job(first).job.estimate is None


def test_a_job_with_a_time_limit_has_one_from_the_first_on_as_other_clusters_had() -> None:
    others = "as early promises on other clusters turned out (public logs)"
    with InMemoryService() as service:

        def rests_on() -> str | None:
            number = service.submit(command=["x"], time_limit_s=3600.0, work_s=1200.0).job_id
            estimate = service.job(number).job.estimate
            assert estimate is not None
            low_at, median_at, high_at = (
                estimate.finish_low_at,
                estimate.finish_median_at,
                estimate.finish_high_at,
            )
            assert low_at is not None
            assert median_at is not None
            assert high_at is not None
            assert service.now_s < low_at < median_at <= high_at <= service.now_s + 3601.0
            service.finish()
            return estimate.rests_on

        assert rests_on() == f"{others}; on this one none has come true yet"
        assert rests_on() == f"as 1 promise to jobs of all users turned out, and {others}"
        for fields in ({}, {"estimate_s": 1200.0}):  # nothing is asked for, or more is known
            quote = service.quote(command=["y"], **fields)
            assert (quote.finish_low_at, quote.level) == (None, None)


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
        known, longer, other = (
            JobSpec(command=[name], estimate_s=estimate_s, workdir="/data")
            for name, estimate_s in (("x", 100.0), ("x", 300.0), ("y", 100.0))
        )
        for _ in range(LEAST):
            service.submit(known, work_s=50.0)
            service.finish()
        first, same, second = service.what_if(WhatIfSpec(submit=[known, longer, other])).jobs
        assert first.finish_at == same.finish_at == pytest.approx(service.now_s + 50.0)
        assert second.finish_at == pytest.approx(service.now_s + 100.0)  # the same request, but no kin
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


COMMANDS = st.sampled_from(["a", "b", "c", "d", "e"])
TIMES_S = st.sampled_from([0.2, 0.9, 3.0, 60.0, 600.0, 3600.0])


@st.composite
def jobs(draw: st.DrawFn) -> dict[str, Any]:
    """A job or an array of any command, with an estimate, a limit, both or neither, which may fail."""
    found: dict[str, Any] = {
        "command": [draw(COMMANDS)],
        "work_s": draw(TIMES_S),
        "exit_code": draw(st.sampled_from([0, 0, 1])),
    }
    for field in ("estimate_s", "time_limit_s"):
        if draw(st.booleans()):
            found[field] = draw(TIMES_S)
    if draw(st.booleans()):
        found["array"] = f"1-{draw(st.sampled_from([2, 9]))}"
    return found


@pytest.mark.slow
@settings(max_examples=20)
@given(st.lists(jobs(), min_size=3, max_size=8), st.lists(TIMES_S, max_size=8), st.integers(1, 4))
def test_no_promise_contradicts_itself(
    history: list[dict[str, Any]], pauses_s: list[float], least: int
) -> None:
    """Whatever ran before, by two users: no end lies before start and printed run time, none is now before the start;
    and an estimate of what has never run is believed.
    """
    with InMemoryService() as service, pytest.MonkeyPatch.context() as patched:
        patched.setattr("betimes.foresight.past_errors.LEAST", least)  # with few jobs, all sources count
        users = [Tokens(controller_of(service).store).new(name) for name in ("bob", "ada")]
        for each, fields in enumerate(history):
            service._token = users[each % 2]
            service.submit(**fields)
            service.advance(pauses_s[each]) if each < len(pauses_s) else service.finish()
        for fields in (
            *history[:3],
            {"command": ["new"], "time_limit_s": 60.0},
            {"command": ["new"], "estimate_s": 1800.0},
        ):
            asked = {
                name: value for name, value in fields.items() if name not in ("work_s", "exit_code", "array")
            }
            quote = service.quote(**asked)
            assert quote.start_at is not None
            assert quote.finish_at is not None
            starts_at = max(
                quote.start_at if quote.start_median_at is None else quote.start_median_at, quote.made_at
            )
            assert quote.finish_at >= quote.start_at + quote.run_s - 1e-6
            if quote.finish_median_at is None or quote.finish_low_at is None or quote.finish_high_at is None:
                continue
            assert quote.made_at < quote.finish_low_at <= quote.finish_median_at <= quote.finish_high_at
            assert quote.finish_median_at >= starts_at + quote.run_s - 1e-6
        quote = service.quote(command=["new"], estimate_s=1800.0)
        assert (quote.run_s, quote.basis) == (1800.0, "estimate")


def test_a_stated_estimate_outweighs_what_others_did() -> None:
    """The same number makes no kin; an array is one job, and runs of no time say nothing."""
    with InMemoryService(Cluster.pool(64)) as service:
        for _ in range(6):
            service.submit(name="job.sh", command=["sh"], time_limit_s=420.0, work_s=0.5)
            service.finish()
        quote = service.quote(command=["never_seen"], estimate_s=420.0)
        assert (quote.finish_at, quote.run_s, quote.basis) == (service.now_s + 420.0, 420.0, "estimate")
        for work_s in (0.1, 30.0):
            service.submit(command=["sweep", str(work_s)], array="1-200", estimate_s=3600.0, work_s=work_s)
            service.finish()
        model = controller_of(service).scheduler.ledger.promise_errors.model
        assert model.intervals.finished == 1
        assert service.quote(command=["new"], estimate_s=3600.0).level is None
        for at in range(2 * LEAST):
            service.submit(command=[f"c{at}"], estimate_s=3600.0, work_s=20.0)
            service.finish()
        quote = service.quote(command=["new"], estimate_s=3600.0)
        assert quote.finish_median_at == pytest.approx(service.now_s + 3600.0)
        assert quote.finish_low_at == pytest.approx(service.now_s + 20.0, abs=2.0)
        assert probability(ends(quote), 0.8, 900.0) < 0.5


def ends(quote: Quote) -> list[float]:
    """Low end, median and high end from the promise on, s."""
    found = (quote.finish_low_at, quote.finish_median_at, quote.finish_high_at)
    return [at - quote.made_at for at in found if at is not None]


def test_progress_bounds_the_interval() -> None:
    """Jobs of this command took between a tenth of their estimates and all; this one shows that it takes long."""
    with InMemoryService() as service:
        for at in range(2 * LEAST):
            service.submit(command=["x"], estimate_s=1000.0, work_s=100.0 if at % 2 else 1000.0)
            service.finish()
        number = service.submit(command=["x"], estimate_s=1000.0, work_s=1000.0).job_id
        for done in range(1, 11):
            service.advance(10.0)
            service.report_progress(number, done, 100)
        reads = PageReads(service._parts.backend)
        low_at, median_at, _ = reads.ends(service.job(number).job) or (0.0, 0.0, 0.0)
        assert median_at == pytest.approx(service.now_s + 900.0, rel=0.2)
        assert low_at >= service.now_s + 450.0


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
        half = recovered(None, events[: len(events) // 2]).to_bytes()
        again = recovered(half, events[len(events) // 2 :])
        assert recovered(None, events).promise_errors.to_json() == kept
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
