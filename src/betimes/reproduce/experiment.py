"""What an experiment is: a name, the data it needs, and a run that gives rows of published and own values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

Progress = Callable[[str, int, int], object]
"""Told what is being done, and how many of how many steps (submitted jobs, over all runs) are behind it."""


@dataclass(frozen=True)
class Row:
    """One figure: what was published (None: nothing) and what came out here, both in `unit`."""

    case: str
    metric: str
    published: float | None
    ours: float
    unit: str
    note: str = ""


Run = Callable[[Path | None, Path | None, Progress], list[Row]]
"""Takes the data directory, the folder for pictures (None: draw none) and a progress; gives the rows."""


@dataclass(frozen=True)
class Experiment:
    """A table or figure of a paper that can be run again.

    needs: files relative to the data directory, () where none; `run` may rely on their being there.
    parts: what may follow the name after a colon, joined by `+`; `narrowed`: the experiment on some of them.
    """

    name: str
    summary: str
    needs: tuple[str, ...]
    run: Run
    parts: tuple[str, ...] = ()
    narrowed: Callable[[tuple[str, ...]], Experiment] | None = None
