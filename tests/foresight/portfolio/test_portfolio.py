"""Runs under a portfolio: the worked cases, what a selection leaves alone, and policies that fail."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from betimes.core.nodes.columns import NodesView
from betimes.errors import BetimesError, PolicyError, PolicyViolation
from betimes.foresight.nodes.simulate import simulate_nodes
from betimes.foresight.portfolio.driver import Portfolio, Settings
from betimes.foresight.portfolio.lookahead import Lookahead, Together
from betimes.kernels import Floats, Ints, kernel
from betimes.outcome import Result, load, save, summarise
from betimes.policies import NODES_POLICIES, parse_nodes_policy
from betimes.policies.nodes.hooks import Member
from betimes.policies.nodes.portfolio import CANDIDATES
from betimes.policies.nodes.provisioning import PROVISIONING
from betimes.twin.nodes.simulation import NodesSimulation
from betimes.twin.options import SimulationOptions
from betimes.twin.sizes import parse_sizes
from tests.foresight.portfolio.clusters import VMS, bursts, compare_around_selections, workload

members = NODES_POLICIES["portfolio"].in_turn


def scores(result: Result, selection: int = 0) -> dict[str, float]:
    found = result.selections
    assert found is not None
    rows = found.selection == selection
    return dict(zip(found.member[rows].tolist(), found.score[rows].tolist(), strict=True))


def test_c6_the_score_of_each_policy_is_its_utility() -> None:
    result = simulate_nodes(
        workload((0.0, 2, 1800.0)), "portfolio:period=1,ties=index", cluster=VMS, sizes="true"
    )
    found = scores(result)
    assert list(found) == list(CANDIDATES)
    assert len(found) == 60
    expected = {"oda": 7.8125, "odb": 46.875, "ode": 46.875, "odm": 46.875, "odx": 24.064171}
    for name, score in found.items():  # oda rents two machines at each of six ticks
        assert score == pytest.approx(expected[name[:3]], abs=1e-6)
    assert (result.jobs.start_s[0], result.jobs.finish_s[0]) == (120.0, 1920.0)
    assert result.selections is not None
    assert result.selections.member[result.selections.chosen][0] == "odb/fifo/first"


def test_c7_the_score_of_each_policy_is_its_utility() -> None:
    result = simulate_nodes(
        workload((0.0, 1, 600.0), (0.0, 1, 600.0)), "portfolio", cluster=VMS, sizes="true"
    )
    expected = {"oda": 2.314815, "odb": 13.888889, "ode": 13.888889, "odm": 12.820513, "odx": 7.462687}
    for name, score in scores(result).items():
        assert score == pytest.approx(expected[name[:3]], abs=1e-6)


def test_selections_are_a_period_apart_while_jobs_wait() -> None:
    result = simulate_nodes(workload((50.0, 1, 600.0), (5000.0, 1, 60.0)), "portfolio:period=3", cluster=VMS)
    found = result.selections
    assert found is not None
    assert (
        found.at_s[found.chosen].tolist()
        == [60.0, 120.0, 180.0, 5000.0, 5060.0, 5120.0][: int(found.chosen.sum())]
    )
    assert found.at_s[0] == 60.0


@settings(max_examples=8, deadline=None)
@given(
    st.sampled_from(list(CANDIDATES)),
    st.integers(0, 5),
    st.sampled_from(("true", "estimate", "last-two")),
    st.booleans(),
)
def test_a_portfolio_of_one_runs_as_that_policy(member: str, seed: int, sizes: str, predict: bool) -> None:
    provisioning, order, placement = member.split("/")
    jobs = bursts(seed)
    plain, chosen = (
        simulate_nodes(jobs, policy, cluster=VMS, sizes=sizes, timeline=True, predict=predict)
        for policy in (
            f"{provisioning}:order={order},placement={placement}",
            f"portfolio:members={member},period=1",
        )
    )
    assert chosen.jobs == plain.jobs
    assert chosen.leases == plain.leases
    assert chosen.segments == plain.segments
    assert chosen.timing.events == plain.timing.events


def test_a_counted_budget_gives_the_same_choices_again() -> None:
    runs = [
        simulate_nodes(bursts(1), "portfolio:budget=7,period=2", cluster=VMS, seed=seed) for seed in (3, 3, 4)
    ]
    assert runs[0] == runs[1]
    assert runs[0].selections is not None
    counts = np.bincount(runs[0].selections.selection)
    assert set(counts.tolist()) == {7}
    assert runs[0].selections != runs[2].selections  # the poor are drawn


@settings(max_examples=4, deadline=None)
@given(st.integers(0, 1000), st.sampled_from(("true", "estimate", "last-two", "noise:0.3")))
def test_a_selection_never_changes_the_state_of_the_run(seed: int, sizes: str) -> None:
    chosen = parse_nodes_policy("portfolio:period=1,budget=20")
    run = NodesSimulation(bursts(seed), chosen, SimulationOptions(cluster=VMS, sizes=parse_sizes(sizes)))
    portfolio = Portfolio(run, list(members(chosen.values)), Settings.of(chosen), pytest.fail)
    portfolio.start()
    compared = compare_around_selections(run, portfolio)
    run.run()
    assert len(compared) > 0
    assert run.result().jobs.finished.all()


@kernel
def no_key(view: NodesView, now: float, chosen: Ints, key: Floats) -> None:
    for k in range(len(chosen)):
        key[k] = math.nan


def broken(name: str) -> Member:
    values = {"placement": "first", "order": "fifo", "tick": 20.0}
    return Member(name, replace(PROVISIONING[0], rank=no_key), dict(values))


def with_members(names: list[Member], warned: list[str]) -> tuple[NodesSimulation, Portfolio]:
    chosen = parse_nodes_policy("portfolio:period=1")
    run = NodesSimulation(bursts(2), chosen, SimulationOptions(cluster=VMS))
    portfolio = Portfolio(run, names, Settings.of(chosen), warned.append)
    portfolio.start()
    return run, portfolio


def test_a_member_that_fails_is_left_out_and_named_and_the_rest_go_on() -> None:
    warned: list[str] = []
    good = members(parse_nodes_policy("portfolio:members=odb/fifo/first").values)[0]
    run, portfolio = with_members([broken("bad"), good], warned)
    run.run()
    assert run.result().jobs.finished.all()
    assert len(warned) == 1
    assert "bad is left out" in warned[0]
    assert list(portfolio.failed) == ["bad"]
    found = portfolio.reflection.columns()
    assert np.isnan(found.score[found.member == "bad"]).tolist() == [True]
    assert set(found.member[found.chosen].tolist()) == {"odb/fifo/first"}


def test_a_portfolio_of_which_every_member_fails_says_so() -> None:
    run, _ = with_members([broken("bad"), broken("worse")], [])
    with pytest.raises(PolicyViolation, match="every member has failed; bad: its answer about job"):
        run.run()


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        ("portfolio:members=+", "names no policy"),
        ("portfolio:members=odb/unicef/bst", "did you mean 'odb/unicef/best"),
        ("portfolio:members=odb*+zzz*", "no policy is called 'zzz*'"),
        ("portfolio:budget=1", "1 is not between 2"),
        ("portfolio:budget=2.5", "2.5 is not a whole number"),
        ("portfolio:period=1.5", "1.5 is not a whole number"),
        ("portfolio:budget=5,seconds=1", "leave one of them out"),
        ("portfolio:ties=fair", "is none of preference, index"),
    ],
)
def test_bad_portfolios(policy: str, said: str) -> None:
    with pytest.raises(PolicyError, match=said.replace("*", r"\*")):
        simulate_nodes(workload((0.0, 1, 60.0)), policy, cluster=VMS)


def test_patterns_name_members_in_the_order_of_the_portfolio() -> None:
    chosen = parse_nodes_policy("portfolio:members=odx/fifo/first+odb/*/best+odb/fifo/*")
    assert [member.name for member in members(chosen.values)] == [
        "odb/fifo/first",
        "odb/fifo/best",
        "odb/fifo/worst",
        "odb/slowdown/best",
        "odb/wfp3/best",
        "odb/unicef/best",
        "odx/fifo/first",
    ]


def test_the_choice_of_policies_is_kept_with_the_result(tmp_path: Path) -> None:
    result = simulate_nodes(bursts(3), "portfolio:members=odb*", cluster=VMS)
    assert load(save(result, tmp_path / "run")) == result
    assert {f.name for f in fields(result.selections)} >= {"at_s", "member", "score", "chosen"}  # pyright: ignore
    shown = summarise(result)
    shares = [value for name, value in shown.items() if name.startswith("selected_")]
    assert sum(shares) == pytest.approx(1.0)
    assert shown["simulations"] == 12 * shown["selections"] > 0


def test_more_machines_than_the_run_has_room_for_are_simulated() -> None:
    jobs = workload(*((0.0, 64, 300.0 + at) for at in range(4)))
    result = simulate_nodes(jobs, "portfolio:members=oda/fifo/*", cluster=VMS, sizes="true")
    assert result.jobs.start_s.tolist() == [120.0] * 4
    # 256 machines for an hour each
    assert scores(result)["oda/fifo/first"] == pytest.approx(
        100.0
        * float(jobs.work_s.sum())
        / (256 * 3600.0)
        / float(np.mean([(120.0 + 300.0 + at) / (300.0 + at) for at in range(4)]))
    )


def test_a_shadow_portfolio_runs_as_its_first_member_and_reports_what_it_would_choose() -> None:
    plain, shadow = (
        simulate_nodes(bursts(4), policy, cluster=VMS, timeline=True)
        for policy in (
            "odx:order=wfp3,placement=worst",
            "portfolio:members=odx/wfp3/worst+odx/unicef/*+oda/unicef/best,shadow=true,period=1",
        )
    )
    first = simulate_nodes(bursts(4), "oda:order=unicef,placement=best", cluster=VMS, timeline=True)
    assert shadow.jobs == first.jobs != plain.jobs  # the first in the order of the portfolio
    assert shadow.leases == first.leases
    assert shadow.segments == first.segments
    assert shadow.selections is not None
    assert len(np.unique(shadow.selections.member[shadow.selections.chosen])) > 1


def test_an_empty_queue_has_no_utility() -> None:
    chosen = parse_nodes_policy("portfolio:members=oda/fifo/first")
    run = NodesSimulation(bursts(2), chosen, SimulationOptions(cluster=VMS))
    lookahead = Lookahead(run)
    assert lookahead.look() == 0.0
    with pytest.raises(BetimesError, match="no job waits"):
        lookahead.play_all([Together(run.rules, chosen.policy.params(chosen.values), {0: 0})])


def test_with_too_little_time_for_one_policy_two_are_simulated() -> None:
    found = simulate_nodes(bursts(2), "portfolio:seconds=0.000001", cluster=VMS).selections
    assert found is not None
    assert (np.bincount(found.selection)[1:] == 2).all()


def test_c10_at_most_256_machines_are_rented_at_once_each_for_whole_hours() -> None:
    jobs = workload(*((60.0 * at, 64, 2000.0) for at in range(8)))
    result = simulate_nodes(jobs, "portfolio:members=oda/fifo/*", cluster=VMS, sizes="true")
    leases = result.leases
    assert leases is not None
    rented = [int(((leases.requested_s <= at) & (leases.ended_s > at)).sum()) for at in leases.requested_s]
    assert max(rented) == 256
    paid_h = leases.cost_usd  # at one USD an hour
    assert (paid_h == np.ceil(paid_h)).all()
