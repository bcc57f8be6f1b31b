"""Users who share and have limits: who is next, who waits and why, and what of it the log brings back."""

from __future__ import annotations

import random
from typing import Any

import pytest

from betimes.cluster import Offer
from betimes.errors import Refused
from betimes.kernels import as_array
from betimes.service.runtime.requests import submit
from betimes.service.scheduling.job_states import Status
from betimes.service.scheduling.promises import forecast
from betimes.service.spec.users import User, UserChanges, UserLimits
from tests.service.reliability.cluster import Cluster, spec

HALF_LIFE_S = 100.0


def with_users(policy: str, *users: User, nodes: int = 1, **settings: Any) -> Cluster:
    cluster = Cluster(policy, nodes=nodes, **settings)  # a node has 2 cores
    for user in users:
        cluster.scheduler.users.add(user, "operator")
    cluster.turn()
    return cluster


def why(cluster: Cluster, number: int) -> dict[str, Any]:
    play = cluster.scheduler.foresee(cluster.now_at)
    found = forecast(play(), cluster.now_at, cluster.ledger.epoch_at, cluster.scheduler.holding)
    return cluster.scheduler.wait_reasons(found).why(cluster.job(number))


def start_of(cluster: Cluster, number: int) -> float | None:
    play = cluster.scheduler.foresee(cluster.now_at)
    found = forecast(play(), cluster.now_at, cluster.ledger.epoch_at, cluster.scheduler.holding)
    return found.times(number)[0]


@pytest.mark.parametrize("policy", ["nodes:fifo", "fifo"])
def test_who_used_more_of_late_goes_later(policy: str) -> None:
    cluster = with_users(policy, half_life_s=HALF_LIFE_S)
    began = cluster.now_at
    cluster.submit(spec(10.0), spec(10.0), user="ann")
    first, second = cluster.submit(spec(10.0), spec(20.0), user="ann")
    (third,) = cluster.submit(spec(30.0), user="bob")
    assert start_of(cluster, third) == start_of(cluster, first) == began + 10.0
    assert start_of(cluster, second) == began + 20.0
    cluster.go_on(5.0)
    found = why(cluster, second)
    assert found["text"].endswith("ann used more of late: 100%, where 50% is the user's share"), found
    cluster.crash()
    cluster.go_on(5.0)
    assert [cluster.status(number) for number in (first, third, second)] == [
        Status.RUNNING,
        Status.RUNNING,
        Status.QUEUED,
    ]


@pytest.mark.parametrize("policy", ["nodes:fifo", "fifo"])
def test_without_shares_they_go_in_order(policy: str) -> None:
    cluster = with_users(policy, User(name="ann"), User(name="bob", weight=5.0))
    cluster.submit(*[spec(10.0)] * 4, user="ann")
    (last,) = cluster.submit(spec(10.0), user="bob")
    cluster.go_on(10.0)
    assert cluster.status(last) == Status.QUEUED


@pytest.mark.parametrize("policy", ["nodes:fifo", "easy", "conservative", "fifo", "srsf", "max-min"])
@pytest.mark.parametrize(
    ("limits", "text"),
    [
        (UserLimits(max_running_jobs=1), "the running jobs of ann hold 1 of at most 1 jobs"),
        (UserLimits(max_units=1), "the running jobs of ann hold 1 of at most 1 units"),
        (UserLimits(max_memory_gib=3.0), "the running jobs of ann hold 2 of at most 3 GiB of memory"),
    ],
)
def test_a_limit_lets_jobs_wait_and_others_pass(policy: str, limits: UserLimits, text: str) -> None:
    cluster = with_users(policy, User(name="ann", limits=limits))
    began = cluster.now_at
    first, second = cluster.submit(spec(10.0, memory_gib=2.0), spec(20.0, memory_gib=2.0), user="ann")
    (other,) = cluster.submit(spec(30.0), user="bob")
    assert [cluster.status(number) for number in (first, second, other)] == [
        Status.RUNNING,
        Status.QUEUED,
        Status.RUNNING,
    ]
    found = why(cluster, second)
    assert (found["text"].partition(";")[0], found["evidence"]["about_at"]) == (text, began + 10.0)
    assert start_of(cluster, second) == began + 10.0  # promises know it, too
    cluster.crash()
    assert cluster.status(second) == Status.QUEUED
    cluster.go_on(10.0)
    assert cluster.status(second) == Status.RUNNING


