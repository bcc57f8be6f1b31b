"""Members that say how long jobs wait for the cluster's own machines before one is rented for them alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from betimes.cluster import Cluster, NodeGroup, Offer
from betimes.core.status import DONE
from betimes.errors import PolicyError
from betimes.foresight.nodes.simulate import simulate_nodes
from betimes.foresight.portfolio.driver import Portfolio, Settings
from betimes.foresight.portfolio.lookahead import take_over
from betimes.outcome import Result, metrics
from betimes.policies import parse_nodes_policy
from betimes.policies.nodes.hooks import rules_in_turn
from betimes.twin.nodes.simulation import NodesSimulation
from betimes.twin.options import SimulationOptions
from betimes.workload import Workload
from tests.core.nodes.invariants import check
from tests.foresight.portfolio.clusters import compare_around_selections

VM = Offer(type="vm", cpu=2.0, gpu=0.0, memory_gib=0.0, usd_per_h=3.6, boot_s=30.0)
BOTH = Cluster("both", (NodeGroup("node", 2, 0.0, 2.0, 0.0),), offers=(VM,))
ONE = Cluster("one", (NodeGroup("node", 1, 0.0, 1.0, 0.0),), offers=(replace(VM, cpu=1.0),))


def jobs(seed: int, count: int = 40, widest: int = 2) -> Workload:
    """Jobs of up to `widest` cores, some of them trials, too many for four cores."""
    rng = np.random.default_rng(seed)
    units = rng.integers(1, widest + 1, count)
    run_s = rng.lognormal(5.0, 1.0, count)
    return Workload.from_columns(
        submit_s=np.cumsum(rng.exponential(30.0, count)),
        work_s=units * run_s,
        min_units=units,
        max_units=units,
        cpu=np.ones(count),
        estimate_s=2.0 * run_s,
        qos=(rng.random(count) < 0.3).astype(np.int64),
    )


def two_jobs() -> Workload:
    """One that holds the only core up to 1,000 s, and one of 100 s that comes at 10 s."""
    return Workload.from_columns(
        submit_s=[0.0, 10.0], work_s=[1000.0, 100.0], min_units=[1, 1], max_units=[1, 1], cpu=[1.0, 1.0]
    )


def same_runs(one: Result, other: Result) -> None:
    assert one.jobs == other.jobs
    assert one.segments == other.segments
    assert one.leases == other.leases
    assert one.decisions == other.decisions


@settings(max_examples=12, deadline=None)
@given(
    st.sampled_from(
        (
            *("njw", "ajw", "ajw-t/b=300", "ljw/t=100/lengths=estimate", "ljw/t=100/short_uses_owned=false"),
            *("ljw/t=60/lengths=speculate", "sww/b=200/waits=none", "compound/t=100/b=400/waits=none"),
        )
    ),
    st.integers(0, 5),
    st.sampled_from(("true", "estimate")),
)
def test_a_portfolio_of_one_runs_as_that_policy(member: str, seed: int, sizes: str) -> None:
    name, _, given_values = member.partition("/")
    plain, chosen = (
        simulate_nodes(jobs(seed), policy, cluster=BOTH, sizes=sizes, timeline=True)
        for policy in (
            f"{name}:{given_values.replace('/', ',')}".rstrip(":"),
            f"portfolio:members={member},period=1",
        )
    )
    same_runs(chosen, plain)
    assert chosen.selections is not None


@pytest.mark.parametrize(
    ("wait_usd_per_h", "member", "finish_s"),
    [
        # At 40 s: to wait costs 990 s of waiting; to rent 100 s of a machine at 3.60 USD, and 60 s until it has booted.
        (0.0, "ajw", 1100.0),
        (0.38, "ajw", 1100.0),  # 0.1045 against 0.1000 + 0.0063
        (0.40, "njw", 170.0),  # 0.1100 against 0.1000 + 0.0067
    ],
)
def test_what_an_hour_of_waiting_is_worth_decides(
    wait_usd_per_h: float, member: str, finish_s: float
) -> None:
    policy = f"portfolio:members=ajw+njw,objective=cost:{wait_usd_per_h}"
    result = simulate_nodes(two_jobs(), policy, cluster=ONE)
    found = result.selections
    assert found is not None
    assert found.at_s[found.chosen].tolist()[:2] == [0.0, 40.0]  # there was nothing to choose at 0 s
    assert found.member[found.chosen].tolist()[1] == member
    assert result.jobs.finish_s.tolist() == [1000.0, finish_s]


@pytest.mark.parametrize("step_s", [0.0, 60.0])
def test_the_cost_that_is_foreseen_is_what_is_paid(step_s: float) -> None:
    """All jobs come at once, and there is one selection: what it expects of its choice is what comes of it."""
    some = jobs(1, 12)
    together = Workload.from_columns(
        submit_s=np.zeros(12),
        work_s=some.work_s,
        min_units=some.min_units,
        max_units=some.max_units,
        cpu=np.ones(12),
    )
    cluster = replace(BOTH, offers=(replace(VM, bill_step_s=step_s, min_bill_s=60.0, release_s=5.0),))
    policy = "portfolio:members=ajw+ajw-t/b=300+njw,objective=cost:1.5,period=1000000"
    result = simulate_nodes(together, policy, cluster=cluster)
    found, jobs_done = result.selections, result.jobs
    assert found is not None
    assert result.leases is not None
    wait_h = metrics.wait(jobs_done.submit_s, jobs_done.start_s).sum() / 3600.0
    paid_usd = metrics.total(result.leases.cost_usd)
    assert found.score[found.chosen] == pytest.approx(paid_usd + 1.5 * wait_h)


def switched(at_s: float, policy: str, cluster: Cluster, work: Workload) -> NodesSimulation:
    """A run of a portfolio's first member under which, at `at_s`, the second takes over."""
    chosen = parse_nodes_policy(f"portfolio:members={policy}")
    run = NodesSimulation(work, chosen, SimulationOptions(cluster=cluster))
    members = chosen.policy.in_turn(chosen.values)
    run.advance_to(at_s)
    run.driver.rules = rules_in_turn(members)[1]
    params = members[1].policy.params(members[1].values)
    run.state.params[: len(params)] = params
    assert take_over(run.state, run.rules) == DONE
    check(run.state)
    run.run()
    check(run.state)
    return run


