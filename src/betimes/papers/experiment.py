"""What an experiment is: a name, the data it needs, and a run that gives rows of published and own values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from betimes.crew import Crew, crew, in_order
from betimes.errors import InputError
from betimes.processes import Do

Progress = Callable[[str, int, int], object]
"""Called with what is being done, and how many of how many steps (submitted jobs, over all runs) are done."""


@dataclass(frozen=True)
class Row:
    """One figure: what was published (None: nothing) and what came out here, both in `unit`."""

    case: str
    metric: str
    published: float | None
    ours: float
    unit: str
    note: str = ""


@dataclass
class Pace:
    """The progress of a series of runs, in submitted jobs: `total` over all runs, `done` so far."""

    progress: Progress
    total: int
    done: int = 0

    def run(self, what: str, jobs: int) -> Callable[[int], object]:
        """The progress of the next run, of so many jobs."""
        before = self.done
        self.done += jobs
        self.progress(what, before, self.total)
        return lambda rows: self.progress(what, before + rows, self.total)

    def more(self, what: str, jobs: int) -> None:
        """So many more jobs of a run, beside others."""
        self.done += jobs
        self.progress(what, self.done, self.total)


@dataclass(frozen=True)
class Workers:
    """The processes that make the runs of an experiment: so many (1: this one), or with `ray` those of a cluster.

    None: one for each free processor.
    """

    processes: int | None = 1
    ray: bool = False

    def crew(self, prepare: Callable[..., Do], arguments: Sequence[Any]) -> Crew:
        """A pool of workers that run the function returned by `prepare(*arguments)`."""
        return crew(prepare, arguments, self.processes, ray=self.ray)

    def made(
        self,
        prepare: Callable[..., Do],
        arguments: Sequence[Any],
        runs: Sequence[Any],
        pace: Pace,
        named: Sequence[str],
    ) -> list[Any]:
        """The answers of `prepare(*arguments)` to each run, in their order; `named`: the progress's name of each.

        A run reports how many more of its jobs have been submitted.
        """
        with self.crew(prepare, arguments) as workers:
            answers = workers.answers(runs, lambda number, more: pace.more(named[number], more))
            return in_order(answers, len(runs))

    @property
    def are_many(self) -> bool:
        """Whether anything but this process is asked for."""
        return self.ray or self.processes != 1

    def __str__(self) -> str:
        """How many, in words."""
        if self.ray:
            return "workers on Ray"
        return f"{self.processes} processes" if self.are_many else "one process"


Run = Callable[..., list[Row]]
"""Takes the data directory, a progress, and workers unless the experiment is made `alone`; gives the rows."""


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

    def rows(self, data: Path | None, progress: Progress, workers: Workers) -> list[Row]:
        """Run it; raises InputError for other workers than this process where it cannot be spread."""
        if not self.alone:
            return self.run(data, progress, workers)
        if workers.are_many:
            raise InputError(f"experiment {self.name}: {self.alone}; leave --processes and --ray out")
        return self.run(data, progress)
