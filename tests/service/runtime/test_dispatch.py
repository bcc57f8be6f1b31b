"""Every command is carried out by a part of the scheduler, or of what stands beside it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any
from unittest.mock import MagicMock

import pytest

from betimes.errors import Conflict
from betimes.service.runtime.commands import CancelJobs, Command, ExpireLease, HoldJobs, RentNodes, SubmitJobs
from betimes.service.runtime.dispatch import carry_out
from betimes.service.spec.job_spec import JobSpec
from tests.service.reliability.cluster import Cluster, spec


@pytest.mark.parametrize("kind", Command.__subclasses__(), ids=lambda kind: kind.__name__)
def test_each_command_is_known(kind: type[Command[Any]]) -> None:
    command = kind(**{field.name: MagicMock() for field in fields(kind)})  # type: ignore[arg-type]
    carry_out(command, MagicMock(), MagicMock())  # or it raises TypeError


def test_another_is_refused() -> None:
    @dataclass(frozen=True)
    class Unheard(Command[None]):
        pass

    with pytest.raises(TypeError, match="Unheard"):
        carry_out(Unheard(), MagicMock(), None)


def test_nothing_is_rented_where_there_is_no_cloud() -> None:
    with pytest.raises(TypeError, match="without a cloud"):
        carry_out(RentNodes("m5", 1, "user:ann"), Cluster().scheduler, None)


def test_jobs_that_name_each_other_are_taken_together() -> None:
    cluster = Cluster()
    first = JobSpec(command=["x"], name="first")
    specs = (first, first, JobSpec(command=["y"], name="second", after=["first"]))
    assert carry_out(SubmitJobs(specs, "ann"), cluster.scheduler, None) == [[1], [2], [3]]
    assert cluster.job(3).spec.after == ["1:ok", "2:ok"]


def test_all_jobs_or_none_unless_where_possible() -> None:
    cluster = Cluster(nodes=1)
    runs, waits = cluster.submit(spec(cpu=2.0), spec(cpu=2.0))
    with pytest.raises(Conflict, match=f"job {runs} is running"):
        carry_out(HoldJobs((waits, runs), "ann"), cluster.scheduler, None)
    assert cluster.status(waits) == "queued"
    held = carry_out(HoldJobs((waits, runs), "ann", where_possible=True), cluster.scheduler, None)
    assert held == [waits]
    assert cluster.status(waits) == "held"
    assert carry_out(CancelJobs((), "ann"), cluster.scheduler, None) == []


def test_a_lease_that_is_over_loses_a_node_once() -> None:
    cluster = Cluster(nodes=2)
    for _ in range(2):
        carry_out(ExpireLease("n-0"), cluster.scheduler, None)
    cluster.turn()
    assert [event.data["status"] for event in cluster.log if event.kind == "node-status"] == ["lost"]
