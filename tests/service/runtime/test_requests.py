"""What requests do with the state, and when they are refused."""

from __future__ import annotations

import pytest

from betimes.errors import Conflict
from betimes.service.runtime.requests import expire_lease, steer, submit
from betimes.service.spec.job_spec import JobSpec
from tests.service.reliability.cluster import Cluster, spec


def test_jobs_that_name_each_other_are_taken_together() -> None:
    cluster = Cluster()
    first = JobSpec(command=["x"], name="first")
    specs = [first, first, JobSpec(command=["y"], name="second", after=["first"])]
    assert submit(cluster.scheduler, specs, "ann") == [[1], [2], [3]]
    assert cluster.job(3).spec.after == ["1:ok", "2:ok"]


def test_all_jobs_or_none_unless_where_possible() -> None:
    cluster = Cluster(nodes=1)
    runs, waits = cluster.submit(spec(cpu=2.0), spec(cpu=2.0))
    with pytest.raises(Conflict, match=f"job {runs} is running"):
        steer(cluster.scheduler, "hold", [waits, runs], "ann")
    assert cluster.status(waits) == "queued"
    held = steer(cluster.scheduler, "hold", [waits, runs], "ann", where_possible=True)
    assert held == [waits]
    assert cluster.status(waits) == "held"
    assert steer(cluster.scheduler, "cancel", [], "ann") == []


def test_a_lease_that_is_over_loses_a_node_once() -> None:
    cluster = Cluster(nodes=2)
    for _ in range(2):
        expire_lease(cluster.scheduler, "n-0")
    cluster.turn()
    assert [event.data["status"] for event in cluster.log if event.kind == "node-status"] == ["lost"]
