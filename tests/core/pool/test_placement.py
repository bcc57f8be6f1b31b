"""Units on nodes: the invariants after every event under every policy, copies, growth, nodes that come and go."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from betimes import simulate
from betimes.cluster import Cluster, NodeGroup
from betimes.core.instruction import Instruction
from betimes.core.pool import external_events, snapshot, transitions
from betimes.core.pool import placement as pool_placement
from betimes.core.pool.columns import State, grown, new_state, room_to_play, with_nodes
from betimes.kernels import as_array, blank, entry
from betimes.twin.pool import simulation as twin
from betimes.workload import Workload
from tests.core.pool import stepping
from tests.core.pool.invariants import BrokenInvariant, check
from tests.core.pool.stepping import POLICIES, UNITS, after_every_event, simulation

lose, copy_into, submit = entry(external_events.lose), entry(snapshot.copy_into), entry(transitions.submit)
begin_instant, set_demand = entry(pool_placement.begin_instant), entry(pool_placement.set_demand)
give_back, place = entry(pool_placement.give_back), entry(pool_placement.place)
most_on_empty_nodes = entry(pool_placement.most_on_empty_nodes)

CLUSTER = Cluster("three", (NodeGroup("a", 2, 3, 8, 32), NodeGroup("b", 1, 2, 16, 64)))
GATE = {"resize_interval_s": 5.0, "resize_gain": True, "restart_s": 1.5}
VARIANTS = {
    "nodes": {"cluster": CLUSTER},
    "nodes, restarts, estimates": {"cluster": CLUSTER, "restart_s": 2.5, "sizes": "estimate"},
    "gate": GATE,
    "gate, noise": {**GATE, "sizes": "noise:0.5"},
    "nodes, gate": {"cluster": CLUSTER, **GATE},
}


def workload(jobs: int, seed: int) -> Workload:
    """As in `stepping`, with demands; every job fits the empty nodes."""
    plain = stepping.workload(jobs, seed)
    rng = np.random.default_rng([seed, 1])
    count = len(plain)
    cpu, memory = rng.choice([0.5, 1.0, 2.0], count), rng.choice([1.0, 4.0, 8.0], count)
    with_demands = replace(plain, gpu=np.ones(count), cpu=cpu, memory_gib=memory)
    return twin.fit(with_demands, UNITS, "clip", CLUSTER).workload


def placements(state: State, slot: int) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    at = int(state.footprints[slot].placed)
    while at >= 0:
        found.append((int(state.placements[at].node), int(state.placements[at].tasks)))
        at = int(state.placements[at].follows)
    return found


def active(state: State) -> list[int]:
    return [
        int(slot)
        for g in range(len(state.groups))
        for slot in state.order[g, state.groups[g].head : state.groups[g].tail]
    ]


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("policy", POLICIES)
def test_after_every_event(policy: str, variant: str) -> None:
    run = simulation(workload(30, 1), policy, timeline=True, **VARIANTS[variant])
    for state in after_every_event(run):
        check(state)
    assert run.state.pool[0].active == 0
    if "nodes" in variant:
        nodes = as_array(run.state.nodes)
        assert all((nodes[f"free_{name}"] == nodes[name]).all() for name in ("gpu", "cpu", "memory"))


@pytest.mark.parametrize("cluster", [None, CLUSTER], ids=["no-nodes", "nodes"])
@pytest.mark.parametrize("policy", POLICIES)
def test_a_width_stands_for_the_interval(policy: str, cluster: Cluster | None) -> None:
    """A job that goes from one width to another without a break has had the first for as long as is asked."""
    result = simulate(
        workload(80, 5), policy, units=None if cluster else UNITS, cluster=cluster, engine="pool", timeline=True,
        resize_interval_s=4.0,
    )  # fmt: skip
    assert result.segments is not None
    resized = 0
    s = result.segments
    for row in range(len(result.jobs)):
        mine = s.take(s.row == row)
        stays = list(zip(mine.start_s.tolist(), mine.end_s.tolist(), mine.units.tolist(), strict=True))
        began = stays[0][0]
        for (_, end, units), (start, _, others) in pairwise(stays):
            if start == end and others != units:
                assert start >= began + 4.0
                resized += 1
            if start != end or others != units:
                began = start
    assert resized > 0 or policy.startswith("las")


@pytest.mark.parametrize("policy", ["fifo", "srsf", "max-min", POLICIES[-1]])
def test_a_promise_is_the_future_without_further_arrivals(policy: str) -> None:
    jobs = workload(40, 6)
    options = {"cluster": CLUSTER, "engine": "pool", **GATE}
    promised = simulate(jobs, policy, predict=True, **options).jobs.predicted_finish_s
    for last in range(0, len(jobs), 5):
        truth = simulate(jobs[: last + 1], policy, **options).jobs.finish_s[-1]
        assert promised[last] == truth


@pytest.mark.parametrize("seed", range(4))
def test_fifo_keeps_its_promises_where_units_are_alike(seed: int) -> None:
    """Memory is for 5 units where there are 8 GPUs: later jobs take nothing away."""
    plain = stepping.workload(60, seed)
    count = len(plain)
    alike = replace(
        plain,
        min_units=np.ones(count, int),
        gpu=np.ones(count),
        cpu=np.zeros(count),
        memory_gib=np.full(count, 16.0),
    )
    cluster = Cluster("small", (NodeGroup("a", 2, 3, 0, 33), NodeGroup("b", 1, 2, 0, 17)))
    result = simulate(
        alike, "fifo", cluster=cluster, engine="pool", predict=True, timeline=True, restart_s=1.0
    )
    np.testing.assert_allclose(result.jobs.predicted_finish_s, result.jobs.finish_s, rtol=1e-12)
    assert result.segments is not None
    assert result.segments.units.max() == 5


@pytest.mark.parametrize("policy", POLICIES)
def test_a_copy_has_its_jobs_where_they_are(policy: str) -> None:
    run = simulation(workload(60, 10), policy, sizes="estimate", cluster=CLUSTER, **GATE)
    copy = room_to_play(run.state)
    for state in after_every_event(run):
        for believing in (True, False):
            copy_into(state, copy, believing)
            assert [placements(copy, slot) for slot in active(copy)] == [
                placements(state, slot) for slot in active(state)
            ]
            assert as_array(copy.nodes).tobytes() == as_array(state.nodes).tobytes()
        for name in ("footprints", "progress", "jobs"):
            slots = active(state)
            mine, theirs = as_array(getattr(copy, name))[slots], as_array(getattr(state, name))[slots]
            assert mine.tobytes() == theirs.tobytes()


def test_growth_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def outcome() -> object:
        return simulate(workload(100, 7), "srsf", cluster=CLUSTER, engine="pool", predict=True, **GATE)

    expected = outcome()
    monkeypatch.setattr(twin, "FIRST_SLOTS", 1)
    assert outcome() == expected
    monkeypatch.undo()
    run = simulation(workload(60, 8), "srsf", cluster=CLUSTER)
    for events, state in enumerate(after_every_event(run)):
        check(state)
        if events % 11 == 5 and len(state.free) < 2000:
            run.driver.state = grown(state)
            run.driver.trace = run.trace.replaced(keys=run.trace.keys.repeat(2))
            check(run.state)


@pytest.mark.parametrize("policy", ["las:quantum=3", "max-min"])
def test_the_log_tells_where_everybody_is_and_grows(policy: str) -> None:
    room = 80  # for an event of these jobs, and not for all
    jobs = workload(40, 15)
    run = simulation(replace(jobs, submit_s=np.minimum(jobs.submit_s, 0.0)), policy, cluster=CLUSTER)
    run.driver.state = run.state.replaced(log=blank(Instruction, room))
    total, held = dict[int, int](), dict[int, list[tuple[int, int]]]()

    def fold(lines: np.ndarray) -> None:
        for slot, node, units in lines[["job", "node", "tasks"]].tolist():
            if node < 0:  # how many units it has, and then where
                total[slot], held[slot] = units, []
            else:
                held[slot].append((node, units))
        for slot in active(run.state):
            assert held.get(slot, []) == placements(run.state, slot)
            assert total.get(slot, 0) == run.state.jobs[slot].units

    for row in range(40):
        run.driver.queue_up(run.driver.take_in(row))
        fold(run.driver.ask())
    for until_s in (5.0, 20.0, 80.0):
        fold(run.driver.advance(until_s))
    lines = run.driver.advance(math.inf)
    assert len(run.state.log) >= len(lines) > room


def test_promises_change_nothing() -> None:
    jobs = workload(80, 12)
    plain, promising = (
        simulate(
            jobs,
            "srsf",
            cluster=CLUSTER,
            engine="pool",
            sizes="estimate",
            timeline=True,
            predict=predict,
            **GATE,
        )
        for predict in (False, True)
    )
    np.testing.assert_array_equal(plain.jobs.finish_s, promising.jobs.finish_s)
    assert plain.segments == promising.segments


def test_nodes_that_are_added_are_used() -> None:
    run = simulation(workload(60, 13), "fifo", cluster=CLUSTER)
    used = False
    for events, state in enumerate(after_every_event(run)):
        check(state)
        if events == 20:
            run.driver.state = with_nodes(state, np.array([[8000, 64000, 256 * 1024]]), 16)
            check(run.state)
        if events > 20:
            used = used or any(node == 3 for slot in active(state) for node, _ in placements(state, slot))
    assert used
    assert run.state.pool[0].unused == len(run.state.placements) == 32
    with pytest.raises(ValueError, match="made without nodes"):
        with_nodes(simulation(workload(3, 1), "fifo").state, np.array([[1, 1, 1]]), 4)


def test_a_job_whose_node_is_gone_starts_anew() -> None:
    """It is preempted for good, also where a decision at the same instant gives it as many units as before."""
    run = simulation(workload(60, 14), "fifo", cluster=CLUSTER, restart_s=1.0)
    lost = -1
    for events, state in enumerate(after_every_event(run)):
        check(state)
        pool = state.pool[0]
        if events == 30:
            lost = int(state.holders[0])
            before = int(state.progress[lost].preemptions)
            lose(state, lost)
            check(state)
            assert placements(state, lost) == []
            assert state.jobs[lost].units == 0.0
            assert state.progress[lost].preemptions == before + 1
            assert state.progress[lost].units_before == 0.0
            assert lost not in state.holders[: pool.holders]
    assert lost >= 0


def test_what_nodes_that_are_up_could_hold() -> None:
    run = simulation(workload(3, 1), "fifo", cluster=CLUSTER)
    state = run.state
    footprint = state.footprints[0]
    footprint.gpu, footprint.cpu, footprint.memory = 1000, 4000, 0
    assert most_on_empty_nodes(state, 0, 100) == 2 + 2 + 2
    assert most_on_empty_nodes(state, 0, 3) == 3
    state.nodes[2].up = 0
    state.nodes[0].free_gpu = 0
    assert most_on_empty_nodes(state, 0, 100) == 2 + 2


def test_every_decision_of_an_instant_starts_from_its_beginning() -> None:
    """On nodes of one unit each there are as many placements as can be needed: of all units, now and before."""
    state = new_state(
        2, 1, units=8.0, fractional=False, restart_s=0.0, speedup=np.ones((1, 9)), params=np.zeros(1),
        table=np.zeros((1, 1), dtype=np.int64), capacity=np.tile(np.array([1000, 0, 0]), (8, 1)),
    )  # fmt: skip
    a, b = (submit(state, row, 1, 8, 0, 10.0, 10.0, 1.0) for row in range(2))
    for slot, units in ((a, 2), (b, 4)):
        set_demand(state, slot, 1000, 0, 0)
        place(state, slot, units)
    state.pool[0].now = 1.0
    begin_instant(state)
    began = placements(state, a), placements(state, b)
    place(state, a, 2)
    begin_instant(state)
    assert (placements(state, a), placements(state, b)) == began
    give_back(state, b, 4)
    place(state, a, 6)
    begin_instant(state)
    assert (placements(state, a), placements(state, b)) == began
    assert state.pool[0].unused == 16 - 6 - 6
    state.pool[0].now = 2.0
    begin_instant(state)
    assert state.pool[0].unused == 16 - 6


def test_fractions_have_no_place_on_nodes() -> None:
    fields = {"units": 4.0, "restart_s": 0.0, "speedup": np.zeros((1, 5)), "params": np.zeros(1)}
    fields["table"] = np.zeros((1, 1), dtype=np.int64)
    with pytest.raises(ValueError, match="fractions of a unit"):
        new_state(1, 1, fractional=True, resize_gain=True, **fields)


def crowded() -> State:
    """A state with jobs on several nodes, some of which have moved at this instant."""
    for state in after_every_event(simulation(workload(60, 4), "srsf", cluster=CLUSTER)):
        pool = state.pool[0]
        spread = any(len(placements(state, int(slot))) > 1 for slot in state.holders[: pool.holders])
        if spread and pool.active > pool.holders and pool.touched >= 0:
            return state
    raise AssertionError("no such state came up")


def lose_a_unit(state: State) -> None:
    state.placements[int(state.footprints[int(state.holders[0])].placed)].tasks += 1


def miscount_what_is_free(state: State) -> None:
    state.nodes[0].free_cpu += 1


def shrink_a_node(state: State) -> None:
    state.nodes[0].gpu -= 3000
    state.nodes[0].free_gpu -= 3000


def forget_a_placement(state: State) -> None:
    state.pool[0].unused_head = state.placements[int(state.pool[0].unused_head)].follows


def forget_who_was_touched(state: State) -> None:
    state.pool[0].touched = -1


def be_there_twice(state: State) -> None:
    slots = (int(slot) for slot in state.holders[: state.pool[0].holders])
    first = next(state.footprints[s].placed for s in slots if len(placements(state, s)) > 1)
    state.placements[int(state.placements[int(first)].follows)].node = state.placements[int(first)].node


BREAKS: list[tuple[Callable[[State], None], str]] = [
    (lose_a_unit, "units placed"),
    (miscount_what_is_free, "nodes"),
    (shrink_a_node, "nodes"),
    (forget_a_placement, "placements"),
    (forget_who_was_touched, "touched"),
    (be_there_twice, "placements"),
]


@pytest.mark.parametrize(("damage", "invariant"), BREAKS, ids=[damage.__name__ for damage, _ in BREAKS])
def test_a_broken_state_is_noticed_and_named(damage: Callable[[State], None], invariant: str) -> None:
    state = crowded()
    check(state)
    damage(state)
    with pytest.raises(BrokenInvariant, match=f"invariant '{invariant}'"):
        check(state)
