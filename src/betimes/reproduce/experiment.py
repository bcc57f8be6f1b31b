"""What an experiment is: a name, the data it needs, and a run that gives rows of published and own values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from betimes.errors import InputError
from betimes.reproduce.pace import Progress
from betimes.reproduce.workers import Workers


@dataclass(frozen=True)
class Row:
    """One figure: what was published (None: nothing) and what came out here, both in `unit`."""

    case: str
    metric: str
    published: float | None
    ours: float
    unit: str
    note: str = ""


Run = Callable[..., list[Row]]
"""Takes the data directory, the folder for pictures (None: draw none), a progress, and workers unless the experiment is
made `alone`; gives the rows."""


@dataclass(frozen=True)
class Experiment:
    """A table or figure of a paper that can be run again.

    needs: files relative to the data directory, () where none; `run` may rely on their being there.
    parts: what may follow the name after a colon, joined by `+`; `narrowed`: the experiment on some of them. alone:
    why this process makes all of its runs; by default workers make those that do not depend on each other.
    """

    name: str
    summary: str
    needs: tuple[str, ...]
    run: Run
    parts: tuple[str, ...] = ()
    narrowed: Callable[[tuple[str, ...]], Experiment] | None = None
    alone: str = ""

    def rows(self, data: Path | None, out: Path | None, progress: Progress, workers: Workers) -> list[Row]:
        """Run it; raises InputError for other workers than this process where it cannot be spread."""
        if not self.alone:
            return self.run(data, out, progress, workers)
        if workers.are_many:
            raise InputError(f"experiment {self.name}: {self.alone}; leave --processes and --ray out")
        return self.run(data, out, progress)
