"""Evaluations of many policies: here, in several processes, or on a Ray cluster, and none twice."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Mapping, Sequence
from typing import Any, Protocol

from betimes.foresight.objectives import Values
from betimes.foresight.tuning.evaluators import Evaluators, Stop, Task
from betimes.foresight.tuning.known import Known
from betimes.foresight.tuning.problem import Problem
from betimes.processes import Do, Processes, Say

TRAIN, TEST = "train", "test"


class Crew(Protocol):
    """What carries out tasks."""

    def answers(
        self, tasks: Sequence[Task], *, stop: Stop | None = None
    ) -> Generator[tuple[int, Values | None]]:
        """The number of each task and its values, as they are done; no more of either once `stop()` is true."""
        ...


class Evaluations:
    """The values of policies on the parts of a workload; to be used in a `with` block.

    processes: how many at once; 1: in this one, unless `ray`: then so many of the cluster's, None for as many as it
    has. Workers are started when a value is unknown, and are given the workload once.
    """

    def __init__(
        self,
        problems: Mapping[str, Problem],
        *,
        processes: int | None = 1,
        ray: bool = False,
        kept: bool = True,
    ) -> None:
        self.problems = dict(problems)
        self.done = 0  # simulations made, not looked up
        self._processes, self._ray = processes, ray
        self._known = {part: Known(problem, kept) for part, problem in problems.items()}
        self._stack = contextlib.ExitStack()
        self._crew: Crew | None = None

    def __enter__(self) -> Evaluations:
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)

    def values(self, tasks: Sequence[Task], stop: Stop | None = None) -> Generator[tuple[int, Values | None]]:
        """The number of each task and its values, as they are found; None: some job never finishes.

        Once `stop()` is true no more are found.
        """
        unknown: dict[Task, list[int]] = {}
        for number, (part, policy) in enumerate(tasks):
            if policy in self._known[part]:
                yield number, self._known[part][policy]
            else:
                unknown.setdefault((part, policy), []).append(number)
        if not unknown:
            return
        missing = list(unknown)
        with contextlib.closing(self._started().answers(missing, stop=stop)) as answers:
            for at, values in answers:
                part, policy = missing[at]
                self._known[part].add([(policy, values)])
                self.done += 1
                for number in unknown[part, policy]:
                    yield number, values

    def _started(self) -> Crew:
        if self._crew is None:
            if self._ray:
                from betimes.ray_workers import RayWorkers

                self._crew = self._stack.enter_context(RayWorkers(worker, (self.problems,), self._processes))
            elif self._processes is not None and self._processes > 1:
                self._crew = self._stack.enter_context(Processes(worker, (self.problems,), self._processes))
            else:
                self._crew = _Here(self.problems)
        return self._crew


def worker(problems: Mapping[str, Problem]) -> Do:
    """What a worker process does with a task."""
    evaluators = Evaluators(problems)

    def do(task: Task, _: Say) -> Values | None:
        return evaluators.values(task)

    return do


class _Here:
    """Does the tasks in this process."""

    def __init__(self, problems: Mapping[str, Problem]) -> None:
        self._evaluators = Evaluators(problems)

    def answers(
        self, tasks: Sequence[Task], *, stop: Stop | None = None
    ) -> Generator[tuple[int, Values | None]]:
        for number, task in enumerate(tasks):
            if stop is not None and stop():
                return
            yield number, self._evaluators.values(task)
