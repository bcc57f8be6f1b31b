"""A Pareto front as a table: a row a point, the three that have names first, and what other policies bring below."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from betimes.foresight.tuning import Front, Point
    from betimes.foresight.tuning.axes import Axis
    from betimes.foresight.tuning.front import Measured

MOST_ROWS = 20


def show(front: Front) -> None:
    """Print the front: all points, or some along it where there are many; and how to put one in force."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from betimes.foresight.tuning.shown import shown
    from betimes.outcome.units import short_names

    axes = shown(front).axes
    tested = front.test is not None
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("Point", no_wrap=True)
    for axis in axes:
        heading = f"{axis.title}\n(where searched)" if tested else axis.title
        table.add_column(heading, justify="right", no_wrap=True)
    variables = [name for name in ("T", "W", "zeta_min", "delta") if name in front[0].variables]
    for name in ("Classes", *variables):
        table.add_column(name, justify="right", no_wrap=True)
    rows = _chosen(front)
    for point in rows:
        table.add_row(
            f"{point.number} {', '.join(point.names)}".rstrip(),
            *_cells(front, axes, point.train, point.test),
            str(point.policy.partition("weights=")[2].partition(",")[0].count("+") + 1),
            *(f"{point.variables[name]:.3g}" for name in variables),
        )
    if front.baselines:
        table.add_section()
    names = short_names([each.policy for each in front.baselines])
    for name, each in zip(names, front.baselines, strict=True):
        table.add_row(name, *_cells(front, axes, each.train, each.test))
    console = Console(highlight=False, markup=False, width=500)  # nothing is cut
    with console.capture() as capture:
        console.print(table)
    print("\n".join(line.rstrip() for line in capture.get().splitlines()))
    if len(rows) < len(front):
        print(f"{len(front) - len(rows)} further points are in front.json (--out DIR) and --json")
    for point in front.points:
        for name in point.names:
            print(f"{name} = {point.policy}")


def _chosen(front: Front) -> Sequence[Point]:
    """All points, or those with names and some evenly along the front."""
    if len(front) <= MOST_ROWS:
        return front.points
    step = (len(front) - 1) / (MOST_ROWS - 1)
    numbers = {round(at * step) for at in range(MOST_ROWS)}
    return [point for point in front.points if point.number in numbers or point.names]


def _cells(front: Front, axes: Sequence[Axis], train: Measured | None, test: Measured | None) -> list[str]:
    """A cell an objective: the value on the part reported on, and that on the part searched on in brackets."""
    cells: list[str] = []
    for axis, name in zip(axes, front.objectives, strict=True):
        there = "-" if train is None else axis.text(train[name])
        if front.test is None:
            cells.append(there)
        else:
            cells.append(f"{'-' if test is None else axis.text(test[name])} ({there})")
    return cells
