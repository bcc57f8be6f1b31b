"""Numbers as people read them: durations in a fitting unit, three digits that matter."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence

from betimes.units import TIME_UNITS


def instant(at: float) -> str:
    """An instant, s since 1970, in UTC, for sentences whose readers have another zone: `2026-11-25T13:22:34Z`."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(round(at)))


def humanise_s(seconds: float | None) -> str:
    """A duration such as `12.3 min` or `4.72 d`; `-` where it is not known."""
    if seconds is None or not math.isfinite(seconds):
        return "-"
    unit = time_unit([seconds])
    value = seconds / TIME_UNITS[unit]
    return f"{value:,.{decimals([value])}f} {unit}"


def time_unit(values_s: Iterable[float]) -> str:
    """The unit for several durations: the largest in which the smallest but zero is at least 1.

    Days only from two days on, hours from two hours on and so forth; seconds when all are zero.
    """
    sizes = [abs(v) for v in values_s if math.isfinite(v) and v != 0]
    smallest = min(sizes, default=0.0)
    if smallest == 0.0:
        return "s"
    for unit, length_s in TIME_UNITS.items():
        if smallest >= (length_s if length_s <= 1 else 2 * length_s):
            return unit
    return "us"


def decimals(values: Iterable[float], whole: bool = True) -> int:
    """Decimal places, 0 to 4, that show three digits of the smallest value but zero.

    Whole numbers need none, unless `whole` is False because something else stands beside them.
    """
    sizes = [abs(v) for v in values if math.isfinite(v) and v != 0]
    if not sizes or (whole and all(v == int(v) for v in sizes)):
        return 0
    return min(4, max(0, 2 - math.floor(math.log10(min(sizes)))))


def short_names(policies: Sequence[str]) -> list[str]:
    """Names for tables and legends: no parameters, no folders, numbered where two would be the same."""
    bases: list[str] = []
    for policy in policies:
        name, _, parameters = policy.rpartition(":")
        bases.append((name if "=" in parameters else policy).rsplit("/", 1)[-1])
    return [
        base if bases.count(base) == 1 else f"{base} ({bases[: i + 1].count(base)})"
        for i, base in enumerate(bases)
    ]
