"""Amounts of memory as people write them: `4GiB`, `512MiB`, `4`."""

from __future__ import annotations

import re

_AMOUNT = re.compile(r"(?P<number>[0-9]{1,12}(?:\.[0-9]{1,9})?)(?P<unit>[kmgt]?)(?P<binary>i?)(?P<byte>b?)")
_GIB = {"k": 2.0**-20, "m": 2.0**-10, "g": 1.0, "t": 2.0**10}

EXPECTED = "write GiB, or an amount such as 512MiB, 4GiB or 1.5TiB"


def parse_gib(text: str) -> float:
    """The GiB that a text means: a plain number is GiB, and `4G` as much as `4GiB`.

    Raises ValueError saying what to write; also for `4GB`, which some mean as 4 GiB and others as 7 % less.
    """
    found = _AMOUNT.fullmatch(text.strip().lower().replace(" ", ""))
    if found is None or (found["binary"] and not found["unit"]):
        raise ValueError(f"{text[:40]!r} is no amount of memory; {EXPECTED}")
    if found["byte"] and not found["binary"]:
        raise ValueError(f"{text[:40]!r} does not say whether kilo is 1000 or 1024; {EXPECTED}")
    return float(found["number"]) * _GIB[found["unit"] or "g"]
