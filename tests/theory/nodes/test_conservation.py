"""What no policy can change: capacity, work, Little's law; and what each has promised about preemption."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes import Result
from betimes.cluster.resources import PER_UNIT, RESOURCES
from betimes.policies.nodes.hooks import ORDER
from tests.theory.nodes.mixtures import Mixture, mixture
from tests.theory.nodes.watching import Seen, finds_room, given_back, watch
from tests.theory.queues import Floats

PREEMPTING = (
    "fitgpp",
    "fitgpp:P=3,s=0,fallback=none",
    "lrtp:P=2",
    "lrtp:trim=false",
    "rand:P=1000,trim=false",
    "rand",
    "youngest:P=2,placement=worst",
    "lowest-priority:P=1000",
)
QUEUEING = (
    "fifo",
    "skip-over",
    "easy",
    "conservative",
    "sjf",
    "widest:backfill=easy",
    "slowdown:backfill=skip-over",
    "wfq-order:backfill=skip-over",
    "wfp3",
    "unicef:placement=first",
)
RESTART_S = 2.0


@lru_cache(maxsize=64)
def watched(policy: str, seed: int) -> tuple[Mixture, list[Seen], Result]:
    """A run of 200 jobs; every other seed has times that are not whole seconds."""
    jobs = mixture(seed, jobs=200, whole_seconds=seed % 2 == 0)
    seen: list[Seen] = []
    result = watch(
        jobs.workload,
        policy,
        jobs.cluster,
        seen.append,
        tasks=jobs.tasks,
        sizes="estimate",
        restart_s=RESTART_S,
        seed=seed,
    )
    assert result.jobs.finished.all()
    return jobs, seen, result


def stays_of(result: Result) -> list[tuple[int, float, float]]:
    """When each job held its nodes: row, start, end; a gang's segments on several nodes are one stay."""
    s = result.segments
    assert s is not None
    return sorted(set(zip(s.row.tolist(), s.start_s.tolist(), s.end_s.tolist(), strict=True)))


# Neighbours in the list, which are alike, have different seeds.
EACH = [(policy, 1 + at % 2) for at, policy in enumerate((*QUEUEING, *PREEMPTING))]
every_policy = pytest.mark.parametrize(("policy", "seed"), EACH)
every_preempting = pytest.mark.parametrize(("policy", "seed"), EACH[len(QUEUEING) :])


@every_policy
def test_no_node_gives_more_than_it_has_and_none_loses_any(policy: str, seed: int) -> None:
    jobs, seen, _ = watched(policy, seed)
    for each in seen:
        assert min(map(min, each.free)) >= 0
        back = given_back(each.free, each.holding, jobs.demands)
        if each.nominated:  # they hold what they have been given so far, which victims still add to
            assert all(
                had <= has
                for a, b in zip(back, jobs.capacity, strict=True)
                for had, has in zip(a, b, strict=True)
            )
            most = given_back(back, each.nominated, jobs.demands)
            assert all(
                had >= has
                for a, b in zip(most, jobs.capacity, strict=True)
                for had, has in zip(a, b, strict=True)
            )
        else:
            assert back == jobs.capacity
        for stay in each.holding:
            assert sum(stay.on.values()) == jobs.tasks.count[stay.row]
    assert seen[-1].free == jobs.capacity
    assert not seen[-1].holding
    assert not seen[-1].waiting


@every_policy
def test_segments_are_what_was_held(policy: str, seed: int) -> None:
    jobs, seen, result = watched(policy, seed)
    s = result.segments
    assert s is not None
    given = np.bincount(s.row, s.units * (s.end_s - s.start_s), len(result.jobs))
    np.testing.assert_allclose(given, result.jobs.units_s, rtol=1e-9)
    # All that a job holds starts and ends together, and at most the whole cluster is held.
    demand = jobs.tasks.demand * jobs.tasks.count[:, None] / jobs.workload.max_units[:, None]
    held = np.zeros((len(seen), 3))
    now = np.array([each.now for each in seen])
    for sign, at in ((1.0, s.start_s), (-1.0, s.end_s)):
        np.add.at(held, np.searchsorted(now, at), sign * s.units[:, None] * demand[s.row])
    assert np.all(np.cumsum(held, axis=0) <= jobs.cluster.total * (1.0 + 1e-9))
    for resource in result.resources:
        at = RESOURCES.index(resource.name)
        amount_s = np.sum(s.units * (s.end_s - s.start_s) * demand[s.row, at]) / PER_UNIT[at]
        assert resource.held_s == pytest.approx(amount_s, rel=1e-9)
    # At the end of every instant those hold nodes whose stay says so.
    rows, starts, ends = (np.array(column) for column in zip(*stays_of(result), strict=True))
    for each, following in pairwise(seen):
        if following.now > each.now:
            there = rows[(starts <= each.now) & (each.now < ends)]
            assert sorted(stay.row for stay in each.holding) == there.tolist()


@every_policy
def test_work_is_conserved(policy: str, seed: int) -> None:
    # Every run works but for the restart at its beginning, unless it is the first; nobody works while leaving.
    jobs, _, result = watched(policy, seed)
    told = set[tuple[int, float]]()
    if result.absences is not None:
        slow = result.absences.take(result.absences.vacated_s > result.absences.preempted_s)
        told = set(zip(slow.row.tolist(), slow.preempted_s.tolist(), strict=True))
    worked, restarts = np.zeros(len(result.jobs)), np.zeros(len(result.jobs))
    begun = set[int]()
    for row, start, end in stays_of(result):
        if (row, start) not in told:
            restart = min(RESTART_S, end - start) if row in begun else 0.0
            restarts[row] += restart
            worked[row] += end - start - restart
        begun.add(row)
    np.testing.assert_allclose(worked, jobs.workload.work_s, rtol=1e-9)
    np.testing.assert_allclose(restarts, result.jobs.restart_s, atol=1e-7)


