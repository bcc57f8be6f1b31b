"""How many units a job holds, as people write it: `4`, or `1-8` for a job that may be resized."""

from __future__ import annotations

import re

_WIDTH = re.compile(r"(?P<least>[0-9]{1,9})(?:-(?P<most>[0-9]{1,9}))?")


def parse_units(text: str) -> tuple[int, int]:
    """The least and the most units that a text means; raises ValueError saying what to write."""
    found = _WIDTH.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text[:40]!r} is no number of units; write 4, or 1-8 for at least 1 and at most 8")
    least, most = int(found["least"]), int(found["most"] or found["least"])
    if least > most:
        raise ValueError(f"{text}: at least {least} is more than at most {most}; write {most}-{least}")
    return least, most
