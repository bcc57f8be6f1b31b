"""Promises that are broken are events, one each; a new promise follows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from betimes.page.views import sentence_of
from betimes.service.scheduling.events import Event
from betimes.service.scheduling.fold import recovered
from betimes.service.scheduling.promises import SLACK_S
from betimes.testing import InMemoryService


@pytest.fixture
def service() -> Iterator[InMemoryService]:
    """One in which the jobs so far, of twelve commands, have taken between their estimate and a tenth more."""
    with InMemoryService() as service:
        for number in range(24):
            submit(service, 100.0 + number % 11, command=[f"x{number % 12}"])
            service.finish()
        yield service


def submit(service: InMemoryService, work_s: float, **fields: Any) -> int:
    return service.submit(work_s=work_s, **{"command": ["x"], "estimate_s": 100.0, **fields}).job_id


def broken(service: InMemoryService, job: int | None = None) -> list[dict[str, Any]]:
    return [{"at": event.at, **event.data} for event in service.events(job=job, kinds=["promise-broken"])]


def test_a_job_that_goes_on_after_its_interval_breaks_its_promise_once(service: InMemoryService) -> None:
    job = submit(service, 150.0)
    first = service.job(job).quotes[0]
    assert first.finish_high_at is not None
    service.finish()
    (one,) = broken(service, job)
    assert one["at"] == pytest.approx(first.finish_high_at + SLACK_S)
    assert (one["why"], one["finish_at"]) == ("passed", None)
    assert one["promise"]["quote_id"] == first.quote_id
    assert one["promise"]["until_at"] == first.finish_high_at
    again = service.job(job).quotes[-1]
    assert again.made_at == one["at"]
    assert again.finish_high_at is not None
    assert again.finish_high_at > first.finish_high_at
    (told,) = [
        text for text in map(sentence_of, service.job(job).events) if text.startswith("Promise broken")
    ]
    assert told.startswith("Promise broken: promised 1970-01-01T00:")


def test_each_new_promise_is_judged_in_its_turn(service: InMemoryService) -> None:
    job = submit(service, 2000.0)
    submitted_at = service.job(job).job.submitted_at
    service.finish()
    found = broken(service, job)
    assert 2 <= len(found) <= 8  # each at twice as long at least
    until = [one["promise"]["until_at"] - submitted_at for one in found]
    assert all(later >= 2.0 * earlier - 1e-6 for earlier, later in pairwise(until))
    assert len({one["promise"]["quote_id"] for one in found}) == len(found)


def test_an_end_in_the_interval_or_before_it_is_no_event(service: InMemoryService) -> None:
    for work_s in (105.0, 20.0):
        job = submit(service, work_s)
        service.finish()
        assert broken(service, job) == []


def test_an_end_reported_just_after_the_interval_is_one_event(service: InMemoryService) -> None:
    quote = service.quote(command=["x"], estimate_s=100.0)
    assert quote.finish_high_at is not None
    job = submit(service, quote.finish_high_at - quote.made_at + 0.5 * SLACK_S)
    service.finish()
    (one,) = broken(service, job)
    assert one["why"] == "ended"
    assert one["finish_at"] == one["at"] == service.job(job).job.finished_at


def test_a_job_that_others_overtake_breaks_its_promise_while_it_waits(service: InMemoryService) -> None:
    service.set_policy("srsf")
    submit(service, 100.0, min_units=4, max_units=4)
    waits = service.submit(command=["x"], estimate_s=150.0, work_s=150.0, min_units=4, max_units=4).job_id
    quote = service.job(waits).quotes[0]
    service.advance(1.0)
    for _ in range(6):
        service.submit(command=["x"], estimate_s=90.0, work_s=90.0, min_units=4, max_units=4)
    found = broken(service, waits)
    assert found[0]["why"] == "foreseen"
    assert quote.finish_high_at is not None
    assert found[0]["at"] < quote.finish_high_at < found[0]["finish_at"]
    assert len(found) <= 3  # six submissions
    new = service.job(waits).quotes[-1]
    assert new.finish_low_at is not None
    assert new.finish_low_at > quote.finish_high_at
    service.finish()
    assert "promise-broken" not in {
        event.kind for event in service.events(job=waits) if event.at > new.made_at + 1000
    }


def test_a_job_without_an_interval_breaks_none() -> None:
    with InMemoryService() as service:
        job = submit(service, 500.0)
        service.finish()
        assert broken(service, job) == []


def test_a_promise_that_a_hold_has_made_void_is_not_broken(service: InMemoryService) -> None:
    submit(service, 100.0, min_units=4, max_units=4)
    job = submit(service, 100.0)
    service.hold(job)
    service.advance(1000.0)
    service.release(job)
    service.finish()
    assert broken(service, job) == []


def test_a_job_that_fails_or_is_cancelled_in_time_breaks_none(service: InMemoryService) -> None:
    fails = submit(service, 50.0, exit_code=1)
    cancelled = submit(service, 100.0)
    service.advance(60.0)
    service.cancel(cancelled)
    service.finish()
    assert broken(service, fails) == broken(service, cancelled) == []


def test_a_replay_of_the_log_judges_the_same_promise(service: InMemoryService) -> None:
    job = submit(service, 1000.0)
    service.advance(130.0)
    assert broken(service, job)
    log = [
        Event(one.event_id, one.at, one.kind, one.cause, one.job_id, one.node, one.data)
        for one in service.events()
    ]
    whole = recovered(None, log)
    assert whole.jobs[job].judged is not None
    half = recovered(None, log[: len(log) - 2])
    again = recovered(half.to_bytes(), log[len(log) - 2 :])
    assert json.loads(again.to_bytes()) == json.loads(whole.to_bytes())