def test_a_higher_limit_counts_at_once_and_a_lower_one_is_for_jobs_to_come() -> None:
    cluster = with_users("easy", User(name="ann", limits=UserLimits(max_running_jobs=1)))
    first, second = cluster.submit(spec(10.0), spec(10.0), user="ann")
    cluster.scheduler.users.change("ann", UserChanges(limits=UserLimits(max_running_jobs=2)), "operator")
    cluster.turn()
    assert [cluster.status(number) for number in (first, second)] == [Status.RUNNING] * 2
    with pytest.raises(Refused, match="1 is less than the 2 running jobs that ann has now"):
        cluster.scheduler.users.change("ann", UserChanges(limits=UserLimits(max_running_jobs=1)), "operator")


def test_under_a_planner_a_limit_is_the_reason_and_a_higher_one_counts_in_the_next_round() -> None:
    limits = UserLimits(max_running_jobs=1)
    offer = Offer(type="m", cpu=2.0, memory_gib=8.0, usd_per_h=1.0)
    cluster = with_users("no-packing", User(name="ann", limits=limits), offers=(offer,))
    first, second = cluster.submit(spec(1000.0), spec(1000.0), user="ann")
    cluster.go_on(301.0)
    assert [cluster.status(number) for number in (first, second)] == [Status.RUNNING, Status.QUEUED]
    assert why(cluster, second)["text"].startswith("the running jobs of ann hold 1 of at most 1 jobs")
    cluster.scheduler.users.change("ann", UserChanges(limits=UserLimits(max_running_jobs=2)), "operator")
    cluster.go_on(301.0)
    assert cluster.status(second) == Status.RUNNING


@pytest.mark.parametrize("half_life_s", [None, HALF_LIFE_S])
def test_a_user_who_comes_late_has_what_runs_already(half_life_s: float | None) -> None:
    cluster = with_users("easy", half_life_s=half_life_s)
    cluster.submit(spec(10.0), user="ann")
    cluster.scheduler.users.add(User(name="ann", limits=UserLimits(max_running_jobs=1)), "operator")
    (second,) = cluster.submit(spec(10.0), user="ann")
    assert why(cluster, second)["code"] == "user-limit"
    cluster.go_on(10.0)
    assert cluster.status(second) == Status.RUNNING
    cluster.crash()
    cluster.go_on(10.0)
    assert vars(cluster.ledger.shares.accounts["ann"])["running"] == 0


def test_what_no_limit_lets_run_and_what_is_too_much_in_the_queue_is_refused() -> None:
    limits = UserLimits(max_units=2, max_memory_gib=4.0, max_queued_jobs=2)
    cluster = with_users("easy", User(name="ann", limits=limits), nodes=4)
    with pytest.raises(Refused, match="max_units: the jobs of ann may have 2 units together"):
        cluster.submit(spec(1.0, min_units=3, max_units=3), user="ann")
    with pytest.raises(Refused, match="may have 4 GiB of memory together, and this one needs 5"):
        cluster.submit(spec(1.0, memory_gib=5.0), user="ann")
    with pytest.raises(Refused, match="ann may have 2 jobs in the queue, and has 0"):
        cluster.submit(spec(1.0, array="1-3"), user="ann")
    with pytest.raises(Refused, match="ann may have 2 jobs in the queue, and has 0"):
        submit(cluster.scheduler, [spec(1.0)] * 3, "ann")
    assert not cluster.ledger.jobs
    cluster.submit(*[spec(10.0)] * 2, user="ann")  # these run
    one, _ = cluster.submit(*[spec(10.0)] * 2, user="ann")
    with pytest.raises(Refused, match="ann may have 2 jobs in the queue, and has 2"):
        cluster.submit(spec(10.0), user="ann")
    cluster.submit(spec(10.0), user="bob")
    cluster.scheduler.jobs.cancel(one, "ann")
    cluster.submit(spec(10.0), user="ann")


