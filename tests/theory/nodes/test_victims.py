"""Who makes room for one trial job, against every set of victims there is."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from betimes import Result, Workload
from tests.theory.nodes.test_placement import DEMANDS, SHAPES, Case, Counts, Gang, best_placement, placements
from tests.theory.nodes.watching import (
    Seen,
    Stay,
    Vector,
    finds_room,
    given_back,
    plus,
    taken_as_they_are,
    watch,
)

LATER = (
    100.0  # when the trial job comes; everybody else has started one after the other, and runs much longer
)


@dataclass(frozen=True)
class Crowd:
    """Best-effort jobs, started at 0, 1, 2 ..., each with its grace period, and then one trial job."""

    case: Case  # the last job is the trial job
    graces: tuple[int, ...]

    @property
    def trial(self) -> int:
        return len(self.case.jobs) - 1


@st.composite
def crowds(draw: st.DrawFn) -> Crowd:
    nodes = tuple(draw(st.lists(st.sampled_from(SHAPES), min_size=1, max_size=3)))
    small = [demand for demand in DEMANDS if max(demand[0] // 500, demand[1] // 1000, demand[2] // 512) <= 2]
    fitting = [demand for demand in DEMANDS if finds_room(demand, 1, nodes)]
    jobs = [
        Gang(draw(st.sampled_from(small)), draw(st.sampled_from([1, 1, 1, 2])), draw(st.integers(200, 400)))
        for _ in range(draw(st.integers(2, 8)))
    ]
    demand = draw(st.sampled_from(fitting))
    tasks = draw(st.sampled_from([1, 1, 2, 3]))
    assume(finds_room(demand, tasks, nodes))
    graces = draw(st.lists(st.integers(0, 5), min_size=len(jobs), max_size=len(jobs)))
    return Crowd(Case(nodes, (*jobs, Gang(demand, tasks, 7))), (*graces, 0))


@st.composite
def full_clusters(draw: st.DrawFn) -> Crowd:
    """Nodes without a free GPU, and a small trial job: many could make room alone."""
    jobs, graces = list[Gang](), list[int]()
    nodes = draw(st.integers(1, 3))
    for _ in range(nodes):
        left = 8
        while left > 0:
            halves = draw(st.integers(1, min(left, 5)))
            cores, memory = draw(st.sampled_from([0, 500, 1000])), draw(st.sampled_from([0, 256, 512]))
            jobs.append(Gang((halves * 500, cores, memory), 1, draw(st.integers(200, 400))))
            graces.append(draw(st.integers(0, 8)))
            left -= halves
    trial = Gang((draw(st.sampled_from([500, 500, 1000])), 500, 0), 1, 7)
    return Crowd(Case((SHAPES[0],) * nodes, (*jobs, trial)), (*graces, 0))


@dataclass(frozen=True)
class Found:
    """What the engine did: the cluster before and after the trial job came, and the whole run."""

    crowd: Crowd
    before: Seen
    after: Seen
    result: Result

    @property
    def demands(self) -> list[Vector]:
        return [job.demand for job in self.crowd.case.jobs]

    @property
    def victims(self) -> list[Stay]:
        """Those told to leave, as they ran before."""
        told = {stay.row for stay in self.after.vacating}
        return [stay for stay in self.before.running if stay.row in told]

    @property
    def bound(self) -> dict[int, int] | None:
        """Where the trial job went, or is to go."""
        for stay in (*self.after.nominated, *self.after.running):
            if stay.row == self.crowd.trial:
                return stay.on
        return None

    def free_without(self, victims: Sequence[Stay]) -> list[Vector]:
        return given_back(self.before.free, victims, self.demands)

    def suffices(self, victims: Sequence[Stay]) -> bool:
        job = self.crowd.case.jobs[self.crowd.trial]
        return any(placements(job.demand, job.tasks, self.free_without(victims)))

    def suffices_there(self, victims: Sequence[Stay]) -> bool:
        """Whether the trial job fits where it is bound if only these leave."""
        free = self.free_without(victims)
        demand = self.crowd.case.jobs[self.crowd.trial].demand
        assert self.bound is not None
        return all(finds_room(demand, tasks, [free[node]]) for node, tasks in self.bound.items())


def find(crowd: Crowd, policy: str) -> Found:
    jobs = crowd.case.jobs
    seen: list[Seen] = []
    result = watch(
        Workload.from_columns(
            submit_s=[*(float(row) for row in range(crowd.trial)), LATER],
            work_s=[float(job.seconds) for job in jobs],
            grace_s=[float(grace) for grace in crowd.graces],
            qos=[*[0] * crowd.trial, 1],
        ),
        policy,
        crowd.case.cluster,
        seen.append,
        tasks=taken_as_they_are([job.tasks for job in jobs], [job.demand for job in jobs]),
    )
    before = [each for each in seen if each.now < LATER][-1]
    assume(not before.waiting)  # nobody waits, so that nobody else starts in the meantime
    after = next(each for each in seen if each.now == LATER)  # before victims without a grace period are gone
    return Found(crowd, before, after, result)


def untrimmed(found: Found, order: Callable[[Stay], tuple[float, ...]]) -> list[Stay]:
    """Victims in this order until there is room."""
    ranked = sorted(found.before.running, key=order)
    return next(taken for n in range(len(ranked) + 1) if found.suffices(taken := ranked[:n]))


def smallest(found: Found, taken: Sequence[Stay]) -> Sequence[Stay]:
    """The fewest of them without whom the trial job would not fit where it is bound, the first taken first."""
    return next(
        some for n in range(len(taken) + 1) for some in combinations(taken, n) if found.suffices_there(some)
    )


def check_decision(found: Found) -> bool:
    """Whether somebody had to leave; and that happens exactly where there is no room, but could be."""
    if found.suffices([]):
        assert not found.victims
        assert found.bound is not None
        return False
    if not found.suffices(found.before.running):
        assert not found.victims
        assert found.bound is None
        assert found.after.waiting == [found.crowd.trial]
        return False
    assert found.victims
    assert found.bound is not None
    return True


def check_reservation(found: Found) -> None:
    """What the trial job takes at once, and when victims have given up the rest."""
    job, row = found.crowd.case.jobs[found.crowd.trial], found.crowd.trial
    assert found.bound is not None
    leaving = sorted(found.after.vacating, key=lambda stay: stay.leaves)
    assert all(stay.leaves == LATER + found.crowd.graces[stay.row] for stay in leaving)
    free, promised = found.free_without([]), found.free_without(leaving)
    for node, tasks in found.bound.items():
        for need, now, then, left in zip(
            job.demand, free[node], promised[node], found.after.free[node], strict=True
        ):
            assert left == now - max(0, tasks * need - (then - now))
    assert found.result.jobs.start_s[row] == first_instant_paid(found, leaving)


def first_instant_paid(found: Found, leaving: Sequence[Stay]) -> float:
    """When those that have left gave up all that the trial job did not take at once, on every node it is bound to."""
    job, free = found.crowd.case.jobs[found.crowd.trial], found.free_without([])
    assert found.bound is not None

    def given(victims: Sequence[Stay], node: int) -> Vector:
        return plus(found.free_without(victims)[node], free[node], -1)

    for n in range(len(leaving) + 1):
        if all(
            so_far >= min(tasks * need, in_all)
            for node, tasks in found.bound.items()
            for need, so_far, in_all in zip(
                job.demand, given(leaving[:n], node), given(leaving, node), strict=True
            )
        ):
            return leaving[n - 1].leaves if n else LATER
    raise AssertionError("the victims do not give what is owed")


def remaining(found: Found, stay: Stay) -> float:
    return stay.since + found.crowd.case.jobs[stay.row].seconds - LATER


ORDERS: dict[str, Callable[[Found, Stay], tuple[float, ...]]] = {
    "lrtp": lambda found, stay: (-remaining(found, stay), stay.row),
    "youngest": lambda _, stay: (-stay.since, -stay.row),
    "lowest-priority": lambda _, stay: (-stay.since, -stay.row),
}


@pytest.mark.parametrize("policy", ORDERS)
@given(crowd=crowds(), rule=st.sampled_from(["first", "best", "worst"]))
def test_victims_go_in_order_until_there_is_room(policy: str, rule: str, crowd: Crowd) -> None:
    found = find(crowd, f"{policy}:trim=false,placement={rule}")
    if not check_decision(found):
        return
    taken = untrimmed(found, lambda stay: ORDERS[policy](found, stay))
    assert {stay.row for stay in found.victims} == {stay.row for stay in taken}
    assert found.bound == as_placement(best_where(found, rule, taken))
    check_reservation(found)


@pytest.mark.parametrize("policy", ORDERS)
@given(crowd=crowds(), rule=st.sampled_from(["first", "best", "worst"]))
def test_a_trimmed_plan_is_the_smallest_that_suffices(policy: str, rule: str, crowd: Crowd) -> None:
    found = find(crowd, f"{policy}:placement={rule}")
    if not check_decision(found):
        return
    taken = untrimmed(found, lambda stay: ORDERS[policy](found, stay))
    assert found.bound == as_placement(best_where(found, rule, taken))
    assert {stay.row for stay in found.victims} == {stay.row for stay in smallest(found, taken)}
    check_reservation(found)


@given(crowd=crowds())
def test_random_victims_suffice_and_are_not_more_than_it_took(crowd: Crowd) -> None:
    found = find(crowd, "rand:trim=false")
    if not check_decision(found):
        return
    assert found.suffices(found.victims)
    assert any(not found.suffices([stay for stay in found.victims if stay != last]) for last in found.victims)
    check_reservation(found)


@pytest.mark.parametrize("weight", [0.0, 0.5, 4.0])
@given(crowd=st.one_of(crowds(), full_clusters()))
def test_fitgpp_takes_the_candidate_of_the_least_score(weight: float, crowd: Crowd) -> None:
    found = find(crowd, f"fitgpp:s={weight},fallback=none,placement=first")
    candidates = [stay for stay in found.before.running if found.suffices([stay])]
    if found.suffices([]) or not candidates:
        assert not found.victims
        assert (found.bound is None) == (not found.suffices([]))
        return
    assert len(found.victims) == 1
    chosen = found.victims[0]
    assert chosen in candidates
    for other in candidates:
        ours, theirs = fitgpp_score(found, chosen, weight), fitgpp_score(found, other, weight)
        assert ours < theirs + 1e-12
        if math.isclose(ours, theirs, rel_tol=0.0, abs_tol=1e-15):
            assert chosen.row <= other.row
    assert found.bound == as_placement(best_where(found, "first", [chosen]))
    check_reservation(found)


def fitgpp_score(found: Found, stay: Stay, weight: float) -> float:
    """Equation 2 of FitGpp: the size over the largest, and the grace period over the longest."""

    def size(other: Stay) -> float:
        job, nodes = found.crowd.case.jobs[other.row], found.crowd.case.nodes
        return math.hypot(
            *(
                sum(
                    Fraction(tasks * job.demand[at], max(1, nodes[node][at]))
                    for node, tasks in other.on.items()
                )
                for at in range(3)
            )
        )

    running = found.before.running
    longest = max(found.crowd.graces[other.row] for other in running)
    grace = found.crowd.graces[stay.row] / longest if longest else 0.0
    return size(stay) / max(map(size, running)) + weight * grace


def best_where(found: Found, rule: str, taken: Sequence[Stay]) -> Counts | None:
    """The rule's choice once the victims have left."""
    job = found.crowd.case.jobs[found.crowd.trial]
    return best_placement(rule, job.demand, job.tasks, found.free_without(taken), found.crowd.case.largest)


def as_placement(counts: Counts | None) -> dict[int, int] | None:
    return None if counts is None else {node: tasks for node, tasks in enumerate(counts) if tasks > 0}
