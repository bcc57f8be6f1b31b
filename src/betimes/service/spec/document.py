"""A TOML or YAML file as plain values, each with its line: nothing in a file can do more than be read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Where = tuple[str | int, ...]
"""The way to a value from the top: names of fields, and numbers (from 0) in lists."""

MOST_DEPTH = 8  # the deepest value of a job file is at 5: jobs, number, curve, speedup, units


@dataclass(frozen=True)
class Document:
    """A file's content: tables, lists, text, numbers, true, false and null; `line` (from 1) where known."""

    top: dict[str, Any]
    line: Callable[[Where], int | None]


class Malformed(ValueError):
    """The file violates its format; the message has why and what to do."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line
