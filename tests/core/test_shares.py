"""Fair shares in both engines: cases worked by hand (docs/notes/fair-share.md), and what the theory says under load."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from betimes import Workload, simulate
from betimes.cluster import Cluster, NodeGroup, Offer
from betimes.core.shares import RECENT_COUNTS, recent_after
from betimes.errors import InputError, PolicyError
from betimes.twin.users import Entitled, FairUsers, parse_users

A, B, C = 0, 1, 2
OFFERS = (Offer(type="one", cpu=1, memory_gib=4, usd_per_h=1.0, boot_s=50.0),)


def jobs(*rows: tuple[float, int, float, int], priority: tuple[int, ...] = ()) -> Workload:
    """Rigid jobs: when, whose, seconds, units."""
    submit_s, user, run_s, units = (np.array(column) for column in zip(*rows, strict=True))
    return Workload.from_columns(
        submit_s=submit_s.astype(float),
        work_s=run_s * units,
        min_units=units,
        max_units=units,
        user=user,
        priority=np.array(priority) if priority else 0,
    )


def starts(workload: Workload, policy: str, users: FairUsers | None, units: int = 1) -> list[float]:
    return simulate(workload, policy, units=units, users=users).jobs.start_s.tolist()


def test_the_mean_of_the_past_is_exact_however_it_is_cut() -> None:
    """A unit held for one half-life from nothing makes a half; nothing held for another, a quarter."""
    assert recent_after(0.0, 1.0, 100.0, 100.0) == pytest.approx(0.5)
    assert recent_after(0.5, 0.0, 100.0, 100.0) == pytest.approx(0.25)
    whole = recent_after(3.0, 1.0, 250.0, 100.0)
    assert recent_after(recent_after(3.0, 1.0, 90.0, 100.0), 1.0, 160.0, 100.0) == pytest.approx(whole)


@pytest.mark.parametrize(
    "policy", ["nodes:fifo", "easy", "pool:fifo", "srsf", "portfolio:members=fifo+easy+sjf"]
)
def test_users_take_turns_where_one_came_with_all_jobs_first(policy: str) -> None:
    """One unit. A submits three jobs of 10 s at 0, B one at 1. After the first job A has used, and B has not."""
    workload = jobs((0, A, 10, 1), (0, A, 10, 1), (0, A, 10, 1), (1, B, 10, 1))
    assert starts(workload, policy, None) == [0.0, 10.0, 20.0, 30.0]
    assert starts(workload, policy, FairUsers(1000.0)) == [0.0, 20.0, 30.0, 10.0]


def test_what_is_held_now_counts_within_an_instant() -> None:
    """Four units, nothing used yet: A's four jobs and B's two alternate, A first by submission, and B is done."""
    workload = jobs(*[(0, A, 10, 1)] * 4, *[(0, B, 10, 1)] * 2)
    assert starts(workload, "nodes:fifo", FairUsers(1000.0), 4) == [0.0, 0.0, 10.0, 10.0, 0.0, 0.0]
    three = FairUsers(1000.0, {"0": Entitled(3.0)})  # A has 3 of 4
    assert starts(workload, "nodes:fifo", three, 4) == [0.0, 0.0, 0.0, 10.0, 0.0, 10.0]


def test_the_past_is_forgotten_by_half_lives() -> None:
    """A held the unit for 100 s, B for 50 s right after; then who is behind depends on the half-life alone.

    Half-life 20 s: at 150, A's mean has fallen to (1 - 2^-5) 2^-2.5 = 0.17, B's has risen to 1 - 2^-2.5 = 0.82.
    Half-life 1000 s: A's is 0.0647, B's 0.0341.
    """
    workload = jobs((0, A, 100, 1), (1, B, 50, 1), (2, A, 10, 1), (2, B, 10, 1))
    assert starts(workload, "nodes:fifo", FairUsers(20.0)) == [0.0, 100.0, 150.0, 160.0]
    assert starts(workload, "nodes:fifo", FairUsers(1000.0)) == [0.0, 100.0, 160.0, 150.0]


@pytest.mark.parametrize("policy", ["nodes:fifo", "pool:fifo"])
def test_a_priority_counts_among_the_jobs_of_its_user_only(policy: str) -> None:
    """A's second job goes first of A's two; B's job keeps its turn."""
    rows = ((0, C, 5, 1), (1, A, 10, 1), (2, A, 10, 1), (3, B, 10, 1))
    plain = starts(jobs(*rows), policy, FairUsers(1000.0))
    assert plain == [0.0, 5.0, 25.0, 15.0]
    urgent = starts(jobs(*rows, priority=(0, 0, 9, 0)), policy, FairUsers(1000.0))
    assert urgent == [0.0, 25.0, 5.0, 15.0]
    assert starts(jobs(*rows, priority=(0, 0, 9, 0)), policy, None) == [0.0, 5.0, 15.0, 25.0]


