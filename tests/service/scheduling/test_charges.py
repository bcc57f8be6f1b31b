"""What a lease costs is divided among the runs on it and nobody, and nothing of it is lost or charged twice."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis.strategies import floats, integers, lists, sampled_from, tuples

from betimes.cluster.billing import Billing, Prices, lease_usd
from betimes.service.scheduling.charges import Charge, LeaseAccount

HOUR_S = 3600.0


def test_two_jobs_that_fill_a_machine_in_different_ways_pay_for_it_once() -> None:
    """One holds all cores, the other all memory, for half an hour together: each pays half of that."""
    account, prices = LeaseAccount(), Prices(2.0)
    account.hold(prices, 1, "ann", 1.0, 0.0)
    account.hold(prices, 2, "bob", 1.0, 0.5 * HOUR_S)
    ann = account.leave(prices, "big-0", 1, HOUR_S)
    bob, rest = account.copied().close(prices, "big-0", 0.0, 2 * HOUR_S, 4.5)
    assert ann is not None
    assert ann[:5] == ("big-0", 1, "ann", 0.0, HOUR_S)
    assert bob[:5] == ("big-0", 2, "bob", 0.5 * HOUR_S, 2 * HOUR_S)
    assert rest[:5] == ("big-0", None, None, 0.0, 2 * HOUR_S)
    assert [ann.usd, bob.usd, rest.usd] == pytest.approx([1.5, 2.5, 0.5])
    assert account.leave(prices, "big-0", 3, HOUR_S) is None


def test_a_run_that_is_given_another_part_pays_for_each_as_long_as_it_had_it() -> None:
    account, prices = LeaseAccount(), Prices(2.0, ((HOUR_S, 4.0),))
    account.hold(prices, 1, "ann", 0.5, 0.0)
    account.hold(prices, 1, "ann", 0.25, 2 * HOUR_S)
    charge = account.leave(prices, "big-0", 1, 3 * HOUR_S)
    assert charge is not None
    assert charge.usd == pytest.approx(1.0 + 2.0 + 1.0)


def test_a_charge_counts_in_each_period_by_its_time_there() -> None:
    charge = Charge("big-0", 1, "ann", 10.0, 30.0, 4.0)
    assert [charge.usd_in(20.0), charge.usd_in(0.0, 15.0), charge.usd_in(0.0), charge.usd_in(30.0)] == [
        2,
        1,
        4,
        0,
    ]
    at_once = charge._replace(until_at=10.0)
    assert (at_once.usd_in(0.0), at_once.usd_in(11.0)) == (4.0, 0.0)


STEPS = lists(
    tuples(integers(1, 4), sampled_from(["hold", "leave"]), floats(0.01, 1.0), floats(-50.0, 4000.0)),
    max_size=30,
)


@given(STEPS, lists(floats(0.0, 40_000.0), max_size=3, unique=True), floats(0.0, 3600.0), floats(0.0, 3600.0))
def test_charges_add_up_to_the_lease_and_are_never_below_nothing(
    steps: list[tuple[int, str, float, float]], changes: list[float], min_bill_s: float, boot_s: float
) -> None:
    """Reports may come late, so that some steps are earlier than the one before; the day has cuts anywhere."""
    prices = Prices(1.0, tuple((at, 2.0 + n) for n, at in enumerate(sorted(changes))))
    account, at, found = LeaseAccount(), boot_s, list[Charge | None]()
    for job, what, frac, after_s in steps:
        at = max(boot_s, at + after_s)
        if what == "hold":
            account.hold(prices, job, f"user{job % 2}", frac, at)
        else:
            found.append(account.leave(prices, "big-0", job, at))
    until_at = max(at, account.settled_at) + 1.0
    usd = float(lease_usd(Billing(min_bill_s=min_bill_s), prices, 0.0, until_at))
    charges = [each for each in found if each is not None]
    charges += account.close(prices, "big-0", 0.0, until_at, usd)
    assert sum(each.usd for each in charges) == pytest.approx(usd, abs=1e-9)
    assert min(each.usd for each in charges) >= (-1e-9 if not changes or not min_bill_s else -usd)
    cuts = [0.0, until_at / 3, until_at / 2, until_at + 10.0]
    whole = sum(each.usd_in(*cut) for each in charges for cut in pairwise(cuts))
    assert whole == pytest.approx(usd, abs=1e-9)
