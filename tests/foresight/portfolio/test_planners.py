"""Members that plan in rounds: each plays a copy of the cluster forward, and the chosen one plans from then on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from betimes.cluster import Cluster, Offer, read_cluster
from betimes.errors import PolicyError
from betimes.foresight.nodes.simulate import simulate_nodes
from betimes.policies import ChosenPolicy, parse_nodes_policy
from betimes.twin.nodes.launching import KIND
from betimes.workload import Workload

OFFERS = tuple(
    Offer(
        type=f"c{cores}", cpu=cores, memory_gib=4 * cores, usd_per_h=0.05 * cores, boot_s=100.0, setup_s=21.0
    )
    for cores in (2, 4, 8)
)
CLUSTER = Cluster("planned", (), offers=OFFERS)
INTERFERENCE = read_cluster("ec2-2023-vcpu").interference
DISTURBED = replace(CLUSTER, name="disturbed", interference=INTERFERENCE)
KINDS = INTERFERENCE.workloads if INTERFERENCE is not None else ()


def jobs(count: int, seed: int = 1, gap_s: float = 300.0) -> Workload:
    """Jobs of one to five cores, each one task, some of which can share a machine, and disturb each other."""
    rng = np.random.default_rng(seed)
    cores = rng.choice((1.0, 2.0, 3.0, 5.0), count)
    run_s = rng.lognormal(8.0, 1.0, count)
    return Workload.from_columns(
        submit_s=np.cumsum(rng.exponential(gap_s, count)),
        work_s=run_s,
        min_units=np.ones(count, dtype=np.int64),
        max_units=np.ones(count, dtype=np.int64),
        cpu=cores,
        memory_gib=2 * cores,
        estimate_s=1.5 * run_s,
        extra={KIND: rng.choice(KINDS, count)},
    )


@pytest.mark.parametrize("sizes", ["true", "estimate"])
@pytest.mark.parametrize("member", ["no-packing", "stratus", "synergy", "owl", "consolidation", "eva"])
def test_a_portfolio_of_one_runs_as_that_planner(member: str, sizes: str) -> None:
    plain, chosen = (
        simulate_nodes(jobs(12), policy, cluster=DISTURBED, sizes=sizes, timeline=True)
        for policy in (member, f"portfolio:members={member},objective=cost:0.1")
    )
    assert chosen.jobs == plain.jobs
    assert chosen.leases == plain.leases
    assert chosen.segments == plain.segments
    assert chosen.decisions == plain.decisions
    assert chosen.migrations == plain.migrations
    assert chosen.timing.events == plain.timing.events
    assert chosen.selections is not None
    assert len(chosen.selections) > 5


def test_planners_take_turns_and_are_chosen_by_what_they_cost() -> None:
    members = ("no-packing", "eva", "synergy/t=1")
    result = simulate_nodes(
        jobs(20), f"portfolio:members={'+'.join(members)},objective=cost", cluster=CLUSTER, sizes="true"
    )
    found, leases = result.selections, result.leases
    assert found is not None
    assert leases is not None
    assert result.jobs.finished.all()
    assert found.member[:3].tolist() == list(members)
    assert len(set(found.member[found.chosen].tolist())) > 1
    for at in np.flatnonzero(found.chosen):
        assert found.score[at] == found.score[found.selection == found.selection[at]].min()
    alone = simulate_nodes(jobs(20), "no-packing", cluster=CLUSTER, sizes="true")
    assert alone.leases is not None
    assert leases.cost_usd.sum() < alone.leases.cost_usd.sum()


def test_what_is_expected_comes_true_where_nothing_more_is_submitted() -> None:
    """The last selection of a portfolio that is asked but once, when all jobs are there: what it expects is the run."""
    together = replace(jobs(10), submit_s=np.zeros(10))
    result = simulate_nodes(
        together,
        "portfolio:members=no-packing+eva,objective=jct:avg,period=1000000",
        cluster=CLUSTER,
        sizes="true",
    )
    found = result.selections
    assert found is not None
    assert found.score[found.chosen] == pytest.approx(np.mean(result.jobs.finish_s))


def failing(_: object, __: Cluster) -> object:
    class Fails:
        period_s, every_round = 300.0, False

        def plan(self, _: object) -> None:
            raise ValueError("no idea")

    return Fails()


def test_a_users_planner_that_fails_is_left_out_and_named() -> None:
    chosen = parse_nodes_policy("portfolio:members=eva+no-packing/rounds=fixed")
    good = chosen.policy.in_turn(chosen.values)[1]
    bad = replace(good, name="bad", policy=replace(good.policy, planner=failing))  # pyright: ignore
    policy = replace(chosen.policy, members=lambda _: [good, bad])
    warned: list[str] = []
    result = simulate_nodes(
        jobs(5), ChosenPolicy(policy, chosen.values, (), "both"), cluster=CLUSTER, warn=warned.append
    )
    assert result.jobs.finished.all()
    assert [each for each in warned if "portfolio:" in each] == [
        "portfolio: bad is left out from now on: in its simulation policy both at 300 s: ValueError: no idea"
    ]


@pytest.mark.parametrize("members", ["eva+oda/fifo/first", "oda+no-packing", "no-packing+fifo"])
def test_planners_and_others_do_not_take_turns(members: str) -> None:
    with pytest.raises(PolicyError, match="plans in rounds of its own, and cannot take turns with"):
        simulate_nodes(jobs(3), f"portfolio:members={members}", cluster=CLUSTER)
