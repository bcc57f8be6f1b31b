"""Jobs that require labels in the twin: no task is ever on a machine without them, owned or rented."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from betimes import simulate
from betimes.cluster import Cluster, NodeGroup, Offer
from betimes.cluster.labels import MOST_REQUIRED, Labels, parse_labels, suits
from betimes.errors import InputError
from betimes.outcome import JobState
from betimes.policies import parse_nodes_policy
from betimes.twin.nodes.simulation import NodesSimulation
from betimes.twin.nodes.streaming import StreamedSimulation
from betimes.twin.nodes.tasks import requirements_of, tasks_of, tasks_on_owned_first
from betimes.twin.options import SimulationOptions
from betimes.workload import Workload
from tests.core.nodes.invariants import check
from tests.twin.nodes.driving import step_through

ON_OWNED = ("fifo", "skip-over", "easy", "conservative", "fitgpp", "rand:trim=false", "sjf")
ALONE = ("njw", "sww:b=20,waits=none", "compound:t=5,b=20,waits=none,lengths=speculate")
AT_TICKS = ("oda:tick=5", "odb:tick=5,order=unicef", "odx:tick=5", "ode:tick=5", "odm:tick=5")
ZONES: tuple[Labels, ...] = ((), (("zone", "a"),), (("zone", "b"),), (("kind", "fast"), ("zone", "b")))
WANTED = ("", "", "zone=a", "zone=b", "kind=fast", "zone=b,kind=fast", "zone=c")

zones = st.lists(st.sampled_from(ZONES), min_size=4, max_size=4)


@st.composite
def workloads(draw: Any) -> Workload:
    """Jobs of one to four cores at full width, up to two tasks of two units, in a short time."""
    count = draw(st.integers(2, 12))
    units = draw(st.lists(st.sampled_from([1, 1, 2, 4]), min_size=count, max_size=count))
    return Workload.from_columns(
        submit_s=np.cumsum(draw(st.lists(st.integers(0, 6), min_size=count, max_size=count))).astype(float),
        work_s=[each * draw(st.integers(1, 40)) for each in units],
        min_units=units,
        max_units=units,
        cpu=1.0,
        qos=draw(st.lists(st.integers(0, 1), min_size=count, max_size=count)),
        require=draw(st.lists(st.sampled_from(WANTED), min_size=count, max_size=count)),
    )


def cluster_of(has: list[Labels]) -> Cluster:
    offer = Offer(
        type="m2", cpu=2, memory_gib=8, usd_per_h=0.1, boot_s=3.0, setup_s=1.0, bill_step_s=60, labels=has[2]
    )
    other = replace(offer, type="m4", cpu=4, usd_per_h=0.15, labels=has[3])
    groups = (NodeGroup("one", 1, 0, 2, 8, labels=has[0]), NodeGroup("two", 2, 0, 4, 8, labels=has[1]))
    return Cluster("zones", groups, offers=(offer, other))


def run_checked(workload: Workload, policy: str, cluster: Cluster) -> NodesSimulation:
    """A run of which every instant is looked at: where jobs are, and whether all invariants hold."""
    required = requirements_of(workload)

    def look(state: Any) -> None:
        check(state)
        for slot in state.holders[: state.pool[0].holders].tolist():
            labels, at = required.of(int(run.kept[state.progress[slot].row])), int(state.needs[slot].placed)
            while at >= 0:
                number = int(state.placements[at].node)
                offer = int(state.machines[number].offer)
                has = (
                    cluster.offers[offer].labels
                    if offer >= 0
                    else cluster.groups[cluster.types[number]].labels
                )
                assert suits(has, labels), (policy, number, has, labels)
                at = int(state.placements[at].follows)

    run = NodesSimulation(workload, parse_nodes_policy(policy), SimulationOptions(cluster=cluster))
    step_through(run, look)
    return run


@pytest.mark.parametrize("policy", ON_OWNED)
@settings(max_examples=3)
@given(workload=workloads(), has=zones)
def test_no_job_is_on_an_owned_node_without_its_labels(
    policy: str, workload: Workload, has: list[Labels]
) -> None:
    cluster = replace(cluster_of(has), offers=())
    if not tasks_of(workload, cluster).refused.all():
        run_checked(workload, policy, cluster)


@pytest.mark.parametrize("policy", [*ALONE, *AT_TICKS])
@settings(max_examples=3)
@given(workload=workloads(), has=zones)
def test_no_job_is_on_a_rented_machine_without_its_labels(
    policy: str, workload: Workload, has: list[Labels]
) -> None:
    cluster = cluster_of(has)
    tasks = (
        tasks_on_owned_first(workload, cluster)
        if policy in ALONE
        else tasks_of(workload, cluster, rents=True)
    )
    if tasks.refused.all():
        return
    run = run_checked(workload, policy, cluster)
    result = run.result()
    assert not np.isnan(result.jobs.finish_s[result.jobs.state != JobState.REFUSED]).any()
    offers = {offer.type: offer.labels for offer in cluster.offers}
    for row in np.flatnonzero(result.jobs.rented).tolist():
        assert suits(offers[str(result.jobs.instance_type[row])], requirements_of(workload).of(row))


def test_tasks_are_split_for_the_nodes_that_suit() -> None:
    cluster = cluster_of([ZONES[1], ZONES[2], (), ()])
    jobs = Workload.from_columns(
        submit_s=[0.0, 1.0, 2.0, 3.0], work_s=4.0, min_units=4, max_units=4, cpu=1.0,
        require=["", "zone=a", "zone=b", "zone=c"],
    )  # fmt: skip
    tasks = tasks_of(jobs, replace(cluster, offers=()))
    assert tasks.count.tolist() == [1, 2, 1, 4]
    assert tasks.refused.tolist() == [False, True, False, True]
    assert tasks.reasons == (
        "job 3, field require: no node has zone=c; nodes have zone=a, zone=b; 1 such job is refused",
        "job 1, field max_units: asks for 4 units (2 tasks of 2), the empty cluster holds 1 such task; "
        "1 such job is refused",
    )


def test_a_job_that_is_too_large_for_the_nodes_that_suit_says_which_are_meant() -> None:
    cluster = replace(cluster_of([ZONES[1], ZONES[2], (), ()]), offers=())
    jobs = Workload.from_columns(submit_s=[0.0, 1.0], work_s=4.0, cpu=3.0, require=["zone=b", "zone=a"])
    [reason] = tasks_of(jobs, cluster).reasons
    assert reason.startswith("job 1, field cpu: a unit asks for 3 cores, the largest node with zone=a has 2;")


def test_a_job_that_asks_for_what_no_node_has_is_told_so() -> None:
    jobs = Workload.from_columns(submit_s=[0.0], work_s=4.0, gpu=1.0)
    [reason] = tasks_of(jobs, Cluster.uniform(1, cpu=4)).reasons
    assert reason == "job 0, field gpu: a unit asks for 1 GPU, no node has any; 1 such job is refused"


@pytest.mark.parametrize("policy", ["srsf", "fifo", "eva"])
def test_a_policy_that_knows_no_labels_refuses_such_a_trace(policy: str) -> None:
    jobs = Workload.from_columns(submit_s=[0.0, 1.0], work_s=4.0, cpu=1.0, require=["", "zone=b"])
    where = {"units": 4} if policy != "eva" else {"cluster": cluster_of([ZONES[2]] * 4)}
    with pytest.raises(InputError, match=rf"job 1, field require: policy {policy} does not .*nodes:fifo"):
        simulate(jobs, policy=policy, **where)  # pyright: ignore[reportArgumentType]


def test_what_is_no_label_is_refused_with_its_job() -> None:
    jobs = Workload.from_columns(submit_s=[0.0, 1.0], work_s=4.0, cpu=1.0, require=["zone=b", "zone"])
    with pytest.raises(
        InputError, match="job 1, field require: expected a label such as zone=a, found 'zone'"
    ):
        NodesSimulation(
            jobs, parse_nodes_policy("fifo"), SimulationOptions(cluster=cluster_of([ZONES[2]] * 4))
        )


def test_jobs_in_chunks_require_no_labels() -> None:
    jobs = Workload.from_columns(submit_s=[0.0, 1.0], work_s=4.0, cpu=1.0, require=["", "zone=b"])
    with pytest.raises(InputError, match=r"job 1, field require: .* run it on a whole trace"):
        StreamedSimulation(
            [jobs], parse_nodes_policy("fifo"), SimulationOptions(cluster=cluster_of([ZONES[2]] * 4))
        )


def test_so_many_different_labels_may_be_required() -> None:
    names = [f"k{number}=v" for number in range(MOST_REQUIRED + 1)]
    cluster = Cluster("c", (NodeGroup("n", 1, 0, 1, 1, labels=parse_labels(names)),))
    jobs = Workload.from_columns(submit_s=np.arange(63.0), work_s=1.0, cpu=1.0, require=names)
    with pytest.raises(
        InputError, match="field require: jobs require 63 different labels; expected at most 62"
    ):
        NodesSimulation(jobs, parse_nodes_policy("fifo"), SimulationOptions(cluster=cluster))
    run = NodesSimulation(jobs[:62], parse_nodes_policy("fifo"), SimulationOptions(cluster=cluster))
    run.run()
    assert not np.isnan(run.result().jobs.finish_s).any()


@pytest.mark.parametrize("policy", ["lrtp:trim=false", "youngest:trim=false", "lowest-priority", "fitgpp"])
def test_only_jobs_on_nodes_that_suit_make_room(policy: str) -> None:
    """The job of the other zone would be taken first under each of these, and would leave in vain."""
    cluster = Cluster("two", tuple(NodeGroup(name, 1, 0, 2, 8, labels=(("zone", name),)) for name in "ab"))
    jobs = Workload.from_columns(
        submit_s=[0.0, 1.0, 2.0],
        work_s=[200.0, 2000.0, 20.0],
        min_units=2,
        max_units=2,
        cpu=1.0,
        qos=[0, 0, 1],
        priority=[1, 0, 1],
        grace_s=[4.0, 0.0, 0.0],
        require=["zone=a", "zone=b", "zone=a"],
    )
    done = run_checked(jobs, policy, cluster).result().jobs
    assert done.preemptions.tolist() == [1, 0, 0]
    assert done.start_s.tolist() == [0.0, 1.0, 6.0]