@pytest.mark.parametrize(
    ("policy", "finish_s"),
    [
        ("ajw+ajw-t/b=300", 310.0 + 130.0),  # patience counts from when it began to wait
        ("ajw-t/b=300+ajw", 1100.0),
        ("ajw-t/b=300+ajw-t/b=500", 510.0 + 130.0),
        ("ajw+njw", 10.0 + 130.0),  # nothing has happened since 10 s
        ("fifo+ajw-t/b=300", 310.0 + 130.0),
        ("ajw-t/b=300+fifo", 1100.0),
    ],
)
def test_who_takes_over_decides_anew_how_long_each_job_waits(policy: str, finish_s: float) -> None:
    result = switched(200.0, policy, ONE, two_jobs()).result()
    assert result.jobs.finish_s.tolist() == [1000.0, finish_s]


def test_one_that_must_not_use_what_is_owned_stands_in_the_queue_again() -> None:
    """Short jobs go to rented machines only, of which there are none left; then the queue is open to them."""
    none_left = replace(ONE, offers=(replace(VM, cpu=1.0, capacity=1),))
    work = Workload.from_columns(
        submit_s=[0.0, 10.0, 20.0],
        work_s=[300.0, 2000.0, 100.0],
        min_units=[1, 1, 1],
        max_units=[1, 1, 1],
        cpu=[1.0, 1.0, 1.0],
    )
    apart = "ljw/t=5000/short_uses_owned=false"
    stays = simulate_nodes(work, apart.replace("/", ":", 1).replace("/", ","), cluster=none_left)
    assert stays.jobs.finish_s.tolist()[2] > 2400.0
    freed = switched(100.0, f"{apart}+ajw", none_left, work).result()
    assert freed.jobs.rented.tolist() == [True, False, False]
    back = switched(30.0, f"ajw+{apart}", none_left, work).result()
    assert back.jobs.rented.tolist() == [False, True, True]


def test_what_fits_no_machine_of_ones_own_is_rented_for_under_every_member() -> None:
    wide = Workload.from_columns(
        submit_s=[0.0, 5.0],
        work_s=[1000.0, 200.0],
        min_units=[1, 2],
        max_units=[1, 2],
        cpu=[1.0, 1.0],
    )
    cluster = replace(ONE, offers=(VM,))
    result = simulate_nodes(wide, "portfolio:members=fifo+ajw", cluster=cluster)
    assert result.jobs.rented.tolist() == [False, True]


@settings(max_examples=3, deadline=None)
@given(
    st.integers(0, 1000),
    st.sampled_from(("ajw+njw+ljw/t=100/short_uses_owned=false", "fitgpp+ajw-t/b=200+easy+njw")),
    st.sampled_from(("cost:0.5", "jct:avg", "utility")),
)
def test_selections_leave_the_run_as_it_is_and_sound(seed: int, members: str, objective: str) -> None:
    chosen = parse_nodes_policy(f"portfolio:members={members},period=1,objective={objective}")
    run = NodesSimulation(jobs(seed), chosen, SimulationOptions(cluster=BOTH))
    portfolio = Portfolio(run, list(chosen.policy.in_turn(chosen.values)), Settings.of(chosen), pytest.fail)
    portfolio.start()
    compared = compare_around_selections(run, portfolio)
    select = run.select
    assert select is not None

    def select_and_check() -> None:
        select()
        check(run.state)

    run.select = select_and_check
    run.run()
    assert len(compared) > 0
    assert run.result().jobs.finished.all()


@pytest.mark.parametrize(
    ("members", "said"),
    [
        (
            "ajw+sww/waits=oracle",
            r"sww/waits=oracle has waits=oracle, which foresees waits under this member, .* write /waits=none",
        ),
        ("ajw+ajw-t/requeue=tail", "write /requeue=arrival"),
        ("ajw+njw/spot=true", "write /spot=false"),
        ("njw+oda", "oda rents machines, and njw knows the cluster's own only"),
    ],
)
def test_members_that_cannot_take_turns(members: str, said: str) -> None:
    with pytest.raises(PolicyError, match=said):
        simulate_nodes(jobs(0, 5), f"portfolio:members={members}", cluster=BOTH)
