"""The exact cost of machines: rented ones by their billing and the prices of the time, owned ones by the hour.

Times and prices are floats, each of which is a fraction; sums are `fractions.Fraction` and are rounded once, by
`float`. So neither the order of a sum nor the number of its terms changes a bill.

A commitment of a lease is charged at the price at which it began: first the minimum, then each further step as it
begins; without steps the price of every moment counts. A change of price applies to commitments that begin at that
instant or later. So a lease's cost never falls, and never depends on a later price.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from operator import itemgetter
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from betimes.cluster.checks import MOST_SECONDS, MOST_USD_PER_H, check_amount, shown
from betimes.errors import ClusterError

Floats = NDArray[np.float64]

_SPLITTER = 134217729.0  # 2^27 + 1
_LEAST, _MOST = 1e-100, 1e100  # nothing under- or overflows in between


@dataclass(frozen=True)
class Prices:
    """A price over time: `usd_per_h` at first, and from each of `changes` (at_s, usd_per_h) on the new one.

    Of changes at one instant the last holds. Raises ClusterError, naming the field.
    """

    usd_per_h: float
    changes: tuple[tuple[float, float], ...] = ()

    def __post_init__(self) -> None:
        check_amount("usd_per_h", self.usd_per_h, MOST_USD_PER_H)
        last_s = -math.inf
        for at_s, usd_per_h in self.changes:
            check_amount("usd_per_h", usd_per_h, MOST_USD_PER_H)
            if not last_s <= at_s < math.inf:
                raise ClusterError(f"field changes: a price from {at_s} comes after one from {last_s}")
            last_s = at_s

    @property
    def latest(self) -> float:
        """The price after all changes."""
        return self.changes[-1][1] if self.changes else self.usd_per_h

    def at(self, at_s: float) -> float:
        """The price of a commitment that begins at an instant."""
        known = self._by(at_s)
        return self.changes[known - 1][1] if known else self.usd_per_h

    def changed(self, at_s: float, usd_per_h: float) -> Prices:
        """The same with another price from an instant on, no earlier than the last change."""
        return Prices(self.usd_per_h, (*self.changes, (at_s, usd_per_h)))

    def pieces(self, since_s: float, until_s: float) -> Iterator[tuple[float, float, float]]:
        """The prices in force between two instants: (from_s, to_s, usd_per_h), in order of time."""
        from_s, price = since_s, self.at(since_s)
        for at_s, usd_per_h in self.changes[self._by(since_s) :]:
            if at_s >= until_s:
                break
            yield from_s, at_s, price
            from_s, price = at_s, usd_per_h
        yield from_s, until_s, price

    def _by(self, at_s: float) -> int:
        """The number of changes up to an instant."""
        return bisect_right(self.changes, at_s, key=itemgetter(0))


BillFrom = Literal["request", "boot"]
_H = 3600


@dataclass(frozen=True)
class Billing:
    """The terms of a lease: at least `min_bill_s`, in whole steps of `bill_step_s` (0: to the moment).

    A lease is charged for from the request, or from boot, before the machine's set-up. Raises ClusterError, naming the
    field.
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
        """The time from which a machine is charged for, by its request and its boot (infinity: not booted)."""
        return requested_s if self.bill_from == "request" else booted_s