@pytest.mark.parametrize("policy", ["easy", "conservative", "srsf", "themis"])
def test_the_log_counts_what_the_engine_counts(policy: str) -> None:
    """With crashes, cancelled jobs and users whose limits change in between."""
    chance, limits = random.Random(3), (UserLimits(), UserLimits(max_running_jobs=3), UserLimits(max_units=4))
    cluster = with_users(
        policy, User(name="ann"), User(name="bob", weight=2.0), nodes=2, half_life_s=HALF_LIFE_S
    )
    for step in range(60):
        user = chance.choice(["ann", "bob", "cem"])
        units = chance.randint(1, 2)
        cluster.submit(
            spec(chance.uniform(1.0, 60.0), min_units=units, max_units=units, priority=chance.randint(0, 2)),
            user=user,
        )
        cluster.go_on(chance.uniform(0.0, 20.0))
        if step % 7 == 0 and cluster.ledger.jobs:
            cluster.ask("jobs.cancel", chance.choice(list(cluster.ledger.jobs)), "ann")
            cluster.turn()
        if step % 11 == 0:
            cluster.ask("users.change", "ann", UserChanges(limits=limits[step % 3]), "operator")
            cluster.turn()
        if step % 13 == 0:
            cluster.crash()
        users = as_array(cluster.scheduler.engine.state.users)
        for at, account in enumerate(cluster.ledger.shares.accounts.values()):
            for name, value in vars(account).items():
                assert users[at][name] == pytest.approx(value, rel=1e-12, abs=1e-9), (step, name)
    cluster.go_on()
    assert all(account.running == 0 for account in cluster.ledger.shares.accounts.values())


def test_a_job_that_a_pool_has_narrowed_counts_on_nodes_as_wide_as_it_is() -> None:
    cluster = with_users("max-min", User(name="ann", limits=UserLimits(max_units=8)), nodes=2)  # 4 cores
    first, second, *others = (
        cluster.submit(spec(800.0, min_units=1, max_units=2), user="ann")[0] for _ in range(4)
    )
    cluster.go_on(60.0)
    assert [cluster.job(number).units for number in (first, second, *others)] == [1, 1, 1, 1]
    cluster.ask("policy.set_policy", "easy", "operator")
    cluster.turn()
    for number in (second, *others):
        cluster.ask("jobs.cancel", number, "ann")
    cluster.turn()
    cluster.go_on(60.0)
    assert cluster.scheduler.engine.state.users[0].units == 1.0
    cluster.crash()
    assert cluster.scheduler.engine.state.users[0].units == 1.0


@pytest.mark.parametrize("policy", ["max-min", "themis", "afs", "las", "srsf"])
def test_limits_that_hold_nobody_back_change_nothing(policy: str) -> None:
    def units(*users: User) -> list[dict[int, int]]:
        cluster, chance, found = with_users(policy, *users), random.Random(5), list[dict[int, int]]()
        for _ in range(12):
            user, widest = chance.choice(["ann", "bob", "cem"]), chance.randint(1, 4)
            cluster.submit(spec(chance.uniform(1.0, 300.0), min_units=1, max_units=widest), user=user)
            cluster.go_on(chance.uniform(0.0, 40.0))
            found.append({number: job.units for number, job in cluster.ledger.jobs.items()})
        return found

    assert units(User(name="ann", limits=UserLimits(max_units=1000)), User(name="bob")) == units()


@pytest.mark.parametrize("renews", [False, True])
def test_a_job_that_is_bound_to_nodes_counts_after_its_user_has_changed(renews: bool) -> None:
    """A trial job that best-effort jobs make room for holds nothing yet, and counts."""
    cluster = with_users("fitgpp", User(name="ann", limits=UserLimits(max_units=2)), nodes=2)
    cluster.submit(*[spec(1000.0, min_units=2, max_units=2, grace_s=30.0)] * 2, user="bob")
    (trial,) = cluster.submit(spec(10.0, min_units=2, max_units=2, qos="trial"), user="ann")
    assert cluster.job(trial).is_nominated
    users = cluster.scheduler.engine.state.users
    assert (users[0].bound, users[0].bound_units) == (1, 2.0)
    cluster.scheduler.users.change("ann", UserChanges(weight=2.0), "operator")
    cluster.turn()
    if renews:
        cluster.crash()
    users = cluster.scheduler.engine.state.users
    assert (users[0].bound, users[0].bound_units) == (1, 2.0)