def test_a_priority_preempts_the_jobs_of_its_user_only() -> None:
    rows = ((0, A, 100, 1), (0, B, 100, 1), (10, A, 10, 1))
    workload = jobs(*rows, priority=(1, 0, 5))
    alone = simulate(workload, "lowest-priority", units=2)
    assert alone.jobs.preemptions.tolist() == [0, 1, 0]
    shared = simulate(workload, "lowest-priority", units=2, users=FairUsers(1000.0))
    assert shared.jobs.preemptions.tolist() == [1, 0, 0]


def test_trial_jobs_keep_their_class() -> None:
    """Under FitGpp a trial job goes before all others, whoever used more."""
    rows = ((0, A, 10, 1), (1, B, 10, 1), (2, A, 10, 1))
    made = jobs(*rows)
    trial = Workload.from_columns(submit_s=made.submit_s, work_s=made.work_s, user=made.user, qos=[1, 0, 1])
    assert starts(trial, "fitgpp", FairUsers(1000.0)) == [0.0, 20.0, 10.0]


@pytest.mark.parametrize(
    "policy", ["nodes:fifo", "easy", "conservative", "skip-over", "pool:fifo", "srsf", "las", "max-min"]
)
def test_limits_let_others_pass(policy: str) -> None:
    """Three units, A may hold two: its third and fourth job wait for its own, and B's jobs do not wait for them."""
    workload = jobs(*[(0, A, 10, 1)] * 4, (1, B, 10, 1), (2, B, 10, 1))
    for limited in (Entitled(most_units=2.0), Entitled(most_running=2.0)):
        users = FairUsers(1000.0, {"0": limited})
        result = simulate(workload, policy, units=3, users=users, timeline=True)
        stays = result.segments
        assert stays is not None
        for at in stays.start_s:
            now = (stays.start_s <= at) & (stays.end_s > at) & (workload.user[stays.row] == A)
            assert stays.units[now].sum() <= 2.0
        assert result.jobs.start_s[4] == 1.0
        assert result.jobs.start_s.tolist().count(0.0) == 2


def test_a_job_that_others_make_room_for_counts_for_its_users_limit() -> None:
    """Two units, held by B's jobs, which leave after 100 s. A may run one job: only one of A's trial jobs preempts.

    It has its unit at 110 and is done at 120; then A's other one, for which B's second job never left, has it.
    """
    rows = ((0, B, 1000, 1), (0, B, 1000, 1), (10, A, 10, 1), (10, A, 10, 1))
    made = jobs(*rows)
    workload = replace(made, qos=np.array([0, 0, 1, 1]), grace_s=np.full(4, 100.0))
    both = simulate(workload, "fitgpp", units=2, users=FairUsers(1000.0))
    assert both.jobs.start_s.tolist() == [0.0, 0.0, 110.0, 110.0]
    limited = FairUsers(1000.0, {"0": Entitled(most_running=1.0)})
    one = simulate(workload, "fitgpp", units=2, users=limited)
    assert one.jobs.start_s.tolist() == [0.0, 0.0, 110.0, 120.0]
    assert one.jobs.preemptions.tolist() == [1, 0, 0, 0]


