"""Jobs that need something else on each family of machines in the twin: nodes give what the job needs on theirs."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from betimes import simulate
from betimes.cluster import Cluster, NodeGroup, Offer
from betimes.cluster.interference import read_interference
from betimes.core.nodes.demands import demand_on
from betimes.errors import InputError
from betimes.policies import ChosenPolicy, parse_nodes_policy
from betimes.policies.nodes.hooks import placement
from betimes.twin.nodes.offered import offered_load
from betimes.twin.nodes.simulation import NodesSimulation
from betimes.twin.nodes.streaming import StreamedSimulation
from betimes.twin.nodes.tasks import tasks_of, tasks_on_owned_first
from betimes.twin.options import SimulationOptions
from betimes.workload import Workload
from tests.core.nodes.invariants import check
from tests.twin.nodes.driving import small_columns, step_through

ON_OWNED = ("fifo", "skip-over", "easy", "conservative", "fitgpp", "rand:trim=false", "widest")
ALONE = ("njw", "sww:b=20,waits=none", "compound:t=5,b=20,waits=none,lengths=speculate")
AT_TICKS = ("oda:tick=5", "odb:tick=5,order=unicef", "odx:tick=5", "ode:tick=5", "odm:tick=5")
PLANNERS = ("no-packing", "eva", "eva:rules=released", "stratus", "synergy", "owl", "consolidation")

OFFER = Offer(type="x.2", cpu=2, memory_gib=8, usd_per_h=0.1, boot_s=3.0, setup_s=1.0, bill_step_s=60)

OTHER = replace(OFFER, type="y.4", family="y", cpu=4, usd_per_h=0.15)
CLUSTER = Cluster(
    "families",
    (NodeGroup("x.large", 1, 0, 4, 8), NodeGroup("two", 2, 0, 4, 8, family="y")),
    offers=(OFFER, OTHER),
    interference=read_interference("eva"),
)

amounts = st.sampled_from([np.nan, 0.5, 1.0, 1.5, 2.0])


@st.composite
def workloads(draw: Any) -> Workload:
    """Jobs of one to four units; most need something else on x and on y, or run on one of them only."""
    count = draw(st.integers(2, 12))
    units = draw(st.lists(st.sampled_from([1, 1, 2, 4]), min_size=count, max_size=count))
    by_family = st.lists(amounts, min_size=count, max_size=count)
    return Workload.from_columns(
        submit_s=np.cumsum(draw(st.lists(st.integers(0, 6), min_size=count, max_size=count))).astype(float),
        work_s=[each * draw(st.integers(1, 40)) for each in units],
        min_units=units,
        max_units=units,
        cpu=1.0,
        qos=draw(st.lists(st.integers(0, 1), min_size=count, max_size=count)),
        extra={
            "cpu.x": draw(by_family),
            "cpu.y": draw(by_family),
            "memory_gib.y": draw(by_family),
            "workload_variant": ["gcn[0]"] * count,
        },
    )


class Watched:
    """A run that is looked at after every instant: what is taken of each machine, worked out from the trace alone."""

    def __init__(self, workload: Workload, policy: str, cluster: Cluster) -> None:
        self.cluster, self.workload = cluster, workload
        self.run = NodesSimulation(workload, parse_nodes_policy(policy), SimulationOptions(cluster=cluster))
        self.held_s: dict[str, float] = defaultdict(float)
        self._rate = {"cpu": 0.0, "memory_gib": 0.0}
        self._since = 0.0
        step_through(self.run, self._look)

    def _look(self, state: Any) -> None:
        check(state)
        now = float(state.pool[0].now)
        for name in self._rate:
            self.held_s[name] += self._rate[name] * (now - self._since)
        self._since, self._rate = now, {"cpu": 0.0, "memory_gib": 0.0}
        taken: dict[int, list[int]] = defaultdict(lambda: [0, 0])
        for slot in state.holders[: state.pool[0].holders].tolist():
            need = state.needs[slot]
            row = int(self.run.kept[state.progress[slot].row])
            each = int(self.workload.max_units[row]) // int(need.tasks)
            at = int(need.placed)
            while at >= 0:
                number, tasks = int(state.placements[at].node), int(state.placements[at].tasks)
                cpu, memory_gib = self._needs(row, self._family(state, number))
                taken[number][0] += tasks * round(1000 * each * cpu)
                taken[number][1] += tasks * round(1024 * each * memory_gib)
                self._rate["cpu"] += tasks * each * cpu
                self._rate["memory_gib"] += tasks * each * memory_gib
                at = int(state.placements[at].follows)
        if state.cluster[0].nominated == 0:  # what is bound to nodes has taken some of it already
            for number, (cpu, memory) in taken.items():
                node = state.nodes[number]
                assert (node.cpu - node.free_cpu, node.memory - node.free_memory) == (cpu, memory)

    def _family(self, state: Any, number: int) -> str:
        offer = int(state.machines[number].offer)
        cluster = self.cluster
        return cluster.offers[offer].family if offer >= 0 else cluster.groups[cluster.types[number]].family

    def _needs(self, row: int, family: str) -> tuple[float, float]:
        extra = self.workload.extra
        own = [float(extra[name][row]) for name in ("cpu.x", "cpu.y", "memory_gib.y")]
        if np.isnan(own).all():
            return 1.0, 0.0
        cpu, memory_gib = (own[0], np.nan) if family == "x" else (own[1], own[2])
        assert not np.isnan([cpu, memory_gib]).all(), f"job {row} runs on {family}"
        return 1.0 if np.isnan(cpu) else cpu, 0.0 if np.isnan(memory_gib) else memory_gib


@pytest.mark.parametrize("policy", ON_OWNED)
@settings(max_examples=3)
@given(workload=workloads())
def test_owned_nodes_give_what_jobs_need_on_their_family(policy: str, workload: Workload) -> None:
    cluster = replace(CLUSTER, offers=())
    if tasks_of(workload, cluster).refused.all():
        return
    watched = Watched(workload, policy, cluster)
    found = {each.name: each.held_s for each in watched.run.result().resources}
    for name, held_s in found.items():
        assert held_s == pytest.approx(watched.held_s[name], rel=1e-9)


@pytest.mark.parametrize("policy", [*ALONE, *AT_TICKS, *PLANNERS])
@settings(max_examples=3)
@given(workload=workloads())
def test_machines_are_rented_on_which_jobs_can_run(policy: str, workload: Workload) -> None:
    cluster = CLUSTER
    if policy in ALONE:
        refused = tasks_on_owned_first(workload, cluster).refused
    else:
        refused = tasks_of(workload, cluster, rents=True).refused
    if refused.all():
        return
    run = Watched(workload, policy, cluster).run
    result = run.result()
    assert (np.isfinite(result.jobs.finish_s) | refused).all()
    if policy in ALONE:
        for row in np.flatnonzero(result.jobs.rented).tolist():
            family = {"x.2": "x", "y.4": "y"}[str(result.jobs.instance_type[row])]
            own = [float(workload.extra[name][row]) for name in ("cpu.x", "cpu.y", "memory_gib.y")]
            can = own[:1] if family == "x" else own[1:]
            assert np.isnan(own).all() or not np.isnan(can).all()


@settings(max_examples=8)
@given(workload=workloads(), policy=st.sampled_from([*ON_OWNED, "eva", "oda:tick=5"]))
def test_growing_columns_change_nothing(workload: Workload, policy: str) -> None:
    cluster = replace(CLUSTER, offers=CLUSTER.offers[:1])
    chosen = parse_nodes_policy(policy)
    if tasks_of(workload, cluster, rents=chosen.policy.rents(chosen.values)).refused.all():
        return

    def result() -> Any:
        run = NodesSimulation(workload, chosen, SimulationOptions(cluster=cluster))
        run.run()
        return run.result()

    large = result()
    with pytest.MonkeyPatch.context() as patch:
        small_columns(patch)
        assert result() == large


def one(units: int = 1, per_task: int = 0, **extra: float) -> Workload:
    return Workload.from_columns(
        submit_s=[0.0],
        work_s=[10.0 * units],
        min_units=[units],
        max_units=[units],
        units_per_task=[per_task],
        cpu=4.0,
        extra={name.replace("_on_", "."): [value] for name, value in extra.items()},
    )


@placement(summary="The node on which a task needs most.", name="most-needed")
def most_needed(view: Any, nodes: Any, slot: int, fitting: Any, score: Any) -> None:
    """A user's hook sees what a task needs on a node."""
    for k in range(len(fitting)):
        _, cpu, _ = demand_on(view, view.needs[slot], fitting[k])
        score[k] = -float(cpu)


