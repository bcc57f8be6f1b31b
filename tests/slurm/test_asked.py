"""Jobs that are asked about as rows of squeue: where a new one stands, what another request makes of one."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

import pytest

from betimes.errors import Refused
from betimes.slurm.asked import Request, changed, new_job
from betimes.slurm.machines import Machines
from tests.slurm.recording import job, row
from tests.slurm.test_queue import NOW_AT, cluster, running, seen


def _machines() -> Machines:
    return cluster(batch={"is_default": True})


def test_a_new_job_is_the_last_of_its_partition() -> None:
    rows = [
        row(id="7_3", priority=50),
        row(id=5, priority=9, partition="short"),
        row(id=6, priority=0, reason="JobHeldUser"),
        running(id=4, priority=1),
    ]
    found = new_job(Request(cpus=12, user="ann", name="x"), seen(*rows), _machines())
    assert (found.id, found.priority, found.partitions, found.nodes) == ("8", 50.0, ("batch",), 2)
    assert (found.submit_at, found.waits, found.why_unforeseen) == (NOW_AT, True, None)
    assert new_job(Request(1, partitions=("short",)), seen(*rows), _machines()).priority == 9.0
    assert new_job(Request(1, partitions=("short", "batch")), seen(*rows), _machines()).priority == 9.0
    assert new_job(Request(1), seen(), _machines()).id == "1"
    assert new_job(Request(1), seen(row(id="7+2")), _machines()).id == "10"


@pytest.mark.parametrize(
    ("request_", "field", "words"),
    [(Request(1, partitions=("long",)), "partition", "no partition long; there are: batch, short"),
     (Request(1, limit_s=7200.0, partitions=("short",)), "time_limit_s", "60 min at most, and the job asks for 2 h"),
     (Request(1, limit_s=math.inf, partitions=("short",)), "time_limit_s", "has no limit"),
     (Request(3, nodes=3, partitions=("short",)), "nodes", "has 2 nodes, and the job asks for 3"),
     (Request(17, nodes=2, partitions=("short",)), "units", "2 nodes have 16 CPUs in partition short"),
     (Request(9, nodes=1), "units", "the largest node has 8 CPUs")],
)  # fmt: skip
def test_what_no_partition_takes_is_refused(request_: Request, field: str, words: str) -> None:
    with pytest.raises(Refused, match=words) as refused:
        new_job(request_, seen(), _machines())
    assert refused.value.field == field


def test_where_no_partition_is_the_default_one_is_to_be_named() -> None:
    with pytest.raises(Refused, match="name one"):
        new_job(Request(1), seen(), cluster())


def test_of_several_partitions_those_count_that_take_it() -> None:
    found = new_job(Request(1, limit_s=7200.0, partitions=("short", "batch")), seen(), _machines())
    assert found.partitions == ("batch",)


@pytest.mark.parametrize(
    ("given", "cpus", "nodes"),
    [({"nodes": 4}, 12, 4), ({"nodes": 1}, 3, 1), ({"cpus": 20}, 20, 3), ({"cpus": 4, "nodes": 2}, 4, 2),
     ({"limit_s": 60.0}, 5, 2), ({"partitions": ("short",)}, 5, 2)],
)  # fmt: skip
def test_another_request(given: dict[str, Any], cpus: int, nodes: int) -> None:
    before = job(row(id=7, cpus=5, nodes=2))
    found = changed(before, _machines(), **given)
    assert (found.cpus, found.nodes) == (cpus, nodes)
    kept = {field.name for field in fields(before)} - {"cpus", "nodes", "limit_s", "partitions"}
    assert [str(getattr(found, name)) for name in kept] == [str(getattr(before, name)) for name in kept]
    assert found.limit_s == given.get("limit_s", 3600.0)
    assert found.partitions == given.get("partitions", ("batch",))


def test_of_a_job_that_runs_another_limit_can_be_asked_about() -> None:
    before = job(running(id=7, cpus=5))
    assert changed(before, _machines(), limit_s=60.0).limit_s == 60.0
    with pytest.raises(Refused, match="runs; of such a job only another time limit"):
        changed(before, _machines(), nodes=2)
