"""How jobs become tasks: worked cases, properties, the public traces, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes.cluster import Cluster, NodeGroup, read_cluster
from betimes.twin.nodes.tasks import tasks_of
from betimes.workload import Workload, read_trace

_DATA = Path(__file__).resolve().parents[4] / "shared" / "data"
NAN = float("nan")


def jobs(
    units: list[int],
    *,
    gpu: float | list[float] = NAN,
    cpu: float | list[float] = NAN,
    memory_gib: float | list[float] = NAN,
    grace_s: float | list[float] = 0.0,
    min_units: int = 1,
) -> Workload:
    return Workload.from_columns(
        submit_s=np.arange(len(units)),
        work_s=10.0,
        min_units=min_units,
        max_units=units,
        gpu=gpu,
        cpu=cpu,
        memory_gib=memory_gib,
        grace_s=grace_s,
    )


def trace(name: str) -> Workload:
    path = _DATA / name
    if not path.is_file():
        pytest.skip(f"the public traces are not here: there is no {path}")
    return read_trace(path)


# --- worked cases --------------------------------------------------------------------------------


def test_processors_on_nodes_of_four_cores() -> None:
    made = tasks_of(jobs([1, 4, 5, 8, 9, 40], cpu=1), Cluster.uniform(10, cpu=4, memory_gib=8))
    assert made.count.tolist() == [1, 1, 2, 2, 3, 10]
    assert made.demand.tolist() == [[0, 1000 * cores, 0] for cores in (1, 4, 3, 4, 3, 4)]
    assert not made.refused.any()
    assert made.reasons == ()


def test_the_roomiest_kind_of_node_sets_the_size_of_a_task() -> None:
    cluster = Cluster("c", (NodeGroup("small", 5, 1, 64, 8), NodeGroup("large", 2, 8, 16, 64)))
    made = tasks_of(jobs([16, 16], gpu=[1, NAN], cpu=[1, 4], memory_gib=[NAN, 0.25]), cluster)
    assert made.count.tolist() == [2, 1]
    assert made.demand.tolist() == [[8000, 8000, 0], [0, 64_000, 4096]]


def test_a_share_of_a_gpu_taken_eight_times_is_a_gpu() -> None:
    made = tasks_of(jobs([3, 8], gpu=[1 / 3, 0.125]), Cluster.uniform(1, gpu=1, cpu=1, memory_gib=1))
    assert made.count.tolist() == [1, 1]
    assert made.demand.tolist() == [[1000, 0, 0], [1000, 0, 0]]


def test_demands_are_rounded_up() -> None:
    made = tasks_of(
        jobs([1], gpu=0.0001, cpu=0.5004, memory_gib=0.3), Cluster.uniform(1, gpu=1, cpu=1, memory_gib=1)
    )
    assert made.demand.tolist() == [[1, 501, 308]]


def test_unknown_demands() -> None:
    unknown = jobs([8, 3])
    assert tasks_of(unknown, Cluster.uniform(2, gpu=4, cpu=64)).demand.tolist() == [
        [4000, 0, 0],
        [3000, 0, 0],
    ]
    assert tasks_of(unknown, Cluster.uniform(2, cpu=4)).demand.tolist() == [[0, 4000, 0], [0, 3000, 0]]
    assert tasks_of(jobs([2], memory_gib=1), Cluster.uniform(2, gpu=4, memory_gib=8)).demand.tolist() == [
        [0, 0, 2048]
    ]


def test_on_a_pool_a_unit_is_a_core() -> None:
    made = tasks_of(jobs([1, 64], gpu=8, cpu=[200, NAN], memory_gib=1e6), Cluster.pool(64))
    assert made.count.tolist() == [1, 1]
    assert made.demand.tolist() == [[0, 1000, 0], [0, 64_000, 0]]
    assert not made.refused.any()


def test_elastic_jobs_run_at_full_width() -> None:
    made = tasks_of(jobs([6], gpu=1, min_units=2), Cluster.uniform(3, gpu=4))
    assert (made.count.tolist(), made.demand.tolist()) == ([2], [[3000, 0, 0]])


def test_no_jobs() -> None:
    made = tasks_of(jobs([]), Cluster.uniform(1, cpu=1))
    assert made.demand.shape == (0, 3)
    assert (len(made.count), len(made.refused), made.reasons) == (0, 0, ())


# --- refusals ------------------------------------------------------------------------------------

REFUSED = [
    (
        jobs([1, 1, 2], gpu=[8, 9, 10]),
        [False, True, True],
        "job 1, field gpu: a unit asks for 9 GPUs, the largest node has 8; 2 such jobs are refused",
    ),
    (
        jobs([1], cpu=32.5),
        [True],
        "job 0, field cpu: a unit asks for 32.5 cores, the largest node has 32; 1 such job is refused",
    ),
    (
        jobs([1], memory_gib=1e300),
        [True],
        "job 0, field memory_gib: a unit asks for 1e+300 GiB, the largest node has 256; 1 such job is refused",
    ),
    (
        jobs([1, 1], gpu=[1, 8], cpu=[16, 16]),
        [False, True],
        "job 1, fields gpu, cpu, memory_gib: a unit asks for 8 GPUs, 16 cores, 0 GiB, no node has all of that; "
        "1 such job is refused",
    ),
    (
        jobs([16, 17, 40], gpu=1),
        [False, True, True],
        "job 1, field max_units: asks for 17 units (3 tasks of 6), the empty cluster holds 2 such tasks; "
        "2 such jobs are refused",
    ),
    (
        jobs([1, 1], grace_s=[600, 600.5]),
        [False, True],
        "job 1, field grace_s: asks for 600.5 s, the cluster allows 600 (grace_limit_s); 1 such job is refused",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("workload", "refused", "reason"), REFUSED)
def test_what_is_refused_and_why(workload: Workload, refused: list[bool], reason: str) -> None:
    groups = (NodeGroup("gpu", 2, 8, 8, 256), NodeGroup("cpu", 3, 1, 32, 64))
    made = tasks_of(workload, Cluster("c", groups, grace_limit_s=600))
    assert made.refused.tolist() == refused
    assert made.reasons == (reason,)


def test_every_kind_of_refusal_has_its_line() -> None:
    made = tasks_of(jobs([1, 1, 65, 1], gpu=[9, 1, 1, 1], grace_s=[0, 7200, 0, 0]), Cluster.uniform(8, gpu=8))
    assert made.refused.tolist() == [True, True, True, False]
    assert [reason.partition(":")[0] for reason in made.reasons] == [
        "job 0, field gpu",
        "job 2, field max_units",
        "job 1, field grace_s",
    ]


def test_a_pool_refuses_what_is_wider() -> None:
    made = tasks_of(jobs([64, 65]), Cluster.pool(64))
    assert made.refused.tolist() == [False, True]
    assert made.reasons == (
        "job 1, field max_units: asks for 65 units, the pool has 64; 1 such job is refused",
    )


# --- properties ----------------------------------------------------------------------------------

AMOUNTS = st.sampled_from([NAN, 0.0, 0.001, 0.125, 1 / 3, 0.5, 1.0, 2.0, 7.7, 40.0, 1e12]) | st.floats(0, 20)
SIZES = st.sampled_from([0.0, 0.5, 1.0, 4.0, 8.0, 10.3, 64.0])


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    amounts = st.tuples(SIZES, SIZES, SIZES).filter(any)
    groups = draw(st.lists(st.tuples(st.integers(1, 4), amounts), min_size=1, max_size=4))
    return Cluster("c", tuple(NodeGroup(f"t{n}", count, *each) for n, (count, each) in enumerate(groups)))


@given(
    cluster=clusters(),
    unit=st.tuples(AMOUNTS, AMOUNTS, AMOUNTS).filter(lambda each: 0 not in each or any(a > 0 for a in each)),
    units=st.integers(1, 100),
)
def test_tasks_fit_and_are_as_few_as_can_be(cluster: Cluster, unit: tuple[float, ...], units: int) -> None:
    made = tasks_of(jobs([units], gpu=unit[0], cpu=unit[1], memory_gib=unit[2]), cluster)
    count, demand = int(made.count[0]), made.demand[0]
    room = [
        min(int(c) // int(d) for c, d in zip(node, demand, strict=True) if d) for node in cluster.capacity
    ]
    assert bool(made.refused[0]) == (sum(room) < count)
    assert len(made.reasons) == int(made.refused[0])
    assert demand.max() > 0
    assert count <= units
    if max(room) == 0:
        assert count == units
        return
    # With one task fewer, some task would hold more units than any node.
    if count > 1:
        wider = tasks_of(
            jobs([-(-units // (count - 1))], gpu=unit[0], cpu=unit[1], memory_gib=unit[2]), cluster
        )
        assert wider.count[0] > 1


# --- public traces -------------------------------------------------------------------------------


def test_a_batch_log_on_nodes_of_four_cores() -> None:
    w = trace("swf/KTH-SP2-1996-2.swf.gz")
    made = tasks_of(w, Cluster.uniform(25, cpu=4, memory_gib=1))
    np.testing.assert_array_equal(made.count, np.ceil(w.max_units / 4))
    assert not made.refused.any()
    on_fewer = tasks_of(w, Cluster.uniform(20, cpu=4, memory_gib=1))
    np.testing.assert_array_equal(on_fewer.refused, w.max_units > 80)
    assert len(on_fewer.reasons) == 1


def test_pods_are_one_task_each() -> None:
    w = trace("gpu/alibaba_openb/openb_pod_list_default.csv.gz")
    cluster = read_cluster(_DATA / "gpu" / "alibaba_openb" / "openb_node_list_all_node.csv.gz")
    made = tasks_of(w, cluster)
    assert (made.count == 1).all()
    assert not made.refused.any()
    for at, column in enumerate((w.gpu, w.cpu)):
        np.testing.assert_array_equal(made.demand[:, at], np.rint(1000 * column * w.max_units))
    np.testing.assert_array_equal(made.demand[:, 2], np.rint(1024 * w.memory_gib * w.max_units))


def test_wide_jobs_of_a_gpu_cluster_span_nodes() -> None:
    w = trace("gpu/philly_pcs/trace_11cb48.csv.gz")
    made = tasks_of(w, Cluster.uniform(8, gpu=8, cpu=64, memory_gib=512))
    assert made.count[w.max_units == 16].tolist() == [2] * 96
    assert made.demand[w.max_units == 16].tolist() == [[8000, 0, 0]] * 96
    assert (made.count[w.max_units == 24] == 3).all()
    assert (made.count[w.max_units <= 8] == 1).all()
    assert not made.refused.any()


def test_a_job_says_how_many_units_stay_together() -> None:
    workload = replace(jobs([8, 8, 8, 8], gpu=1), units_per_task=np.array([0, 1, 2, 8]))
    made = tasks_of(workload, Cluster.uniform(4, gpu=8, cpu=8))
    assert made.count.tolist() == [1, 8, 4, 1]
    assert made.demand[:, 0].tolist() == [8000, 1000, 2000, 8000]
    assert made.reasons == ()


def test_more_units_a_task_than_any_node_holds() -> None:
    workload = replace(jobs([8, 16], gpu=1), units_per_task=np.array([8, 16]))
    made = tasks_of(workload, Cluster.uniform(4, gpu=8, cpu=8))
    assert made.refused.tolist() == [False, True]
    assert made.reasons == (
        "job 1, field units_per_task: a task has 16 units, the largest node holds 8; 1 such job is refused",
    )
