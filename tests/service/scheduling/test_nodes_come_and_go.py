"""The engine goes on when nodes of one's own come and go, and decides what one that is made anew would."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes.cluster import Offer
from betimes.service.engines.nodes import LiveNodes
from betimes.service.engines.pool import LivePool
from betimes.service.scheduling.engine_factory import Built
from betimes.service.scheduling.node import in_brief
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


def after(policy: str, wanted: list[tuple[int, int, float]], kind: str = "") -> list[tuple[Any, ...]]:
    """Every event of a cluster to which this happens.

    kind: `zoned`, further nodes are in zones, which some jobs require; `mixed`, they have one to eight cores, and jobs
    of nodes are wide; `families`, they are of two families besides, and some jobs need other amounts on these; `sets`,
    some jobs of a pool are sets of trials.
    """
    cluster = Cluster(policy, offers=(OFFER,))
    is_mixed = kind in ("mixed", "families")
    for at, (what, which, cores) in enumerate(wanted):
        nodes = list(cluster.ledger.nodes)
        name = nodes[which % len(nodes)]
        if what == SUBMIT:
            widest = 1 + which % 4 if is_mixed or policy not in OF_NODES else 1
            asked: dict[str, Any] = {"cpu": cores, "max_units": widest}
            if policy in OF_NODES:  # a job of nodes holds all its units or none
                asked["min_units"] = widest
            if kind == "zoned" and which >= 6:
                asked["require"] = {"zone": "ab"[which - 6]}
            if kind == "families" and which >= 4:
                asked["demand"] = {"n": {}, "few": {"cpu": cores / 2}, "many": {"cpu": 2 * cores}}
            if kind == "sets" and which >= 4:
                asked |= {"array": f"1-{which}", "as_one": True, "max_units": 1}
            qos = "trial" if which == 0 else "best-effort"
            cluster.ask("admission.submit", spec(widest * (5.0 + which), qos=qos, **asked), "ann")
        elif what == ADD:
            size = (2.0, 1.0, 4.0, 8.0)[which % 4] if is_mixed else 2.0
            family = ("few", "many", "other")[which % 3] if kind == "families" else ""
            labels = (("zone", "ab"[which % 2]),) if kind == "zoned" else ()
            added = replace(machine(f"n-{10 + at}", size), labels=labels)
            cluster.ask("nodes.add", replace(added, family=family or added.family), "operator")
        elif what in (DRAIN, RESUME, LOSE):
            status = {DRAIN: "draining", RESUME: "up", LOSE: "lost"}[what]
            cluster.ask("nodes.set_status", name, status, "operator")
        cluster.turn()
        if what == PASS:
            cluster.go_on(float(which))
        assert cluster.scheduler.nodes_in_brief == in_brief(cluster.ledger.nodes.values())
    left_out = ("seq", "seen_events", "seen_active") if kind == "sets" else ("seq",)
    return [(event.kind, event.job, event.at_s, without(left_out, event.data)) for event in cluster.log]


def without(left_out: Collection[str], data: dict[str, Any]) -> dict[str, Any]:
    """What happened, but for parts of its account in which engines may differ.

    One that is made anew without jobs counts submissions from 0; what counts is their order. One that is made anew as a
    set of trials becomes narrower and another job ends hears of the width after that, and one that goes on before it.
    """
    account = {name: value for name, value in data.get("account", {}).items() if name not in left_out}
    return {**data, "account": account}


@pytest.mark.parametrize("policy", [*OF_NODES, *OF_A_POOL])
@given(data=st.data(), wanted=changes)
def test_an_engine_that_goes_on_decides_as_one_made_anew(
    policy: str, data: st.DataObject, wanted: list[Any]
) -> None:
    kinds = ["zoned", "mixed", "families"] if policy in OF_NODES else ["", "sets"]
    check_alike(policy, wanted, data.draw(st.sampled_from(kinds)))


@pytest.mark.parametrize(
    ("policy", "wanted"),
    [
        pytest.param(
            "conservative",
            [(SUBMIT, 3, 1.0), (SUBMIT, 4, 1.0), (DRAIN, 4, 1.0), (RESUME, 4, 0.5), (SUBMIT, 5, 1.0)],
            id="a reservation moves to another node, and begins as before",
        ),
        pytest.param(
            "fitgpp",
            [(SUBMIT, 3, 1.0), (DRAIN, 0, 0.5), (SUBMIT, 0, 0.5), (PASS, 6, 1.0)],
            id="the nodes of a nomination are vacated as another is drained",
        ),
        pytest.param(
            "fitgpp",
            [(SUBMIT, 3, 1.0), (SUBMIT, 0, 2.0), (LOSE, 5, 1.0)],
            id="a job that makes room loses one of its nodes",
        ),
        pytest.param(
            "fitgpp",
            [
                *((SUBMIT, 2, 1.0), (ADD, 0, 0.5), (LOSE, 1, 0.5), (SUBMIT, 0, 2.0), (DRAIN, 0, 0.5)),
                *((ADD, 6, 2.0), (PASS, 6, 0.5)),
            ],
            id="a job leaves that was split for other nodes, as one is drained",
        ),
        pytest.param(
            "sww:b=24h",
            [*[(SUBMIT, 0, 0.5)] * 5, (LOSE, 0, 0.5)],
            id="a wait that a play-out is still to decide on is no deadline",
        ),
        pytest.param(
            "sww:b=24h",
            [*[(SUBMIT, 0, 0.5)] * 5, (LOSE, 0, 0.5), (DRAIN, 1, 0.5)],
            id="a job that has lost its node waits as was then decided",
        ),
    ],
)
def test_what_a_policy_has_decided_outlives_its_engine(policy: str, wanted: list[Any]) -> None:
    check_alike(policy, wanted, "mixed")


def test_the_contention_that_jobs_have_seen_outlives_their_engine() -> None:
    wanted = [(SUBMIT, 6, 2.0), (SUBMIT, 6, 0.5), (SUBMIT, 5, 0.5), *[(SUBMIT, 0, 0.5)] * 6]
    wanted += [
        (ADD, 0, 0.5),
        (SUBMIT, 0, 0.5),
        (SUBMIT, 5, 0.5),
        (PASS, 6, 0.5),
        (LOSE, 2, 0.5),
        (ADD, 2, 1.0),
    ]
    check_alike("themis:lease=4", wanted)


def test_a_wake_up_at_the_instant_at_which_nodes_change_is_counted_by_both() -> None:
    wanted = [*[(SUBMIT, 0, 0.5)] * 5, (SUBMIT, 0, 2.0), (ADD, 0, 0.5), (DRAIN, 2, 0.5), (PASS, 3, 0.5)]
    check_alike("las:quantum=3", wanted)


def test_wake_ups_that_decide_nothing_are_over_before_nodes_change() -> None:
    """Else the policy decided for the nodes of now at an instant before jobs had ended, and took their units away."""
    wanted = [(SUBMIT, 0, 1.0), (SUBMIT, 0, 1.0), (DRAIN, 6, 2.0), (DRAIN, 5, 2.0), (PASS, 6, 0.5)]
    check_alike("themis:lease=4", wanted, "sets")
    ends = [event[1] for event in after("themis:lease=4", wanted, "sets") if event[0] == "finished"]
    assert sorted(ends) == [1, 2]


def check_alike(policy: str, wanted: list[Any], kind: str = "") -> None:
    kept = after(policy, wanted, kind)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Built, "take_over", lambda *_: None)
        anew = after(policy, wanted, kind)
    assert kept == anew


def test_a_job_that_was_owed_what_a_lost_one_held_starts_in_its_place() -> None:
    cluster = Cluster("fitgpp", nodes=2)
    (victim,) = cluster.submit(spec(100.0, cpu=1.0, max_units=4, min_units=4, grace_s=30.0))
    (urgent,) = cluster.submit(spec(10.0, cpu=2.0, qos="trial"))
    ((first, _),) = (cluster.job(urgent).binding or {})["places"]
    cluster.ask("nodes.set_status", "n-1" if first == "n-0" else "n-0", "lost", "timer")
    cluster.turn()
    assert dict(cluster.job(urgent).places) == {first: 1}
    assert cluster.story(urgent)[-4:] == ["nominated", "granted", "launched", "started"]
    assert cluster.status(victim) == "queued"


def test_jobs_that_require_labels_are_split_for_the_nodes_that_have_them() -> None:
    cluster = Cluster("nodes:fifo", nodes=0)
    for name, zone in (("a-0", "a"), ("b-0", "b")):
        cluster.scheduler.nodes.add(replace(machine(name, 4.0), labels=(("zone", zone),)), "operator")
    cluster.turn()
    cluster.submit(spec(100.0, max_units=2, min_units=2, require={"zone": "a"}))
    engine = cluster.scheduler.engine
    cluster.scheduler.nodes.left("a-0")
    cluster.turn()
    cluster.scheduler.nodes.add(replace(machine("a-1", 4.0), labels=(("zone", "a"),)), "operator")
    cluster.turn()
    assert [name for name, _ in cluster.job(1).places] == ["a-1"]
    assert cluster.scheduler.engine is engine


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


@pytest.mark.parametrize("cores", [1.0, 2.0, 4.0])
def test_jobs_are_split_anew_for_larger_nodes(cores: float) -> None:
    cluster = Cluster("nodes:fifo", nodes=2)
    engine = cluster.scheduler.engine
    cluster.submit(*(spec(100.0, cpu=2.0) for _ in range(2)))
    (wide,) = cluster.submit(spec(100.0, max_units=4, min_units=4, units_per_task="pack"))
    cluster.scheduler.nodes.add(machine("other-1", cores), "operator")
    cluster.turn()
    assert bool(cluster.job(wide).units) == (cores == 4.0)
    assert cluster.job(wide).units_per_task == (4 if cores == 4.0 else 1)
    assert cluster.scheduler.engine is engine


def test_what_a_job_is_bound_to_is_given_up_when_it_is_split_anew() -> None:
    cluster = Cluster("fitgpp", nodes=2)
    engine = cluster.scheduler.engine
    cluster.submit(*(spec(100.0, cpu=2.0, grace_s=30.0) for _ in range(2)))
    (urgent,) = cluster.submit(spec(10.0, max_units=4, min_units=4, qos="trial"))
    assert "owed" in cluster.job(urgent).binding
    cluster.scheduler.nodes.add(machine("other-1", 4.0), "operator")
    cluster.turn()
    assert dict(cluster.job(urgent).places) == {"other-1": 4}
    assert cluster.story(urgent)[-4:] == ["unbound", "granted", "launched", "started"]
    assert cluster.scheduler.engine is engine


def test_a_job_that_owned_machines_hold_now_or_no_more_waits_accordingly() -> None:
    """Under a waiting policy: a job that fits no machine of one's own is rented for at once."""
    cluster = Cluster("sww:b=24h", nodes=2, offers=(replace(OFFER, cpu=8.0, memory_gib=32.0),))
    engine = cluster.scheduler.engine
    cluster.submit(*(spec(1000.0, cpu=2.0, rent="never") for _ in range(2)))
    (wide,) = cluster.submit(spec(1000.0, cpu=2.0, max_units=2, min_units=2))
    assert cluster.job(wide).rental is None, "it waits for both machines"
    cluster.scheduler.nodes.set_status("n-1", "draining", "operator")
    cluster.turn()
    assert cluster.job(wide).rental is None, "one that drains may take work again"
    cluster.scheduler.nodes.left("n-1")
    cluster.turn()
    assert cluster.job(wide).rental is not None
    assert cluster.scheduler.engine is engine


