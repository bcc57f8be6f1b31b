"""Evaluations of many policies, none of them twice."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Mapping, Sequence

from betimes.crew import Crew, Stop
from betimes.foresight.objectives import Values
from betimes.foresight.tuning.evaluators import Task
from betimes.foresight.tuning.known import Known
from betimes.foresight.tuning.problem import Problem

TRAIN, TEST = "train", "test"


class Evaluations:
    """The values of policies on the parts of a workload.

    crew: does what `evaluators.worker` does with these problems. kept: in the user's cache, and looked up there.
    """

    def __init__(self, problems: Mapping[str, Problem], crew: Crew, *, kept: bool = True) -> None:
        self.done = 0  # simulations made, not looked up
        self._crew = crew
        self._known = {part: Known(problem, kept) for part, problem in problems.items()}

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
        with contextlib.closing(self._crew.answers(missing, stop=stop)) as answers:
            for at, values in answers:
                part, policy = missing[at]
                self._known[part].add([(policy, values)])
                self.done += 1
                for number in unknown[part, policy]:
                    yield number, values