def test_no_machine_is_rented_beyond_a_limit() -> None:
    """One core is B's for 1,000 s. Nobody waits under njw: A, who may run one job, rents for one after the other."""
    workload = jobs((0, B, 1000, 1), (1, A, 10, 1), (1, A, 20, 1), (1, C, 30, 1))
    cluster = Cluster("x", (NodeGroup("own", 1, 0, 1, 4),), offers=OFFERS)
    limited = FairUsers(1000.0, {"0": Entitled(most_running=1.0)})
    found = simulate(workload, "njw", cluster=cluster, users=limited).jobs
    assert found.start_s.tolist() == [0.0, 51.0, 61.0 + 50.0, 51.0]
    assert found.finish_s.tolist() == [1000.0, 61.0, 131.0, 81.0]


PLANNERS = (
    "no-packing",
    "eva:t=1",
    "stratus",
    "synergy:t=1",
    "consolidation",
    "portfolio:members=eva/t=1+stratus,tick=300",
)


@pytest.mark.parametrize("policy", PLANNERS)
def test_a_planner_gives_the_only_machine_to_whose_turn_it_is(policy: str) -> None:
    """One machine of one core can be rented, for an hour at a time. A's three jobs come first, B's one second later.

    A machine is asked for at 300 s, the first round; from then on the machine goes from one job to the next.
    """
    workload = jobs((0, A, 300, 1), (0, A, 300, 1), (0, A, 300, 1), (1, B, 300, 1))
    cluster = Cluster("x", (), offers=OFFERS, quota=1)

    def order(users: FairUsers | None) -> list[int]:
        found = simulate(workload, policy, cluster=cluster, users=users).jobs
        return np.argsort(found.start_s).tolist()

    assert order(None) == [0, 1, 2, 3]
    assert order(FairUsers(10_000.0)) == [0, 3, 1, 2]


def test_owned_machines_go_to_whose_turn_it_is_where_no_more_can_be_rented() -> None:
    """A's two jobs of two cores come first, and would rent a machine that is twice as dear as that of B's of one core.

    Rounds are 300 s apart, and one does not know yet of a job that ends at its instant. Where nothing may be rented,
    B's job is next on the owned machine; where it may, all jobs have machines at once.
    """
    offers = (*OFFERS, Offer(type="two", cpu=2, memory_gib=8, usd_per_h=2.0, boot_s=50.0))
    workload = jobs((0, A, 600, 2), (0, A, 600, 2), (1, B, 600, 1))
    own = (NodeGroup("own", 1, 0, 2, 8),)

    def starts_with(quota: int | None, users: FairUsers | None) -> list[float]:
        cluster = Cluster("x", own, offers=offers, quota=quota)
        return simulate(
            workload, "no-packing:rounds=fixed", cluster=cluster, users=users
        ).jobs.start_s.tolist()

    shared = FairUsers(10_000.0)
    assert starts_with(0, None) == [0.0, 900.0, 1800.0]
    assert starts_with(0, shared) == [0.0, 1800.0, 900.0]
    assert starts_with(None, shared) == starts_with(None, None)


@pytest.mark.parametrize("policy", PLANNERS)
def test_a_planner_is_not_given_jobs_beyond_a_limit(policy: str) -> None:
    """A may run one of its jobs at once, and rents one machine after the other; B's job does not wait for A's."""
    workload = jobs((0, A, 600, 1), (0, A, 600, 1), (0, A, 600, 1), (0, B, 600, 1))
    cluster = Cluster("x", (), offers=OFFERS)
    limited = FairUsers(1000.0, {"0": Entitled(most_running=1.0)})
    found = simulate(workload, policy, cluster=cluster, users=limited).jobs
    assert found.start_s[3] == found.start_s[0]
    assert (found.start_s[1:3] >= found.finish_s[:2]).all()
    alone = simulate(workload, policy, cluster=cluster, users=FairUsers(1000.0)).jobs
    assert (alone.start_s == alone.start_s[0]).all()


