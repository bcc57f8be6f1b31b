"""The worked cases of FitGpp's specification (B.9), in minutes, on nodes of 8 GPUs, 32 cores and 256 GiB."""

from __future__ import annotations

import numpy as np
import pytest

from betimes import Workload
from betimes.cluster import Cluster, NodeGroup
from betimes.foresight.nodes.simulate import simulate_nodes
from betimes.outcome import Result

BE, TE = 0, 1
MINUTE_S = 60.0

Row = tuple[int, float, float, float, float]  # class, GPUs, run time, submission, grace period

ONE_BLOCKED: list[Row] = [(BE, 6, 10, 0, 0), (BE, 4, 10, 1, 0), (TE, 2, 5, 2, 0)]
ONE_VICTIM: list[Row] = [(BE, 8, 60, 0, 3), (TE, 4, 5, 10, 0), (TE, 4, 5, 20, 0)]
TWO_TRIALS: list[Row] = [(BE, 4, 60, 0, 3), (BE, 4, 60, 0, 1), (TE, 4, 5, 10, 0), (TE, 4, 5, 10, 0)]
TWO_NODES: list[Row] = [
    (BE, 4, 100, 0, 2),
    (BE, 4, 20, 0, 2),
    (BE, 4, 90, 0, 2),
    (BE, 4, 80, 0, 2),
    (TE, 8, 5, 10, 0),
]


def workload_of(rows: list[Row]) -> Workload:
    columns = np.array(rows, dtype=float)
    return Workload.from_columns(
        submit_s=columns[:, 3] * MINUTE_S,
        work_s=columns[:, 2] * MINUTE_S,
        qos=columns[:, 0].astype(int),
        gpu=columns[:, 1],
        cpu=1.0,
        memory_gib=1.0,
        grace_s=columns[:, 4] * MINUTE_S,
    )


def run(rows: list[Row], policy: str, nodes: int = 1) -> Result:
    cluster = Cluster.uniform(nodes, gpu=8, cpu=32, memory_gib=256)
    return simulate_nodes(workload_of(rows), policy, cluster=cluster)


def slowdowns(result: Result) -> list[float]:
    jobs = result.jobs
    return ((jobs.finish_s - jobs.submit_s) / jobs.run_alone_s).tolist()


@pytest.mark.parametrize(
    ("rows", "policy", "nodes", "starts", "finishes", "slowdown"),
    [
        (ONE_BLOCKED, "fifo", 1, [0, 10, 10], [10, 20, 15], [1, 1.9, 2.6]),
        (ONE_BLOCKED, "fitgpp:trim=false", 1, [0, 10, 2], [10, 20, 7], [1, 1.9, 1]),
        (ONE_VICTIM, "fifo", 1, [0, 60, 60], [60, 65, 65], [1, 11, 9]),
        (ONE_VICTIM, "fitgpp:trim=false", 1, [0, 13, 68], [68, 18, 73], [1 + 8 / 60, 1.6, 10.6]),
        (ONE_VICTIM, "fitgpp:P=2,trim=false", 1, [0, 13, 23], [76, 18, 28], [1 + 16 / 60, 1.6, 1.6]),
        (TWO_TRIALS, "fitgpp:trim=false", 1, [0, 0, 11, 13], [66, 68, 16, 18], [1.1, 1 + 8 / 60, 1.2, 1.6]),
        (TWO_TRIALS, "lrtp:trim=false", 1, [0, 0, 13, 11], [66, 68, 18, 16], [1.1, 1 + 8 / 60, 1.6, 1.2]),
        (TWO_NODES, "fifo", 2, [0, 0, 0, 0, 90], [100, 20, 90, 80, 95], [1, 1, 1, 1, 17]),
        (
            TWO_NODES,
            "lrtp:trim=false",
            2,
            [0, 0, 0, 0, 12],
            [102, 20, 97, 87, 17],
            [1.02, 1, 97 / 90, 87 / 80, 1.4],
        ),
        (
            TWO_NODES,
            "fitgpp:fallback=none,trim=false",
            2,
            [0, 0, 0, 0, 22],
            [107, 20, 90, 80, 27],
            [1.07, 1, 1, 1, 3.4],
        ),
    ],
)
def test_as_worked_by_hand(
    rows: list[Row],
    policy: str,
    nodes: int,
    starts: list[float],
    finishes: list[float],
    slowdown: list[float],
) -> None:
    result = run(rows, policy, nodes)
    assert (result.jobs.start_s / MINUTE_S).tolist() == starts
    assert (result.jobs.finish_s / MINUTE_S).tolist() == finishes
    assert slowdowns(result) == pytest.approx(slowdown, abs=1e-12)


