"""Figure 9: the cost of a simulation and of a search, and what is found after how many evaluations."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from betimes.outcome.figure import COLOURS, DASHES, drawing
from betimes.reproduce.pcs.fig9 import Gains, Timed
from betimes.reproduce.pcs.fig9_published import COSTS, FOUND, GPUS

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw(timed: list[Timed], gained: dict[str, Gains], path: Path) -> None:
    """Two panels, and two for each workload; raises InputError where the file cannot be written."""
    with drawing(path, 10.4, 3.7 * (1 + len(gained))) as figure:
        panels: Any = figure.subplots(1 + len(gained), 2)
        simulation, search = panels[0]
        for jobs, colour in zip(COSTS, COLOURS, strict=False):
            own = [each for each in timed if each.jobs == jobs]
            units = [each.units for each in own]
            theirs = COSTS[jobs]
            named = f"{jobs:,} jobs"
            for axes, published, ours in (
                (
                    simulation,
                    [60.0 * theirs[n].simulation_min for n in units],
                    [each.simulation_s for each in own],
                ),
                (search, [theirs[n].search_s for n in units], [each.search_s for each in own]),
            ):
                axes.plot(
                    units, published, "o--", color=colour, markerfacecolor="none", label=f"{named}, published"
                )
                axes.plot(units, ours, "o-", color=colour, label=f"{named}, ours")
        for axes, title in ((simulation, "One simulation (s)"), (search, "One search (s)")):
            axes.set_xscale("log", base=2)
            axes.set_yscale("log")
            axes.set_xticks(GPUS, [str(n) for n in GPUS])
            axes.set_xlabel("GPUs")
            axes.set_title(title)
        simulation.legend(fontsize=8)
        for (points, volume), (workload, of_workload) in zip(panels[1:], gained.items(), strict=True):
            _gain_panel(points, {arm: {n: g.own for n, g in of.items()} for arm, of in of_workload.items()})
            for (arm, published), colour in zip(FOUND.items(), COLOURS, strict=False):
                points.plot(
                    list(published), list(published.values()), "o:", color=colour, markerfacecolor="none",
                    label=f"{arm}, published",
                )  # fmt: skip
            points.set_title(f"{workload}: of the points on its own front (%)")
            _gain_panel(
                volume, {arm: {n: g.volume for n, g in of.items()} for arm, of in of_workload.items()}
            )
            volume.set_title(f"{workload}: of the hypervolume of the front of all (%)")
            for axes in (points, volume):
                axes.legend(fontsize=8)


def _gain_panel(axes: Axes, gained: dict[str, dict[int, float]]) -> None:
    for (arm, by_budget), colour, dash in zip(gained.items(), COLOURS, DASHES, strict=False):
        axes.plot(
            list(by_budget), list(by_budget.values()), marker=".", color=colour, linestyle=dash, label=arm
        )
    axes.set_xscale("log", base=2)
    budgets = list(next(iter(gained.values())))
    axes.set_xticks(budgets, [str(n) for n in budgets])
    axes.set_xlabel("Evaluations")
