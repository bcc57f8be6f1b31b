"""What stands in for an engine keeps the same accounts as the engine would, and decides nothing."""

from __future__ import annotations

import math
from typing import Any

import pytest

from betimes.service.engines.messages import Inputs
from tests.service.reliability.cluster import Cluster, spec

POLICIES = ("fifo", "max-min", "nodes:fifo", "fitgpp")


def at_work(policy: str, is_compiled: bool) -> Cluster:
    """Two jobs of a curve have worked for 5 s, another waits, and the service has been started again."""
    cluster = Cluster(policy, restart_s=2.0)
    wide = {"max_units": 2, "curve": "amdahl:0.1"}
    cluster.submit(spec(40.0, **wide), spec(60.0, **wide), spec(30.0, qos="best-effort"))
    cluster.go_on(5.0)
    cluster.crash(is_compiled=is_compiled)
    return cluster


def first(cluster: Cluster, kind: str) -> dict[str, Any]:
    """What the log says where something has happened for the first time."""
    return next(event.data for event in cluster.log if event.kind == kind)


def same(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return set(one) == set(other) and all(same(one[name], other[name]) for name in one)
    return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)


@pytest.mark.parametrize("policy", POLICIES)
def test_accounts_are_those_of_the_engine(policy: str) -> None:
    engine, standby = at_work(policy, True), at_work(policy, False)
    assert standby.scheduler.stands_by
    assert not engine.scheduler.stands_by
    for cluster in (engine, standby):
        cluster.arrive(cluster.now_at + 3.0)
    for number in (1, 2, 3):
        there, here = engine.scheduler.engine, standby.scheduler.engine
        assert same(there.account(number).row(), here.account(number).row())
        now_s = engine.scheduler.now_s
        assert math.isclose(there.believed_left(number, now_s), here.believed_left(number, now_s))


@pytest.mark.parametrize("policy", POLICIES)
def test_a_job_whose_node_vanishes_has_the_account_that_the_engine_gives_it(policy: str) -> None:
    found: list[dict[str, Any]] = []
    for is_compiled in (True, False):
        cluster = at_work(policy, is_compiled)
        cluster.arrive(cluster.now_at + 3.0)
        cluster.ask("nodes.set_status", cluster.job(1).places[0][0], "lost", "timer")
        cluster.turn()
        found.append(first(cluster, "requeued")["account"])
    assert found[0]["attained"] > 0.0
    assert same(*found)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_job_that_finishes_has_taken_what_the_engine_says(policy: str) -> None:
    found: list[float] = []
    for is_compiled in (True, False):
        cluster = at_work(policy, is_compiled)
        cluster.go_on(100.0)
        found.append(first(cluster, "finished")["run_s"])
    assert found[0] > 0.0
    assert same(*found)


@pytest.mark.parametrize("policy", POLICIES)
def test_another_belief_changes_the_account_as_in_the_engine(policy: str) -> None:
    found: list[dict[str, Any]] = []
    for is_compiled in (True, False):
        scheduler = at_work(policy, is_compiled).scheduler
        now_s = scheduler.now_s + 4.0
        scheduler.engine.happen(now_s, Inputs(believed=[(1, 25.0)]))
        assert math.isclose(scheduler.engine.believed_left(1, now_s), 25.0)
        assert scheduler.engine.believed_left(1, now_s + 4.0) < 25.0
        found.append(scheduler.engine.account(1).row())
    assert same(*found)


@pytest.mark.parametrize("policy", POLICIES)
def test_nobody_is_started_before_the_policy_is_compiled_and_everybody_after_that(policy: str) -> None:
    cluster = at_work(policy, False)
    started = [event.job for event in cluster.log if event.kind == "started"]
    cluster.submit(spec(1.0), spec(1.0))
    cluster.go_on(200.0)
    assert [event.job for event in cluster.log if event.kind == "started"] == started
    assert all(cluster.status(number) == "finished" for number in (1, 2))
    assert [cluster.status(number) for number in (4, 5)] == ["blocked", "blocked"]
    cluster.crash(is_compiled=False)
    cluster.take_over()
    cluster.go_on()
    assert not cluster.ledger.jobs
    assert [cluster.status(number) for number in (3, 4, 5)] == ["finished"] * 3


def test_a_job_that_was_taken_meanwhile_may_be_held_or_cancelled() -> None:
    cluster = at_work("fifo", False)
    held, cancelled = cluster.submit(spec(1.0), spec(1.0))
    assert cluster.ask("jobs.hold", held, "ann")
    assert cluster.ask("jobs.cancel", cancelled, "ann")
    cluster.turn()
    cluster.take_over()
    cluster.go_on()
    assert (cluster.status(held), cluster.status(cancelled)) == ("held", "cancelled")
    cluster.ask("jobs.release", held, "ann")
    cluster.turn()
    cluster.go_on()
    assert cluster.status(held) == "finished"
