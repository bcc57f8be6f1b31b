"""The service in memory that users' own tests are given."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from betimes.client import Client
from betimes.cluster import Cluster
from betimes.errors import Conflict, PolicyError, Refused, ServiceError, Unknown
from betimes.testing import InMemoryService


def test_a_job_takes_its_work_divided_by_its_units() -> None:
    with InMemoryService(Cluster.pool(4)) as service:
        taken = service.submit(command=["x"], max_units=2, estimate_s=50.0, work_s=200.0)
        assert taken.quote is not None
        assert taken.quote.finish_at == 50.0
        assert service.job(taken.job_id).job.status == "running"
        service.advance(99.0)
        assert service.now_s == 99.0
        assert service.job(taken.job_id).job.status == "running"
        service.finish()
        story = service.job(taken.job_id)
        assert (story.job.status, story.job.finished_at, service.now_s) == ("finished", 100.0, 100.0)


def test_jobs_wait_for_each_other_and_can_be_steered() -> None:
    with InMemoryService(Cluster.pool(1)) as service:
        first, second, third = (service.submit(command=["x"], estimate_s=10.0).job_id for _ in range(3))
        service.hold(second)
        service.cancel(first)
        assert [(view.job_id, view.status) for view in service.jobs().items] == [
            (third, "queued"),
            (second, "held"),
            (first, "stopping"),
        ]
        service.release(second)
        service.finish()
        assert [*service.events(job=second, kinds=["held"])]
        assert all(event.job_id == second for event in service.events(job=second))
        assert {view.status for view in service.jobs().items} == {"finished", "cancelled"}
        with pytest.raises(Conflict, match=f"job {first} is cancelled"):
            service.cancel(first)


def test_a_job_exits_as_it_is_to() -> None:
    with InMemoryService() as service:
        job = service.submit(command=["x"], work_s=5.0, exit_code=3).job_id
        service.finish()
        story = service.job(job)
        assert (story.job.status, story.runs[0].exit_code) == ("failed", 3)


def test_what_waits_for_ever_is_named_with_its_reason() -> None:
    with InMemoryService() as service:
        job = service.submit(command=["x"], hold=True).job_id
        with pytest.raises(TimeoutError, match=f"nothing more is due at 0 s: job {job} is held"):
            service.finish()
        service.release(job)
        with pytest.raises(TimeoutError, match=f"10 s have passed at 10 s: job {job} is running"):
            service.finish(limit_s=10.0)
        service.finish()


def test_waiting_lets_time_pass_until_that_job_is_over() -> None:
    with InMemoryService(Cluster.pool(1)) as service:
        first, second = (service.submit(command=["x"], estimate_s=10.0).job_id for _ in range(2))
        assert (service.wait(first).status, service.now_s) == ("finished", 10.0)
        with pytest.raises(TimeoutError, match=f"4 s have passed at 14 s: job {second} is running"):
            service.wait(second, timeout=4.0)
        assert (service.wait(second, timeout=6.0).status, service.now_s) == ("finished", 20.0)
        held = service.submit(command=["x"], hold=True).job_id
        with pytest.raises(TimeoutError, match=f"nothing more is due at 20 s: job {held} is held"):
            service.wait(held, timeout=60.0)
        with pytest.raises(Unknown, match="there is no job 9"):
            service.wait(9)


def test_nothing_can_be_followed_while_time_stands_still() -> None:
    with InMemoryService() as service:
        job = service.submit(command=["x"], estimate_s=10.0).job_id
        for followed in (service.events(follow=True), service.logs(job, follow=True)):
            with pytest.raises(ServiceError, match="time stands still in InMemoryService"):
                next(followed)
        assert [event.kind for event in service.events(job=job)][-1] == "started"


def test_code_that_takes_a_client_may_share_it_among_threads() -> None:
    client: Client
    with InMemoryService() as client, ThreadPoolExecutor(4) as threads:
        jobs = [*threads.map(lambda n: client.submit(command=["x"], estimate_s=n).job_id, range(1, 9))]
        assert sorted(jobs) == [*range(1, 9)]
        assert all(view.status == "finished" for view in threads.map(client.wait, jobs))


def test_errors_are_those_of_the_client() -> None:
    with InMemoryService(Cluster.pool(4)) as service:
        with pytest.raises(Refused, match="64"):
            service.submit(command=["x"], cpu=64.0)
        with pytest.raises(ValueError, match="expected seconds, 0 or more"):
            service.advance(-1.0)


def test_a_directory_is_sent_as_to_a_real_service(tmp_path: Path) -> None:
    (tmp_path / "train.sh").write_text("#!/bin/sh\n")
    (tmp_path / "train.sh").chmod(0o755)
    with InMemoryService() as service:
        sent = service.upload(tmp_path)
        assert (sent.files, sent.sent, service.upload(str(tmp_path)).sent) == (1, True, False)
        job = service.submit(command=["./train.sh"], upload=sent.sha256).job_id
        service.finish()
        assert service.job(job).job.status == "finished"
        with pytest.raises(Refused, match="upload: no directory"):
            service.submit(command=["./train.sh"], upload="0" * 64)
        with pytest.raises(
            Refused, match=r"command: the command '\./test\.sh' is not in the directory that was sent"
        ):
            service.submit(command=["./test.sh"], upload=sent.sha256)


def test_misuse_is_refused_with_what_to_do() -> None:
    service = InMemoryService()
    with pytest.raises(ServiceError, match="has not been started; use it within `with"):
        service.jobs()
    with service:
        pass
    with pytest.raises(ServiceError, match="has ended"):
        service.jobs()
    with pytest.raises(PolicyError), InMemoryService(policy="nonsense"):
        pass

    async def blocks() -> None:
        with InMemoryService():
            pass

    with pytest.raises(ServiceError, match="not `async`"):
        asyncio.run(blocks())
