"""The points of PCS that a search finds on the first jobs of a trace, judged on the rest of it (figure 7).

The released fronts were found on the first 2,001 jobs of the trace that they were then reported on; here no job is in
both parts. 400 evaluations with seed 0 (the released: 370) on the first 1,000 jobs, or half of a shorter trace; the
rest begins on an empty machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from betimes.outcome.figure import drawing
from betimes.reproduce.experiment import Row
from betimes.reproduce.pcs.front_picture import labelled_axes, mark
from betimes.reproduce.pcs.runs import Outcome, Planned, best_jct_s, compared, problem_of
from betimes.reproduce.pcs.search import NAMES, OF_BEST, Searched

if TYPE_CHECKING:
    from betimes.foresight.tuning import Problem
    from betimes.reproduce.pcs.published import OnTrace
    from betimes.reproduce.pcs.study import Study
    from betimes.workload import Workload
    from betimes.workload.speedup import SpeedupTable

TRAIN = 1000
EVALUATIONS = 400
SEED = 0

_ON_REST = "on the jobs that the points were not found on; published: the whole trace"


@dataclass(frozen=True, eq=False)
class Judged:
    """The front on the first jobs, with the baselines there, and all policies on the rest of the trace."""

    front: Searched
    first: list[Outcome]
    rest: list[Outcome]
    rows: list[Row]


def steps(workload: Workload, baselines: tuple[Planned, ...]) -> int:
    """The jobs submitted over all runs, for the progress."""
    first = _first(workload)
    rest = len(workload) - first
    return first * (EVALUATIONS + len(baselines)) + rest * (len(baselines) + len(NAMES))


def stretches(trace: str, workload: Workload, curves: SpeedupTable) -> dict[str, Problem]:
    """The first jobs and the rest, by the names that `judged` has for them."""
    cut = _first(workload)
    first, rest = _stretches(trace)
    return {
        first: problem_of(workload[:cut], curves=curves),
        rest: problem_of(workload[cut:], curves=curves),
    }


def judged(
    trace: str, baselines: tuple[Planned, ...], published: dict[str, OnTrace], of_traces: Study
) -> Judged:
    """Search on the first jobs, pick the three points, and run them and the baselines on the rest."""
    train, test = _stretches(trace)
    first = of_traces.outcomes([(train, each) for each in baselines], f"{train}, ")
    front = of_traces.searched(train, EVALUATIONS, seed=SEED, what=f"{trace}, search")
    picked = front.picked(OF_BEST * best_jct_s(first))
    points = [
        Planned(name, config.policy, f"found here; {_ON_REST}, other points")
        for name, config in picked.items()
    ]
    rest = of_traces.outcomes([(test, each) for each in (*baselines, *points)], f"{test}, ")
    return Judged(front, first, rest, _rows(trace, rest, published))


def _stretches(trace: str) -> tuple[str, str]:
    return f"{trace}, first jobs", f"{trace}, rest"


def _first(workload: Workload) -> int:
    return min(TRAIN, len(workload) // 2)


def _rows(trace: str, outcomes: list[Outcome], published: dict[str, OnTrace]) -> list[Row]:
    best = best_jct_s(outcomes)
    rows: list[Row] = []
    for outcome in outcomes:
        name = outcome.run.name
        note = outcome.run.note if name in NAMES.values() else _ON_REST
        rows += compared(f"{trace}/rest/{name}", outcome, best, published.get(name), (note, note, note))
    return rows


def draw(found: dict[str, Judged], path: Path) -> None:
    """The front and the baselines above, all policies on the rest below; raises InputError."""
    with drawing(path, 1.0 + 4.2 * len(found), 7.0) as figure:
        panels: Any = figure.subplots(2, len(found), squeeze=False)
        for column, (trace, each) in enumerate(found.items()):
            upper, lower = panels[:, column]
            best = best_jct_s(each.first)
            values = each.front.values
            upper.plot(
                values[:, 0] / best, 100.0 * values[:, 1], ".", color="black", markersize=4, label="found"
            )
            for outcome in each.first:
                mark(upper, outcome.run.name, outcome.jct_mean_s / best, outcome.error())
            best = best_jct_s(each.rest)
            for outcome in each.rest:
                mark(lower, outcome.run.name, outcome.jct_mean_s / best, outcome.error())
            for name in NAMES.values():
                point = next(outcome for outcome in each.rest if outcome.run.name == name)
                config = next(c for c in each.front.configs if c.policy == point.run.policy)
                at = values[each.front.configs.index(config)]
                mark(upper, name, at[0] / best_jct_s(each.first), 100.0 * at[1])
            upper.set_title(f"{trace}, first {each.first[0].jobs:,} jobs")
            lower.set_title(f"{trace}, the other {each.rest[0].jobs:,}")
            labelled_axes(upper)
            labelled_axes(lower)
        handles, names = panels[1, 0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower center", ncols=3 * len(found), fontsize=8)
