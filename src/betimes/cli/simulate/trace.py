"""`betimes trace`: look at a trace, convert it, generate one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from betimes.cli import options
from betimes.cli.for_typer import for_typer
from betimes.cli.verbs import Json
from betimes.errors import InputError

if TYPE_CHECKING:
    from betimes.cluster import Cluster
    from betimes.workload import Workload

verbs = typer.Typer(help="Look at a trace, convert it, or generate one.", no_args_is_help=False)

Destination = Annotated[
    str,
    typer.Argument(metavar="OUT", help="A name ending in .parquet, .csv or .csv.gz.", show_default=False),
]


@verbs.callback(invoke_without_command=True)
def trace(context: typer.Context) -> None:
    """Look at a trace, convert it, or generate one."""
    if context.invoked_subcommand is None:
        print(context.get_help())


@verbs.command()
@for_typer
def info(
    file: options.File,
    units: options.Units = None,
    cluster: options.Cluster = None,
    seed: options.Seed = 0,
    form: options.Format = "auto",
    on_bad_rows: options.OnBadRows = "fail",
    as_json: Json = False,
) -> None:
    """Say what is in a trace: jobs, span, widths, run times, users, load, and what was left out."""
    from betimes.cli.simulate.sources import read
    from betimes.cli.simulate.trace_contents import contents, show_contents
    from betimes.outcome import to_json

    nodes = _nodes(cluster, units)
    found = contents(read(file, units, seed, form, on_bad_rows, nodes), units, nodes)
    if as_json:
        print(to_json(found))
    else:
        show_contents(found)


@verbs.command()
@for_typer
def convert(
    file: options.File,
    out: Destination,
    form: options.Format = "auto",
    on_bad_rows: options.OnBadRows = "fail",
    jobs: options.Jobs = None,
    as_json: Json = False,
) -> None:
    """Write a trace in Betimes's own format, which keeps everything and reads fastest."""
    from betimes.cli.simulate.sources import read

    if Path(file).is_file() and Path(out).is_file() and Path(file).samefile(out):
        raise InputError(f"{out}: that is the trace itself; name another file for the copy")
    _write(file, read(file, None, 0, form, on_bad_rows), out, jobs, as_json)


@verbs.command()
@for_typer
def generate(
    spec: Annotated[
        str,
        typer.Argument(
            metavar="SPEC",
            help="NAME[:k=v,...] with one of demo, synthetic, workload-1, workload-2, workload-3, fitgpp, eva, year.",
            show_default=False,
        ),
    ],
    out: Destination,
    units: options.Units = None,
    cluster: options.Cluster = None,
    seed: options.Seed = 0,
    as_json: Json = False,
) -> None:
    """Generate a workload and write it; the same for the same seed."""
    from betimes.cli.simulate.sources import generated

    _write(spec, generated(spec, units, _nodes(cluster, units), seed), out, None, as_json)


def _nodes(cluster: str | None, units: int | None) -> Cluster | None:
    if cluster is None:
        return None
    from betimes.cluster import read_cluster

    if units is not None:
        raise InputError(f"--cluster {cluster}: --units {units} is given too; leave one of them out")
    return read_cluster(cluster)


def _write(source: str, workload: Workload, out: str, jobs: int | None, as_json: bool) -> None:
    from betimes.cli.simulate.study import notes_of
    from betimes.outcome import to_json
    from betimes.workload import write

    if jobs is not None:
        workload = workload.head(jobs)
    write(workload, out)
    for note in notes_of(workload):
        print("betimes: note:", note, file=sys.stderr)
    if as_json:
        print(
            to_json(
                {
                    "source": source,
                    "out": out,
                    "jobs": len(workload),
                    "skipped": dict(workload.notes.skipped),
                    "fingerprint": workload.fingerprint(),
                }
            )
        )
    else:
        print(f"{out}: {len(workload):,} jobs")