@pytest.mark.parametrize(("on_x", "on_y", "node"), [(2.0, 1.0, 0), (1.0, 2.0, 1)])
def test_a_users_hook_sees_what_a_task_needs_on_a_node(on_x: float, on_y: float, node: int) -> None:
    chosen = ChosenPolicy(most_needed, {each.name: each.default for each in most_needed.parameters}, (), "")
    run = NodesSimulation(
        one(cpu_on_x=on_x, cpu_on_y=on_y), chosen, SimulationOptions(cluster=replace(CLUSTER, offers=()))
    )
    assert step_through(run).starts == [[(0.0, ((node, 1),))]]


def test_tasks_have_the_same_units_on_every_family() -> None:
    """Two of eight halves fit x (4 cores): as many units a task as some node holds, here eight on y."""
    tasks = tasks_of(one(8, cpu_on_x=2.0, cpu_on_y=0.5), CLUSTER)
    assert tasks.count.tolist() == [1]
    assert tasks.by_family is not None
    assert tasks.by_family[0, :, 1].tolist() == [16000, 4000]
    alone = tasks_of(one(8, 2, cpu_on_x=2.0, cpu_on_y=0.5), CLUSTER)
    assert alone.by_family is not None
    assert (alone.count.tolist(), alone.by_family[0, :, 1].tolist()) == ([4], [4000, 1000])
    assert alone.demand.tolist() == [[0, 1000, 0]]