@pytest.mark.parametrize(
    ("policy", "least_used"),
    [
        ("nodes:fifo", 0.8),
        ("easy", 0.93),
        ("sjf", 0.9),
        ("srsf", 0.98),
        ("pool:fifo", 0.98),
        ("max-min", 0.99),
        ("afs", 0.99),
        ("themis", 0.99),
    ],
)
def test_shares_come_to_the_weights_under_load(policy: str, least_used: float) -> None:
    """Weighted max-min: users who always have jobs that wait get units by weight; who wants less, all of that.

    C comes with one job of one unit at a time, which is less than its share, and is served. Work is conserved.
    """
    units = 32
    rng = np.random.default_rng(4)
    user, width = rng.integers(A, C, 800), rng.integers(1, units // 4 + 1, 800)
    busy = [(0.0, *each) for each in zip(user, rng.uniform(10.0, 100.0, 800), width, strict=True)]
    workload = jobs(*busy, *[(50.0 * at, C, 40.0, 1) for at in range(60)])
    if least_used > 0.95:  # elastic, in a pool
        workload = replace(workload, min_units=np.ones(len(workload), dtype=np.int64))
    weights = {"0": Entitled(1.0), "1": Entitled(3.0), "2": Entitled(1.0)}
    result = simulate(workload, policy, units=units, users=FairUsers(500.0, weights), timeline=True)
    stays, since_s, until_s = result.segments, 500.0, 2500.0
    assert stays is not None
    lasted_s = np.clip(np.minimum(stays.end_s, until_s) - np.maximum(stays.start_s, since_s), 0.0, None)
    held = np.bincount(workload.user[stays.row], lasted_s * stays.units) / (until_s - since_s)
    assert held.sum() > least_used * units
    assert held[B] / held[A] == pytest.approx(3.0, rel=0.12)
    assert held[C] == pytest.approx(0.8, rel=0.1)  # one unit for 40 of every 50 s


def test_what_is_refused(tmp_path: Path) -> None:
    nobody = Workload.from_columns(submit_s=[0.0], work_s=[1.0])
    with pytest.raises(InputError, match="no job of workload names its user"):
        simulate(nobody, "easy", units=1, users="fair")
    one = jobs((0, A, 10, 2))
    with pytest.raises(InputError, match="job 0 can use 2 units, more than the 1 of its user 0"):
        simulate(one, "easy", units=2, users=FairUsers(1.0, {"0": Entitled(most_units=1.0)}))
    rented = Cluster("x", (NodeGroup("own", 1, 0, 1, 4),), offers=OFFERS)
    limited = FairUsers(1.0, {"0": Entitled(most_running=1.0)})
    with pytest.raises(PolicyError, match=r"foreseen to wait in vain .* whatever its user's limits"):
        simulate(jobs((0, A, 10, 1)), "compound", cluster=rented, users=limited)
    for text in ("fast", "fair:half-life=0", "fair:half-life=x", "fair:weights=1"):
        with pytest.raises(InputError, match="--users"):
            parse_users(text)
    table = tmp_path / "users.csv"
    for content, message in (
        ("user,weight\nann,0\n", "expected a number above 0"),
        ("user\nann\n", "no column weight"),
        ("user,weight,speed\nann,1,2\n", "the column speed means nothing"),
        ("user,weight\nann,1\nann,2\n", "user ann stands twice"),
    ):
        table.write_text(content)
        with pytest.raises(InputError, match=message):
            parse_users(f"fair:file={table}")
    table.write_text("user,weight,max_units,max_memory_gib\n0,2,8,\n")
    assert parse_users(f"fair:half-life=1h,file={table}") == FairUsers(
        3600.0, {"0": Entitled(2.0, math.inf, 8.0, math.inf)}
    )
    assert RECENT_COUNTS > 1.0
