"""Full or Partial: equation 1, and the log from which its two rates are estimated (spec 6.8, 3.7, 3.8)."""

from __future__ import annotations

import math

import pytest

from betimes.cluster.offer import Offer
from betimes.policies.packing.catalogue import Demand, InstanceType
from betimes.policies.packing.planners.eva import Estimates, horizon_s, move_usd, prefers_full
from betimes.policies.packing.problem import Machine, Problem, Round, Task
from tests.policies.packing.cases import T2, TABLE_3, problem


@pytest.mark.parametrize(("p", "expected"), [(0.05, 11_697.4), (0.1, 5_694.7), (0.5, 865.6)])
def test_how_long_a_configuration_lasts(p: float, expected: float) -> None:
    assert horizon_s(1 / 600, p) == pytest.approx(expected, abs=0.05)
    assert horizon_s(1 / 600, p, poisson=True) == pytest.approx(600 / p)
    assert horizon_s(1 / 600, p) / horizon_s(1 / 600, p, poisson=True) == pytest.approx(-p / math.log(1 - p))


def test_horizons_at_the_ends() -> None:
    assert horizon_s(1 / 600, 0.0) == math.inf
    assert horizon_s(1 / 600, 1.0) == 0.0
    assert horizon_s(1 / 600, 1.0, poisson=True) == 600.0
    assert math.isnan(horizon_s(1 / 600, 1.5))
    assert math.isnan(horizon_s(math.nan, 0.5))


def test_the_criterion() -> None:
    def prefers(lasts_s: float) -> bool:
        return prefers_full(3.0, 2.0, 1.0, 0.2, lasts_s)

    assert prefers(horizon_s(1 / 600, 0.1))
    assert not prefers(horizon_s(1 / 600, 0.5))
    assert not prefers(2880.0)  # break-even
    assert prefers(2880.1)
    assert not prefers(math.nan)


def jobs(
    *arrivals_s: float, pinned: frozenset[int] = frozenset(), skip: frozenset[int] = frozenset()
) -> Problem:
    return Problem(
        TABLE_3,
        tuple(
            Task(n, n, "k", Demand.of(T2), machine=n, pinned=n in pinned, arrival_s=at)
            for n, at in enumerate(arrivals_s)
            if n not in skip
        ),
        tuple(Machine(n, "it2") for n in range(len(arrivals_s))),
    )


def test_an_honest_log_has_each_event_once_and_adopts_after_events_only() -> None:
    log = Estimates()
    log.observe(Round(300.0, jobs(100.0, 200.0)))
    assert log.may_adopt
    log.adopted(full=True)
    log.observe(Round(600.0, jobs(100.0, 200.0, pinned=frozenset({0}))))
    assert not log.may_adopt
    log.adopted(full=False)
    log.observe(Round(900.0, jobs(100.0, 200.0)))
    assert (log.events, log.fulls) == (2, 1)
    log.observe(Round(1200.0, jobs(100.0, 200.0, skip=frozenset({0})), finished={0: 1000.0}))
    assert log.may_adopt
    assert log.events == 3
    assert log.events_per_s == pytest.approx(2 / 900)
    assert log.full_frac == pytest.approx(1 / 3)
    assert log.lasts_s(1200.0) == pytest.approx(horizon_s(2 / 900, 1 / 3))


def test_a_job_that_could_not_be_placed_until_now_is_an_event_of_now_and_only_once() -> None:
    log = Estimates()
    hidden = frozenset({0})
    log.observe(Round(300.0, jobs(100.0, 200.0, skip=hidden)))
    log.observe(Round(600.0, jobs(100.0, 200.0)))
    assert log.may_adopt
    assert (log.events, log.last_s) == (2, 600.0), "not at 100, which was before the events that are known"
    log.observe(Round(900.0, jobs(100.0, 200.0, skip=hidden)))
    log.observe(Round(1200.0, jobs(100.0, 200.0)))
    assert (log.events, log.may_adopt) == (2, False)


def test_the_released_log_takes_a_job_on_its_way_for_a_new_one() -> None:
    log = Estimates(honest=False)
    log.observe(Round(300.0, jobs(100.0, 200.0, pinned=frozenset({0}))))
    log.adopted(full=True)
    log.observe(Round(600.0, jobs(100.0, 200.0, pinned=frozenset({0}))))
    log.adopted(full=True)
    assert (log.events, log.fulls) == (3, 2)
    log.observe(Round(900.0, jobs(100.0, 200.0, skip=frozenset({0})), finished={0: 700.0}))
    log.adopted(full=True)
    assert (log.events, log.fulls) == (3, 3)
    log.observe(Round(1200.0, jobs(100.0, 200.0, skip=frozenset({0}))))
    log.adopted(full=True)
    assert log.full_frac > 1
    assert math.isnan(log.lasts_s(1200.0))


def test_before_the_first_full_a_configuration_lasts_as_long_as_all_did() -> None:
    log = Estimates()
    log.observe(Round(300.0, jobs(100.0)))
    assert log.lasts_s(300.0) == 0.0
    assert log.lasts_s(900.0) == 600.0
    assert math.isnan(log.events_per_s)


def test_what_moving_costs() -> None:
    tasks = problem(("t1", "a", "b"), jobs={"a": 5, "b": 5})
    slow = Problem(
        TABLE_3,
        tuple(
            Task(t.id, t.job, t.kind, t.demand, migration_s=s)
            for t, s in zip(tasks.tasks, (60, 90, 120), strict=True)
        ),
    )
    rented = [
        InstanceType.of(Offer(type="small", cpu=4, memory_gib=8, usd_per_h=3.0, boot_s=40.0, setup_s=160.0)),
        InstanceType.of(Offer(type="large", cpu=16, memory_gib=32, usd_per_h=12.0, boot_s=10.0)),
    ]
    cost = move_usd([0, 5], slow, {0: 12.0, 5: 6.0}, rented)
    assert cost == pytest.approx((60 * 12 + 120 * 6 + 3 * 200 + 12 * 10) / 3600)
