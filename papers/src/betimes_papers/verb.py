"""`betimes reproduce`: a paper's table or figure, published next to ours."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from betimes.cli import options
from betimes.cli.render import tables
from betimes.cli.verbs import Json

if TYPE_CHECKING:
    from betimes_papers import Experiment, Row


def reproduce(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="One of --list; NAME:PART+PART runs a part of it where it has parts.",
            show_default=False,
        ),
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="List what can be reproduced.")] = False,
    data: Annotated[
        str | None,
        typer.Option(
            "--data",
            metavar="DIR",
            help="The folder of the published traces and tables. By default that of BETIMES_DATA.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(
            "--out", metavar="DIR", help="Write rows.json, and the figures drawn anew.", show_default=False
        ),
    ] = None,
    processes: options.Processes = None,
    ray: options.OnRay = False,
    as_json: Json = False,
) -> None:
    """Run a published experiment again, and show the published values next to ours."""
    from betimes.errors import InputError
    from betimes.outcome import to_json
    from betimes_papers import EXPERIMENTS

    if listed or name is None:
        if name is not None:
            raise InputError(f"--list lists everything; leave out {name!r}, or --list")
        if not listed:
            raise InputError("reproduce: name an experiment; `betimes reproduce --list` lists them")
        if as_json:
            print(to_json([_described(each) for each in EXPERIMENTS.values()]))
        else:
            tables.show_pairs([(each.name, _summary(each)) for each in EXPERIMENTS.values()])
        return
    rows = _rows(name, data, out, processes, ray)
    if as_json:
        print(to_json({"name": name, "rows": rows}))
    else:
        _show(name, rows)


def _rows(name: str, data: str | None, out: str | None, processes: int | None, ray: bool) -> list[Row]:
    from contextlib import ExitStack

    from betimes.cli import folders
    from betimes.cli.render.progress import Display
    from betimes.processes import cpus
    from betimes_papers import Workers, find
    from betimes_papers import reproduce as run

    experiment = find(name)
    if processes is None and not ray:
        processes = 1 if experiment.alone else cpus()
    if out is not None:
        folders.check("--out", out)
    display = Display()
    with display.shown(), ExitStack() as stack:
        stage = stack.enter_context(folders.staged(out)) if out is not None else None
        return run(
            name,
            Path(data) if data is not None else None,
            stage,
            lambda what, done, of: display.at(name, f"{name}: {what}", done, of),
            Workers(processes, ray),
        )


def _described(experiment: Experiment) -> dict[str, Any]:
    return {
        "name": experiment.name,
        "summary": experiment.summary,
        "needs": list(experiment.needs),
        "parts": list(experiment.parts),
        "alone": experiment.alone,
    }


def _summary(experiment: Experiment) -> str:
    return (
        f"{experiment.summary} (in one process: {experiment.alone})"
        if experiment.alone
        else experiment.summary
    )


_UNCUT = 10_000  # characters of a line


def _show(name: str, rows: Sequence[Row]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    notes = list(dict.fromkeys(row.note for row in rows if row.note))
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("Case", overflow="fold")
    table.add_column("Metric", overflow="fold")
    for heading in ("Published", "Ours"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("Unit", no_wrap=True)
    table.add_column("Note", justify="right", no_wrap=True)
    for row in rows:
        mark = f"({notes.index(row.note) + 1})" if row.note else ""
        table.add_row(row.case, row.metric, _number(row.published), _number(row.ours), row.unit, mark)
    screen = Console(highlight=False, markup=False, width=tables.width() or _UNCUT)
    with screen.capture() as capture:
        screen.print(table)
    print(name)
    print("\n".join(line.rstrip() for line in capture.get().splitlines()))
    for number, note in enumerate(notes, start=1):
        print(f"({number}) {note}")


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"
