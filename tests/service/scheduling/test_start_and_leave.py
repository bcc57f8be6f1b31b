"""A job that starts, and is to make room for another at the same instant."""

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
