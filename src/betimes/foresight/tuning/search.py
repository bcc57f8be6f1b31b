"""The search loop: a solver proposes and the twin evaluates, until the search is over or the caller stops it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

import numpy as np

from betimes.errors import InputError
from betimes.foresight.objectives import Objective, Values
from betimes.foresight.tuning.evaluation import TRAIN, Evaluations
from betimes.foresight.tuning.solvers import Solver
from betimes.foresight.tuning.space import Space, WFQConfig
from betimes.kernels import Floats, Ints

ROOM = 0.1  # margin beyond the worst cost, so that a point at the edge of the box has some volume

Ended = Literal["evaluations", "budget", "interrupted", "exhausted"]
"""Why a search is over: all evaluations done, time up, stopped by the user, or nothing left to propose."""


@dataclass(frozen=True)
class Progress:
    """The progress of a search: evaluations done and asked for, points on the front so far, its hypervolume.

    doing: `searching`, then `judging` (the front and the baselines on the testing part). hypervolume: the part of the
    box around the first generation that the front dominates; NaN before its end.
    """

    doing: Literal["searching", "judging"]
    done: int
    of: int
    front: int
    hypervolume: float


@dataclass(frozen=True)
class Tried:
    """A configuration and its values; `config` None: the variables give no possible one."""

    config: WFQConfig | None
    values: Values | None


@dataclass(frozen=True)
class Found:
    """The result of a search: all configurations in the order of asking, the rows of the front, and how it ended."""

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

    The result does not depend on the order in which answers come. Part of a budget is left for judging the front.
    Raises InputError if the budget was too short for one evaluation.
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
        """Take a new value into the front that progress reports show."""
        cost = self._cost(values)
        if np.isfinite(cost).all() and not any(bool((other <= cost).all()) for other in self.front):
            self.front = [other for other in self.front if not bool((cost <= other).all())]
            self.front.append(cost)

    def take(self, tried: Sequence[Tried]) -> None:
        """Add a generation, or its part for which there was time, in the order of asking."""
        self.tried += tried
        self._costs += [self._cost(each.values) for each in tried]
        if self._box is None:
            self._box = Box.around(np.array(self._costs).reshape(-1, len(self._objectives)))

    def costs(self, last: int) -> Floats:
        """(last, objectives) costs of the last ones tried."""
        return np.array(self._costs[-last:])

    def progress(self, more: int, of: int) -> Progress:
        """The progress, with `more` evaluations of the present generation."""
        return Progress("searching", len(self.tried) + more, of, len(self.front), self._volume(self.front))

    def found(self, ended: Ended) -> Found:
        """The result of the search."""
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


@dataclass(frozen=True)
class Box:
    """The box in which hypervolume is measured: from the best to slightly beyond the worst cost of the first points."""

    best: tuple[float, ...]
    reference: tuple[float, ...]

    @classmethod
    def around(cls, costs: Floats) -> Box | None:
        """The box of (points, objectives) costs, without impossible points; None if there are no others."""
        finite = costs[np.isfinite(costs).all(axis=1)]
        if not len(finite):
            return None
        best, worst = finite.min(axis=0), finite.max(axis=0)
        span = np.asarray(
            np.where(worst > best, worst - best, np.maximum(1.0, np.abs(best))), dtype=np.float64
        )
        return cls(tuple(best.tolist()), tuple((worst + ROOM * span).tolist()))

    def volume(self, costs: Floats) -> float:
        """The part of the box that (points, objectives) costs dominate; above 1 where they are better than its best."""
        best, reference = np.array(self.best), np.array(self.reference)
        scaled = (costs - best) / (reference - best)
        inside = scaled[(scaled < 1.0).all(axis=1)]
        if not len(inside):
            return 0.0
        moocore: Any = import_module("moocore")  # without types; a service starts without it
        return float(moocore.hypervolume(inside, ref=np.ones(len(best))))


def front_of(costs: Floats) -> Ints:
    """Rows of the (points, objectives) costs that no other is better than, sorted by them; of equals the first.

    Impossible points (infinite) are never among them.
    """
    finite = np.flatnonzero(np.isfinite(costs).all(axis=1))
    order = finite[np.lexsort((finite, *costs[finite].T[::-1]))]
    kept: list[int] = []
    for row in order:
        if not any(bool(np.all(costs[other] <= costs[row])) for other in kept):
            kept.append(int(row))
    return np.array(kept, dtype=np.int64)
