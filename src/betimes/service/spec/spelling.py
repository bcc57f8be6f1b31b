"""Fields of a job as people write them in a job file and on the command line: `2h`, `4GiB`, `1-8`.

Read without the models: the command line has no time for them.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from betimes.units import MEMORY_UNITS, TIME_UNITS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_NUMBER = r"[0-9]{1,12}(?:\.[0-9]{1,9})?"
_PLAIN = re.compile(_NUMBER)
_PARTS = re.compile(
    rf"(?:(?P<d>{_NUMBER})d)?(?:(?P<h>{_NUMBER})h)?(?:(?P<min>{_NUMBER})(?:min|m))?(?:(?P<s>{_NUMBER})s)?"
)
_CLOCK = re.compile(r"(?:(?P<d>[0-9]{1,6})-)?(?P<h>[0-9]{1,6}):(?P<min>[0-5][0-9]):(?P<s>[0-5][0-9])")
_DURATION = "write seconds, or a duration such as 90s, 2h, 1h30m, 1d, 12:00:00 or 1-12:00:00"

_AMOUNT = re.compile(rf"(?P<number>{_NUMBER})(?P<unit>[kmgt]?)(?P<binary>i?)(?P<byte>b?)")
_MEMORY = "write GiB, or an amount such as 512MiB, 4GiB or 1.5TiB"

_WIDTH = re.compile(r"(?P<least>[0-9]{1,9})(?:-(?P<most>[0-9]{1,9}))?")


def parse_duration(text: str) -> float:
    """The seconds that a text means: a plain number is seconds. Raises ValueError saying what to write."""
    wanted = text.strip().lower().replace(" ", "")
    if _PLAIN.fullmatch(wanted):
        return float(wanted)
    found = _CLOCK.fullmatch(wanted) or _PARTS.fullmatch(wanted)
    if found is None or not wanted:
        raise ValueError(f"{text[:40]!r} is no duration; {_DURATION}")
    seconds = math.fsum(
        float(number) * TIME_UNITS[unit] for unit, number in found.groupdict().items() if number
    )
    return float(seconds)


def parse_gib(text: str) -> float:
    """The GiB that a text means: a plain number is GiB, and `4G` as much as `4GiB`.

    Raises ValueError saying what to write; also for `4GB`, which some mean as 4 GiB and others as 7 % less.
    """
    found = _AMOUNT.fullmatch(text.strip().lower().replace(" ", ""))
    if found is None or (found["binary"] and not found["unit"]):
        raise ValueError(f"{text[:40]!r} is no amount of memory; {_MEMORY}")
    if found["byte"] and not found["binary"]:
        raise ValueError(f"{text[:40]!r} does not say whether kilo is 1000 or 1024; {_MEMORY}")
    return float(found["number"]) * MEMORY_UNITS[found["unit"] or "g"]


def parse_units(text: str) -> tuple[int, int]:
    """The least and the most units of `4`, or of `1-8` for a job that may be resized.

    Raises ValueError saying what to write.
    """
    found = _WIDTH.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text[:40]!r} is no number of units; write 4, or 1-8 for at least 1 and at most 8")
    least, most = int(found["least"]), int(found["most"] or found["least"])
    if least > most:
        raise ValueError(f"{text}: at least {least} is more than at most {most}; write {most}-{least}")
    return least, most


class Spelling(NamedTuple):
    """Another way to write fields of a job: which ones, and how the text is read."""

    fields: tuple[str, ...]
    read: Callable[[str], float | tuple[int, int]]


SPELLINGS = {
    "memory": Spelling(("memory_gib",), parse_gib),
    "units": Spelling(("min_units", "max_units"), parse_units),
    "grace": Spelling(("grace_s",), parse_duration),
    "estimate": Spelling(("estimate_s",), parse_duration),
    "step": Spelling(("step_s",), parse_duration),
    "time_limit": Spelling(("time_limit_s",), parse_duration),
    "warn": Spelling(("warn_s",), parse_duration),
    "backoff": Spelling(("backoff_s",), parse_duration),
}
"""Fields with the names of the options, which read `2h` and `4GiB`; a plain number is seconds, GiB or units."""


def directory_of(fields: Mapping[str, Any]) -> Path | None:
    """The directory that fields name as `upload`; null: none, or one that was sent."""
    given = fields.get("upload")
    return Path(given) if isinstance(given, str) and given.startswith("/") else None
