"""Members that are simulated together come to what each comes to by itself, with any number of threads."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from betimes.cluster import Cluster
from betimes.foresight.nodes.simulate import simulate_nodes
from betimes.foresight.portfolio.lookahead import Foreseen, Groups, Lookahead, Simulation, Together
from betimes.policies import NODES_POLICIES, parse_nodes_policy
from betimes.policies.nodes.portfolio import CANDIDATES
from betimes.twin.nodes.simulation import NodesSimulation
from betimes.twin.options import SimulationOptions
from betimes.twin.sizes import parse_sizes
from tests.foresight.portfolio.clusters import HOURLY, VMS, bursts

PER_MINUTE = Cluster(
    "vms",
    (),
    offers=(replace(HOURLY, cpu=2.0, boot_s=45.0, bill_step_s=60.0, min_bill_s=300.0, capacity=40),),
)


def at(seed: int, member: str, job: int, sizes: str, cluster: Cluster = VMS) -> NodesSimulation:
    """A run under one of the 60 up to when a job has been submitted, which waits for the next tick."""
    provisioning, order, placement = member.split("/")
    policy = parse_nodes_policy(f"{provisioning}:order={order},placement={placement}")
    run = NodesSimulation(
        bursts(seed, 120), policy, SimulationOptions(cluster=cluster, sizes=parse_sizes(sizes))
    )
    run.advance_to(float(run.jobs.submit_s[job]))
    assert run.state.cluster[0].waiting > 0
    return run


def groups(families: bool) -> list[Together]:
    members = NODES_POLICIES["portfolio"].in_turn(parse_nodes_policy("portfolio").values)
    rules = [member.policy.rules(member.values) for member in members]
    params = [member.policy.params(member.values) for member in members]
    if families:
        return Groups(members, rules, params).of(range(len(members)))
    return [
        Together(rule, param, {0: number})
        for number, (rule, param) in enumerate(zip(rules, params, strict=True))
    ]


def by_member(simulations: list[Simulation]) -> dict[int, Foreseen]:
    found: dict[int, Foreseen] = {}
    for simulation in simulations:
        assert isinstance(simulation.foreseen, Foreseen)
        for member in simulation.members:
            assert member not in found
            found[member] = simulation.foreseen
    return found


@settings(max_examples=12, deadline=None)
@given(
    st.integers(0, 1000),
    st.sampled_from(list(CANDIDATES)),
    st.integers(0, 119),
    st.sampled_from(("true", "estimate", "last-two")),
    st.sampled_from((VMS, PER_MINUTE)),
)
def test_a_family_comes_to_what_each_member_comes_to_by_itself(
    seed: int, member: str, job: int, sizes: str, cluster: Cluster
) -> None:
    run = at(seed, member, job, sizes, cluster)
    lookahead = Lookahead(run)
    lookahead.look()
    together, alone = lookahead.play_all(groups(True)), lookahead.play_all(groups(False))
    assert len(alone) == 60 == len(by_member(alone))
    assert len(together) <= 60
    assert by_member(together) == by_member(alone)


def test_members_of_a_family_share_what_they_have_in_common() -> None:
    lookahead = Lookahead(at(1, "odb/fifo/first", 30, "true"))
    lookahead.look()
    found = lookahead.play_all(groups(True))
    assert 4 <= len(found) < 60
    assert max(len(simulation.members) for simulation in found) > 1


def test_what_becomes_of_each_job_is_the_same_in_a_family() -> None:
    run = at(3, "odm/unicef/worst", 60, "true")
    lookahead = Lookahead(run)
    lookahead.look()
    ended = [
        {
            member: one.ended
            for one in lookahead.play_all(groups(families), ends=True)
            for member in one.members
        }
        for families in (True, False)
    ]
    for member, mine in ended[0].items():
        other = ended[1][member]
        assert mine is not None
        assert other is not None
        assert mine[0].tobytes() == other[0].tobytes()
        assert np.array_equal(mine[1], other[1])


@pytest.mark.parametrize("policy", ["portfolio:period=2", "portfolio:period=2,budget=13,ties=index"])
def test_the_choices_are_the_same_in_one_thread_and_in_several(policy: str) -> None:
    one, several = (
        simulate_nodes(bursts(5), f"{policy},workers={workers}", cluster=VMS) for workers in (1, 3)
    )
    assert several.selections == one.selections
    assert several.jobs == one.jobs
    assert several.leases == one.leases


def test_objectives_go_by_each_jobs_end_in_a_family_and_in_several_threads() -> None:
    one, several = (
        simulate_nodes(bursts(6), f"portfolio:members=od*,objective=jct:p95,workers={workers}", cluster=VMS)
        for workers in (1, 2)
    )
    assert several.selections == one.selections
