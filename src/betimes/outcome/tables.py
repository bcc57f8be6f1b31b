"""Results as tables for a terminal, a pipe or a narrow window.

Tables do not rely on colour: the best of a column carries a star.
"""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Literal

from betimes.outcome.intervals import Interval
from betimes.units import TIME_UNITS, decimals, humanise_s, time_unit

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

Summary = Mapping[str, Any]
Kind = Literal["time", "ratio", "percent", "count", "usd"]


@dataclass(frozen=True)
class Column:
    """A figure of a summary as a column; in a narrow terminal columns of the highest `rank` are dropped first.

    `heading` has a bar where a table's head breaks into two lines.
    """

    key: str
    heading: str
    kind: Kind
    best: Literal["low", "high"] | None
    rank: int

    @property
    def title(self) -> str:
        """The heading on one line."""
        return self.heading.replace("|", " ")


COLUMNS = (
    Column("jobs", "Jobs", "count", None, 15),
    Column("finished", "Jobs that|finished", "count", None, 14),
    Column("unfinished", "Unfinished", "count", "low", 4),
    Column("refused", "Refused", "count", None, 14),
    Column("killed", "Killed", "count", None, 13),
    Column("predicted", "Predicted", "count", None, 18),
    Column("makespan_s", "Makespan", "time", "low", 10),
    Column("jct_mean_s", "JCT|mean", "time", "low", 0),
    Column("jct_over_best", "JCT over|best", "ratio", "low", 7),
    Column("jct_p50_s", "JCT|p50", "time", "low", 9),
    Column("jct_p99_s", "JCT|p99", "time", "low", 3),
    Column("wait_mean_s", "Wait|mean", "time", "low", 11),
    Column("slowdown_mean", "Slowdown|mean", "ratio", "low", 12),
    Column("slowdown_p50", "Slowdown|p50", "ratio", "low", 16),
    Column("slowdown_p95", "Slowdown|p95", "ratio", "low", 5),
    Column("utilisation_frac", "Utilisation", "percent", "high", 8),
    Column("utilisation_gpu_frac", "Utilisation|GPUs", "percent", "high", 21),
    Column("utilisation_cpu_frac", "Utilisation|cores", "percent", "high", 22),
    Column("utilisation_memory_frac", "Utilisation|memory", "percent", "high", 23),
    Column("preemptions", "Preemptions", "count", "low", 13),
    Column("preempted_jobs", "Preempted|jobs", "count", "low", 24),
    Column("reschedule_p50_s", "Preempted to|resumed p50", "time", "low", 6),
    Column("reschedule_p95_s", "Preempted to|resumed p95", "time", "low", 18),
    Column("pred_err_mean_frac", "Prediction|error mean", "percent", "low", 1),
    Column("pred_err_p90_frac", "Prediction|error p90", "percent", "low", 17),
    Column("pred_err_p99_frac", "Prediction|error p99", "percent", "low", 6),
    Column("pred_bias_mean_frac", "Prediction|bias", "percent", None, 19),
    Column("pred_cover_frac", "Done within|interval", "percent", None, 2),
    Column("pred_width_p50_frac", "Interval over|promise p50", "percent", "low", 7),
    Column("pred_err_p50_frac", "Prediction|error p50", "percent", "low", 8),
    Column("pred_score", "Interval|score", "ratio", "low", 8),
    Column("pred_far_late_frac", "Far later|than promised", "percent", "low", 9),
    Column("pred_far_early_frac", "Far earlier|than promised", "percent", "low", 10),
    Column("unfairness_mean_frac", "Unfairness|mean", "percent", "low", 2),
    Column("unfairness_p99_frac", "Unfairness|p99", "percent", "low", 20),
    Column("unfairness_fair_run_max_frac", "Unfairness,|fair run max", "percent", "low", 7),
    Column("slowdown_p95_trial", "Slowdown,|p95 trial", "ratio", "low", 2),
    Column("slowdown_p50_best_effort", "Slowdown, p50|best effort", "ratio", "low", 2),
    Column("slowdown_p95_best_effort", "Slowdown, p95|best effort", "ratio", "low", 4),
    Column("cost_usd", "Cost", "usd", "low", 1),
)
# Figures that a comparison leaves to `--json`, so that it fits an ordinary window.
_ONE_RESULT_ONLY = {
    "finished",
    "predicted",
    "slowdown_p50",
    "utilisation_gpu_frac",
    "utilisation_cpu_frac",
    "utilisation_memory_frac",
    "preempted_jobs",
    "reschedule_p95_s",
    "pred_err_p90_frac",
    "pred_bias_mean_frac",
    "unfairness_p99_frac",
}
_FEWEST_COLUMNS = 3
_LIST_RANK = 6


