"""Fields of a job as people write them in a job file and on the command line, read without the models."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from betimes.service.spec.parse_units import parse_units
from betimes.units import parse_duration, parse_gib

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


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