def lease_usd(billing: Billing, prices: Prices, since_s: float, until_s: float) -> Fraction:
    """The cost of a lease that is charged for from `since_s` and ended, or is looked at, at `until_s`.

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
    """The cost of `count` owned machines over a horizon, used or not; `discount_frac`: saved by a reservation."""
    return Fraction(usd_per_h) * (1 - Fraction(discount_frac)) * count * Fraction(horizon_s) / _H


def summed(costs: Iterable[Fraction]) -> Fraction:
    """The sum of exact costs, the same in any order."""
    return sum(costs, Fraction(0))


def _committed(billing: Billing) -> Fraction:
    """The least time that a lease is charged for, s: the minimum in whole steps."""
    least, step = Fraction(billing.min_bill_s), Fraction(billing.bill_step_s)
    return math.ceil(least / step) * step if step else least


def _beyond(billing: Billing, beyond: Fraction, before_s: float) -> Fraction:
    """The time that is charged for beyond the first commitment and begins before an instant, s."""
    if before_s <= beyond:
        return Fraction(0)
    held, step = Fraction(before_s) - beyond, Fraction(billing.bill_step_s)
    return math.ceil(held / step) * step if step else held


def leases_usd(billing: Billing, prices: Prices, since_s: NDArray[Any], until_s: NDArray[Any]) -> Floats:
    """The cost of each lease that is charged for from `since_s` to `until_s`, USD: `lease_usd` as a float.

    Where the price never changes, a lease costs a time times a price. That is worked out in pairs of floats, which
    carry twice the digits of one (Dekker, 1971). A result too close to the middle between two floats for these to
    determine the nearer one, and any other case, is left to the fractions.
    """
    usd: Floats = np.zeros(len(since_s))
    with np.errstate(invalid="ignore", over="ignore"):
        charged = np.flatnonzero(until_s >= since_s)
        since, until = since_s[charged].astype(np.float64), until_s[charged].astype(np.float64)
        whole, rest = _difference(until, since)
        known = np.isfinite(whole)
        if prices.changes:
            known[:] = False
        elif billing.bill_step_s > 0.0:
            whole, known = _stepped(billing, whole, known)
            rest = np.zeros_like(whole)
        elif billing.min_bill_s > 0.0:
            short = (whole < billing.min_bill_s) | ((whole == billing.min_bill_s) & (rest <= 0.0))
            whole, rest = np.where(short, billing.min_bill_s, whole), np.where(short, 0.0, rest)
        amounts, sure = _over_hours(whole, rest, prices.usd_per_h)
    usd[charged] = amounts
    for at in np.flatnonzero(~(known & sure)).tolist():
        usd[charged[at]] = float(lease_usd(billing, prices, float(since[at]), float(until[at])))
    return usd


def _difference(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """The difference of both, and its rounding error (Knuth)."""
    whole = a - b
    back = whole - a
    return whole, (a - (whole - back)) - (b + back)


def _product(a: Floats, b: float) -> tuple[Floats, Floats]:
    """The product of both, and its rounding error (Dekker)."""
    whole = a * b
    a_high = _SPLITTER * a - (_SPLITTER * a - a)
    b_high = _SPLITTER * b - (_SPLITTER * b - b)
    a_low, b_low = a - a_high, b - b_high
    return whole, ((a_high * b_high - whole) + a_high * b_low + a_low * b_high) + a_low * b_low


def _stepped(billing: Billing, held_s: Floats, known: NDArray[np.bool_]) -> tuple[Floats, NDArray[np.bool_]]:
    """The time that is charged for, in whole steps; not known where it is close to a step, or steps are no seconds."""
    step_s = billing.bill_step_s
    committed_s = float(math.ceil(Fraction(billing.min_bill_s) / Fraction(step_s)) * Fraction(step_s))
    steps = (held_s - committed_s) / step_s
    sure = (np.abs(steps - np.round(steps)) > 1e-6) & (np.abs(steps) < 1e9) & (step_s == math.floor(step_s))
    return committed_s + np.maximum(0.0, np.ceil(steps)) * step_s, known & sure & (committed_s < 1e15)


def _over_hours(whole: Floats, rest: Floats, usd_per_h: float) -> tuple[Floats, NDArray[np.bool_]]:
    """(whole + rest) * usd_per_h / 3600, and whether it is rounded right."""
    product, lost = _product(whole, usd_per_h)
    lost = lost + rest * usd_per_h
    quotient = product / _H
    back, back_lost = _product(quotient, _H)
    correction = (((product - back) - back_lost) + lost) / _H
    usd = quotient + correction
    off = np.abs(correction - (usd - quotient)) / np.spacing(np.abs(usd))
    clear = (np.abs(off - 0.5) > 1e-9) & (np.abs(off - 0.25) > 1e-9)  # a quarter: below a power of two
    return usd, ((usd > _LEAST) & (usd < _MOST) & clear) | (product == 0.0) & (lost == 0.0)
