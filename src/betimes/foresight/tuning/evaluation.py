"""Evaluation of policies: the twin as evaluator, the workers of a search, and the cache of values.

Nothing is evaluated twice: values are kept in the user's cache folder.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, cast

import numpy as np

from betimes.crew import Crew, Stop
from betimes.errors import InputError
from betimes.foresight.objectives import Values
from betimes.foresight.predict import run_rows_predicting
from betimes.foresight.sampling import drawn
from betimes.foresight.simulate import predicting
from betimes.foresight.tuning.problem import Problem
from betimes.kernels import Floats, as_array, cache_root
from betimes.outcome import Result
from betimes.policies import parse_policy
from betimes.processes import Do, Say
from betimes.twin.pool.simulation import Simulation
from betimes.twin.pool.trace_loop import run_rows

TRAIN, TEST = "train", "test"
FOLDER = "tuning"


class Evaluator:
    """Runs policies on one problem; work that does not depend on the policy is done once."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        run_rows.load()
        if problem.options.predict:
            run_rows_predicting.load()
        self._wanted = drawn(len(problem.workload), problem.options.predict_sample, problem.options.seed)

    def values(self, policy: str) -> Values | None:
        """The objectives' values, in their order; None where some job never finishes under the policy.

        Raises PolicyError and PolicyViolation.
        """
        result = self.result(policy)
        if not result.jobs.finished.all():
            return None
        values = tuple(objective.value(result) for objective in self.problem.objectives)
        return values if all(map(math.isfinite, values)) else None

    def result(self, policy: str, progress: Callable[[int], object] | None = None) -> Result:
        """The whole result of one run; progress receives the number of jobs submitted so far."""
        run = self._simulation(policy)
        run.run(predicting(run, self._wanted) if self.problem.options.predict else None, progress)
        return run.result()

    def sizes(self) -> Floats:
        """(jobs,) the sizes that the scheduler believes at submission, seconds on one unit."""
        return np.array(as_array(self._simulation("fifo").trace.arrivals)["believed"])

    def _simulation(self, policy: str) -> Simulation:
        return Simulation(self.problem.workload, parse_policy(policy), self.problem.options)


Task = tuple[str, str]
"""A part of the workload and a policy, whose objectives' values are wanted."""


@dataclass(frozen=True)
class Whole:
    """A request for the whole result of a task's simulation."""

    task: Task


def worker(problems: Mapping[str, Problem]) -> Do:
    """A worker's function from a task to its values (None: some job never finishes), or to the result.

    While it makes a whole result it reports how many more jobs have been submitted.
    """

    @cache
    def evaluator(part: str) -> Evaluator:
        return Evaluator(problems[part])

    def do(asked: Task | Whole, say: Say) -> Values | Result | None:
        if not isinstance(asked, Whole):
            part, policy = asked
            return evaluator(part).values(policy)
        part, policy = asked.task
        done = 0

        def submitted(rows: int) -> None:
            nonlocal done
            say(rows - done)
            done = rows

        return evaluator(part).result(policy, submitted)

    return do


class Evaluations:
    """The values of policies on the parts of a workload.

    crew: runs `worker` of these problems. kept: store values in the user's cache, and look them up there.
    """

    def __init__(self, problems: Mapping[str, Problem], crew: Crew, *, kept: bool = True) -> None:
        self.done = 0  # simulations made, not looked up
        self._crew = crew
        self._known = {part: Known(problem, kept) for part, problem in problems.items()}

    def values(self, tasks: Sequence[Task], stop: Stop | None = None) -> Generator[tuple[int, Values | None]]:
        """The index of each task and its values, as they are found; None: some job never finishes.

        No more are found once `stop()` is true.
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


class Known:
    """The values of policies on one problem; if `kept`, in an append-only file of lines.

    Searches of the same problem share the file, whatever their seed and solver; a line left incomplete by a crash is
    ignored. Raises InputError where the file cannot be read or written.
    """

    def __init__(self, problem: Problem, kept: bool = True) -> None:
        self.path = cache_root() / FOLDER / f"{problem.key()}.jsonl" if kept else None
        self._objectives = len(problem.objectives)
        self._values: dict[str, Values | None] = {}
        if self.path is not None and self.path.exists():
            with _reported(self.path):
                lines = self.path.read_text(encoding="utf-8").splitlines()
            self._values.update(found for found in map(self._read, lines) if found is not None)

    def __contains__(self, policy: str) -> bool:
        return policy in self._values

    def __getitem__(self, policy: str) -> Values | None:
        return self._values[policy]

    def add(self, found: Iterable[tuple[str, Values | None]]) -> None:
        """Keep the values of policies."""
        new = {policy: values for policy, values in found if policy not in self._values}
        self._values.update(new)
        if self.path is not None and new:
            lines = (json.dumps({"policy": policy, "values": values}) for policy, values in new.items())
            with _reported(self.path):
                self.path.parent.mkdir(parents=True, exist_ok=True)
                with self.path.open("a", encoding="utf-8") as file:
                    # The first newline closes a line that a crash may have left open.
                    file.write("\n" + "\n".join(lines) + "\n")

    def _read(self, line: str) -> tuple[str, Values | None] | None:
        try:
            found: Any = json.loads(line)
            policy, values = cast(str, found["policy"]), found["values"]
            numbers = None if values is None else tuple(float(value) for value in values)
        except (ValueError, KeyError, TypeError):
            return None
        return (policy, numbers) if numbers is None or len(numbers) == self._objectives else None


@contextmanager
def _reported(path: Path) -> Generator[None]:
    """Turn errors of the file into InputErrors that the user can act on."""
    try:
        yield
    except OSError as error:
        raise InputError(
            f"{path}: the cache of evaluations cannot be used ({error.strerror or error}); "
            "set BETIMES_CACHE_DIR to another folder, or search without it (--no-cache)"
        ) from error
