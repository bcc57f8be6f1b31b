"""The search loop: a solver proposes, the twin evaluates, until enough is known or the caller says stop."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from betimes.errors import InputError
from betimes.foresight.objectives import Objective, Values
from betimes.foresight.tuning.evaluations import TRAIN, Evaluations
from betimes.foresight.tuning.solvers import Solver
from betimes.foresight.tuning.space import Space, WFQConfig
from betimes.foresight.tuning.volume import Box, front_of
from betimes.kernels import Floats

Ended = Literal["evaluations", "budget", "interrupted", "exhausted"]
"""Why a search is over: all evaluations done, time up, stopped by the user, or nothing left to propose."""


@dataclass(frozen=True)
class Progress:
    """How far it is: evaluations done and asked for, points on the front so far, its hypervolume.

    doing: `searching`, then `judging` (the front on the testing part, and what it is compared with). hypervolume: the
    part of the box around the first generation that the front dominates; NaN before its end.
    """

    doing: Literal["searching", "judging"]
    done: int
    of: int
    front: int
    hypervolume: float


@dataclass(frozen=True)
class Tried:
    """A configuration and its values; `config` None: the variables made an impossible one."""

    config: WFQConfig | None
    values: Values | None


@dataclass(frozen=True)
class Found:
    """What a search came to: everything tried in the order of asking, the rows of the front, and how it ended."""

    tried: tuple[Tried, ...]
    front: tuple[int, ...]
    box: Box | None
    hypervolume: float
    ended: Ended


def search(
    space: Space,
    solver: Solver,
    evaluations: Evaluations,
    objectives: Sequence[Objective],
    *,
    most: int,
    part: str = TRAIN,
    budget_s: float | None = None,
    stopped: Callable[[], bool] | None = None,
    progress: Callable[[Progress], object] | None = None,
) -> Found:
    """Evaluate `most` configurations on a part of the workload, or as many as time allows.

    The order in which answers come does not matter to what is found, only whether they do. Some of a budget is left
    for judging the front. Raises InputError where it was too short for one evaluation.
    """
    archive = _Archive(objectives)
    started, first_s = time.monotonic(), math.inf

    def is_over() -> bool:
        if stopped is not None and stopped():
            return True
        if budget_s is None:
            return False
        gone_s = time.monotonic() - started
        pace_s = gone_s / evaluations.done if evaluations.done else 0.0
        return gone_s + pace_s * len(archive.front) >= budget_s

    ended: Ended = "evaluations"
    while len(archive.tried) < most:
        asked = solver.ask()[: most - len(archive.tried)]
        if not len(asked):
            ended = "exhausted"
            break
        configs = [space.config(variables) for variables in asked]
        possible = [(number, config) for number, config in enumerate(configs) if config is not None]
        answers: dict[int, Values | None] = {
            number: None for number, config in enumerate(configs) if config is None
        }
        tasks = [(part, config.policy) for _, config in possible]
        for at, values in evaluations.values(tasks, is_over):
            first_s = min(first_s, time.monotonic() - started)
            answers[possible[at][0]] = values
            archive.note(values)
            if progress is not None:
                progress(archive.progress(len(answers), most))
        archive.take([Tried(configs[number], answers[number]) for number in sorted(answers)])
        if len(answers) < len(asked):
            ended = "interrupted" if stopped is not None and stopped() else "budget"
            break
        if len(archive.tried) < most:
            solver.tell(archive.costs(len(asked)))
    if ended == "budget" and budget_s is not None and first_s > budget_s:
        raise InputError(
            f"--budget {budget_s:g}s: too short for one evaluation of this workload; give more time, or fewer jobs"
        )
    if not archive.front and ended != "interrupted":
        raise InputError(
            f"each of the {len(archive.tried):,} configurations tried leaves a class of jobs without units; "
            "allow more evaluations"
        )
    return archive.found(ended)


class _Archive:
    """Everything tried so far, and the front of it."""

    def __init__(self, objectives: Sequence[Objective]) -> None:
        self.tried: list[Tried] = []
        self.front: list[Floats] = []  # costs, in no order
        self._objectives = tuple(objectives)
        self._costs: list[Floats] = []
        self._box: Box | None = None

    def note(self, values: Values | None) -> None:
        """A value has come in: the front for those who watch."""
        cost = self._cost(values)
        if np.isfinite(cost).all() and not any(bool((other <= cost).all()) for other in self.front):
            self.front = [other for other in self.front if not bool((cost <= other).all())]
            self.front.append(cost)

    def take(self, tried: Sequence[Tried]) -> None:
        """A generation, or as much of it as there was time for, in the order of asking."""
        self.tried += tried
        self._costs += [self._cost(each.values) for each in tried]
        if self._box is None:
            self._box = Box.around(np.array(self._costs).reshape(-1, len(self._objectives)))

    def costs(self, last: int) -> Floats:
        """(last, objectives) costs of the last ones tried."""
        return np.array(self._costs[-last:])

    def progress(self, more: int, of: int) -> Progress:
        """How far it is, with `more` of the present generation."""
        return Progress("searching", len(self.tried) + more, of, len(self.front), self._volume(self.front))

    def found(self, ended: Ended) -> Found:
        """What it came to."""
        costs = np.array(self._costs).reshape(-1, len(self._objectives))
        rows = front_of(costs)
        return Found(
            tuple(self.tried), tuple(rows.tolist()), self._box, self._volume(list(costs[rows])), ended
        )

    def _cost(self, values: Values | None) -> Floats:
        if values is None:
            return np.full(len(self._objectives), math.inf)
        pairs = zip(self._objectives, values, strict=True)
        return np.array([objective.cost(value) for objective, value in pairs])

    def _volume(self, front: list[Floats]) -> float:
        return self._box.volume(np.array(front)) if self._box is not None and front else math.nan
