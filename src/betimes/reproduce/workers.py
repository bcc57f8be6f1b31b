"""Where the runs of an experiment are made that do not depend on each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from betimes.crew import Crew, crew, in_order
from betimes.processes import Do
from betimes.reproduce.pace import Pace


@dataclass(frozen=True)
class Workers:
    """So many processes, 1: this one; with `ray` those of a cluster, None: one a processor that is free."""

    processes: int | None = 1
    ray: bool = False

    def crew(self, prepare: Callable[..., Do], arguments: Sequence[Any]) -> Crew:
        """Who does what `prepare(*arguments)` returns."""
        return crew(prepare, arguments, self.processes, ray=self.ray)

    def made(
        self,
        prepare: Callable[..., Do],
        arguments: Sequence[Any],
        runs: Sequence[Any],
        pace: Pace,
        named: Sequence[str],
    ) -> list[Any]:
        """What `prepare(*arguments)` answers to each run, in their order; `named`: what the progress calls each.

        A run says how many more of its jobs have been submitted.
        """
        with self.crew(prepare, arguments) as hands:
            answers = hands.answers(runs, lambda number, more: pace.more(named[number], more))
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
