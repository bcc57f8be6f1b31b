"""What people ask about, worked by hand: each has a promise, and it comes true."""

from __future__ import annotations

import pytest

from betimes.client.models import spec_of
from betimes.service.spec.job_spec import JobSpec
from betimes.testing import InMemoryService


def job(command: str = "x", **fields: object) -> JobSpec:
    return spec_of(None, {"command": [command], "workdir": "/", **fields})


def test_quick_runs_of_the_same_program_say_nothing_of_another_command() -> None:
    with InMemoryService() as service:
        for number in range(2):
            service.submit(command=["python", "-c", f"print({number})"], work_s=0.1)
            service.finish()
        taken = service.submit(command=["python", "train.py"], estimate_s=30.0)
        unknown = service.submit(command=["python", "other.py"], work_s=30.0)
        assert taken.quote is not None
        assert taken.quote.run_s == 30.0
        assert unknown.quote is not None
        assert (unknown.quote.run_s, unknown.quote.basis) == (3600.0, "default")


def test_a_time_limit_is_the_upper_end_of_what_is_believed() -> None:
    with InMemoryService() as service:
        taken = service.submit(job(time_limit_s=600.0), work_s=60.0)
        both = service.submit(job(time_limit_s=600.0, estimate_s=900.0), work_s=60.0)
        for one in (taken, both):
            assert one.quote is not None
            assert (one.quote.finish_at, one.quote.basis) == (600.0, "limit")
        assert both.note is not None
        assert "the limit counts" in both.note


@pytest.mark.parametrize("policy", ["fifo", "easy"])
def test_a_pipeline_of_three_is_promised_an_end_as_a_whole(policy: str) -> None:
    with InMemoryService(policy=policy) as service:
        service.submit(job(estimate_s=50.0, min_units=4, max_units=4))
        numbers: list[int] = []
        for seconds in (100.0, 200.0, 300.0):
            after = [str(numbers[-1])] if numbers else []
            taken = service.submit(job(estimate_s=seconds, after=after))
            numbers.append(taken.job_id)
            assert taken.quote is not None
            assert taken.quote.finish_at == {100.0: 150.0, 200.0: 350.0, 300.0: 650.0}[seconds]
        service.finish()
        for number in numbers:
            story = service.job(number)
            assert story.quote_error_s == 0.0
            assert len(story.quotes) == 1  # and the promise stands when the job queues


def test_a_throttled_array_is_promised_its_last_end() -> None:
    """Twenty elements of 10 s, four at a time."""
    with InMemoryService() as service:
        asked = service.quote(job(array="1-20%4", estimate_s=10.0))
        taken = service.submit(job(array="1-20%4", estimate_s=10.0))
        for quote in (asked, taken.quote):
            assert quote is not None
            assert (quote.finish_at, quote.elements) == (50.0, None)
        service.finish()
        assert service.now_s == 50.0
        found = service.accuracy()
        assert (found.first.promises, found.first.err_p99_frac) == (20, 0.0)


def test_a_set_of_trials_is_promised_an_end() -> None:
    """Eight trials of 10 s on four units."""
    with InMemoryService() as service:
        taken = service.submit(job(array="1-8", as_one=True, estimate_s=10.0))
        assert taken.quote is not None
        assert taken.quote.finish_at == pytest.approx(20.0)
        service.finish()
        assert service.job(taken.job_id).job.finished_at == 20.0


def test_a_job_after_one_that_is_held_has_none_and_says_why() -> None:
    with InMemoryService() as service:
        held = service.submit(job(estimate_s=10.0, hold=True))
        taken = service.submit(job(estimate_s=10.0, after=[str(held.job_id)]))
        assert taken.quote is None
        assert taken.reason is not None
        assert taken.reason.text == f"waits for job {held.job_id} to end"
        service.release(held.job_id)
        service.finish()
        assert service.job(taken.job_id).quotes[-1].finish_at == 20.0
