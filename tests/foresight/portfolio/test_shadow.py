"""A shadow portfolio says what its choices would have come to."""

from __future__ import annotations

from dataclasses import replace

from betimes.cluster import NodeGroup
from betimes.foresight.nodes.simulate import in_force, saved_in_force, simulate_nodes
from betimes.policies import parse_nodes_policy
from tests.foresight.portfolio.clusters import VMS, bursts, workload

POLICY = "portfolio:members=odx/wfp3/worst+odx/unicef/*+oda/unicef/best,period=1"


def test_the_line_compares_the_shadow_with_the_run_that_its_choices_decide() -> None:
    told: list[str] = []
    decided = simulate_nodes(bursts(4), POLICY, cluster=VMS)
    found = simulate_nodes(bursts(4), f"{POLICY},shadow=true", cluster=VMS, warn=told.append)
    assert found.jobs != decided.jobs
    assert told == [saved_in_force(found, decided)]
    assert decided.leases is not None
    assert f"{decided.leases.cost_usd.sum():,.2f} USD instead of" in told[0]


def test_the_same_portfolio_in_force_is_named_without_the_shadow() -> None:
    assert str(in_force(parse_nodes_policy(f"{POLICY},shadow=true"))) == POLICY


def test_it_compares_runs_in_which_no_machine_is_rented() -> None:
    told: list[str] = []
    idle = workload((0.0, 1, 10.0))
    owned = replace(VMS, groups=(NodeGroup("own", 1, 0.0, 4.0, 0.0),))
    simulate_nodes(idle, f"{POLICY},shadow=true", cluster=owned, warn=told.append)
    assert told == [
        "portfolio: with its choices in force, mean JCT 10 s instead of 10 s, mean bounded slowdown 1 instead of 1, "
        "0.00 USD instead of 0.00 USD"
    ]
