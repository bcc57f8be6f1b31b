"""What jobs used, of the cluster and of what they asked for: worked by hand."""

from __future__ import annotations

from typing import Any

import pytest

from betimes.cluster import Cluster
from betimes.cluster.cluster import NodeGroup
from betimes.errors import Refused
from betimes.service.runtime.usage import efficiency_view
from betimes.service.spec.job_spec import JobSpec
from betimes.service.views.models import UsageFigures
from betimes.testing import InMemoryService

HOUR_S = 3600.0
PRICED = Cluster("priced", groups=(NodeGroup("big", 1, 2.0, 8.0, 64.0, usd_per_h=4.0),))


def submit(service: InMemoryService, hours: float, units: int = 1, **fields: Any) -> int:
    asked = {"min_units": units, "max_units": units, **fields}
    return service.submit(command=["x"], work_s=hours * units * HOUR_S, **asked).job_id


def test_hours_and_waits_of_a_period() -> None:
    with InMemoryService() as service:
        submit(service, 2.0, units=2, name="a", cpu=1.0, labels={"team": "red", "run": "1"})
        submit(service, 1.0, units=2, name="b", labels={"team": "red"})
        submit(service, 3.0, units=2, name="b")  # waits until the second is over, 1 h, and goes on to 4 h
        service.advance(3.0 * HOUR_S)
        whole = service.usage(by="name")
        assert whole.total == UsageFigures(
            jobs=3, unit_h=10.0, core_h=10.0, gpu_h=0.0, cost_usd=None, mean_wait_s=HOUR_S / 3
        )
        assert {one.name: (one.figures.jobs, one.figures.unit_h) for one in whole.groups} == {
            "b": (2, 6.0),
            "a": (1, 4.0),
        }
        assert [one.name for one in whole.groups] == ["b", "a"]
        last = service.usage(since_s=1.5 * HOUR_S, until_s=0.5 * HOUR_S, by="label")
        # From 1.5 h to 2.5 h: half an hour of the first, all of the third, which had begun before.
        assert (last.total.jobs, last.total.unit_h, last.total.mean_wait_s) == (2, 3.0, None)
        assert {one.name: one.figures.unit_h for one in last.groups} == {"team=red": 1.0, "run=1": 1.0}
        assert [one.name for one in service.usage(by="user").groups] == ["tester"]
        with pytest.raises(Refused, match="ends before it begins"):
            service.usage(since_s=1.0, until_s=2.0)


def test_cores_gpus_and_money() -> None:
    with InMemoryService(PRICED, policy="nodes:fifo") as service:
        submit(service, 2.0, units=2, cpu=3.0, gpu=1.0)
        submit(service, 1.0, cpu=1.0, memory_gib=32.0)
        service.finish()
        # A unit of the first takes half of the GPUs, the second job half of the memory: $2 an hour each.
        assert service.usage().total == UsageFigures(
            jobs=2, unit_h=5.0, core_h=13.0, gpu_h=4.0, cost_usd=10.0, mean_wait_s=0.0
        )


def row(job: int = 1, run_s: float = 100.0, **fields: Any) -> dict[str, Any]:
    spec = JobSpec(command=["x"], **fields.pop("spec", {}))
    found = {
        "job_id": job,
        "number": 1,
        "units": 1,
        "started_at": 50.0,
        "ended_at": 50.0 + run_s,
        "stood_s": None,
        "outcome": "exited",
    }
    return {**found, "cpu_s": None, "max_rss_gib": None, "spec": spec.model_dump(mode="json"), **fields}


@pytest.mark.parametrize(
    ("rows", "advice"),
    [
        pytest.param([row(cpu_s=95.0, max_rss_gib=1.0)], [], id="one core, and no memory asked for"),
        pytest.param([row(cpu_s=150.0, spec={"cpu": 8.0})], ["--cpu 2"], id="1.5 of 8 cores"),
        pytest.param([row(cpu_s=150.0, units=8)], ["--units 2"], id="1.5 of 8 units of a core"),
        pytest.param([row(cpu_s=700.0, spec={"cpu": 8.0})], [], id="most of its cores"),
        pytest.param(
            [row(max_rss_gib=3.0, spec={"memory_gib": 16.0})], ["--memory 3.75GiB"], id="3 of 16 GiB"
        ),
        pytest.param(
            [row(max_rss_gib=4.0, outcome="out-of-memory", spec={"memory_gib": 4.0})],
            ["--memory 8GiB"],
            id="too little",
        ),
        pytest.param(
            [row(run_s=600.0, spec={"time_limit_s": 7200.0})], ["--time-limit 15m"], id="10 min of 2 h"
        ),
        pytest.param([row(run_s=5.0, spec={"time_limit_s": 60.0})], [], id="no limit of less than a minute"),
        pytest.param(
            [row(cpu_s=20.0, spec={"cpu": 4.0}), row(2, cpu_s=250.0, spec={"cpu": 4.0})],
            ["--cpu 3"],
            id="the most of all",
        ),
    ],
)
def test_what_to_ask_for_next_time(rows: list[dict[str, Any]], advice: list[str]) -> None:
    assert efficiency_view(1, rows).advice == advice


def test_an_array_in_total_and_what_is_not_recorded() -> None:
    spec = {"cpu": 2.0, "gpu": 1.0, "memory_gib": 4.0}
    rows = [
        row(1, cpu_s=150.0, max_rss_gib=3.5, spec=spec),
        row(2, run_s=150.0, stood_s=50.0, spec=spec),  # suspended for a third of the time
        row(3, ended_at=None, spec=spec),
    ]
    found = efficiency_view(1, rows)
    assert (found.jobs, found.runs, found.run_s, found.gpu_asked_s) == (3, 2, 200.0, 200.0)
    assert (found.core_used_s, found.core_asked_s) == (150.0, 200.0)
    assert (found.memory_used_gib, found.memory_asked_gib) == (3.5, 4.0)
    assert found.notes == [
        "1 of 2 runs have no record of what they used: they ended at once, or their machines are made up, or were lost",
        "1 run goes on, and counts once it has ended",
        "the use of GPUs is not recorded",
    ]
    assert efficiency_view(1, []).notes == ["it has not run yet"]


def test_what_a_lost_run_did_is_not_what_its_job_used() -> None:
    spec = {"gpu": 1.0, "time_limit_s": 7200.0}
    lost = row(run_s=3000.0, outcome="node-lost", spec=spec)
    found = efficiency_view(1, [lost, row(run_s=600.0, number=2, cpu_s=590.0, spec=spec)])
    assert (found.runs, found.run_s, found.gpu_asked_s, found.longest_run_s) == (1, 600.0, 600.0, 600.0)
    assert found.advice == ["--time-limit 15m"]
    assert (
        found.notes[0] == "1 run of 50 min lost with the machine, and left out: what was done is done again"
    )
