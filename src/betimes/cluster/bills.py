"""What many leases cost, as columns: each the float that `cluster.billing` rounds its exact sum to.

Where the price never changes, a lease costs a time times a price. That is worked out in pairs of floats, which carry
twice the digits of one (Dekker, 1971); a result that lies so close to the middle between two floats that even these
do not say which is nearer, and whatever else does not fit, is left to the fractions.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from betimes.cluster.billing import Billing, lease_usd
from betimes.cluster.prices import Prices

Floats = NDArray[np.float64]

_SPLITTER = 134217729.0  # 2^27 + 1
_H = 3600.0
_LEAST, _MOST = 1e-100, 1e100  # nothing under- or overflows in between


def leases_usd(billing: Billing, prices: Prices, since_s: NDArray[Any], until_s: NDArray[Any]) -> Floats:
    """What each lease costs that is charged for from `since_s` to `until_s` (`billing.lease_usd`), USD."""
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
    """The difference of both, and what that has lost in rounding (Knuth)."""
    whole = a - b
    back = whole - a
    return whole, (a - (whole - back)) - (b + back)


def _product(a: Floats, b: float) -> tuple[Floats, Floats]:
    """The product of both, and what that has lost in rounding (Dekker)."""
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
