"""Members that are none of the 60: orders of the queue, backfilling, preemption, and a user's own policy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from betimes.cluster import Cluster, NodeGroup
from betimes.errors import PolicyError
from betimes.foresight.nodes.simulate import simulate_nodes
from betimes.foresight.portfolio.driver import Portfolio, Settings
from betimes.outcome import JobColumns, metrics
from betimes.policies import NODES_POLICIES, parse_nodes_policy
from betimes.policies.nodes.provisioning import TICK_S
from betimes.twin.nodes.simulation import NodesSimulation
from betimes.twin.options import SimulationOptions
from betimes.workload import Workload
from tests.foresight.portfolio.clusters import VMS, bursts, compare_around_selections

OWN = Cluster("own", (NodeGroup("node", 4, 0.0, 4.0, 0.0),))

NEWEST = """
from betimes.policies import kernel
from betimes.policies.nodes.hooks import ordering

@ordering(summary="The last one first.")
def newest(view, now, chosen, key):
    for k in range(len(chosen)):
        key[k] = -view.jobs[chosen[k]].submit_s
"""


def jobs(seed: int, count: int = 50) -> Workload:
    """Jobs of up to 4 cores, some of them trials, that keep 16 cores busy."""
    rng = np.random.default_rng(seed)
    units = 2 ** rng.integers(0, 3, count)
    run_s = rng.lognormal(5.5, 1.0, count)
    return Workload.from_columns(
        submit_s=np.cumsum(rng.exponential(40.0, count)),
        work_s=units * run_s,
        min_units=units,
        max_units=units,
        cpu=np.ones(count),
        estimate_s=2.0 * run_s,
        qos=(rng.random(count) < 0.3).astype(np.int64),
    )


@settings(max_examples=20, deadline=None)
@given(
    st.sampled_from(
        ("fifo", "sjf", "unicef", "skip-over", "easy", "conservative", "easy/order=sjf", "fitgpp", "rand")
    ),
    st.integers(0, 5),
    st.sampled_from(("true", "estimate")),
)
def test_a_portfolio_of_one_runs_as_that_policy(member: str, seed: int, sizes: str) -> None:
    plain, chosen = (
        simulate_nodes(jobs(seed), policy, cluster=OWN, sizes=sizes, timeline=True)
        for policy in (member.replace("/", ":"), f"portfolio:members={member},period=1")
    )
    assert chosen.jobs == plain.jobs
    assert chosen.segments == plain.segments
    assert chosen.absences == plain.absences
    assert chosen.decisions == plain.decisions
    assert chosen.timing.events == plain.timing.events
    assert chosen.selections is not None
    assert len(chosen.selections) > 0


def test_members_of_several_questions_take_turns() -> None:
    members = "fifo+sjf+easy/order=sjf+conservative"
    result = simulate_nodes(jobs(1), f"portfolio:members={members},period=1", cluster=OWN, sizes="true")
    found = result.selections
    assert found is not None
    assert list(dict.fromkeys(found.member.tolist())) == members.split("+")
    assert len(set(found.member[found.chosen].tolist())) > 1
    assert result.jobs.finished.all()


def test_a_users_policy_is_a_member(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(NEWEST)
    plain, alone, both = (
        simulate_nodes(jobs(2), policy, cluster=OWN, timeline=True)
        for policy in (
            f"{file}:newest:backfill=easy",
            f"portfolio:members={file}:newest/backfill=easy",
            f"portfolio:members=fifo+{file}:newest",
        )
    )
    assert alone.jobs == plain.jobs
    assert alone.segments == plain.segments
    assert both.selections is not None
    assert set(both.selections.member.tolist()) == {"fifo", f"{file}:newest"}


def test_a_member_outside_the_60_may_rent_with_them() -> None:
    result = simulate_nodes(bursts(1), "portfolio:members=odb/fifo/*+oda/order=sjf", cluster=VMS)
    assert result.selections is not None
    assert set(result.selections.member.tolist()) == {
        "odb/fifo/first",
        "odb/fifo/best",
        "odb/fifo/worst",
        "oda/order=sjf",
    }


def test_an_objective_is_what_the_jobs_come_to() -> None:
    """Two members on an idle cluster: at the last selection nothing else is left, and its value is the run's own."""
    work = jobs(3, 12)
    together = Workload.from_columns(
        submit_s=np.zeros(12),
        work_s=work.work_s,
        min_units=work.min_units,
        max_units=work.max_units,
        cpu=np.ones(12),
    )
    for objective, of in (
        ("jct:avg", lambda jct, _: metrics.mean(jct)),
        ("slowdown:p95", lambda jct, run: metrics.percentile(jct / run, 95)),
        ("wait:max", lambda jct, run: float((jct - run).max())),
        ("makespan:avg", lambda jct, _: float(jct.max())),
    ):
        result = simulate_nodes(
            together,
            f"portfolio:members=ljf+sjf,objective={objective},period=1000000",
            cluster=OWN,
            sizes="true",
        )
        found = result.selections
        assert found is not None
        assert len(found) == 2
        of_run = of(result.jobs.finish_s, result.jobs.run_alone_s)
        assert found.score[found.chosen] == pytest.approx(of_run)
        assert found.score[found.chosen] == found.score.min()


