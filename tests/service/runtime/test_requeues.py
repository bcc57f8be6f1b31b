"""Jobs that run are stopped by a user, and start again: four cores, jobs in the order of arrival."""

from __future__ import annotations

import pytest

from betimes.errors import Conflict
from betimes.testing import InMemoryService


@pytest.mark.parametrize("policy", ["fifo", "nodes:fifo"])
def test_a_requeued_job_runs_again_and_is_promised_anew(policy: str) -> None:
    with InMemoryService(policy=policy, restart_s=10.0) as service:
        job = service.submit(command=["x"], estimate_s=100.0, grace_s=0.0, min_units=2, max_units=2).job_id
        service.advance(40.0)
        asked = service.requeue(job)
        assert asked.promised_finish_at is None
        service.finish()
        story = service.job(job)
        assert story.job.finished_at == 110.0  # its restart, and the 60 s of its work that are left
        assert story.quote_error_s == 0.0
        assert [run.outcome for run in story.runs] == ["requeued", "exited"]
        assert [event.kind for event in story.events if event.kind in ("stopping", "requeued", "quoted")] == [
            *("quoted", "stopping", "requeued", "quoted")
        ]
        assert [one.made_at for one in service.accuracy(promises=True).promises] == [40.0]


def test_what_cannot_be_requeued_is_refused() -> None:
    with InMemoryService() as service:
        fixed = service.submit(command=["x"], work_s=10.0, min_units=3, max_units=3, requeue=False).job_id
        waits = service.submit(command=["x"], work_s=10.0, min_units=3, max_units=3).job_id
        with pytest.raises(Conflict, match="was submitted with requeue = false"):
            service.requeue(fixed)
        with pytest.raises(Conflict, match=f"job {waits} is queued; only a job that runs can be requeued"):
            service.requeue(waits)
        service.finish()
        with pytest.raises(Conflict, match=f"is finished; `betimes rerun {fixed}` submits it again"):
            service.requeue(fixed)
