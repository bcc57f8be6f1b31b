"""Simulations in which jobs are submitted, and in which another member takes over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from betimes.errors import PolicyError
from betimes.foresight.nodes.simulate import simulate_nodes
from betimes.foresight.portfolio.arrivals import HORIZON_S, NEWEST_JOBS, Arrivals, Draws
from betimes.foresight.portfolio.driver import Portfolio, Settings
from betimes.foresight.portfolio.hindsight import FIRST_JOBS, Hindsight, SubmittedSoFar
from betimes.foresight.portfolio.lookahead import Foreseen, Groups, Lookahead, Successor
from betimes.foresight.portfolio.utility import Utility
from betimes.kernels import as_array, blank
from betimes.outcome import SelectionColumns
from betimes.policies import NODES_POLICIES, parse_nodes_policy
from betimes.policies.nodes.portfolio import CANDIDATES
from betimes.twin.nodes.event_loop import Arrival
from betimes.twin.nodes.simulation import NodesSimulation
from betimes.twin.options import SimulationOptions
from tests.foresight.portfolio.clusters import VMS, bursts
from tests.foresight.portfolio.test_families import at, groups

MEMBER = "odb/slowdown/best"


def test_jobs_that_come_end_as_they_do_in_the_run() -> None:
    run = at(7, MEMBER, 40, "true")
    first, rows = int(run.row[0]), len(run.jobs)
    coming = as_array(run.trace.arrivals)[first:].copy()
    lookahead = Lookahead(run, most_coming=len(coming))
    lookahead.look()
    number = list(CANDIDATES).index(MEMBER)
    (found,) = (
        simulation
        for simulation in lookahead.play_all(groups(True), ends=True, coming=coming)
        if number in simulation.members
    )
    assert found.ended is not None
    assert isinstance(found.foreseen, Foreseen)
    assert found.foreseen.jobs > len(coming) > 50
    run.run()
    really = as_array(run.trace.outcomes)[: int(run.trace.finished[0])]
    finish_s = dict(zip(really["row"].tolist(), really["finish_s"].tolist(), strict=True))
    for outcome in found.ended[0]:
        row = int(outcome["row"])
        assert outcome["finish_s"] == finish_s[row if row < rows else first + row - rows]


def test_a_member_that_takes_over_from_itself_changes_nothing() -> None:
    run = at(3, "oda/fifo/first", 30, "true")
    lookahead = Lookahead(run)
    lookahead.look()
    alone = groups(False)
    for number in (0, 17, 31, 59):
        group = alone[number]
        (plain,) = lookahead.play_all([group])
        (handed,) = lookahead.play_all(
            [group], successor=Successor(run.now_s + 160.0, group.rules, group.params)
        )
        assert handed.foreseen == plain.foreseen


def test_members_of_a_family_hand_over_as_each_does_by_itself() -> None:
    run = at(5, "odm/wfp3/worst", 70, "estimate")
    lookahead = Lookahead(run, most_coming=200)
    lookahead.look()
    last = groups(False)[59]
    successor = Successor(run.now_s + 300.0, last.rules, last.params)
    coming = as_array(run.trace.arrivals)[int(run.row[0]) : int(run.row[0]) + 20].copy()
    together, alone = (
        {
            member: one.foreseen
            for one in lookahead.play_all(groups(families), successor=successor, coming=coming)
            for member in one.members
        }
        for families in (True, False)
    )
    assert together == alone


def test_stretches_are_of_the_past_and_begin_now() -> None:
    plain = parse_nodes_policy("oda:order=fifo")
    run = NodesSimulation(bursts(2, 200), plain, SimulationOptions(cluster=VMS))
    now_s = float(run.jobs.submit_s[150])
    so_far = SubmittedSoFar(run)
    run.advance_to(now_s)
    known = so_far.now().jobs
    past = as_array(run.trace.arrivals)[: int(run.row[0])]
    finished = as_array(run.trace.outcomes)["row"][: int(run.trace.finished[0])]
    drawn = Arrivals(3, 5).draw(known, now_s)
    assert len(drawn) == 5
    assert len(Arrivals(3, 12).draw(known, now_s)) == 12
    assert sum(len(stretch) for stretch in drawn) > 0
    for stretch in drawn:
        assert ((stretch["submit_s"] >= now_s) & (stretch["submit_s"] <= now_s + HORIZON_S)).all()
        for job in stretch:
            (of,) = np.flatnonzero(
                (past["tasks"] == job["tasks"])
                & ((past["run_s"] == job["run_s"]) | (past["runtime_estimate_s"] == job["run_s"]))
            )[:1]
            assert of in finished or job["run_s"] == past["runtime_estimate_s"][of]
    again = Arrivals(3, 5).draw(known, now_s)
    assert all(np.array_equal(one, other) for one, other in zip(drawn, again, strict=True))


def test_stretches_begin_as_long_after_a_submission_as_now_is_after_the_last() -> None:
    """At 20,060 s, 60 s after the last: 60 s after 0 s, and not 60 s after 9,000 s, for the next came after 30 s."""
    past = as_array(blank(Arrival, 5))
    past["submit_s"] = 0.0, 1_000.0, 9_000.0, 9_030.0, 20_000.0
    past["tasks"] = 1, 2, 3, 4, 5
    drawn = Arrivals(1, 30).draw(past, 20_060.0)
    seen = {tuple(stretch["tasks"].tolist()): stretch["submit_s"].tolist() for stretch in drawn}
    assert seen == {(2,): [20_060.0 + 940.0]}
    late = Arrivals(1, 30).draw(past, 31_000.0)  # no submission was followed by 11,000 s without another
    assert len({len(stretch) for stretch in late}) > 1  # so that they begin anywhere
    empty = Arrivals(1, 3).draw(past[:0], 50.0)
    assert [len(stretch) for stretch in empty] == [0, 0, 0]


def test_stretches_follow_as_many_jobs_in_an_hour_as_now() -> None:
    """Now three jobs came in the last seconds, as at 10,000 s; at 0 and at 20,000 s it was one job alone."""
    submit_s = [0.0, 10_000.0, 10_001.0, 10_002.0, 20_000.0, 30_000.0, 30_001.0, 30_002.0]
    past = as_array(blank(Arrival, len(submit_s)))
    past["submit_s"] = submit_s
    past["tasks"] = range(1, 9)
    drawn = Arrivals(1, 5).draw(past, 30_002.0 + 9_000.0)
    assert [len(stretch) for stretch in drawn] == [1] * 5  # the job at 20,000 s, after 10,002 + 9,000 s
    assert {int(stretch["tasks"][0]) for stretch in drawn} == {5}
    assert {float(stretch["submit_s"][0]) for stretch in drawn} == {39_002.0 + 998.0}


def test_stretches_follow_the_newest_jobs() -> None:
    """A job a minute; those of before the newest thousand that are over by an hour are wider."""
    past = as_array(blank(Arrival, 3_000))
    past["submit_s"] = 60.0 * np.arange(len(past))
    past["tasks"] = np.where(np.arange(len(past)) < len(past) - NEWEST_JOBS - 61, 64, 1)
    for to_confirm in (False, True):
        drawn = Arrivals(1, 40).draw(past, float(past["submit_s"][-1]) + 20.0, to_confirm=to_confirm)
        assert {width for stretch in drawn for width in stretch["tasks"].tolist()} == {1}


def test_a_choice_is_confirmed_by_other_stretches() -> None:
    past = as_array(blank(Arrival, 400))
    past["submit_s"] = np.cumsum(np.random.default_rng(7).exponential(300.0, len(past)))
    past["run_s"] = np.arange(len(past))
    now_s = float(past["submit_s"][-1]) + 20.0

    def runs(to_confirm: bool) -> list[list[float]]:
        drawn = Arrivals(1, 5).draw(past, now_s, to_confirm=to_confirm)
        return [stretch["run_s"].tolist() for stretch in drawn]

    first, then = runs(False), runs(True)
    assert (len(first), len(then)) == (5, 10)
    assert not any(stretch in then for stretch in first)
    assert runs(True) == then


class Told:
    """A stretch to choose by, drawn as by default; those to confirm by are made of it by `confirm`."""

    def __init__(self, confirm: Callable[[NDArray[Any]], list[NDArray[Any]]]) -> None:
        self._confirm, self._source = confirm, Arrivals(0, 5)
        self.confirmed_at_s: list[float] = []

    def draw(self, past: NDArray[Any], now_s: float, *, to_confirm: bool = False) -> list[NDArray[Any]]:
        drawn = self._source.draw(past, now_s)[0]
        if not to_confirm:
            return [drawn]
        self.confirmed_at_s.append(now_s)
        return self._confirm(drawn)


def overruled(told: Told) -> dict[float, str]:
    """When, and by whom, a member with the best score was overruled."""
    chosen = parse_nodes_policy("portfolio:period=4")
    run = NodesSimulation(bursts(5, 70), chosen, SimulationOptions(cluster=VMS))
    members = list(chosen.policy.in_turn(chosen.values))
    portfolio = Portfolio(run, members, Settings.of(chosen), print, arrivals=told)
    portfolio.start()
    run.run()
    found = portfolio.reflection.columns()
    best = {at_s: float(found.score[found.at_s == at_s].max()) for at_s in set(found.at_s.tolist())}
    rows = zip(found.at_s[found.chosen], found.score[found.chosen], found.member[found.chosen], strict=True)
    return {float(at_s): str(member) for at_s, score, member in rows if score < best[float(at_s)]}


def test_what_is_not_confirmed_gives_way_to_the_best_so_far() -> None:
    """The stretch to confirm by is the one that was chosen by, or says that nothing comes."""
    same = Told(lambda drawn: [drawn])
    other = Told(lambda _: [as_array(blank(Arrival, 0))])
    assert overruled(same) == {}
    assert same.confirmed_at_s  # what was chosen is better in the same stretch, too
    by = overruled(other)
    assert set(by) <= set(other.confirmed_at_s)
    assert len(set(by.values())) == 1  # the members are run again once only in so few jobs


def test_what_is_better_in_one_stretch_and_not_in_the_other_is_not_confirmed() -> None:
    """The gain in the stretch chosen by makes up for the other in the mean, but not for the error of the mean."""
    agreeing = Told(lambda drawn: [drawn, drawn])
    differing = Told(lambda drawn: [drawn, drawn[:0]])
    assert overruled(agreeing) == {}
    assert overruled(differing)


def test_the_best_so_far_is_the_best_when_run_by_itself() -> None:
    chosen = parse_nodes_policy("portfolio:members=od[bx]/*/best+oda/fifo/first")
    members = list(NODES_POLICIES["portfolio"].in_turn(chosen.values))
    jobs = bursts(9, FIRST_JOBS)
    run = NodesSimulation(jobs, chosen, SimulationOptions(cluster=VMS))
    so_far = SubmittedSoFar(run)
    names = [member.name for member in members]
    rules = [member.policy.rules(member.values) for member in members]
    params = [member.policy.params(member.values) for member in members]
    hindsight = Hindsight(names, Groups(members, rules, params).of(range(len(members))), Utility())
    assert hindsight.best(so_far.now()) is None
    run.run()
    worth: list[float] = []
    for member in members:
        provisioning, order, placement = member.name.split("/")
        policy = f"{provisioning}:order={order},placement={placement}"
        result = simulate_nodes(jobs, policy, cluster=VMS, sizes="true")
        assert result.leases is not None
        run_s = np.maximum(result.jobs.run_alone_s, 10.0)
        wait_s = result.jobs.start_s - result.jobs.submit_s
        worth.append(
            Utility().of(
                float(jobs.work_s.sum()),
                3600.0 * float(result.leases.cost_usd.sum()),
                float(np.mean((wait_s + run_s) / run_s)),
            )
        )
    best = hindsight.best(so_far.now())
    assert best is not None
    assert worth[best] == pytest.approx(max(worth))
    assert hindsight.best(so_far.now(), (members[best].name,)) is None


def test_rules_with_jobs_to_come_are_for_utility_and_the_same_each_time() -> None:
    settings = Settings.of(parse_nodes_policy("portfolio:rules=arrivals"))
    assert settings.expects_more
    for limited in ("budget=5", "seconds=1", "rules=whole-run", "rules=paper"):
        assert not Settings.of(parse_nodes_policy(f"portfolio:{limited}")).expects_more
    one, again, plain = (
        simulate_nodes(bursts(4, 90), f"portfolio:members=od[bx]/*/best,rules={rules}", cluster=VMS)
        for rules in ("arrivals", "arrivals", "whole-run")
    )
    assert one == again
    assert plain.selections != one.selections


def test_more_stretches_are_simulated_as_asked() -> None:
    workload, means = bursts(4, 80), dict[str, float]()
    for given in ("", ",stretches=5", ",stretches=1", ",stretches=8"):
        result = simulate_nodes(workload, f"portfolio:members=od[ab]/*/best{given}", cluster=VMS)
        assert result.selections is not None
        means[given] = float(np.nanmean(result.selections.score))
    assert means[""] == means[",stretches=5"]
    assert len(set(means.values())) == 3


@pytest.mark.parametrize(
    "given",
    [
        "rules=whole-run",
        "rules=paper",
        "budget=5",
        "seconds=1",
        "objective=cost:0.1",
        "members=easy+conservative,objective=jct:avg",
        "members=eva+stratus",
    ],
)
def test_stretches_are_refused_where_none_are_drawn(given: str) -> None:
    with pytest.raises(PolicyError, match="parameter stretches: no jobs to come are drawn"):
        Settings.of(parse_nodes_policy(f"portfolio:{given},stretches=10"))
    Settings.of(parse_nodes_policy(f"portfolio:{given}"))


@pytest.mark.parametrize(("given", "problem"), [("2.5", "not a whole number"), ("0", "stretches")])
def test_a_number_of_stretches_is_whole_and_at_least_one(given: str, problem: str) -> None:
    with pytest.raises(PolicyError, match=problem):
        Settings.of(parse_nodes_policy(f"portfolio:stretches={given}"))


def test_the_best_so_far_takes_over_with_given_draws_too() -> None:
    """Given the default's own draws, a run chooses as the default does."""
    chosen = parse_nodes_policy("portfolio:period=4")
    settings = Settings.of(chosen)

    def selections(arrivals: Draws | None) -> SelectionColumns:
        run = NodesSimulation(bursts(5, 110), chosen, SimulationOptions(cluster=VMS))
        members = list(chosen.policy.in_turn(chosen.values))
        portfolio = Portfolio(run, members, settings, print, arrivals=arrivals)
        portfolio.start()
        run.run()
        return portfolio.reflection.columns()

    default, given = selections(None), selections(Arrivals(0, settings.stretches))
    assert len(default.at_s) > 60 * 10
    assert given.score.tolist() == default.score.tolist()
    assert given.chosen.tolist() == default.chosen.tolist()
