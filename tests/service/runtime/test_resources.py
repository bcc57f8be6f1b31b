"""What the service counts besides machines: jobs wait until it is free, in their order. Four cores, worked by hand."""

from __future__ import annotations

from typing import Any

import pytest

from betimes.errors import Refused
from betimes.service.spec.spelling import parse_resources
from betimes.testing import InMemoryService


def submit(service: InMemoryService, work_s: float = 100.0, **resources: int) -> int:
    return service.submit(command=["x"], estimate_s=work_s, resources=resources).job_id


def status(service: InMemoryService, *jobs: int) -> list[str]:
    return [service.job(job).job.status.value for job in jobs]


def why(service: InMemoryService, job: int) -> Any:
    return service.job(job).job.reason


def test_jobs_wait_until_it_is_free_and_are_promised_that() -> None:
    with InMemoryService(resources={"licence": 1}) as service:
        first, second, third = (submit(service, licence=1) for _ in range(3))
        other = submit(service)
        assert status(service, first, second, third, other) == ["running", "blocked", "blocked", "running"]
        assert [service.job(job).job.promised_finish_at for job in (first, second, third)] == [
            100.0,
            200.0,
            300.0,
        ]
        assert (why(service, third).code, why(service, third).text) == (
            "resource",
            f"waits for licence: 1 of 1 taken by job {first}",
        )
        assert service.quote(command=["x"], estimate_s=100.0, resources={"licence": 1}).finish_at == 400.0
        service.advance(150.0)
        assert why(service, third).text == f"waits for licence: 1 of 1 taken by job {second}"
        service.finish()
        assert [service.job(job).job.finished_at for job in (first, second, third)] == [100.0, 200.0, 300.0]


def test_none_overtakes_a_job_that_needs_more() -> None:
    with InMemoryService(resources={"seat": 3, "dongle": 1}) as service:
        first = submit(service, 100.0, seat=2)
        large = submit(service, 100.0, seat=3)
        small, free = submit(service, 10.0, seat=1), submit(service, 10.0, dongle=1)
        assert status(service, first, large, small, free) == ["running", "blocked", "blocked", "running"]
        service.finish()
        assert [service.job(job).job.finished_at for job in (large, small)] == [200.0, 210.0]


def test_what_a_held_or_cancelled_job_had_or_waited_for_goes_to_the_next() -> None:
    with InMemoryService(resources={"licence": 2}) as service:
        first, large, third = (
            submit(service, licence=1),
            submit(service, licence=2),
            submit(service, licence=1),
        )
        assert status(service, first, large, third) == ["running", "blocked", "blocked"]
        service.hold(large)
        assert status(service, first, large, third) == ["running", "held", "running"]
        service.cancel(first)
        service.release(large)
        fourth = submit(service, licence=1)
        service.finish()
        assert service.job(large).job.started_at == 100.0
        assert service.job(fourth).job.started_at == 200.0


def test_a_job_waits_for_another_and_then_for_what_it_needs() -> None:
    with InMemoryService(resources={"licence": 1}) as service:
        first = submit(service, 50.0)
        then = service.submit(
            command=["x"], estimate_s=10.0, resources={"licence": 1}, after=[str(first)]
        ).job_id
        has = submit(service, 100.0, licence=1)
        array = service.submit(command=["x"], estimate_s=10.0, resources={"licence": 1}, array="1-2").job_ids
        service.advance(60.0)
        assert why(service, then).text == f"waits for licence: 1 of 1 taken by job {has}"
        service.finish()
        assert [service.job(job).job.started_at for job in (then, *array)] == [100.0, 110.0, 120.0]


def test_what_is_not_there_is_refused() -> None:
    with InMemoryService(resources={"licence": 2, "seat": 1}) as service:
        with pytest.raises(
            Refused, match="resources: there is no matlab here; the service counts licence=2, seat=1"
        ):
            submit(service, matlab=1)
        with pytest.raises(Refused, match="resources: there are 2 of licence here"):
            submit(service, licence=3)
        with pytest.raises(Refused, match="as_one shares units between its elements"):
            service.submit(command=["x"], array="1-2", as_one=True, resources={"seat": 1})


@pytest.mark.parametrize("text", ["=1", "licence=", "licence=0", "licence=x", "1=1", "a b=1", "licence=1.5"])
def test_a_text_that_names_none(text: str) -> None:
    with pytest.raises(ValueError, match="is not a resource and its number; write licence=2"):
        parse_resources([text])


def test_a_text_that_names_some() -> None:
    assert parse_resources(["licence=2", "matlab"]) == {"licence": 2, "matlab": 1}
    with pytest.raises(ValueError, match="seat is named twice"):
        parse_resources(["seat=2", "seat"])
