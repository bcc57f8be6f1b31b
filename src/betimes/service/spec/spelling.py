"""Fields of a job as written in a job file and on the command line: `2h`, `4GiB`, `1-8`.

Read without the models: the command line has no time for them.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from betimes.units import parse_duration, parse_gib

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_WIDTH = re.compile(r"(?P<least>[0-9]{1,9})(?:-(?P<most>[0-9]{1,9}))?")


def parse_units(text: str) -> tuple[int, int]:
    """The least and the most units of `4`, or of `1-8` for a job that may be resized.

    Raises ValueError naming the forms.
    """
    found = _WIDTH.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text[:40]!r} is no number of units; write 4, or 1-8 for at least 1 and at most 8")
    least, most = int(found["least"]), int(found["most"] or found["least"])
    if least > most:
        raise ValueError(f"{text}: at least {least} is more than at most {most}; write {most}-{least}")
    return least, most


class Spelling(NamedTuple):
    """Another way to write fields of a job: their names, and how the text is read."""

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


def with_full_names(policy: str, folder: Path) -> str:
    """A policy with the full names of its files, which are of `folder`: the service works in another one."""
    return re.sub(
        r"[^:=+,]+\.py(?=:)", lambda file: str((folder / Path(file[0]).expanduser()).absolute()), policy
    )
