"""How a reader describes itself, for `read_trace`, the command line and the generated documentation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from betimes.workload.readers.source import Source
from betimes.workload.readers.tally import Tally
from betimes.workload.workload import Workload


@dataclass(frozen=True, slots=True)
class FieldRule:
    """Which fields of the file become which column, and how (units, conditions)."""

    source: str
    column: str
    rule: str = ""


@dataclass(frozen=True, slots=True)
class Opening:
    """The first lines of a file, for recognising its format: `fields` are those of its first line that is no
    comment.
    """

    first_bytes: bytes
    first_line: str
    fields: frozenset[str]


@dataclass(frozen=True, slots=True)
class TraceFormat:
    """One trace format: `summary` is one line, `details` the rules a user needs, `rules` the mapping of
    fields.
    """

    name: str
    summary: str
    details: str
    rules: tuple[FieldRule, ...]
    recognise: Callable[[Opening], bool]
    read: Callable[[Source, Tally], Workload]
    suffixes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.summary