def test_cost_alone_rents_as_little_as_it_can() -> None:
    cost, utility = (
        simulate_nodes(bursts(2), f"portfolio:members=od?/fifo/first,objective={objective}", cluster=VMS)
        for objective in ("cost", "utility")
    )
    assert cost.leases is not None
    assert utility.leases is not None
    assert cost.leases.cost_usd.sum() <= utility.leases.cost_usd.sum()


def test_promises_that_were_made_are_kept() -> None:
    """One unit. Under fifo the second job is promised 200 s and the third, which is short, 210 s; then one is selected.

    By mean completion times the short job goes first, and ends 100 s early, the other 10 s late.
    """
    one = Cluster("one", (NodeGroup("own", 1, 0, 1, 4),))
    three = Workload.from_columns(submit_s=[0.0, 1.0, 2.0], work_s=[100.0, 100.0, 10.0])

    def found(objective: str) -> JobColumns:
        policy = f"portfolio:members=fifo+sjf,tick=5,period=1,objective={objective}"
        return simulate_nodes(three, policy, cluster=one, predict=True).jobs

    assert found("jct:avg").finish_s.tolist() == [100.0, 210.0, 110.0]
    kept = found("pred_err:max")
    assert kept.finish_s.tolist() == kept.predicted_finish_s.tolist() == [100.0, 200.0, 210.0]


def test_members_that_wait_foresee_nothing_unless_it_is_asked_for() -> None:
    members = NODES_POLICIES["portfolio"].in_turn(
        parse_nodes_policy("portfolio:members=sww+compound/b=2h").values
    )
    assert [member.values["waits"] for member in members] == ["none", "none"]


def test_a_member_takes_several_parameters_and_fractions() -> None:
    text = "portfolio:members=eva/t=19/20/period=60/only=full+no-packing,period=3"
    chosen = parse_nodes_policy(text)
    eva, no_packing = chosen.policy.in_turn(chosen.values)
    assert [eva.values[name] for name in ("t", "period", "only")] == [0.95, 60.0, "full"]
    assert no_packing.values["period"] == 300.0
    assert chosen.values["period"] == 3.0


@settings(max_examples=6, deadline=None)
@given(st.integers(0, 1000), st.sampled_from(("fifo+conservative+easy", "fitgpp+rand+fifo")))
def test_a_selection_never_changes_the_state_of_the_run(seed: int, members: str) -> None:
    chosen = parse_nodes_policy(f"portfolio:members={members},period=1,objective=jct:avg")
    run = NodesSimulation(jobs(seed), chosen, SimulationOptions(cluster=OWN))
    portfolio = Portfolio(run, list(chosen.policy.in_turn(chosen.values)), Settings.of(chosen), pytest.fail)
    portfolio.start()
    compared = compare_around_selections(run, portfolio)
    run.run()
    assert len(compared) > 0
    assert run.result().jobs.finished.all()


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        ("members=fifo+eva", "eva plans in rounds of its own"),
        ("members=fifo+sww/waits=oracle", "sww/waits=oracle has waits=oracle"),
        ("members=fifo+wfq/classes=3", "wfq shares a pool, and a portfolio decides about nodes"),
        ("members=eva+wfq/heterogeneous=yes", "wfq with heterogeneous=yes cannot take turns"),
        ("members=fifo+oda", "oda rents machines, and fifo knows the cluster's own only"),
        ("members=portfolio", "portfolio is a portfolio itself"),
        ("members=fifo+lowest-priority", "goes by the jobs' priorities"),
        ("members=fifo+fifo", "fifo is named 2 times"),
        ("members=odb/fifo/first+odb", "odb and odb/fifo/first are the same policy"),
        ("members=fifo/x=2", "fifo has no parameter 'x'"),
        ("members=fifo+easy/order=sjf,window=3", "those of a member follow it after slashes"),
        ("members=wfq,heterogeneous=yes", "those of a member follow it after slashes"),
        ("members=fifo+easy:order=sjf", "write easy/order=sjf"),
        ("members=eva:period=60+no-packing", "write eva/period=60"),
        ("members=sjff", "did you mean 'sjf"),
        ("members=nowhere.py:newest", "there is no such file"),
        ("members=odb*+oda/tick=10", "oda/tick=10 has another tick than odb/fifo/first"),
        ("objective=jct", "write METRIC:MEASURE"),
        ("objective=pred_err:avg", "no job is promised anything .* add --predict"),
        ("objective=unfairness:avg", "does not show unfairness"),
        ("members=oda/fifo/*,objective=cost:avg", "write objective=cost"),
        ("members=fifo,objective=cost", "no member rents machines"),
    ],
)
def test_members_and_objectives_that_cannot_be(policy: str, said: str) -> None:
    with pytest.raises(PolicyError, match=said):
        simulate_nodes(jobs(0, 5), f"portfolio:{policy}", cluster=OWN)


def test_the_tick_of_the_portfolio_is_that_of_every_member_that_has_one() -> None:
    chosen = parse_nodes_policy("portfolio:members=odb/fifo/first+oda/order=sjf,tick=7")
    ticks = {member.values[TICK_S.name] for member in NODES_POLICIES["portfolio"].in_turn(chosen.values)}
    assert ticks == {7.0}
