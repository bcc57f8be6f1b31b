"""The engine goes on when nodes of one's own come and go, and decides what one that is made anew would."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes.cluster import Offer
from betimes.service.engines.nodes import LiveNodes
from betimes.service.engines.pool import LivePool
from betimes.service.scheduling.engine_factory import Built
from tests.service.reliability.cluster import Cluster, machine, spec

SUBMIT, ADD, DRAIN, RESUME, LOSE, PASS = range(6)
OF_NODES = ("nodes:fifo", "easy", "conservative", "fitgpp", "slowdown", "sww:b=24h")
OFFER = Offer(type="big", cpu=2.0, gpu=0.0, memory_gib=8.0, usd_per_h=0.2)
OF_A_POOL = (
    *("fifo", "srsf", "las:quantum=3", "themis:lease=4", "afs", "max-min"),
    "wfq:thresholds=6+9,weights=3/5+3/10+1/10,zeta_min=0.8,delta=0.15",
)

changes = st.lists(
    st.tuples(st.integers(0, PASS), st.integers(0, 7), st.sampled_from([0.5, 1.0, 2.0])), max_size=25
)


def after(policy: str, wanted: list[tuple[int, int, float]], *, zoned: bool = False) -> list[tuple[Any, ...]]:
    """Every event of a cluster to which this happens; zoned: further nodes are in zones, which some jobs require."""
    cluster = Cluster(policy, offers=(OFFER,))
    for at, (what, which, cores) in enumerate(wanted):
        nodes = list(cluster.ledger.nodes)
        name = nodes[which % len(nodes)]
        if what == SUBMIT:
            widest = 1 if policy in OF_NODES else 1 + which % 4  # a job of nodes holds all its units or none
            qos = "trial" if which == 0 else "best-effort"
            wanted_by: dict[str, Any] = {"require": {"zone": "ab"[which - 6]}} if zoned and which >= 6 else {}
            cluster.ask(
                "submission.submit",
                spec(widest * (5.0 + which), cpu=cores, max_units=widest, qos=qos, **wanted_by),
                "ann",
            )
        elif what == ADD:
            labels = (("zone", "ab"[which % 2]),) if zoned else ()
            cluster.ask("nodes.add", replace(machine(f"n-{10 + at}"), labels=labels), "operator")
        elif what in (DRAIN, RESUME, LOSE):
            status = {DRAIN: "draining", RESUME: "up", LOSE: "lost"}[what]
            cluster.ask("nodes.set_status", name, status, "operator")
        cluster.turn()
        if what == PASS:
            cluster.go_on(float(which))
    return [(event.kind, event.job, event.at_s, without_seq(event.data)) for event in cluster.log]


def without_seq(data: dict[str, Any]) -> dict[str, Any]:
    """An engine that is made anew without jobs counts submissions from 0; what counts is their order."""
    account = {name: value for name, value in data.get("account", {}).items() if name != "seq"}
    return {**data, "account": account}


@pytest.mark.parametrize("policy", [*OF_NODES, *OF_A_POOL])
@given(wanted=changes)
def test_an_engine_that_goes_on_decides_as_one_made_anew(policy: str, wanted: list[Any]) -> None:
    check_alike(policy, wanted)


@pytest.mark.parametrize("policy", OF_NODES)
@given(wanted=changes)
def test_an_engine_that_goes_on_with_labels_decides_as_one_made_anew(policy: str, wanted: list[Any]) -> None:
    check_alike(policy, wanted, zoned=True)


def check_alike(policy: str, wanted: list[Any], *, zoned: bool = False) -> None:
    kept = after(policy, wanted, zoned=zoned)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Built, "take_over", lambda *_: False)
        anew = after(policy, wanted, zoned=zoned)
    assert kept == anew


def test_only_a_requirement_that_means_other_tasks_needs_another_engine() -> None:
    """A larger node with labels is no concern of a job that requires others."""
    cluster = Cluster("nodes:fifo", nodes=0)
    for name, zone in (("a-0", "a"), ("b-0", "b")):
        cluster.scheduler.nodes.add(replace(machine(name, 4.0), labels=(("zone", zone),)), "operator")
    cluster.turn()
    cluster.submit(spec(100.0, max_units=2, min_units=2, require={"zone": "a"}))
    engine = cluster.scheduler.engine
    cluster.scheduler.nodes.add(replace(machine("b-1", 3.0), labels=(("zone", "b"),)), "operator")
    cluster.turn()
    assert cluster.scheduler.engine is engine
    cluster.scheduler.nodes.left("a-0")
    cluster.turn()
    assert cluster.scheduler.engine is not engine
    cluster.scheduler.nodes.add(replace(machine("a-1", 4.0), labels=(("zone", "a"),)), "operator")
    cluster.turn()
    assert [name for name, _ in cluster.job(1).places] == ["a-1"]


@pytest.mark.parametrize(
    ("policy", "kind"), [("nodes:fifo", LiveNodes), ("sww:b=24h", LiveNodes), ("fifo", LivePool)]
)
def test_the_engine_goes_on_with_a_node_more_and_a_node_less(policy: str, kind: type) -> None:
    cluster = Cluster(policy, nodes=1, offers=(OFFER,))
    engine = cluster.scheduler.engine
    assert isinstance(engine, kind)
    numbers = cluster.submit(*(spec(100.0, cpu=2.0) for _ in range(2)))
    cluster.scheduler.nodes.add(machine("n-1"), "operator")
    cluster.turn()
    assert [dict(cluster.job(number).places) for number in numbers] == [{"n-0": 1}, {"n-1": 1}]
    cluster.scheduler.nodes.left("n-1")
    cluster.turn()
    assert cluster.status(numbers[1]) == "queued"
    cluster.scheduler.nodes.add(machine("n-2"), "operator")  # in the place of n-1
    cluster.turn()
    assert dict(cluster.job(numbers[1]).places) == {"n-2": 1}
    assert cluster.scheduler.engine is engine


@pytest.mark.parametrize(("cores", "goes_on"), [(1.0, True), (2.0, True), (4.0, False)])
def test_jobs_are_split_anew_for_larger_nodes(cores: float, goes_on: bool) -> None:
    cluster = Cluster("nodes:fifo", nodes=2)
    engine = cluster.scheduler.engine
    cluster.submit(*(spec(100.0, cpu=2.0) for _ in range(2)))
    (wide,) = cluster.submit(spec(100.0, max_units=4, min_units=4, units_per_task="pack"))
    cluster.scheduler.nodes.add(machine("other-1", cores), "operator")
    cluster.turn()
    assert (cluster.scheduler.engine is engine) == goes_on
    assert bool(cluster.job(wide).units) == (cores == 4.0)


def test_a_lost_node_comes_back_with_less() -> None:
    cluster = Cluster("nodes:fifo", nodes=2)
    cluster.scheduler.nodes.set_status("n-1", "lost", "timer")
    cluster.turn()
    cluster.scheduler.nodes.add(machine("n-1", 1.0), "operator")
    cluster.turn()
    numbers = cluster.submit(*(spec(100.0, cpu=1.0) for _ in range(4)))
    assert [bool(cluster.job(number).units) for number in numbers] == [True, True, True, False]
