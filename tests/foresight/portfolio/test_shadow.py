"""A shadow portfolio says what its choices would have come to."""

from __future__ import annotations

from betimes.foresight.nodes.simulate import in_force, saved_in_force, simulate_nodes
from betimes.policies import parse_nodes_policy
from tests.foresight.portfolio.clusters import VMS, bursts

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
