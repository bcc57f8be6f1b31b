"""Numbers with units, as people read and write them: durations, memory, money."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

S_PER_H, S_PER_DAY = 3600.0, 86_400.0
TIME_UNITS = {"d": S_PER_DAY, "h": S_PER_H, "min": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6}
MEMORY_UNITS = {"k": 2.0**-20, "m": 2.0**-10, "g": 1.0, "t": 2.0**10, "p": 2.0**20}
"""In GiB."""
SECONDS = {unit[0]: TIME_UNITS[unit] for unit in ("d", "h", "min", "s")}
"""Of the letters that follow a number in a duration."""
DURATION = "write seconds, or a duration such as 90s, 2h, 1h30m, 1d, 12:00:00 or 1-12:00:00"
MEMORY = "write GiB, or an amount such as 512MiB, 4GiB or 1.5TiB"

# Patterns are compiled by the functions that first use them: most commands need none of them.
_NUMBER = r"[0-9]{1,12}(?:\.[0-9]{1,9})?"
_PARTS = rf"(?:(?P<d>{_NUMBER})d)?(?:(?P<h>{_NUMBER})h)?(?:(?P<m>{_NUMBER})(?:min|m))?(?:(?P<s>{_NUMBER})s)?"
_CLOCK = r"(?:(?P<d>[0-9]{1,6})-)?(?P<h>[0-9]{1,6}):(?P<m>[0-5][0-9]):(?P<s>[0-5][0-9])"
_AMOUNT = r"(?P<number>[0-9]{1,12}(?:\.[0-9]{1,9})?)(?P<unit>[kmgt]?)(?P<binary>i?)(?P<byte>b?)"

# --- read ---


def parse_duration(text: str) -> float:
    """Parse a duration, s: a plain number is seconds. Raises ValueError naming the valid forms."""
    wanted = text.strip().lower().replace(" ", "")
    if re.fullmatch(_NUMBER, wanted):
        return float(wanted)
    found = re.fullmatch(_CLOCK, wanted) or re.fullmatch(_PARTS, wanted)
    if found is None or not wanted:
        raise ValueError(f"{text[:40]!r} is not a duration; {DURATION}")
    seconds = math.fsum(float(number) * SECONDS[unit] for unit, number in found.groupdict().items() if number)
    return float(seconds)


def parse_gib(text: str) -> float:
    """Parse an amount of memory, GiB: a plain number is GiB, and `4G` is `4GiB`.

    Raises ValueError naming the valid forms; also for `4GB`, which some mean as 4 GiB and others as 7 % less.
    """
    found = re.fullmatch(_AMOUNT, text.strip().lower().replace(" ", ""))
    if found is None or (found["binary"] and not found["unit"]):
        raise ValueError(f"{text[:40]!r} is not an amount of memory; {MEMORY}")
    if found["byte"] and not found["binary"]:
        raise ValueError(f"{text[:40]!r} does not say whether kilo is 1000 or 1024; {MEMORY}")
    return float(found["number"]) * MEMORY_UNITS[found["unit"] or "g"]


class Keep(NamedTuple):
    """The age to which something is kept, s, and the most of it, bytes, the newest first; None: without limit."""

    age_s: float | None = None
    bytes: int | None = None


def parse_keep(text: str) -> Keep:
    """Parse an age, an amount, or both, as in `30d`, `20GiB`, `30d,20GiB`; `never`: no limit. Raises ValueError."""
    if text.strip().lower() == "never":
        return Keep()
    age_s: float | None = None
    amount_bytes: int | None = None
    for part in text.split(","):
        try:
            age_s = parse_duration(part)
        except ValueError:
            try:
                amount_bytes = round(parse_gib(part) * 2**30)
            except ValueError:
                raise ValueError(
                    f"{part[:40]!r} is neither an age, such as 30d, nor an amount, such as 20GiB; write one of them, "
                    "both with a comma, or never"
                ) from None
    if 0 in (age_s, amount_bytes):
        raise ValueError("give an age and an amount above 0")
    return Keep(age_s, amount_bytes)


# --- shown ---


def instant(at: float) -> str:
    """An instant, s since 1970, in UTC, for sentences whose readers have another zone: `2026-11-25T13:22:34Z`."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(round(at)))


def sure_of(level: float) -> str:
    """The certainty of an interval's upper end: `90 % sure`. level: of an end between its two."""
    return f"{50.0 * (1.0 + level):g} % sure"


FAR_APART = 20.0  # times: a range with such ends says nothing


def within(
    low_at: float,
    high_at: float,
    from_at: float,
    level: float,
    said: Callable[[float], str] = instant,
    *,
    alone: bool = False,
) -> str:
    """The interval of a promise, to follow its median: ` (13:50 to 14:40)`, or `; by 18:00 (90 % sure)`.

    The second where the time from the promise, made at `from_at`, to the upper end is so many times that to the lower
    one that a range says nothing. level: of an end between the two. alone: without what joins it to the median.
    """
    if high_at - from_at > FAR_APART * max(low_at - from_at, 1.0):
        text = f"by {said(high_at)} ({sure_of(level)})"
        return text if alone else f"; {text}"
    text = f"{said(low_at)} to {said(high_at)}"
    return text if alone else f" ({text})"


def humanise_s(seconds: float | None) -> str:
    """A duration such as `12.3 min` or `4.72 d`; `-` where it is not known."""
    if seconds is None or not math.isfinite(seconds):
        return "-"
    unit = time_unit([seconds])
    value = seconds / TIME_UNITS[unit]
    return f"{value:,.{decimals([value])}f} {unit}"


def length(seconds: float | None) -> str:
    """A duration to the precision that people plan with: `45 s`, `12 min`, `1.5 h`, `3 d`; `-` where not known."""
    if seconds is None or not math.isfinite(seconds):
        return "-"
    for unit in ("d", "h", "min", "s"):
        size_s = TIME_UNITS[unit]
        if unit == "s" or round(abs(seconds)) >= 2 * size_s:
            value = seconds / size_s
            places = 1 if abs(value) < 9.95 and (unit != "s" or abs(value) < 0.95) else 0
            text = f"{value:,.{places}f}"
            return f"{text.removesuffix('.0')} {unit}"
    raise AssertionError("seconds suit any duration")


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


def amount(number: float) -> str:
    """A number to one decimal, without a zero there."""
    return f"{number:,.1f}".removesuffix(".0")


def gib(number: float) -> str:
    """Memory: `23.5 GiB`, `512 MiB`."""
    return f"{amount(number)} GiB" if number >= 1 or number == 0 else f"{amount(number * 1024)} MiB"


def file_size(size_bytes: int) -> str:
    """`65 bytes`, `12.3 KiB`, `3.4 MiB`."""
    if size_bytes < 2**10:
        return f"{size_bytes} byte{'' if size_bytes == 1 else 's'}"
    return f"{amount(size_bytes / 2**20)} MiB" if size_bytes >= 2**17 else f"{amount(size_bytes / 2**10)} KiB"


def usd(amount: float | None) -> str:
    """`$1.20`, `-$3.00`; cents alone would hide what little a short job costs; nothing where no price is known."""
    if amount is None:
        return ""
    whole = round(abs(amount), 6)
    sign = "-" if amount < 0 and whole else ""
    if whole == 0 or whole >= 0.995:
        return f"{sign}${whole:,.2f}"
    return f"{sign}$" + f"{float(f'{whole:.2g}'):.6f}".rstrip("0")
