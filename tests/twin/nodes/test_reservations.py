"""Who keeps a place, and who gives way, when a reservation is lost."""

from __future__ import annotations

import numpy as np
import pytest

from betimes import Workload
from betimes.cluster import Cluster
from betimes.foresight.nodes.simulate import simulate_nodes
from betimes.kernels import as_array
from betimes.policies import parse_nodes_policy
from betimes.twin.nodes.simulation import NodesSimulation
from betimes.twin.options import SimulationOptions
from tests.core.nodes.invariants import check


@pytest.mark.parametrize("policy", ["easy", "conservative"])
def test_an_overrun_of_a_millisecond_sends_nobody_to_the_back_of_the_queue(policy: str) -> None:
    workload = Workload.from_columns(
        submit_s=[0.0, 1.0, 2.0, 3.0, 4.0],
        work_s=[10.001, *4 * [1000.0]],
        estimate_s=[10.0, *4 * [1000.0]],
    )
    start_s = simulate_nodes(workload, policy, cluster=Cluster.pool(1)).jobs.start_s
    np.testing.assert_allclose(start_s, [0.0, 10.001, 1010.001, 2010.001, 3010.001], rtol=1e-12)


def test_whoever_waits_for_a_node_that_is_closed_keeps_its_place() -> None:
    """One waits for each of two nodes, and a third job behind them; the first node is closed."""
    workload = Workload.from_columns(
        submit_s=[0.0, 0.0, 1.0, 2.0, 3.0, 4.0],
        work_s=[10.0, 20.0, 10.0, 10.0, 10.0, 1.0],
        cpu=1.0,
        gpu=0.0,
        memory_gib=0.0,
    )
    run = NodesSimulation(
        workload,
        parse_nodes_policy("conservative:placement=first"),
        SimulationOptions(cluster=Cluster.uniform(2, cpu=1)),
    )
    while run.row[0] < 5:
        run.driver.heed(run.driver.step(5))
    promised = as_array(run.state.needs)["reserved_s"]
    slots = np.argsort(as_array(run.state.progress)["row"][:5])
    assert promised[slots[2:5]].tolist() == [10.0, 20.0, 20.0]
    run.state.nodes[0].up = 0
    run.state.cluster[0].must_replan = 1
    run.state.cluster[0].changed += 1
    run.run(lambda stop: (run.driver.step(stop), check(run.state))[0])
    assert run.result().jobs.start_s.tolist() == [0.0, 0.0, 20.0, 30.0, 40.0, 50.0]


def test_nobody_is_planned_for_where_everybody_fits() -> None:
    """A newcomer that fits while nobody waits needs no plan, however many nodes there are."""
    workload = Workload.from_columns(submit_s=np.arange(50.0), work_s=20.0, cpu=1.0, gpu=0.0, memory_gib=0.0)
    run = NodesSimulation(
        workload, parse_nodes_policy("conservative"), SimulationOptions(cluster=Cluster.uniform(30, cpu=1))
    )
    run.run()
    assert run.state.cluster[0].steps == 0
    assert run.result().jobs.start_s.tolist() == workload.submit_s.tolist()
