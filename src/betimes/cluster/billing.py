"""What machines cost, exactly: rented ones by their billing and the prices of the time, owned ones by the hour.

Times and prices are floats, each of which is a fraction; sums are `fractions.Fraction` and are rounded once, by
`float`. So neither the order of a sum nor the number of its terms changes a bill.

What a lease has committed to is charged at the price at which the commitment began: first the minimum, then each
further step as it begins; without steps the price of every moment counts. A change of price applies to what begins
at that instant or later. So what a lease has cost never falls, and never depends on a price of later.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, get_args

from betimes.cluster.checks import MOST_SECONDS, check_amount, shown
from betimes.cluster.prices import Prices
from betimes.errors import ClusterError

BillFrom = Literal["request", "boot"]
_H = 3600


@dataclass(frozen=True)
class Billing:
    """How leases are charged for: at least `min_bill_s`, in whole steps of `bill_step_s` (0: to the moment).

    A lease is charged for from the request, or from boot, which is before the machine is set up. Raises ClusterError,
    naming the field.
    """

    min_bill_s: float = 0.0
    bill_step_s: float = 0.0
    bill_from: BillFrom = "boot"

    def __post_init__(self) -> None:
        for field in ("min_bill_s", "bill_step_s"):
            check_amount(field, getattr(self, field), MOST_SECONDS)
        if self.bill_from not in get_args(BillFrom):
            raise ClusterError(f"field bill_from: expected request or boot, found {shown(self.bill_from)}")

    def since_s(self, requested_s: float, booted_s: float) -> float:
        """From when a machine is charged for that was asked for and had booted then (infinity: has not)."""
        return requested_s if self.bill_from == "request" else booted_s


def lease_usd(billing: Billing, prices: Prices, since_s: float, until_s: float) -> Fraction:
    """What a lease costs that is charged for from `since_s` and ended, or is looked at, at `until_s`.

    Nothing where that is before `since_s`: it was never charged for.
    """
    if until_s < since_s:
        return Fraction(0)
    committed = _committed(billing)
    beyond = Fraction(since_s) + committed
    total = committed * Fraction(prices.at(since_s)) / _H
    for from_s, to_s, usd_per_h in prices.pieces(since_s, until_s):
        begun = _beyond(billing, beyond, to_s) - _beyond(billing, beyond, from_s)
        total += begun * Fraction(usd_per_h) / _H
    return total


def owned_usd(usd_per_h: float, discount_frac: float, count: int, horizon_s: float) -> Fraction:
    """What `count` owned machines cost over a horizon, used or not; `discount_frac` is what a reservation saves."""
    return Fraction(usd_per_h) * (1 - Fraction(discount_frac)) * count * Fraction(horizon_s) / _H


def summed(costs: Iterable[Fraction]) -> Fraction:
    """The sum of exact costs, the same in any order."""
    return sum(costs, Fraction(0))


def _committed(billing: Billing) -> Fraction:
    """What every lease is charged at least, s: the minimum in whole steps."""
    least, step = Fraction(billing.min_bill_s), Fraction(billing.bill_step_s)
    return math.ceil(least / step) * step if step else least


def _beyond(billing: Billing, beyond: Fraction, before_s: float) -> Fraction:
    """The time that is charged for beyond the first commitment and begins before an instant, s."""
    if before_s <= beyond:
        return Fraction(0)
    held, step = Fraction(before_s) - beyond, Fraction(billing.bill_step_s)
    return math.ceil(held / step) * step if step else held
