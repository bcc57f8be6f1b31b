"""What a job may wait for of another: that it succeeds, ends, fails or starts, or that it is no longer before it."""

from __future__ import annotations

import pytest

from betimes.errors import Refused
from betimes.testing import InMemoryService

ALL = {"min_units": 4, "max_units": 4}


def after(service: InMemoryService, **fields: object) -> int:
    return service.submit(command=["x"], **fields).job_id  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("on", "exit_code", "becomes"),
    [
        ("ok", 0, "finished"),
        ("ok", 3, "cancelled"),
        ("any", 0, "finished"),
        ("any", 3, "finished"),
        ("fail", 0, "cancelled"),
        ("fail", 3, "finished"),
        ("start", 3, "finished"),
    ],
)
def test_what_is_waited_for(on: str, exit_code: int, becomes: str) -> None:
    with InMemoryService() as service:
        first = after(service, work_s=100.0, exit_code=exit_code)
        second = after(service, work_s=1.0, after=[f"{first}:{on}"])
        waits = service.job(second).job
        if on == "start":
            assert waits.status in ("queued", "running", "blocked")
        else:
            assert (waits.status, waits.reason and waits.reason.code) == ("blocked", "dependency")
        service.finish()
        assert service.job(second).job.status == becomes
        started = service.job(second).job.started_at
        if becomes == "finished":
            assert started is not None
            assert (started < 50.0) is (on == "start")
        over = after(service, work_s=1.0, after=[f"{first}:{on}"])  # also of a job that is over already
        service.finish()
        assert service.job(over).job.status == becomes


def test_a_cancelled_job_counts_as_failed() -> None:
    with InMemoryService() as service:
        first = after(service, hold=True)
        mends = after(service, work_s=1.0, after=[f"{first}:fail"])
        begins = after(service, work_s=1.0, after=[f"{first}:start"])
        service.cancel(first)
        service.finish()
        assert [service.job(number).job.status for number in (mends, begins)] == ["finished"] * 2


def test_elements_wait_for_the_same_elements_of_another_array() -> None:
    with InMemoryService() as service:
        first = after(service, work_s=10.0, array="3-5", **ALL)
        second = after(service, work_s=1.0, array="3-5", after=[f"{first}:corr"])
        assert [service.job(second + at).spec.after for at in range(3)] == [
            [f"{first + at}:ok"] for at in range(3)
        ]
        service.cancel(first + 1)
        service.finish()
        states = [service.job(second + at).job.status for at in range(3)]
        assert states == ["finished", "cancelled", "finished"]
        for array in ("3-6", None):
            with pytest.raises(Refused, match="element by element"):
                after(service, array=array, after=[f"{second}:corr"])


def test_a_singleton_starts_when_those_of_its_name_before_it_are_over() -> None:
    with InMemoryService() as service:
        first = after(service, name="chain", work_s=100.0)
        chain = [after(service, name="chain", singleton=True, work_s=10.0) for _ in range(2)]
        other = after(service, name="other", singleton=True, work_s=1.0)
        each = after(service, name="steps", singleton=True, array="0-2", work_s=10.0)
        reason = service.job(chain[1]).job.reason
        assert reason is not None
        assert (reason.code, reason.text) == (
            "dependency",
            f"waits for job {first}, which is called chain too, to end",
        )
        service.edit(chain[0], name="free")
        service.finish()
        starts = {
            number: service.job(number).job.started_at
            for number in (first, *chain, other, each, each + 1, each + 2)
        }
        assert [starts[number] for number in (first, chain[0], other, each)] == [0.0] * 4
        assert (starts[chain[1]], starts[each + 1], starts[each + 2]) == (100.0, 10.0, 20.0)


def test_a_job_that_waits_becomes_a_singleton_and_one_no_more() -> None:
    with InMemoryService() as service:
        first, second, third = (after(service, name="chain", work_s=100.0, **ALL) for _ in range(3))
        busy = after(service, name="busy", work_s=1.0, **ALL)
        service.edit(third, singleton=True, after=[f"{busy}:any"])
        service.edit(second, singleton=True)
        reason = service.job(second).job.reason
        assert reason is not None
        assert reason.text == f"waits for job {first}, which is called chain too, to end"
        service.edit(third, singleton=False, after=[])
        assert service.job(third).job.status == "queued"
        service.finish()
        starts = [service.job(number).job.started_at for number in (first, second, third, busy)]
        assert starts == [0.0, 50.25, 25.25, 25.0]  # without it the second starts at 25.0
