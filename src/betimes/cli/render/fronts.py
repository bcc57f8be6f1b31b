"""A Pareto front as a table: a row a point, the three named ones first, and other policies below."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from betimes.foresight.tuning import Front, Point

MOST_ROWS = 20


def show(front: Front, *, wide: bool = False) -> None:
    """Print the front: all points, or a selection if there are many; and the command to put one in force.

    In a narrow terminal the first objective stays. wide: nothing is left out.
    """
    from betimes.cli.render.tables import Column, say
    from betimes.cli.render.tables import show as show_table
    from betimes.foresight.tuning.shown import axes_of, beaten, cells
    from betimes.outcome.tables import short_names

    axes = axes_of(front)
    searched = "\n(where searched)" if front.test is not None else ""
    variables = [name for name in ("T", "W", "zeta_min", "delta") if name in front[0].variables]
    columns = [
        Column("Point"),
        *(Column(f"{axis.title}{searched}", rank=number, right=True) for number, axis in enumerate(axes)),
        *(
            Column(name, rank=len(axes) + number, right=True)
            for number, name in enumerate(("Classes", *variables))
        ),
    ]
    points = _chosen(front)
    rows = [
        [
            f"{point.number} {', '.join(point.names)}".rstrip(),
            *cells(front, axes, point),
            str(point.policy.partition("weights=")[2].partition(",")[0].count("+") + 1),
            *(f"{point.variables[name]:.3g}" for name in variables),
        ]
        for point in points
    ]
    names = short_names([each.policy for each in front.baselines])
    for name, each in zip(names, front.baselines, strict=True):
        rows.append([name, *cells(front, axes, each), *[""] * (1 + len(variables))])
    show_table(columns, rows, wide=wide, sections={len(points) - 1} if front.baselines else ())
    if len(points) < len(front):
        say(f"{len(front) - len(points)} further points are in front.json (--out DIR) and --json")
    for sentence in beaten(front):
        say(sentence)
    for point in front.points:
        for name in point.names:
            say(f"{name} = {point.policy}")


def _chosen(front: Front) -> Sequence[Point]:
    """All points, or those with names and some evenly along the front."""
    if len(front) <= MOST_ROWS:
        return front.points
    step = (len(front) - 1) / (MOST_ROWS - 1)
    numbers = {round(at * step) for at in range(MOST_ROWS)}
    return [point for point in front.points if point.number in numbers or point.names]


def write(front: Front, folder: Path) -> None:
    """Write the front as JSON, as a page and as pictures."""
    from betimes.foresight.tuning import page, picture

    front.write(folder)
    page.write(front, folder / page.FILE)
    for name in picture.FILES:
        picture.draw(front, folder / name)
