"""A Pareto front as a table: a row a point, the three named ones first, and other policies below."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from betimes.foresight.tuning import Baseline, Front, Point

MOST_ROWS = 20
SAME_FRAC = 0.001  # values that differ by less are the same


def show(front: Front, in_force: str | None = None, *, wide: bool = False) -> None:
    """Print the front: all points, or a selection if there are many; and the command to put one in force.

    in_force: the policy that is marked. In a narrow terminal the first objective stays. wide: nothing is left out.
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
            f"{point.number} {', '.join(point.names)}".rstrip() + _mark(point, in_force),
            *cells(front, axes, point),
            str(point.policy.partition("weights=")[2].partition(",")[0].count("+") + 1),
            *(f"{point.variables[name]:.3g}" for name in variables),
        ]
        for point in points
    ]
    names = short_names([each.policy for each in front.baselines])
    for name, each in zip(names, front.baselines, strict=True):
        rows.append([name + _mark(each, in_force), *cells(front, axes, each), *[""] * (1 + len(variables))])
    show_table(columns, rows, wide=wide, sections={len(points) - 1} if front.baselines else ())
    if len(points) < len(front):
        say(f"{len(front) - len(points)} further points are in front.json (--out DIR) and --json")
    for sentence in beaten(front):
        say(sentence)
    for point in front.points:
        for name in point.names:
            say(f"{name} = {point.policy}")


def traded(
    units: Mapping[str, str], before: Mapping[str, float], after: Mapping[str, float]
) -> tuple[list[str], list[str]]:
    """The objectives that get better, and those that get worse, each with its values in words.

    units: of each objective. Of utilisation more is better.
    """
    better, worse = list[str](), list[str]()
    for name, unit in units.items():
        is_more = after[name] > before[name]
        if math.isclose(after[name], before[name], rel_tol=SAME_FRAC, abs_tol=1e-9):
            continue
        text = f"{name} {value_text(unit, after[name])}, not {value_text(unit, before[name])}"
        (better if is_more == name.startswith("utilisation") else worse).append(text)
    return better, worse


def value_text(unit: str, value: float | None) -> str:
    """A value of an objective in words; null: there is none."""
    from betimes.units import humanise_s

    if value is None:
        return "some job never ends"
    if unit == "s":
        return humanise_s(value)
    return f"{value:.2%}" if unit == "frac" else f"{value:.3g}"


def verdict(front: Front, in_force: Baseline) -> str:
    """The point that is better than the policy in force, or gains most for what it gives up; or that none is better."""
    from betimes.foresight.tuning.front import BALANCED

    best: tuple[bool, bool, int] | None = None
    line = f"Nothing here is better than {in_force.policy}, which is in force."
    before = in_force.train if in_force.test is None else in_force.test
    for point in front.points if before is not None else ():
        after = point.train if point.test is None else point.test
        better, worse = traded(front.units, before or {}, after)
        rank = (not worse, BALANCED in point.names, len(better) - len(worse))
        if not better or (best is not None and rank <= best):
            continue
        best, names = rank, f" ({', '.join(point.names)})" if point.names else ""
        cost = f"; it gives up {'; '.join(worse)}" if worse else ", and gives up nothing of these"
        line = f"Point {point.number}{names} against {in_force.policy}, which is in force: {'; '.join(better)}{cost}."
    return line


def _mark(each: Point | Baseline, in_force: str | None) -> str:
    return " (in force)" if each.policy == in_force else ""


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