def test_trimmed_plans_leave_alone_who_cannot_help() -> None:
    """Of LRTP's three victims the first is on the other node: trimmed, it runs on."""
    result = run(TWO_NODES, "lrtp", 2)
    assert result.jobs.preemptions.tolist() == [0, 0, 1, 1, 0]
    assert (result.jobs.finish_s / MINUTE_S).tolist() == [100, 20, 97, 87, 17]


@pytest.mark.parametrize(
    ("weight", "victim", "beside_c"),
    [(0, "A", "C"), (0.5, "A", "A"), (1, "A", "A"), (4, "A", "A")],
)
def test_scores_name_the_victim(weight: float, victim: str, beside_c: str) -> None:
    """B3: four best-effort jobs on nodes of their own; blockers leave only the room that the case has."""
    assert scored_victim(weight, free_beside_c=False) == victim
    assert scored_victim(weight, free_beside_c=True) == beside_c


def test_size_is_relative_to_the_node_that_a_job_is_on() -> None:
    """4 of 16 GPUs are smaller than 3 of 4, though they are more GPUs; trial jobs fill the rest of both nodes."""
    workload = Workload.from_columns(
        submit_s=[0.0, 1.0, 2.0, 3.0, 10.0],
        work_s=1e3,
        qos=[BE, TE, BE, TE, TE],
        gpu=[4.0, 12.0, 3.0, 1.0, 3.0],
    )
    unlike = Cluster("unlike", (NodeGroup("large", 1, 16, 64, 64), NodeGroup("small", 1, 4, 64, 64)))
    result = simulate_nodes(workload, "fitgpp:s=0,placement=first", cluster=unlike)
    assert result.jobs.preemptions.tolist() == [1, 0, 0, 0, 0]


def scored_victim(weight: float, *, free_beside_c: bool) -> str:
    """Who makes room for a trial job of 8 cores, 64 GiB and 2 GPUs."""
    names = "ABCE"
    demand = np.array([[8, 64, 2], [16, 128, 4], [4, 32, 1], [8, 64, 4]], dtype=float)  # cores, GiB, GPUs
    rest = np.array([32, 256, 8]) - demand
    if free_beside_c:
        rest[2] -= [4, 32, 1]
    # Trial jobs take what is not to be free: nobody preempts them, and in the order given all fit as meant.
    everybody = np.vstack([np.stack([demand, rest], axis=1).reshape(-1, 3), [[8, 64, 2]]])
    workload = Workload.from_columns(
        submit_s=[float(at) for at in range(8)] + [100.0],
        work_s=1e5,
        qos=[BE, TE] * 4 + [TE],
        cpu=everybody[:, 0],
        memory_gib=everybody[:, 1],
        gpu=everybody[:, 2],
        grace_s=[120.0, 0, 60, 0, 600, 0, 300, 0, 0],
    )
    result = simulate_nodes(
        workload,
        f"fitgpp:s={weight},fallback=none,trim=false,placement=first",
        cluster=Cluster.uniform(4, gpu=8, cpu=32, memory_gib=256),
    )
    (taken,) = np.flatnonzero(result.jobs.preemptions).tolist()
    return names[taken // 2]
