"""Solvers that propose configurations: SPEA2 (the paper's), NSGA-II, or random draws, exchangeable by name.

A solver proposes points and receives their costs; it does not know their meaning. The same seed and the same costs
give the same points, wherever and in whatever order the costs were found.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Protocol

import numpy as np

from betimes.errors import InputError
from betimes.kernels import Floats

SOLVERS = ("spea2", "nsga2", "random")
POPULATION = 70  # of the released search

_IMPOSSIBLE_COST = 2.0  # any number will do: the constraint marks such points


class Solver(Protocol):
    """Proposes points in a box and receives their costs."""

    def ask(self) -> Floats:
        """(points, variables) to evaluate next; no points: nothing is left to propose."""
        ...

    def tell(self, costs: Floats) -> None:
        """Receive the (points, objectives) costs of the last `ask`; infinite: impossible."""
        ...


def solver_of(name: str, low: Floats, high: Floats, objectives: int, seed: int, evaluations: int) -> Solver:
    """The solver of a name, for points from `low` to `high`; raises InputError for another name."""
    population = max(4, min(POPULATION, evaluations // 4))
    if name == "random":
        return RandomSolver(low, high, seed, population)
    if name not in SOLVERS:
        raise InputError(f"--solver {name}: choose {', '.join(SOLVERS)}")
    return EvolutionarySolver(name, low, high, objectives, seed, population)


class RandomSolver:
    """Independent draws, even over the box."""

    def __init__(self, low: Floats, high: Floats, seed: int, batch: int) -> None:
        self._low, self._high, self._batch = low, high, batch
        self._draw = np.random.default_rng(seed)

    def ask(self) -> Floats:
        """As many draws as an evolutionary solver's generation has points."""
        return self._draw.uniform(self._low, self._high, (self._batch, len(self._low)))

    def tell(self, costs: Floats) -> None:
        """Do nothing: draws do not depend on costs."""


class EvolutionarySolver:
    """A genetic algorithm of pymoo with the operators of the released search.

    Simulated binary crossover (eta 20, every variable with probability 1/2) and polynomial mutation (eta 20, one
    variable in the mean); a random first population.
    """

    def __init__(
        self, name: str, low: Floats, high: Floats, objectives: int, seed: int, population: int
    ) -> None:
        sbx: Any = import_module("pymoo.operators.crossover.sbx")
        pm: Any = import_module("pymoo.operators.mutation.pm")
        problem: Any = import_module("pymoo.core.problem")
        no_termination: Any = import_module("pymoo.core.termination")
        module: Any = import_module(f"pymoo.algorithms.moo.{name}")
        options: dict[str, Any] = {
            "pop_size": population,
            "crossover": sbx.SBX(prob=1.0, prob_var=0.5, eta=20),
            "mutation": pm.PM(prob=1.0, prob_var=1.0 / len(low), eta=20),
        }
        if name == "spea2":
            options["survival"] = module.SPEA2Survival(normalize=False)
        self._algorithm: Any = (module.SPEA2 if name == "spea2" else module.NSGA2)(**options)
        box = problem.Problem(n_var=len(low), n_obj=objectives, n_ieq_constr=1, xl=low, xu=high)
        self._algorithm.setup(box, seed=seed, termination=no_termination.NoTermination())
        self._population: Any = import_module("pymoo.core.population").Population
        self._asked: Any = None

    def ask(self) -> Floats:
        """The next generation; no points if all that it breeds were asked before."""
        self._asked = self._algorithm.ask()
        if self._asked is None:
            return np.empty((0, self._algorithm.problem.n_var))
        return np.array(self._asked.get("X"), dtype=np.float64)

    def tell(self, costs: Floats) -> None:
        """Select the survivors of the last generation.

        Costs are scaled to their span among living points: the algorithms measure distances between points, and seconds
        would outweigh fractions. pymoo's own scaling fails for an objective that is the same for all points.
        """
        self._asked.set("cost", costs)
        everyone = self._population.merge(self._algorithm.pop, self._asked)
        known = np.array(everyone.get("cost"), dtype=np.float64)
        possible = np.asarray(np.isfinite(known).all(axis=1), dtype=np.bool_)
        if possible.any():
            best, worst = known[possible].min(axis=0), known[possible].max(axis=0)
            known[possible] = (known[possible] - best) / np.where(worst > best, worst - best, 1.0)
        everyone.set("F", np.where(possible[:, None], known, _IMPOSSIBLE_COST))
        everyone.set("G", (~possible[:, None]).astype(np.float64))
        for point in self._asked:
            point.evaluated.update(("F", "G"))
        self._algorithm.tell(infills=self._asked)
