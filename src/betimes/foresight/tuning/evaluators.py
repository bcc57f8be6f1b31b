"""What does a task of a search: a policy on a part of the workload, its values or the whole result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from betimes.foresight.objectives import Values
from betimes.foresight.tuning.evaluator import Evaluator
from betimes.foresight.tuning.problem import Problem
from betimes.outcome import Result
from betimes.processes import Do, Say

Task = tuple[str, str]
"""A part of the workload and a policy: asks for the objectives' values."""


@dataclass(frozen=True)
class Whole:
    """Asks for the whole result of a task's simulation."""

    task: Task


class Evaluators:
    """One evaluator a part, made when it is first needed."""

    def __init__(self, problems: Mapping[str, Problem]) -> None:
        self._problems = problems
        self._made: dict[str, Evaluator] = {}

    def of(self, part: str) -> Evaluator:
        """The evaluator of a part."""
        if part not in self._made:
            self._made[part] = Evaluator(self._problems[part])
        return self._made[part]


def worker(problems: Mapping[str, Problem]) -> Do:
    """What a worker does with a task: the values (None: some job never finishes), or the result.

    Of a whole result it says how many more jobs have been submitted.
    """
    evaluators = Evaluators(problems)

    def do(asked: Task | Whole, say: Say) -> Values | Result | None:
        if not isinstance(asked, Whole):
            part, policy = asked
            return evaluators.of(part).values(policy)
        part, policy = asked.task
        done = 0

        def submitted(rows: int) -> None:
            nonlocal done
            say(rows - done)
            done = rows

        return evaluators.of(part).result(policy, submitted)

    return do
