"""The searches and runs of an experiment, on its workers, and the points picked from a front."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from betimes_papers.pcs.runs import Outcome, Planned

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from betimes.crew import Crew
    from betimes.foresight.objectives import Values
    from betimes.foresight.tuning import Problem, WFQConfig
    from betimes_papers.experiment import Pace, Workers


OF_BEST = 4.0  # limit of a picked point's mean JCT, over the smallest: the price that the paper names
OF_FIFO = 0.85  # limit of a picked point's mean JCT, over FIFO's, if FIFO is within the other limit
NAMES = {"PCS-JCT": "PCS-JCT", "PCS-balanced": "PCS-bal", "PCS-pred": "PCS-pred"}
"""The named points, from the fastest on, and their names in the study's data."""


@dataclass(frozen=True, eq=False)
class Searched:
    """The result of a search.

    configs: on the front, by the first objective. values: (points, objectives) in s and fractions. tried:
    (evaluations, objectives) in the order of asking, infinite if impossible; smaller is better in all. seconds: the
    duration.
    """

    problem: Problem
    configs: tuple[WFQConfig, ...]
    values: NDArray[np.float64]
    tried: NDArray[np.float64]
    seconds: float

    def picked(self, most_jct_s: float) -> dict[str, WFQConfig]:
        """The named points among those with a mean JCT of at most `most_jct_s`; the fastest point if there are none.

        The front ends in FIFO, which keeps every promise at any price. No operator would choose FIFO, nor does the
        study, which does not explain its choice; its PCS-pred costs about 4 times the best if FIFO costs more, and 0.84
        of FIFO's JCT on Workload-3.
        """
        import numpy as np

        from betimes.foresight.tuning import named_points

        within = np.flatnonzero(self.values[:, 0] <= max(most_jct_s, float(self.values[:, 0].min())))
        names = named_points(self.values[within], self.problem.objectives)
        return {label: self.configs[within[names[name]]] for name, label in NAMES.items()}


@contextmanager
def study(problems: Mapping[str, Problem], workers: Workers, pace: Pace) -> Iterator[Study]:
    """A study of some problems, by name, which each worker receives once."""
    from betimes.foresight.tuning.evaluation import worker

    with workers.crew(worker, (dict(problems),)) as crew:
        yield Study(problems, crew, pace)


class Study:
    """Searches and runs, with the same results for the same seeds on any workers.

    The user's cache is not used: the time of a search is a result here.
    """

    def __init__(self, problems: Mapping[str, Problem], crew: Crew, pace: Pace) -> None:
        self.problems, self._crew, self._pace = problems, crew, pace

    def outcomes(self, runs: Sequence[tuple[str, Planned]], what: str = "") -> list[Outcome]:
        """The outcome of each policy on the jobs of a problem; what: prefix of the names in the progress."""
        from betimes.crew import in_order
        from betimes.foresight.tuning.evaluation import Whole

        asked = [Whole((problem, run.policy)) for problem, run in runs]
        answers = self._crew.answers(
            asked, lambda at, more: self._pace.more(f"{what}{runs[at][1].name}", more)
        )
        results = in_order(answers, len(asked))
        return [Outcome(run, result) for (_, run), result in zip(runs, results, strict=True)]

    def values(self, problem: str, policies: Sequence[str]) -> list[Values | None]:
        """The objectives of each policy; None if some job never finishes. These runs do not count as progress."""
        from betimes.crew import in_order

        return in_order(self._crew.answers([(problem, policy) for policy in policies]), len(policies))

    def searched(
        self,
        problem: str,
        evaluations: int,
        *,
        seed: int = 0,
        solver: str = "spea2",
        space: str = "heuristic",
        published: bool = False,
        what: str = "search",
    ) -> Searched:
        """Search on all jobs of a problem; published: classes as the released code makes them."""
        import numpy as np

        from betimes.foresight.tuning.evaluation import Evaluations, Evaluator
        from betimes.foresight.tuning.search import Progress, search
        from betimes.foresight.tuning.solvers import solver_of
        from betimes.foresight.tuning.space import space_of

        asked = self.problems[problem]
        chosen = space_of(space, Evaluator(asked).sizes(), published)
        proposing = solver_of(solver, chosen.low, chosen.high, len(asked.objectives), seed, evaluations)
        jobs, done = len(asked.workload), 0

        def count(progress: Progress) -> None:
            nonlocal done
            self._pace.more(what, jobs * (progress.done - done))
            done = progress.done

        started = time.perf_counter()
        found = search(
            chosen,
            proposing,
            Evaluations({problem: asked}, self._crew, kept=False),
            asked.objectives,
            most=evaluations,
            part=problem,
            progress=count,
        )
        seconds = time.perf_counter() - started
        self._pace.more(what, jobs * (evaluations - done))  # impossible configurations count at the end
        impossible = (np.inf,) * len(asked.objectives)
        tried = np.array([each.values or impossible for each in found.tried])
        front = [found.tried[row] for row in found.front]
        return Searched(
            asked,
            tuple(each.config for each in front if each.config is not None),
            np.array([each.values for each in front]),
            tried,
            seconds,
        )
