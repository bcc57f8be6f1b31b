"""`betimes trace`: look at a trace, convert it, generate one."""

from __future__ import annotations

import math
import shutil
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from betimes.cli import options
from betimes.cli.for_typer import VerbCommand, VerbGroup, for_typer
from betimes.cli.verbs import Json
from betimes.errors import InputError
from betimes.printing import report

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from betimes.cluster import Cluster
    from betimes.workload import Workload

verbs = typer.Typer(
    cls=VerbGroup, help="Look at a trace, convert it, or generate one.", no_args_is_help=False
)

Destination = Annotated[
    str,
    typer.Argument(metavar="OUT", help="A name ending in .parquet, .csv or .csv.gz.", show_default=False),
]


@verbs.callback(invoke_without_command=True)
def trace(context: typer.Context) -> None:
    """Look at a trace, convert it, or generate one."""
    if context.invoked_subcommand is None:
        print(context.get_help())


@verbs.command(cls=VerbCommand)
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
    from betimes.outcome import to_json

    nodes = _nodes(cluster, units)
    found = contents(read(file, units, seed, form, on_bad_rows, nodes), units, nodes)
    if as_json:
        print(to_json(found))
    else:
        show_contents(found)


@verbs.command(cls=VerbCommand)
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


@verbs.command(cls=VerbCommand)
@for_typer
def generate(
    spec: Annotated[
        str,
        typer.Argument(
            metavar="SPEC",
            help="NAME[:k=v,...] with one of demo, synthetic, fitgpp, year, or a generator of another package.",
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
        report("betimes: note", note)
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


_STATUS = {1: "completed", 0: "failed", 5: "cancelled", -1: "unknown"}
_FEW = 6


def contents(workload: Workload, units: int | None, cluster: Cluster | None) -> dict[str, Any]:
    """The figures of a trace; the offered load is on `cluster`, on `units`, or on the traced machine (None: unknown).

    Run times and the load take linear speed-up for curves that are not formulas.
    """
    import numpy as np

    from betimes.twin.noted_cluster import noted_cluster
    from betimes.workload.speedup import bind

    nodes = cluster or (noted_cluster(workload) if units is None else None)
    machine = units or (nodes.units if nodes is not None else workload.machine_units)
    jobs, submit_s = len(workload), workload.submit_s
    table, unknown = bind(workload.curve_names, int(workload.max_units.max(initial=1)))
    speedup = table.at(workload.curve, workload.max_units)
    codes, counts = np.unique(workload.status, return_counts=True)
    curves = np.bincount(workload.curve, minlength=len(workload.curve_names))
    return {
        "name": workload.name,
        "format": workload.notes.format,
        "jobs": jobs,
        "first_submit_s": float(submit_s[0]) if jobs else None,
        "span_s": float(submit_s[-1] - submit_s[0]) if jobs else None,
        "machine_units": workload.machine_units,
        "units": machine,
        "offered_load_frac": _offered(workload, machine, nodes, speedup) if jobs else None,
        "nodes": len(nodes) if nodes is not None else None,
        "run_s": _spread(workload.work_s / speedup),
        "max_units": _spread(workload.max_units),
        "rigid_frac": float(np.mean(workload.min_units == workload.max_units)) if jobs else None,
        "wider_than_units": _too_wide(workload, machine, nodes),
        "estimates_frac": float(np.mean(~np.isnan(workload.estimate_s))) if jobs else None,
        "users": len(np.unique(workload.user[workload.user >= 0])),
        "status": {_STATUS[int(code)]: int(n) for code, n in zip(codes, counts, strict=True)},
        "curves": {name: int(n) for name, n in zip(workload.curve_names, curves, strict=True) if n},
        "unknown_curves": list(unknown),
        "skipped": dict(workload.notes.skipped),
        "warnings": list(workload.notes.warnings),
        "fingerprint": workload.fingerprint(),
    }


def show_contents(found: dict[str, Any]) -> None:
    """Print the figures, a line each."""
    from betimes.units import humanise_s

    run_s, widths = found["run_s"], found["max_units"]
    lines = {"Trace": found["name"], "Format": found["format"] or "-", "Jobs": f"{found['jobs']:,}"}
    if found["jobs"]:
        first = f", from {humanise_s(found['first_submit_s'])} on" if found["first_submit_s"] else ""
        lines["Submitted within"] = humanise_s(found["span_s"]) + first
        lines["Run time, full width"] = _line(run_s, humanise_s)
        lines["Width, units"] = (
            _line(widths, lambda value: f"{value:,.4g}") + f"; rigid {_share(found['rigid_frac'])}"
        )
        lines["Estimates"] = f"of {_share(found['estimates_frac'])} of the jobs"
        lines["Users"] = f"{found['users']:,}" if found["users"] else "unknown"
        lines["Status"] = _counts(found["status"])
        lines["Speed-up curves"] = _counts(found["curves"])
    if found["unknown_curves"]:
        lines[""] = "no formulas: taken as linear here; `--curves FILE.csv` gives them to a simulation"
    machine = found["machine_units"]
    unknown = "unknown" if found["units"] is not None else "unknown: give --units N, or --cluster FILE"
    lines["Machine"] = f"{machine:,} units" if machine is not None else unknown
    there = f"{found['units']:,} units" if found["units"] is not None else ""
    if found["nodes"] is not None:
        there = f"{found['nodes']:,} node" + ("s" if found["nodes"] != 1 else "")
    if found["offered_load_frac"] is not None and math.isinf(found["offered_load_frac"]):
        lines["Offered load"] = "none to speak of: all jobs are submitted at one time"
    elif found["offered_load_frac"] is not None:
        lines["Offered load"] = f"{found['offered_load_frac']:.3g} of {there}"
    if found["wider_than_units"]:
        lines["Too wide"] = f"{found['wider_than_units']:,} jobs need more than {there}"
    if found["skipped"]:
        lines["Left out, rows"] = _counts(found["skipped"])
    for name, text in lines.items():
        _print(name, text)
    for warning in found["warnings"]:
        _print("Note", warning)


def _offered(
    workload: Workload, machine: int | None, nodes: Cluster | None, speedup: NDArray[Any]
) -> float | None:
    if nodes is not None:
        from betimes.twin.nodes.offered import offered_load

        return offered_load(workload, nodes)
    return workload.offered_load(machine, speedup) if machine is not None else None


def _too_wide(workload: Workload, machine: int | None, nodes: Cluster | None) -> int | None:
    """The number of jobs that need more than the machine has."""
    if nodes is not None:
        from betimes.twin.nodes.tasks import tasks_of

        return int(tasks_of(workload, nodes).refused.sum())
    return int((workload.min_units > machine).sum()) if machine is not None else None


def _print(name: str, text: str) -> None:
    """Print one entry; in a terminal it is wrapped between words and indented."""
    line = f"{name:<22}{text}"
    if sys.stdout.isatty():
        width = max(60, shutil.get_terminal_size().columns)
        line = textwrap.fill(line, width, subsequent_indent=" " * 22, break_on_hyphens=False)
    print(line)


def _spread(values: NDArray[Any]) -> dict[str, float] | None:
    import numpy as np

    if not len(values):
        return None
    low, middle, high = (float(part) for part in np.percentile(values, (0, 50, 100)))
    return {"min": low, "p50": middle, "mean": float(np.mean(values)), "max": high}


def _line(spread: dict[str, float], text: Any) -> str:
    return f"{text(spread['min'])} to {text(spread['max'])}, median {text(spread['p50'])}, mean {text(spread['mean'])}"


def _share(frac: float) -> str:
    return "all" if frac == 1.0 else "none" if frac == 0.0 else f"{100 * frac:.3g} %"


def _counts(counts: dict[str, int]) -> str:
    largest = sorted(counts.items(), key=lambda pair: -pair[1])
    more = f", {len(counts) - _FEW} more" if len(counts) > _FEW else ""
    return ", ".join(f"{name} ({count:,})" for name, count in largest[:_FEW]) + more
