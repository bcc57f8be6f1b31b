"""A picture as a state: what runs is pinned where it runs, what waits keeps Slurm's order, the rest is named."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import betimes
from betimes.errors import SlurmError
from betimes.slurm.machines import Machines, Partition, SlurmNode
from betimes.slurm.picture import Picture
from betimes.slurm.queue import CLEANS_UP_S, NO_LIMIT_S, POLICY, queue_of
from tests.slurm.recording import job, machines, picture, row

NOW_AT = 10_000.0


def cluster(**partitions: dict[str, Any]) -> Machines:
    """Four nodes of 8 CPUs, of which `short` has the first two."""
    names = [f"n{number}" for number in range(1, 5)]
    default = Partition("batch", frozenset(names), True, float("inf"), float("nan"), 1, False, False, False)
    short = replace(default, name="short", nodes=frozenset(names[:2]), limit_s=3600.0, tier=2)
    known = {each.name: replace(each, **partitions.get(each.name, {})) for each in (default, short)}
    return Machines({name: SlurmNode(name, 8, True, "IDLE") for name in names}, known, {})


def seen(*rows: str) -> Picture:
    return Picture(NOW_AT, {each.id: each for each in map(job, rows)})


def running(**fields: object) -> str:
    return row(**({"state": "RUNNING", "start": 9_000, "hosts": "n1"} | fields))


def test_the_recorded_picture() -> None:
    queue = queue_of(picture(), machines())
    held = {each.job_id: sorted(each.nodes.values()) for each in queue.state.running}
    assert held == {"1": [4, 4], "2": [4], "3": [2, 3], "9_1": [4]}
    assert queue.state.waiting == ["5", "4", "13"]  # 5 may go into `short`, whose tier is higher
    assert [*queue.unforeseen] == ["7", "9_2", "9_3"]
    assert queue.dependencies.in_words == {"8": "it waits for job 1 to end"}
    widths = dict(zip(queue.workload.job_id.tolist(), queue.workload.max_units.tolist(), strict=True))
    assert widths["4"] == 16  # four whole nodes
    assert len(queue.state.closed) == 1


def test_all_that_is_in_the_state_is_promised_and_what_runs_is_pinned() -> None:
    now = picture()
    queue = queue_of(now, machines())
    promises = betimes.Learned().promise(queue.workload, POLICY, cluster=queue.cluster, state=queue.state)
    assert {each.job_id for each in promises} == {"1", "2", "3", "9_1", "5", "4", "13"}
    for each in promises:
        assert each.is_running == (now.jobs[each.job_id].state == "RUNNING")
        assert each.finish_s > each.start_s
        assert each.start_s == now.jobs[each.job_id].start_at if each.is_running else each.start_s >= now.at


def test_partitions_overlap() -> None:
    rows = [
        running(id=1, cpus=16, nodes=2, hosts="n[1-2]", limit="1:00:00"),
        row(id=2, cpus=8, partition="short"),
        row(id=3, cpus=8),
    ]
    queue = queue_of(seen(*rows), cluster())
    found = betimes.simulate(queue.workload, POLICY, cluster=queue.cluster, state=queue.state).jobs
    starts = dict(zip(map(str, queue.workload.job_id.tolist()), found.start_s.tolist(), strict=True))
    assert starts == {"1": 9_000.0, "2": 12_600.0, "3": NOW_AT}  # 2 waits for the nodes of its partition


@pytest.mark.parametrize("by", ["job", "partition", "select"])
def test_whole_nodes(by: str) -> None:
    known = cluster(**({"batch": {"is_exclusive": True}} if by == "partition" else {}))
    known = replace(known, settings={"SelectType": "select/linear"}) if by == "select" else known
    waiting = row(id=1, cpus=2, nodes=2, sharing="NO" if by == "job" else "OK")
    queue = queue_of(seen(waiting), known)
    assert queue.workload.max_units.tolist() == [16]
    assert queue.workload.units_per_task.tolist() == [8]


@pytest.mark.parametrize(
    ("fields", "planned_s"),
    [({"limit": "UNLIMITED"}, NO_LIMIT_S), ({"limit": "NOT_SET"}, NO_LIMIT_S),
     ({"limit": "NOT_SET", "partition": "short"}, 3600.0),
     ({"limit": "10:00"}, 600.0)],
)  # fmt: skip
def test_limits_with_which_slurm_plans(fields: dict[str, object], planned_s: float) -> None:
    assert queue_of(seen(row(**fields)), cluster()).planned == {"1": planned_s}


def test_what_completes_ends_soon_and_what_is_suspended_holds_nothing() -> None:
    rows = [running(id=1, state="COMPLETING"), running(id=2, state="SUSPENDED", cpus=8)]
    queue = queue_of(seen(*rows), cluster())
    [completing] = queue.state.running
    assert completing.left_s == CLEANS_UP_S
    assert queue.unforeseen == {"2": "it is suspended"}


def test_jobs_that_share_cpus_or_run_on_unknown_nodes_are_named() -> None:
    rows = [running(id=1, cpus=8), running(id=2, cpus=8, start=9_001), running(id=3, hosts="m1")]
    queue = queue_of(seen(*rows), cluster())
    assert [each.job_id for each in queue.state.running] == ["1"]
    assert "shares" in queue.unforeseen["2"]
    assert "not shown" in queue.unforeseen["3"]


@pytest.mark.parametrize(
    ("fields", "partitions", "why"),
    [({"partition": "other"}, {}, "its partition is not shown"), ({}, {"batch": {"nodes": frozenset()}}, "no nodes"),
     ({}, {"batch": {"preempts": True}}, "preempted")],
)  # fmt: skip
def test_what_the_machines_tell_of_a_job(
    fields: dict[str, object], partitions: dict[str, Any], why: str
) -> None:
    queue = queue_of(seen(row(**fields)), cluster(**partitions))
    assert why in queue.unforeseen["1"]
    assert queue.state.waiting == []


def test_a_cluster_without_a_cpu_is_refused() -> None:
    with pytest.raises(SlurmError, match="no node with a CPU"):
        queue_of(seen(), Machines({}, {}, {}))


def test_more_sets_of_partitions_than_labels() -> None:
    known = cluster()
    names = [f"n{number}" for number in range(70)]
    nodes = {name: SlurmNode(name, 8, True, "IDLE") for name in names}
    batch = known.partitions["batch"]
    partitions = {
        f"p{at}": replace(batch, name=f"p{at}", nodes=frozenset([name])) for at, name in enumerate(names)
    }
    queue = queue_of(
        seen(*(row(id=1 + at, partition=f"p{at}") for at in range(70))), Machines(nodes, partitions, {})
    )
    assert len(queue.state.waiting) == 62
    assert len(queue.unforeseen) == 8


STATES = ["PENDING", "RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED"]
ROWS = st.lists(
    st.builds(
        lambda state, **fields: row(**fields) if state == "PENDING" else running(state=state, **fields),
        state=st.sampled_from(STATES),
        cpus=st.integers(1, 40),
        nodes=st.integers(1, 5),
        start=st.integers(1, 20_000),
        hosts=st.sampled_from(["n1", "n[1-2]", "n[2-4]", "n[1-9]", "m1"]),
    ),
    max_size=12,
)


@given(ROWS)
def test_any_picture_is_a_state(rows: list[str]) -> None:
    now = Picture(NOW_AT, {str(at): replace(job(text), id=str(at)) for at, text in enumerate(rows)})
    queue = queue_of(now, cluster())
    assert len(queue.state.rows(queue.workload)) == len(queue.workload)
    assert {*map(str, queue.workload.job_id.tolist())} | {*queue.unforeseen} == {*now.jobs}
    used = dict.fromkeys(queue.cluster.node_names, 0)
    for each in queue.state.running:
        for node, cpus in each.nodes.items():
            used[node] += cpus
    assert max(used.values()) <= 8
