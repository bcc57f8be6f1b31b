"""Users' limits under every policy: at no instant do a user's jobs hold more than they may, and all of them run."""

from __future__ import annotations

import numpy as np
import pytest

from betimes import Workload
from betimes.cluster import Cluster, NodeGroup, Offer
from betimes.core.nodes.columns import NodesState
from betimes.foresight.portfolio.driver import Portfolio, Settings
from betimes.policies import parse_nodes_policy
from betimes.policies.nodes.registry import NODES_POLICIES
from betimes.twin.nodes.simulation import NodesSimulation
from betimes.twin.options import SimulationOptions
from betimes.twin.sizes import parse_sizes
from betimes.twin.users import Entitled, FairUsers
from tests.core.nodes.invariants import check
from tests.twin.nodes.driving import step_through

ENTITLED = {"0": Entitled(2.0, most_running=2.0), "1": Entitled(most_units=4.0, most_memory=8 * 1024.0)}
OFFERS = tuple(
    Offer(type=f"c{cores}", cpu=cores, memory_gib=4 * cores, usd_per_h=0.1 * cores, boot_s=40.0)
    for cores in (2, 4)
)
OTHERWISE = {name: f"{name}:waits=none" for name in ("sww", "compound")}  # which know waits by default
POLICIES = [
    *(OTHERWISE.get(name, name) for name in NODES_POLICIES if name != "portfolio"),
    "portfolio:members=fifo+easy/order=sjf+njw+fitgpp,objective=jct:avg",
    "portfolio:members=odb*+odx/fifo/first,period=4",
    "portfolio:members=eva+stratus+consolidation,tick=300,period=2",
]


def drawn(seed: int) -> Workload:
    """Forty jobs of three users in twenty minutes, some of them trials, on the four cores of `cluster`."""
    rng = np.random.default_rng(seed)
    units = rng.choice([1, 1, 2, 4], 40)
    return Workload.from_columns(
        submit_s=np.sort(rng.uniform(0.0, 1200.0, 40)).round(),
        work_s=units * rng.lognormal(5.0, 1.0, 40).round(),
        estimate_s=rng.lognormal(5.0, 1.0, 40).round(),
        min_units=units,
        max_units=units,
        memory_gib=rng.choice([0.5, 2.0], 40),
        qos=rng.choice(2, 40, p=[0.7, 0.3]),
        priority=rng.integers(0, 3, 40),
        grace_s=60.0,
        user=rng.choice(3, 40, p=[0.6, 0.3, 0.1]),
    )


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_no_user_exceeds_a_limit_and_every_job_runs(policy: str, seed: int) -> None:
    cluster = Cluster("x", (NodeGroup("own", 2, 0, 2, 8),), offers=OFFERS, quota=4)
    chosen = parse_nodes_policy(policy)
    options = SimulationOptions(
        cluster=cluster, sizes=parse_sizes("estimate"), users=FairUsers(600.0, ENTITLED), seed=seed
    )
    run = NodesSimulation(drawn(seed), chosen, options)
    if chosen.policy.members is not None:
        Portfolio(run, [*chosen.policy.members(chosen.values)], Settings.of(chosen), print).start()

    def look(state: NodesState) -> None:
        check(state)
        for user in state.users:
            assert user.running + user.bound <= user.most_running
            assert user.units + user.bound_units <= user.most_units
            assert user.memory + user.bound_memory <= user.most_memory

    step_through(run, look)
    assert run.result().jobs.finished.all()