def test_what_fits_no_family_is_refused_by_name() -> None:
    tasks = tasks_of(one(cpu_on_x=5.0, cpu_on_y=6.0), CLUSTER)
    assert tasks.reasons == (
        "job 0, demand on x, y: a unit asks for 0 GPUs, 5 cores, 0 GiB on x, no machine of that family has all of "
        "that; 1 such job is refused",
    )
    tasks = tasks_of(one(cpu_on_z=1.0), CLUSTER)
    assert tasks.reasons == (
        "job 0, demand on z: the cluster has no such machines; its families are x, y; 1 such job is refused",
    )
    wide = tasks_of(one(20, 1, cpu_on_x=4.0, cpu_on_y=2.0), replace(CLUSTER, offers=()))
    assert wide.reasons == (
        "job 0, field max_units: asks for 20 units (20 tasks of 1), the empty cluster holds 5 such tasks; "
        "1 such job is refused",
    )


def test_the_cheapest_machine_is_that_of_the_family_on_which_a_job_needs_less() -> None:
    """Three tasks of one unit: y's smallest holds them all, and of x's, where each needs two cores, it takes three."""
    cluster = Cluster("offers", (), offers=(OFFER, OTHER, replace(OTHER, type="y.2", cpu=2.0, usd_per_h=0.1)))
    result = simulate(one(3, 1, cpu_on_x=2.0, cpu_on_y=0.5), "njw", cluster=cluster)
    assert result.jobs.instance_type.tolist() == ["y.2"]
    only_x = simulate(one(3, 1, cpu_on_x=2.0), "njw", cluster=cluster)
    assert only_x.jobs.instance_type.tolist() == ["x.2"]
    assert only_x.leases is not None
    assert len(only_x.leases.job) == 3


def test_the_load_counts_the_least_that_a_job_needs() -> None:
    cluster = replace(CLUSTER, offers=())
    both = one(cpu_on_x=4.0, cpu_on_y=2.0).concatenate(one(cpu_on_x=4.0, cpu_on_y=2.0).shift(10.0))
    assert offered_load(both, cluster) == pytest.approx(2 * 2.0 * 10 / 12 / 10)


def test_a_pool_knows_no_families() -> None:
    with pytest.raises(InputError, match=r"job 0, demand on family x: a unit .* choose a policy for nodes"):
        simulate(one(cpu_on_x=1.0), "srsf", cluster=replace(CLUSTER, offers=()), engine="pool")
    plain = simulate(one(), "srsf", units=4)  # where no demand counts at all
    assert simulate(one(cpu_on_x=1.0), "srsf", units=4).jobs.finish_s == plain.jobs.finish_s


def test_jobs_in_chunks_have_one_demand() -> None:
    chunks = iter([one(cpu_on_x=1.0)])
    with pytest.raises(InputError, match=r"job 0, demand on family x: .* run it on a whole trace"):
        StreamedSimulation(
            chunks, parse_nodes_policy("fifo"), SimulationOptions(cluster=replace(CLUSTER, offers=()))
        )


def test_a_replayed_trace_keeps_its_demands_by_family_under_a_policy_for_nodes() -> None:
    from betimes.service.runtime.replay import Arrivals

    owned = replace(CLUSTER, offers=())
    both = one(cpu_on_x=1.0).concatenate(one().shift(10.0))
    (_, first), (_, second) = Arrivals(both, owned, "nodes:fifo")
    assert first.unit.by_family == (("x", (0.0, 1.0, 0.0)),)
    assert second.unit.by_family == ()
    with pytest.raises(
        InputError, match="job 0, demand on family x: under policy srsf a unit of a pool needs"
    ):
        Arrivals(one(cpu_on_x=1.0), owned, "srsf")
