"""Durations as people write them: `45`, `90s`, `2h`, `1h30m`, `1-12:00:00`."""

from __future__ import annotations

import math
import re

_NUMBER = r"[0-9]{1,12}(?:\.[0-9]{1,9})?"
_PLAIN = re.compile(_NUMBER)
_PARTS = re.compile(
    rf"(?:(?P<d>{_NUMBER})d)?(?:(?P<h>{_NUMBER})h)?(?:(?P<m>{_NUMBER})(?:min|m))?(?:(?P<s>{_NUMBER})s)?"
)
_CLOCK = re.compile(r"(?:(?P<d>[0-9]{1,6})-)?(?P<h>[0-9]{1,6}):(?P<m>[0-5][0-9]):(?P<s>[0-5][0-9])")
_SECONDS = {"d": 86_400.0, "h": 3600.0, "m": 60.0, "s": 1.0}

EXPECTED = "write seconds, or a duration such as 90s, 2h, 1h30m, 1d, 12:00:00 or 1-12:00:00"


def parse_duration(text: str) -> float:
    """The seconds that a text means: a plain number is seconds. Raises ValueError saying what to write."""
    wanted = text.strip().lower().replace(" ", "")
    if _PLAIN.fullmatch(wanted):
        return float(wanted)
    found = _CLOCK.fullmatch(wanted) or _PARTS.fullmatch(wanted)
    if found is None or not wanted:
        raise ValueError(f"{text[:40]!r} is no duration; {EXPECTED}")
    seconds = math.fsum(
        float(number) * _SECONDS[unit] for unit, number in found.groupdict().items() if number
    )
    return float(seconds)
