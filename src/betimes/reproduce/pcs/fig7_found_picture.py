"""What a search found on the first jobs of a trace, and how the picked points do on the rest: a column a trace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from betimes.outcome.figure import drawing
from betimes.reproduce.pcs.fig7_found import Judged
from betimes.reproduce.pcs.front_picture import labelled_axes, mark
from betimes.reproduce.pcs.runs import best_jct_s
from betimes.reproduce.pcs.search import NAMES


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
