"""How far a series of runs has come."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Progress = Callable[[str, int, int], object]
"""Told what is being done, and how many of how many steps (submitted jobs, over all runs) are behind it."""


@dataclass
class Pace:
    """Told in jobs: `total` over all runs, `done` so far."""

    tell: Progress
    total: int
    done: int = 0

    def run(self, what: str, jobs: int) -> Callable[[int], object]:
        """The progress of the next run, of so many jobs."""
        before = self.done
        self.done += jobs
        self.tell(what, before, self.total)
        return lambda rows: self.tell(what, before + rows, self.total)

    def more(self, what: str, jobs: int) -> None:
        """So many more jobs of a run, beside others."""
        self.done += jobs
        self.tell(what, self.done, self.total)
