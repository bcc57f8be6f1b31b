"""The hooks of provisioning policies asked about one state, to the digit: C2, C3 and C5 of spec/portfolio.md."""

from __future__ import annotations

import math

import numpy as np
import pytest

from betimes.cluster import Cluster, Offer
from betimes.core.nodes.columns import NodesState, view_of
from betimes.core.nodes.growth import grown, new_nodes_state
from betimes.core.nodes.machines.rented import BOOTING, RUNNING
from betimes.core.nodes.rules import NodesRules
from betimes.core.pool.columns import UNLIMITED
from betimes.core.status import NEED_NODES
from betimes.kernels import Floats, Ints, entry, kernel
from betimes.policies import parse_nodes_policy
from betimes.twin.nodes.renting import terms_of

HOURLY = Offer(
    type="vm",
    cpu=1.0,
    memory_gib=0.0,
    usd_per_h=1.0,
    boot_s=120.0,
    bill_step_s=3600.0,
    min_bill_s=3600.0,
    bill_from="request",
    capacity=256,
)


@entry
@kernel
def ask(state: NodesState, rules: NodesRules, what: int, asked: Ints, score: Floats, orders: Ints) -> int:
    """Ask for the order of jobs (0), the place of a job on nodes (1), or the machines to be ordered (2)."""
    view, now = view_of(state), state.pool[0].now
    if what == 0:
        rules.rank(view, now, asked, score)
    elif what == 1:
        rules.place(view, state.nodes, 0, asked, score)
    else:
        rules.provision(view, now, asked, orders)
    return 0


def state_at(now_s: float, machines: int, placement: float = 0.0) -> NodesState:
    """A cluster on which nothing is rented yet, with room for so many machines."""
    state = new_nodes_state(
        np.zeros((0, 3), dtype=np.int64),
        np.zeros(0, dtype=np.int64),
        units=1.0,
        restart_s=0.0,
        seed=0,
        by_priority=False,
        params=np.array([placement, 0.0, 20.0]),
        slots=64,
        placements=64,
        offers=terms_of(Cluster("vms", (), offers=(HOURLY,))),
        quota=UNLIMITED,
        largest=np.ones(3, dtype=np.int64),
    )
    while len(state.nodes) < machines:
        state = grown(state, NEED_NODES)
    state.pool[0].now = now_s
    return state


def add_job(state: NodesState, slot: int, submit_s: float, units: int, run_s: float) -> None:
    job, need, progress = state.jobs[slot], state.needs[slot], state.progress[slot]
    eviction = state.evictions[slot]
    job.submit_s, job.max_units, job.seq = submit_s, units, slot
    need.tasks, need.holder, eviction.vacate_at = units, -1, math.inf
    progress.believed_left, progress.believed_per_work = run_s, 1.0


@pytest.mark.parametrize(
    ("order", "expected", "values"),
    [
        ("fifo", [1, 2, 3, 4], None),
        ("slowdown", [2, 3, 4, 1], [1.2778, 5.0, 5.0, 1.3333]),
        ("wfp3", [3, 2, 4, 1], [0.1715, 64.0, 256.0, 2.3704]),
        ("unicef", [2, 3, 1, 4], [0.0926, 4.0, 2.0, 0.0556]),
    ],
)
def test_c2(order: str, expected: list[int], values: list[float] | None) -> None:
    state = state_at(1000.0, 1)
    for slot, job in enumerate([(0.0, 8, 3600.0), (600.0, 1, 100.0), (800.0, 4, 50.0), (900.0, 64, 300.0)]):
        add_job(state, slot, *job)
    chosen = parse_nodes_policy(f"oda:order={order}")
    key = np.full(4, np.nan)
    ask(state, chosen.policy.rules(chosen.values), 0, np.arange(4), key, np.zeros(1, dtype=np.int64))
    assert (np.argsort(key, kind="stable") + 1).tolist() == expected
    if values is not None:
        assert (-key).tolist() == pytest.approx(values, abs=1e-4)


@pytest.mark.parametrize(
    ("placement", "expected"), [("first", [0, 1, 2]), ("best", [0, 1, 2]), ("worst", [2, 1, 0])]
)
def test_c3(placement: str, expected: list[int]) -> None:
    chosen = parse_nodes_policy(f"oda:placement={placement}")
    state = state_at(3500.0, 3, float(["first", "best", "worst"].index(placement)))
    for number, leased_s in enumerate((0.0, 600.0, 3000.0)):
        machine = state.machines[number]
        machine.offer, machine.state, machine.requested_s = 0, RUNNING, leased_s
    score = np.full(3, np.nan)
    ask(state, chosen.policy.rules(chosen.values), 1, np.arange(3), score, np.zeros(1, dtype=np.int64))
    assert np.argsort(score, kind="stable").tolist() == expected
    if placement != "first":
        assert np.abs(score).tolist() == [100.0, 700.0, 3100.0]


@pytest.mark.parametrize(
    ("policy", "expected"), [("oda", 13), ("odb", 10), ("ode", 8), ("odm", 5), ("odx", 1)]
)
def test_c5(policy: str, expected: int) -> None:
    state = state_at(1000.0, 8)
    for slot, job in enumerate([(300.0, 4, 300.0), (900.0, 1, 300.0), (980.0, 8, 60.0)]):
        add_job(state, slot, *job)
    for number in range(8):
        machine = state.machines[number]
        machine.offer, machine.state = 0, BOOTING if number == 2 else RUNNING
        machine.residents = number if number > 2 else -1
    for number, end_s in enumerate((1060.0, 1120.0, 1121.0, 2000.0, 3000.0)):
        slot = 3 + number
        add_job(state, slot, 0.0, 1, end_s - 1000.0)
        state.progress[slot].since, state.progress[slot].rate = 1000.0, 1.0
        state.needs[slot].holder = number
        state.holders[number] = slot
    state.pool[0].holders = 5
    state.cluster[0].rented = state.offers[0].rented = 8
    chosen = parse_nodes_policy(policy)
    orders = np.zeros(1, dtype=np.int64)
    ask(state, chosen.policy.rules(chosen.values), 2, np.arange(3), np.zeros(3), orders)
    assert orders.tolist() == [expected]
