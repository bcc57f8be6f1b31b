"""What does a task of a search: the values of a policy on a part of the workload."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from betimes.foresight.objectives import Values
from betimes.foresight.tuning.evaluator import Evaluator
from betimes.foresight.tuning.problem import Problem

Stop = Callable[[], bool]
Task = tuple[str, str]
"""A part of the workload and a policy."""


class Evaluators:
    """One evaluator a part, made when it is first needed."""

    def __init__(self, problems: Mapping[str, Problem]) -> None:
        self._problems = problems
        self._made: dict[str, Evaluator] = {}

    def values(self, task: Task) -> Values | None:
        """The values of a task's policy on its part."""
        part, policy = task
        if part not in self._made:
            self._made[part] = Evaluator(self._problems[part])
        return self._made[part].values(policy)