@every_policy
def test_littles_law(policy: str, seed: int) -> None:
    # Integrated over what is seen at every instant: who is there, who holds nodes, and who waits.
    jobs, seen, result = watched(policy, seed)
    now = np.array([each.now for each in seen])
    gaps = np.diff(now)
    there = np.array([len(each.holding) + len(each.waiting) + len(each.nominated) for each in seen])
    responses = result.jobs.finish_s - result.jobs.submit_s
    assert there[:-1] @ gaps == pytest.approx(responses.sum(), rel=1e-9)
    holding = np.array([len(each.holding) for each in seen])
    stays = sum(end - start for _, start, end in stays_of(result))
    assert holding[:-1] @ gaps == pytest.approx(stays, rel=1e-9)
    waiting = np.array([len(each.waiting) + len(each.nominated) for each in seen])
    assert waiting[:-1] @ gaps == pytest.approx(responses.sum() - stays, rel=1e-9)
    assert len(jobs.workload) == len(result.jobs)


# --- preemption ---


@every_preempting
def test_every_preemption_ends(policy: str, seed: int) -> None:
    jobs, _, result = watched(policy, seed)
    a = result.absences
    assert a is not None
    assert len(a) >= 5, "too few preemptions to say anything"
    np.testing.assert_allclose(
        a.vacated_s - a.preempted_s, jobs.workload.grace_s[a.row], rtol=1e-9, atol=1e-9
    )
    assert np.all(a.preempted_s <= a.vacated_s)
    assert np.all(a.vacated_s <= a.resumed_s)
    assert np.all(a.resumed_s <= result.jobs.finish_s[a.row])
    np.testing.assert_array_equal(np.bincount(a.row, minlength=len(result.jobs)), result.jobs.preemptions)


def most_preemptions(policy: str) -> int:
    return next((int(part[2:]) for part in policy.replace(":", ",").split(",") if part.startswith("P=")), 1)


@every_preempting
def test_preemptions_are_limited_and_only_of_a_lower_class(policy: str, seed: int) -> None:
    jobs, seen, result = watched(policy, seed)
    assert result.jobs.preemptions.max() <= most_preemptions(policy)
    for each in seen:
        assert all(count <= most_preemptions(policy) for count in each.preemptions.values())
    level = jobs.workload.qos.astype(int)
    if policy.startswith("lowest"):
        level = level + 2 * jobs.workload.priority
    assert np.all(result.jobs.preemptions[level == level.max()] == 0)


@pytest.mark.parametrize("policy", PREEMPTING)
def test_without_trial_jobs_nobody_is_preempted(policy: str) -> None:
    jobs = mixture(3, jobs=150)
    plain = replace(
        jobs.workload, qos=np.zeros_like(jobs.workload.qos), priority=np.zeros(150, dtype=np.int64)
    )
    rule = "worst" if "worst" in policy else "best"
    ours, fifo = (
        watch(plain, name, jobs.cluster, tasks=jobs.tasks) for name in (policy, f"fifo:placement={rule}")
    )
    assert ours.jobs == fifo.jobs
    assert ours.segments == fifo.segments


@pytest.mark.parametrize("policy", ["rand", "rand:trim=false,P=5", "fitgpp:fallback=none", "fifo"])
def test_same_seed_same_result(policy: str) -> None:
    jobs = mixture(4, jobs=300)
    one, again, other = (
        watch(jobs.workload, policy, jobs.cluster, tasks=jobs.tasks, seed=seed) for seed in (7, 7, 8)
    )
    assert one == again
    assert (one.jobs == other.jobs) == (not policy.startswith("rand"))


# --- queues ---


@given(seed=st.integers(0, 2**32), order=st.sampled_from(ORDER.choices))
def test_who_skips_over_leaves_no_room_that_somebody_could_use(seed: int, order: str) -> None:
    jobs = mixture(seed, jobs=50, load_frac=2.0)
    counts = jobs.tasks.count.tolist()

    def look(seen: Seen) -> None:
        for row in seen.waiting:
            assert not finds_room(jobs.demands[row], counts[row], seen.free)

    watch(jobs.workload, f"skip-over:order={order}", jobs.cluster, look, tasks=jobs.tasks)


@pytest.mark.parametrize("policy", ["fifo", "sjf:backfill=strict", "ljf:backfill=strict"])
@pytest.mark.parametrize("seed", [1, 2])
def test_strict_order_holds_up_all_behind_the_first(policy: str, seed: int) -> None:
    jobs, seen, _ = watched(policy, seed)
    size = jobs.workload.estimate_s
    key: Floats = {"f": np.zeros(len(size)), "s": size, "l": -size}[policy[0]]
    counts, blocked = jobs.tasks.count.tolist(), 0
    for each in seen:
        if each.waiting:
            first = min(each.waiting, key=lambda row: (key[row], row))
            assert not finds_room(jobs.demands[first], counts[first], each.free)
            blocked += any(finds_room(jobs.demands[row], counts[row], each.free) for row in each.waiting)
    assert blocked > 0