def result_table(summary: Summary) -> Table:
    """One result, a row a figure, every figure in the unit that suits it."""
    from rich.table import Table

    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    for column in COLUMNS:
        if summary.get(column.key) is not None and not _is_idle(column, [summary]):
            unit = time_unit(_means([summary], column)) if column.kind == "time" else ""
            text = _cells([summary], column, unit)[0]
            table.add_row(column.title, f"{text} {unit}" if unit else text)
    timing = summary.get("timing")
    if timing:
        table.add_row("Event loop", humanise_s(timing["wall_s"]))
        if timing["jobs_per_s"] is not None:
            table.add_row("Jobs a second", f"{timing['jobs_per_s']:,.0f}")
    return table


def comparison_table(summaries: Sequence[Summary], width: int | None = None) -> Table:
    """Several policies, a row each; one unit a column, the best of a column starred.

    Figures may be numbers or `Interval`s (shown with their half-width). `JCT over best` is the mean JCT over
    the smallest among them. Columns leave, least important first, until the table fits `width` characters.
    """
    summaries = _over_best(summaries)
    kept = _columns(summaries)
    table = _comparison(summaries, kept)
    while width is not None and len(kept) > 1 and _natural_width(table) > width:
        kept.remove(max(kept, key=lambda column: column.rank))
        table = _comparison(summaries, kept)
    return table


def comparison_list(summaries: Sequence[Summary]) -> Table:
    """Several policies for a narrow terminal: one below the other, a few figures each."""
    from rich.table import Table

    shown = [c for c in COLUMNS if c.rank <= _LIST_RANK and not _is_idle(c, summaries)]
    units = {c.key: time_unit(_means(summaries, c)) if c.kind == "time" else "" for c in shown}
    cells = {c.key: _cells(summaries, c, units[c.key]) for c in shown}
    stars = {c.key: _stars(cells[c.key], summaries, c) for c in shown}
    table = Table(box=None, show_header=False, padding=(0, 1, 0, 0))
    table.add_column(overflow="fold")
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    for i, name in enumerate(short_names([str(s["policy"]) for s in summaries])):
        table.add_row(f"[bold]{_escaped(name)}")
        for column in shown:
            if summaries[i].get(column.key) is not None:
                unit = f"{units[column.key]} *" if stars[column.key][i] else units[column.key]
                table.add_row(f"  {column.title}", cells[column.key][i], unit.strip())
    return table


def show(
    summaries: Sequence[Summary],
    file: IO[str] | None = None,
    width: int | None = None,
    *,
    wide: bool = False,
) -> int:
    """Print one result or the comparison of several, as wide as the terminal lets it.

    `width` (characters) overrides the terminal's; into a pipe there is no colour, and nothing is cut, nor with `wide`.
    Returns how many columns were left out.
    """
    from rich.console import Console

    out = file or sys.stdout
    console = Console(file=out, width=width, highlight=False)
    if len(summaries) == 1:
        console.print(str(summaries[0]["policy"]), style="bold", markup=False, soft_wrap=True)
        _print(console, result_table(summaries[0]))
        return 0
    piped = wide or (width is None and not console.is_terminal and "COLUMNS" not in os.environ)
    table = comparison_table(summaries, None if piped else console.width)
    if piped:
        console.width = max(console.width, _natural_width(table))
    known = len(_columns(_over_best(summaries)))
    kept = len(table.columns) - 1
    if kept < min(_FEWEST_COLUMNS, known) or _natural_width(table) > console.width:
        kept = sum(column.rank <= _LIST_RANK for column in _columns(_over_best(summaries)))
        _print(console, comparison_list(summaries))
    else:
        _print(console, table)
    policies = [str(s["policy"]) for s in summaries]
    for name, policy in zip(short_names(policies), policies, strict=True):
        if name != policy:
            console.print(f"{name} = {policy}", markup=False, soft_wrap=True)
    return 0 if piped else known - kept


@dataclass(frozen=True)
class Shown:
    """A figure as it is shown: a cell a policy, all in one unit; best: which of them are the column's best."""

    column: Column
    unit: str
    cells: tuple[str, ...]
    best: tuple[bool, ...]


def shown_figures(summaries: Sequence[Summary]) -> list[Shown]:
    """All figures that are known of any of the policies, also those that a terminal has no room for."""
    summaries = _over_best(summaries)
    known = (c for c in COLUMNS if not _is_idle(c, summaries))
    return [_shown(c, summaries) for c in known if any(s.get(c.key) is not None for s in summaries)]


def _shown(column: Column, summaries: Sequence[Summary]) -> Shown:
    unit = time_unit(_means(summaries, column)) if column.kind == "time" else ""
    cells = _cells(summaries, column, unit)
    return Shown(column, unit, tuple(cells), tuple(_stars(cells, summaries, column)))


def _columns(summaries: Sequence[Summary]) -> list[Column]:
    """The columns of a comparison that are not empty."""
    wanted = (c for c in COLUMNS if c.key not in _ONE_RESULT_ONLY and not _is_idle(c, summaries))
    return [c for c in wanted if any(s.get(c.key) is not None for s in summaries)]


