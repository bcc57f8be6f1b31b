"""Tasks of live jobs: where units are placed, what is refused, and what a job of an earlier version keeps."""

from __future__ import annotations

import pytest

from betimes.errors import Refused
from betimes.service.machines.machine import Machine
from betimes.service.scheduling.events import Event
from betimes.service.scheduling.fold import recovered
from betimes.service.spec.job_spec import JobSpec
from tests.service.reliability.cluster import EPOCH_AT, Cluster, machine, spec


def of_gpus(*gpus: float, policy: str = "nodes:fifo") -> Cluster:
    cluster = Cluster(policy, nodes=0)
    for at, count in enumerate(gpus):
        cluster.scheduler.nodes.add(machine(f"g-{at}", 64.0, count), "operator")
    cluster.turn()
    return cluster


def gpus(units: int, work_s: float = 100.0, **asked: object) -> JobSpec:
    rigid = {"min_units": units, "max_units": units}
    return spec(work_s, **{"gpu": 1.0, "cpu": 0.5, **rigid, **asked})


def placed(cluster: Cluster, *specs: JobSpec) -> list[list[tuple[str, int]]]:
    return [cluster.job(number).places for number in cluster.submit(*specs)]


def test_eight_units_go_together_by_default() -> None:
    cluster = of_gpus(8, 8)
    assert placed(cluster, gpus(1), gpus(8)) == [[("g-0", 1)], [("g-1", 8)]]


def test_eight_units_that_are_spread_fill_what_is_free() -> None:
    cluster = of_gpus(8, 8)
    (one, spread) = placed(cluster, gpus(1), gpus(8, units_per_task="spread"))
    assert one == [("g-0", 1)]
    assert sorted(spread) == [("g-0", 7), ("g-1", 1)]


def test_tasks_of_two() -> None:
    cluster = of_gpus(8, 8)
    (_, pairs) = placed(cluster, gpus(1), gpus(8, units_per_task=2))
    assert sorted(pairs) == [("g-0", 6), ("g-1", 2)]


def test_a_task_sets_aside_what_the_fullest_needs() -> None:
    cluster = of_gpus(4, 4, 4)
    (places,) = placed(cluster, gpus(10))
    assert [units for _, units in places] == [4, 3, 3]
    assert [cluster.scheduler.occupancy.free_on(name)[0] for name in cluster.ledger.nodes] == [0, 0, 0]


def test_a_pool_knows_no_tasks() -> None:
    found = []
    for choice in ("pack", "spread", 5):
        cluster = of_gpus(8, 8, policy="fifo")
        found.append(placed(cluster, gpus(6), gpus(10, units_per_task=choice)))
        assert cluster.job(2).units_per_task == 1
    assert found == [[[("g-0", 6)], [("g-0", 2), ("g-1", 8)]]] * 3


@pytest.mark.parametrize(
    ("asked", "field", "said"),
    [
        (
            gpus(16, units_per_task=16),
            "units_per_task",
            "no machine here holds 16 units together; the largest holds 8",
        ),
        (gpus(16), "max_units", "2 tasks of 8 units cannot fit: .* room for 1 in all; .*smaller tasks"),
        (
            gpus(20, units_per_task="spread"),
            "max_units",
            "20 units cannot fit: the cluster has room for 16 in all",
        ),
    ],
    ids=["task", "pack", "spread"],
)
def test_what_never_fits_is_refused(asked: JobSpec, field: str, said: str) -> None:
    cluster = of_gpus(8, 4, 4)
    with pytest.raises(Refused, match=said) as refused:
        cluster.scheduler.admission.submit(asked, "ann")
    assert refused.value.field == field
    assert len(placed(cluster, gpus(16, units_per_task=4))[0]) == 3


def test_jobs_that_wait_are_split_for_the_nodes_that_take_work() -> None:
    cluster = of_gpus(8, 4, 4)
    (running, waiting) = cluster.submit(gpus(8, units_per_task=8), gpus(8))
    assert cluster.job(running).places == [("g-0", 8)]
    assert not cluster.job(waiting).places
    cluster.scheduler.nodes.set_status("g-0", "draining", "user:ann")
    cluster.turn()
    assert sorted(cluster.job(waiting).places) == [("g-1", 4), ("g-2", 4)]
    assert cluster.job(running).places == [("g-0", 8)], "what runs goes on where it is"
    cluster.go_on(1.0)
    cluster.scheduler.nodes.set_status("g-0", "up", "user:ann")
    cluster.turn()
    assert cluster.job(waiting).units_per_task == 4
    cluster.crash()
    assert sorted(cluster.job(waiting).places) == [("g-1", 4), ("g-2", 4)]


def test_a_running_job_of_an_earlier_version_keeps_its_single_units() -> None:
    cluster = of_gpus(8, 8)
    cluster.submit(gpus(1), gpus(8, units_per_task="spread"))
    log = [_as_before(event) for event in cluster.log]
    job = recovered(None, log).jobs[2]
    assert (job.spec.units_per_task, job.units_per_task) == ("pack", 1)
    cluster.log, cluster.folded = log, [recovered(None, log)]
    cluster.rows[2]["spec"].pop("units_per_task")
    cluster.crash()
    assert cluster.scheduler.engine.jobs.tasks_of[2].count == 8
    assert sorted(cluster.job(2).places) == [("g-0", 7), ("g-1", 1)]
    cluster.go_on()
    assert cluster.status(2) == "finished"


def _as_before(event: Event) -> Event:
    """As it was logged when jobs had no choice, and every unit was a task."""
    event.data.pop("units_per_task", None)
    event.data.get("spec", {}).pop("units_per_task", None)
    return event


def test_a_share_of_a_gpu_taken_three_times_is_a_gpu() -> None:
    cluster = of_gpus(1)
    (places,) = placed(cluster, gpus(3, gpu=1 / 3))
    assert places == [("g-0", 3)]
    cluster.crash()
    assert cluster.scheduler.occupancy.free_on("g-0")[0] == 0


def test_a_node_of_a_thousandth_has_it() -> None:
    """1.001 GPUs are a hair less than 1001 thousandths in floating point; nodes and demands round alike."""
    cluster = Cluster("nodes:fifo", nodes=0)
    cluster.scheduler.nodes.add(Machine("n-0", "local", "n", 8.0, 8.0, 1.001), "operator")
    cluster.turn()
    assert cluster.now_at > EPOCH_AT
    assert placed(cluster, gpus(1, gpu=1.001)) == [[("n-0", 1)]]
