"""Bills: worked by hand for each rule, and what holds of every bill."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes.cluster.billing import Billing, Prices, lease_usd, owned_usd, summed
from betimes.errors import ClusterError

EXACT = Billing()
SECONDS = Billing(bill_step_s=1.0)
MINUTE_AT_LEAST = Billing(min_bill_s=60.0)
AWS = Billing(min_bill_s=60.0, bill_step_s=1.0)
HOURS = Billing(min_bill_s=3600.0, bill_step_s=3600.0, bill_from="request")
USD_A_SECOND = Prices(3600.0)  # one USD a second


@pytest.mark.parametrize(
    ("billing", "until_s", "usd"),
    [
        (EXACT, 5.0, 0),
        (EXACT, 5.25, Fraction(1, 4)),
        (EXACT, 105.5, Fraction(201, 2)),
        (EXACT, 4.0, 0),  # never charged for
        (SECONDS, 5.0, 0),
        (SECONDS, 5.25, 1),
        (SECONDS, 6.0, 1),
        (SECONDS, 6.0000001, 2),
        (MINUTE_AT_LEAST, 4.0, 0),
        (MINUTE_AT_LEAST, 5.0, 60),
        (MINUTE_AT_LEAST, 65.0, 60),
        (MINUTE_AT_LEAST, 65.5, Fraction(121, 2)),
        (AWS, 6.0, 60),
        (AWS, 65.0, 60),
        (AWS, 65.5, 61),
        (Billing(min_bill_s=90.0, bill_step_s=60.0), 6.0, 120),  # the minimum in whole steps
        (Billing(min_bill_s=90.0, bill_step_s=60.0), 125.5, 180),
        (Billing(bill_step_s=3600.0), 5.0, 0),
        (Billing(bill_step_s=3600.0), 5.5, 3600),
    ],
)
def test_by_hand_from_second_five(billing: Billing, until_s: float, usd: Fraction | int) -> None:
    assert lease_usd(billing, USD_A_SECOND, 5.0, until_s) == usd


@pytest.mark.parametrize(
    ("held_s", "charged_s"), [(0, 3600), (1, 3600), (3600, 3600), (3601, 7200), (7200, 7200)]
)
def test_hourly_charges_of_portfolio_scheduling(held_s: float, charged_s: int) -> None:
    # spec/portfolio.md, C4: from the lease, boot included, whole hours, at least one.
    assert HOURS.since_s(1000.0, 1120.0) == 1000.0
    assert lease_usd(HOURS, USD_A_SECOND, 1000.0, 1000.0 + held_s) == charged_s


@pytest.mark.parametrize(
    ("usd_per_h", "hours", "cost_cents"),
    [(0.096, 1, 10), (0.192, 2, 38), (0.768, 1, 77), (3.072, 1, 307), (4.608, 1, 461)],
)
def test_m5_instances_of_the_waiting_policies(usd_per_h: float, hours: float, cost_cents: int) -> None:
    # spec/waiting.md, A5: 2, 4, 16, 64 and 96 vCPUs.
    cost = lease_usd(EXACT, Prices(usd_per_h), 0.0, 3600.0 * hours)
    assert float(cost) == usd_per_h * hours
    assert round(cost * 100) == cost_cents


def test_speculation_on_spot_of_the_waiting_policies() -> None:
    # spec/waiting.md, A8: 50 s and 100 s at 1 USD a second, 0.3 of it on spot machines.
    on_demand = [lease_usd(EXACT, USD_A_SECOND, 10.0, 60.0), lease_usd(EXACT, USD_A_SECOND, 20.0, 120.0)]
    spot = [lease_usd(EXACT, Prices(3600.0 * 0.3), 10.0, 60.0), lease_usd(EXACT, Prices(1080.0), 20.0, 120.0)]
    assert (summed(on_demand), summed(spot)) == (150, 45)


def test_eva_bills_from_boot_to_the_end_of_the_release() -> None:
    # spec/eva.md, 2.5: p3.2xlarge takes 22 s, then is charged for; an hour of work after 151 s of set-up, and 1 s.
    since_s = EXACT.since_s(0.0, 22.0)
    cost = lease_usd(EXACT, Prices(3.06), since_s, 22.0 + 151.0 + 3600.0 + 1.0)
    assert cost == Fraction(3.06) * 3752 / 3600
    assert round(cost * 100) == 319


def test_a_second_costs_what_it_cost_when_it_began() -> None:
    prices = USD_A_SECOND.changed(2.0, 7200.0).changed(3.5, 36000.0)
    # Seconds begin at 0.5, 1.5; 2.5; 3.5 and 4.5.
    assert lease_usd(SECONDS, prices, 0.5, 5.0) == 1 + 1 + 2 + 10 + 10
    assert lease_usd(SECONDS, prices, 10.0, 12.0) == 20
    # Exactly: 1.5 s, 1.5 s, 1.5 s.
    assert lease_usd(EXACT, prices, 0.5, 5.0) == Fraction(3, 2) * (1 + 2 + 10)


def test_an_hour_that_has_begun_keeps_its_price() -> None:
    prices = Prices(1.0).changed(1800.0, 5.0).changed(3600.0, 2.0)
    assert lease_usd(HOURS, prices, 0.0, 3600.0) == 1
    assert lease_usd(HOURS, prices, 0.0, 3600.5) == 3
    assert lease_usd(HOURS, prices, 1800.0, 1801.0) == 5


def test_the_minimum_is_charged_at_the_price_at_which_it_began() -> None:
    prices = USD_A_SECOND.changed(30.0, 7200.0).changed(70.0, 36000.0)
    assert lease_usd(MINUTE_AT_LEAST, prices, 0.0, 10.0) == 60
    assert lease_usd(MINUTE_AT_LEAST, prices, 0.0, 60.0) == 60
    assert lease_usd(MINUTE_AT_LEAST, prices, 0.0, 75.0) == 60 + 2 * 10 + 10 * 5


def test_of_two_prices_at_one_instant_the_last_holds() -> None:
    prices = Prices(1.0).changed(10.0, 9.0).changed(10.0, 3600.0)
    assert (prices.at(9.9), prices.at(10.0), prices.latest) == (1.0, 3600.0, 3600.0)
    assert lease_usd(EXACT, prices, 10.0, 12.0) == 2


def test_from_boot_or_from_the_request() -> None:
    assert Billing().since_s(10.0, 130.0) == 130.0
    assert lease_usd(Billing(), USD_A_SECOND, Billing().since_s(10.0, math.inf), 500.0) == 0
    assert lease_usd(HOURS, USD_A_SECOND, HOURS.since_s(10.0, math.inf), 500.0) == 3600


def test_owned_machines_cost_the_horizon() -> None:
    # spec/waiting.md, A.5: s * C * 0.048 * 0.4 * horizon, for 150 machines of 64 cores and a day.
    cost = owned_usd(3.072, 0.6, 150, 86_400.0)
    assert round(cost * 100) == round(150 * 64 * 0.048 * 0.4 * 24 * 100)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"min_bill_s": -1.0}, "field min_bill_s: expected a number from 0"),
        ({"bill_step_s": math.nan}, "field bill_step_s: expected a number from 0"),
        ({"bill_from": "setup"}, "field bill_from: expected request or boot, found 'setup'"),
        ({"bill_from": []}, "field bill_from"),
    ],
)
def test_what_no_billing_can_be(fields: dict[str, object], message: str) -> None:
    with pytest.raises(ClusterError, match=message):
        Billing(**fields)  # pyright: ignore[reportArgumentType]


def test_what_no_prices_can_be() -> None:
    with pytest.raises(ClusterError, match="field usd_per_h"):
        Prices(-1.0)
    with pytest.raises(ClusterError, match="field usd_per_h"):
        Prices(1.0).changed(3.0, math.inf)
    for before_s in (2.0, math.nan, math.inf):
        with pytest.raises(ClusterError, match=r"a price from .* comes after one from 3\.0"):
            Prices(1.0).changed(3.0, 2.0).changed(before_s, 1.0)


STEPS = st.sampled_from([0.0, 1.0, 0.1, 60.0, 3600.0, 7.5])
BILLINGS = st.builds(Billing, st.sampled_from([0.0, 60.0, 0.3, 5000.0]), STEPS)
SHORT = st.one_of(st.integers(0, 40).map(lambda number: number * 300.0), st.floats(0, 12_000))
USD = st.floats(0, 100)
CHANGES = st.lists(st.tuples(SHORT, USD), max_size=5).map(sorted).map(tuple)
PRICES = st.builds(Prices, USD, CHANGES)


@given(BILLINGS, PRICES, SHORT, SHORT, SHORT)
def test_a_cost_never_falls_and_is_never_below_the_minimum(
    billing: Billing, prices: Prices, since_s: float, held_s: float, more_s: float
) -> None:
    cost = lease_usd(billing, prices, since_s, since_s + held_s)
    assert 0 <= cost <= lease_usd(billing, prices, since_s, since_s + held_s + more_s)
    assert cost >= Fraction(billing.min_bill_s) * Fraction(prices.at(since_s)) / 3600
    dearest = max([prices.usd_per_h, *(price for _, price in prices.changes)])
    held = Fraction(since_s + held_s) - Fraction(since_s)
    assert (
        cost
        <= (held + Fraction(billing.min_bill_s) + 2 * Fraction(billing.bill_step_s))
        * Fraction(dearest)
        / 3600
    )


@given(PRICES, st.tuples(SHORT, SHORT, SHORT))
def test_without_steps_a_lease_is_the_sum_of_its_pieces(
    prices: Prices, instants: tuple[float, float, float]
) -> None:
    first, middle, last = sorted(instants)
    whole = lease_usd(EXACT, prices, first, last)
    assert whole == lease_usd(EXACT, prices, first, middle) + lease_usd(EXACT, prices, middle, last)


@given(PRICES, SHORT, SHORT, st.sampled_from([30.0, 0.7, 3600.0]))
def test_the_sum_over_steps(prices: Prices, since_s: float, held_s: float, step_s: float) -> None:
    total, begins = Fraction(0), Fraction(since_s)
    while begins < since_s + held_s:
        price = [prices.usd_per_h, *(usd for at_s, usd in prices.changes if at_s <= begins)][-1]
        total += Fraction(price) * Fraction(step_s) / 3600
        begins += Fraction(step_s)
    assert lease_usd(Billing(0.0, step_s), prices, since_s, since_s + held_s) == total


@given(BILLINGS, PRICES, SHORT, SHORT, SHORT, USD)
def test_a_price_of_later_changes_no_bill(
    billing: Billing, prices: Prices, since_s: float, held_s: float, later_s: float, usd_per_h: float
) -> None:
    until_s = since_s + held_s
    changes = tuple(change for change in prices.changes if change[0] < until_s)
    known = Prices(prices.usd_per_h, changes)
    then = known.changed(until_s + later_s, usd_per_h)
    assert until_s == since_s or lease_usd(billing, known, since_s, until_s) == lease_usd(
        billing, then, since_s, until_s
    )


@given(st.lists(st.tuples(BILLINGS, PRICES, SHORT, SHORT), max_size=8), st.randoms(use_true_random=False))
def test_the_order_of_a_sum_does_not_matter(
    leases: list[tuple[Billing, Prices, float, float]], order: random.Random
) -> None:
    costs = [
        lease_usd(billing, prices, since_s, since_s + held_s) for billing, prices, since_s, held_s in leases
    ]
    mixed = order.sample(costs, len(costs))
    assert summed(costs) == summed(mixed)