def test_a_lost_node_comes_back_with_less() -> None:
    cluster = Cluster("nodes:fifo", nodes=2)
    cluster.scheduler.nodes.set_status("n-1", "lost", "timer")
    cluster.turn()
    cluster.scheduler.nodes.add(machine("n-1", 1.0), "operator")
    cluster.turn()
    numbers = cluster.submit(*(spec(100.0, cpu=1.0) for _ in range(4)))
    assert [bool(cluster.job(number).units) for number in numbers] == [True, True, True, False]


def test_a_reservation_ends_with_the_last_node() -> None:
    cluster = Cluster("conservative", nodes=1)
    cluster.submit(spec(7.0, cpu=2.0))
    (waiting,) = cluster.submit(spec(8.0, cpu=0.5))
    assert cluster.job(waiting).binding is not None
    cluster.ask("nodes.set_status", "n-0", "lost", "operator")
    cluster.turn()
    assert cluster.story(waiting)[-2:] == ["reserved", "unbound"]
    assert cluster.job(waiting).binding is None


@pytest.mark.parametrize("change", ["added", "larger", "opened"])
def test_reserved_jobs_move_up_to_a_node_that_comes(change: str) -> None:
    cluster = Cluster("conservative", nodes=1)
    if change == "opened":
        cluster.ask("nodes.add", machine("n-1"), "operator")
        cluster.ask("nodes.set_status", "n-1", "draining", "operator")
        cluster.turn()
    _, second, third = cluster.submit(*(spec(100.0, cpu=2.0) for _ in range(3)))
    assert [(cluster.job(number).binding or {}).get("start_s") for number in (second, third)] == [
        101.0,
        201.0,
    ]
    if change == "opened":
        cluster.ask("nodes.set_status", "n-1", "up", "operator")
    else:
        cluster.ask("nodes.add", machine("n-1", 2.0 if change == "added" else 4.0), "operator")
    cluster.turn()
    assert dict(cluster.job(second).places) == {"n-1": 1}
