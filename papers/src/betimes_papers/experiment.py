"""Experiments: a name, the required data, and a run that returns rows of published and own values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from betimes.crew import Crew, crew, in_order
from betimes.errors import InputError
from betimes.processes import Do

Progress = Callable[[str, int, int], object]
"""Called with the current activity, the steps done and all steps (submitted jobs, over all runs)."""


@dataclass(frozen=True)
class Row:
    """One figure: the published value (None: not published) and our own, both in `unit`."""

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
        """The progress of the next run, of `jobs` jobs."""
        before = self.done
        self.done += jobs
        self.progress(what, before, self.total)
        return lambda rows: self.progress(what, before + rows, self.total)

    def more(self, what: str, jobs: int) -> None:
        """Report `jobs` more submitted jobs of a run that is made in parallel."""
        self.done += jobs
        self.progress(what, self.done, self.total)


@dataclass(frozen=True)
class Workers:
    """The processes that make the runs of an experiment: their number (1: this one), or with `ray` those of a cluster.

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
        """The answers of `prepare(*arguments)` to each run, in their order; `named`: the name of each in the progress.

        A run reports the number of further jobs submitted.
        """
        with self.crew(prepare, arguments) as workers:
            answers = workers.answers(runs, lambda number, more: pace.more(named[number], more))
            return in_order(answers, len(runs))

    @property
    def are_many(self) -> bool:
        """Whether other processes than this one are asked for."""
        return self.ray or self.processes != 1

    def __str__(self) -> str:
        """The number of workers in words."""
        if self.ray:
            return "workers on Ray"
        return f"{self.processes} processes" if self.are_many else "one process"


Run = Callable[..., list[Row]]
"""Takes the data directory, a progress, and workers unless the experiment runs `alone`; returns the rows."""


@dataclass(frozen=True)
class Experiment:
    """A table or figure of a paper that can be run again.

    needs: files relative to the data directory, () for none; `run` may rely on them.
    parts: names that may follow after a colon, joined by `+`; `narrowed`: the experiment on some of them. alone: the
    reason why this process makes all runs; by default workers make independent runs.
    """

    name: str
    summary: str
    needs: tuple[str, ...]
    run: Run
    parts: tuple[str, ...] = ()
    narrowed: Callable[[tuple[str, ...]], Experiment] | None = None
    alone: str = ""

    def rows(self, data: Path | None, progress: Progress, workers: Workers) -> list[Row]:
        """Run the experiment; raises InputError for other workers than this process if it must run alone."""
        if not self.alone:
            return self.run(data, progress, workers)
        if workers.are_many:
            raise InputError(f"experiment {self.name}: {self.alone}; leave --processes and --ray out")
        return self.run(data, progress)
