"""Jobs that start: what they know, and one that is to make room for another at the same instant."""

from __future__ import annotations

from tests.service.reliability.cluster import Cluster, machine, spec


def test_a_job_that_starts_where_another_is_due_is_told_to_leave_at_once() -> None:
    """It was nominated for the room of a victim; when that has left, one of a higher priority waits."""
    cluster = Cluster("lowest-priority", nodes=0)
    cluster.ask("nodes.add", machine("n-0"), "operator")
    cluster.turn()
    cluster.submit(spec(1000.0, cpu=2.0, grace_s=5.0))
    cluster.go_on(1.0)
    [middle] = cluster.submit(spec(1000.0, cpu=2.0, priority=1, grace_s=5.0))
    cluster.go_on(1.0)
    [first] = cluster.submit(spec(10.0, cpu=2.0, priority=2))
    cluster.go_on(4.0)
    assert cluster.story(middle)[-4:] == ["granted", "launched", "stopping", "started"]
    cluster.go_on(20.0)
    assert cluster.status(first) == "finished"
    assert cluster.status(middle) == "running"


def test_elements_of_a_batch_script_know_their_array() -> None:
    cluster = Cluster()
    of_slurm, others = (
        cluster.submit(spec(5.0, array="3-9:3").model_copy(update={"env": env}))
        for env in ({"SLURM_SUBMIT_DIR": "/"}, {})
    )
    assert cluster.job(of_slurm[1]).spec.env == {
        "SLURM_SUBMIT_DIR": "/",
        "SLURM_ARRAY_TASK_COUNT": "3",
        "SLURM_ARRAY_TASK_MIN": "3",
        "SLURM_ARRAY_TASK_MAX": "9",
        "SLURM_ARRAY_TASK_STEP": "3",
    }
    assert cluster.job(others[1]).spec.env == {}
