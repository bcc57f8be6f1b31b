"""Jobs are changed after they were submitted: worked by hand, on four cores in the order of arrival if not said."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from betimes.errors import Conflict, Refused, Unknown
from betimes.service.views.models import JobStory
from betimes.testing import InMemoryService


@pytest.fixture
def service() -> Iterator[InMemoryService]:
    with InMemoryService() as made:
        yield made


def submit(service: InMemoryService, work_s: float = 100.0, units: int = 4, **fields: object) -> int:
    asked = {"estimate_s": work_s, "min_units": units, "max_units": units, **fields}
    return service.submit(command=["train"], work_s=work_s * units, **asked).job_id  # pyright: ignore[reportArgumentType]


def kinds(story: JobStory) -> list[str]:
    return [event.kind for event in story.events]


def test_another_estimate_makes_another_promise_and_the_old_one_is_not_judged(
    service: InMemoryService,
) -> None:
    first, second = submit(service), submit(service)
    assert service.job(second).job.promised_finish_at == 200.0
    edited = service.edit(second, estimate_s=50.0)
    assert (edited.status, edited.promised_finish_at) == ("queued", 150.0)
    assert service.job(first).job.promised_finish_at == 100.0
    service.finish()
    assert service.job(second).quote_error_s == 50.0
    held = service.accuracy(promises=True)
    assert [one.finish_at for one in held.promises] == [100.0, 150.0]


def test_a_change_of_names_leaves_the_promise(service: InMemoryService) -> None:
    submit(service)
    job = submit(service, labels={"team": "a", "run": "1"})
    edited = service.edit(job, name="other", labels={"team": "b"})
    assert (edited.name, edited.labels) == ("other", {"team": "b", "run": "1"})
    assert service.jobs(label={"team": "b"}).items[0].job_id == job
    assert kinds(service.job(job)) == ["submitted", "queued", "quoted", "edited"]


def test_a_job_keeps_its_place_when_it_asks_for_other_units(service: InMemoryService) -> None:
    submit(service)
    second, third = submit(service), submit(service)
    service.edit(second, min_units=2, max_units=2)
    service.finish()
    # The estimate is of the new units, so that its work is 400 s on 2 units: 200 s.
    assert service.job(second).job.started_at == 100.0
    assert service.job(second).job.finished_at == 300.0
    assert service.job(third).job.started_at == 300.0


def test_a_higher_priority_comes_first_where_the_policy_heeds_it() -> None:
    with InMemoryService(policy="lowest-priority") as service:
        submit(service)
        second, third = submit(service, priority=-1), submit(service, priority=-1)
        edited = service.edit(third, priority=0)
        assert edited.promised_finish_at == 200.0
        service.finish()
        assert [service.job(job).job.finished_at for job in (second, third)] == [300.0, 200.0]


def test_a_waiting_job_can_be_made_to_wait_for_another_and_not_to_any_more(service: InMemoryService) -> None:
    first = submit(service)
    second, third = submit(service, units=2), submit(service, units=2, work_s=50.0)
    edited = service.edit(second, after=[str(third)])
    assert (edited.status, edited.promised_finish_at) == ("blocked", 250.0)
    service.advance(120.0)
    assert service.job(second).job.status == "blocked"
    edited = service.edit(second, after=[])
    assert (edited.status, edited.promised_finish_at) == ("running", 220.0)
    service.finish()
    assert service.job(first).job.finished_at == 100.0


def test_a_job_begins_later_or_now(service: InMemoryService) -> None:
    submit(service)
    job = submit(service, units=1)
    service.edit(job, begin_at=500.0)
    service.advance(200.0)
    assert service.job(job).job.reason is not None
    assert service.job(job).job.reason.code == "begin"  # pyright: ignore[reportOptionalMemberAccess]
    edited = service.edit(job, begin_at=0.0)
    assert edited.status == "running"


def test_a_running_job_gets_another_limit_and_is_believed_to_take_longer(service: InMemoryService) -> None:
    job = submit(service, work_s=100.0, estimate_s=60.0, time_limit_s=60.0)
    later = submit(service)
    service.advance(30.0)
    edited = service.edit(job, time_limit_s=150.0, estimate_s=120.0)
    assert edited.promised_finish_at == 120.0
    service.finish()
    assert service.job(job).job.status == "finished"
    assert service.job(job).job.finished_at == 100.0
    assert service.job(later).job.started_at == 100.0
    changed = next(event for event in service.job(job).events if event.kind == "estimate-changed")
    assert (changed.cause, changed.data["basis"]) == ("user:tester", "estimate")


def test_a_shorter_limit_ends_the_run_then(service: InMemoryService) -> None:
    job = submit(service)
    service.advance(10.0)
    service.edit(job, time_limit_s=40.0)
    service.finish()
    assert (service.job(job).job.status, service.job(job).job.finished_at) == ("failed", 40.0)
    assert service.job(job).job.reason.code == "time-limit"  # pyright: ignore[reportOptionalMemberAccess]


def test_what_cannot_be_changed_is_refused_and_changes_nothing(service: InMemoryService) -> None:
    running, waiting = submit(service), submit(service)
    service.advance(10.0)
    before = len([*service.events()])
    with pytest.raises(
        Conflict, match=f"job {running} is running, so that cpu cannot be changed, but name, lab"
    ):
        service.edit([waiting, running], cpu=0.5)
    with pytest.raises(Refused, match="time_limit_s: job 1 has run for 10 s already"):
        service.edit(running, time_limit_s=5.0)
    with pytest.raises(Refused, match="cpu: The largest machine here has"):
        service.edit(waiting, cpu=64.0)
    with pytest.raises(Refused, match="min_units 9 is more than max_units 4"):
        service.edit(waiting, min_units=9)
    with pytest.raises(Refused, match=f"after: job {waiting} would wait for itself"):
        service.edit(waiting, after=[str(waiting)])
    with pytest.raises(Unknown, match="no job 99"):
        service.edit(waiting, after=["99"])
    with pytest.raises(Unknown, match="no job 99"):
        service.edit(99, name="x")
    assert service.edit(waiting).status == "queued"
    service.finish()
    with pytest.raises(Conflict, match="is finished and cannot be changed any more"):
        service.edit(waiting, name="x")
    assert not [event for event in [*service.events()][before:] if event.kind == "edited"]


def test_jobs_cannot_be_made_to_wait_for_each_other_or_in_vain(service: InMemoryService) -> None:
    failed = service.submit(command=["train"], exit_code=1, work_s=1.0).job_id
    service.advance(2.0)
    submit(service)
    second = submit(service)
    third = submit(service, after=[str(second)])
    with pytest.raises(Refused, match=f"job {second} would wait for itself, by way of others"):
        service.edit(second, after=[str(third)])
    with pytest.raises(Refused, match=f"job {failed} is failed, so that job {second} would wait in vain"):
        service.edit(second, after=[str(failed)])
    service.edit(second, after=[f"{failed}:any"])
    service.finish()
    assert service.job(third).job.status == "finished"


def test_of_a_set_of_trials_only_names_and_priority_change(service: InMemoryService) -> None:
    job = service.submit(command=["trial"], array="1-3", as_one=True).job_id
    with pytest.raises(Conflict, match="is a set of trials, so that estimate_s cannot be changed"):
        service.edit(job, estimate_s=5.0)
    with pytest.raises(Conflict, match=f"is a trial of job {job}, and is changed with it"):
        service.edit(job + 1, name="x")
    assert service.edit(job, name="x").name == "x"
    service.finish()