def _comparison(summaries: Sequence[Summary], columns: Sequence[Column]) -> Table:
    from rich import box
    from rich.table import Table

    caption = "* best of its column"
    table = Table(box=box.SIMPLE_HEAD, caption=caption, caption_justify="left", padding=(0, 1, 0, 0))
    table.add_column("Policy", overflow="fold", vertical="bottom")
    filled: list[Sequence[str]] = []
    for shown in (_shown(column, summaries) for column in columns):
        cells: Sequence[str] = shown.cells
        # If one has a star, the others get a blank, so that digits align.
        if any(shown.best):
            pairs = zip(cells, shown.best, strict=True)
            cells = [f"[bold green]{c}[/]*" if star else f"{c} " for c, star in pairs]
        filled.append(cells)
        head = shown.column.heading.replace("|", "\n") + (f" ({shown.unit})" if shown.unit else "")
        table.add_column(head, justify="right", no_wrap=True)
    for i, name in enumerate(short_names([str(s["policy"]) for s in summaries])):
        table.add_row(_escaped(name), *(cells[i] for cells in filled))
    return table


def _cells(summaries: Sequence[Summary], column: Column, unit: str) -> list[str]:
    """The column's texts, all with the same number of decimals."""
    scale = {"time": 1 / TIME_UNITS[unit or "s"], "percent": 100.0}.get(column.kind, 1.0)
    sign = {"percent": " %", "usd": " $"}.get(column.kind, "")
    values = [summary.get(column.key) for summary in summaries]
    spread = any(isinstance(value, Interval) and value.half_width > 0 for value in values)
    places = decimals([mean * scale for mean in _means(summaries, column)], whole=not spread)
    if column.kind == "count":
        places = 1 if spread else 0
    places = {"percent": min(places, 2), "usd": 2}.get(column.kind, places)
    cells: list[str] = []
    for value in values:
        if value is None or not math.isfinite(_mean(value)):
            cells.append("-")
        elif isinstance(value, Interval) and value.half_width > 0:
            cells.append(f"{value.mean * scale:,.{places}f} ± {value.half_width * scale:,.{places}f}{sign}")
        else:
            cells.append(f"{_mean(value) * scale:,.{places}f}{sign}")
    return cells


def _stars(cells: list[str], summaries: Sequence[Summary], column: Column) -> list[bool]:
    """Mark the cells with the column's best; none if all texts are the same."""
    read = [cell.split(" ± ")[0].removesuffix(" %") for cell in cells]
    values = _means(summaries, column)
    if column.best is None or len(values) < 2 or len(set(read) - {"-"}) < 2:
        return [False] * len(cells)
    best = min(values) if column.best == "low" else max(values)
    where = next(
        i for i, s in enumerate(summaries) if s.get(column.key) is not None and _mean(s[column.key]) == best
    )
    return [text == read[where] for text in read]


def _over_best(summaries: Sequence[Summary]) -> list[Summary]:
    """The summaries with their mean JCT over the smallest among them, as the field compares policies."""
    known = [_mean(s["jct_mean_s"]) for s in summaries if s.get("jct_mean_s") is not None]
    if len(known) < 2 or min(known) <= 0:
        return list(summaries)
    best = min(known)
    return [
        {**s, "jct_over_best": _mean(s["jct_mean_s"]) / best} if s.get("jct_mean_s") is not None else s
        for s in summaries
    ]


def _is_idle(column: Column, summaries: Sequence[Summary]) -> bool:
    """Whether the column is left out: counts of trouble, if all are 0, and `finished`, if it equals `jobs`."""
    if column.key == "finished":
        return all(s.get("finished", s.get("jobs")) == s.get("jobs") for s in summaries)
    return column.key in ("unfinished", "refused", "killed", "predicted") and not any(
        _means(summaries, column)
    )


def _means(summaries: Sequence[Summary], column: Column) -> list[float]:
    means = [_mean(s[column.key]) for s in summaries if s.get(column.key) is not None]
    return [m for m in means if math.isfinite(m)]


def _mean(value: float | Interval) -> float:
    return value.mean if isinstance(value, Interval) else float(value)


def _natural_width(renderable: RenderableType) -> int:
    from rich.console import Console

    measuring = Console(width=10_000)
    return measuring.measure(renderable).maximum


def _print(console: Console, table: Table) -> None:
    """Print without the blanks that fill a table's lines, which a pipe would keep."""
    with console.capture() as capture:
        console.print(table)
    text = "\n".join(line.rstrip() for line in capture.get().splitlines()) + "\n"
    console.file.write(text if console.encoding.startswith("utf") else text.replace("±", "+/-"))


def _escaped(text: str) -> str:
    from rich.markup import escape

    return escape(text)


def short_names(policies: Sequence[str]) -> list[str]:
    """Names for tables and legends: without parameters and folders, numbered if two would be the same."""
    # A parameter's value may have colons and slashes of its own, as in objective=cost:10.
    bases = [re.split(r":(?=\w+=)", policy, maxsplit=1)[0].rsplit("/", 1)[-1] for policy in policies]
    return [
        base if bases.count(base) == 1 else f"{base} ({bases[: i + 1].count(base)})"
        for i, base in enumerate(bases)
    ]
