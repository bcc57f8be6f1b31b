"""`betimes fleet size`: the number of machines to own if more can be rented."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from betimes.cli import options
from betimes.cli.verbs import Json, Output

if TYPE_CHECKING:
    from betimes.foresight.sizing import Sizing

FILE = "sizing.json"
RUNS = 9  # simulations that the search makes first

Cluster = Annotated[
    str,
    typer.Option(
        "--cluster",
        metavar="FILE.toml",
        help="One group of nodes with a price, whose number is searched for, and machines on offer.",
        show_default=False,
    ),
]
Least = Annotated[int, typer.Option("--from", metavar="N", min=1, help="The smallest fleet to try.")]
Most = Annotated[
    int | None,
    typer.Option(
        "--to",
        metavar="N",
        min=1,
        help="The largest. By default twice the cluster's nodes, and more while more are better.",
        show_default=False,
    ),
]
Out = Annotated[
    str | None,
    typer.Option(
        "--out", metavar="DIR", help="Write sizing.json and the picture fleet.svg there.", show_default=False
    ),
]


def size_fleet(
    file: options.File,
    policy: options.Policy,
    cluster: Cluster,
    least: Least = 1,
    most: Most = None,
    jobs: options.Jobs = None,
    seed: options.Seed = 0,
    out: Out = None,
    form: options.Format = "auto",
    on_bad_rows: options.OnBadRows = "fail",
    processes: options.Processes = None,
    ray: options.OnRay = False,
    output: Output = None,
    as_json: Json = False,
) -> None:
    """Find the number of owned machines at which they and the rented ones cost least.

    The workload runs under a waiting policy (njw, ajw-t, ljw, sww, compound) on each number of machines that is tried.
    """
    from betimes.cli import folders
    from betimes.cli.render.progress import Display
    from betimes.cli.simulate.running import MOST_JOBS_HERE
    from betimes.cli.simulate.sources import read
    from betimes.cli.warming import compile_kernels
    from betimes.cluster import read_cluster
    from betimes.foresight.sizing import size_fleet as search
    from betimes.foresight.sizing.fleet import FILE as PICTURE
    from betimes.foresight.sizing.fleet import draw
    from betimes.outcome import to_json
    from betimes.policies import parse_nodes_policy
    from betimes.processes import cpus

    if out is not None:
        folders.check("--out", out)
    chosen, nodes = parse_nodes_policy(policy), read_cluster(cluster)
    display = Display()
    with display.shown():
        workload = read(file, None, seed, form, on_bad_rows, nodes)
        workload = workload if jobs is None else workload.head(jobs)
        compile_kernels({policy: chosen}, False, display)
        if processes is None and not ray:
            processes = cpus() if RUNS * len(workload) > MOST_JOBS_HERE else 1
        found = search(
            workload,
            chosen,
            nodes,
            least=least,
            most=most,
            seed=seed,
            warn=display.note,
            processes=processes,
            ray=ray,
        )
        if out is not None:
            with folders.staged(out) as stage:
                (stage / FILE).write_text(to_json(as_rows(found)) + "\n", encoding="utf-8")
                draw(found, stage / PICTURE)
    display.say_notes()
    if as_json:
        print(to_json(as_rows(found)))
    else:
        _show(found, wide=output is not None)


def as_rows(sizing: Sizing) -> dict[str, Any]:
    """The object that `--json` prints: the best fleet, and all that were tried."""
    from dataclasses import asdict

    return {
        "policy": sizing.policy,
        "instance_type": sizing.instance_type,
        "best": asdict(sizing.best),
        "fleets": [
            {**asdict(fleet), "machine_saves_usd": sizing.saved_usd(fleet)} for fleet in sizing.fleets
        ],
    }


def _show(sizing: Sizing, *, wide: bool) -> None:
    from betimes.cli.render.tables import Column, show

    best, rows = sizing.best, list[list[str]]()
    for fleet in sizing.fleets:
        saved = sizing.saved_usd(fleet)
        rows.append(
            [
                f"{'* ' if fleet == best else ''}{fleet.machines}",
                *(f"{usd:,.2f}" for usd in (fleet.cost_usd, fleet.fixed_usd, fleet.on_demand_usd)),
                f"{fleet.rented_frac:.1%}",
                f"{fleet.wait_mean_h:.2f} h",
                "" if saved is None else f"{saved:,.2f}",
            ]
        )
    show(
        (
            Column("Machines", right=True),
            Column("Cost USD", right=True),
            Column("Owned", rank=3, right=True),
            Column("Rented", rank=4, right=True),
            Column("Jobs rented", rank=2, right=True),
            Column("Mean wait", right=True),
            Column("A machine saves", rank=1, right=True),
        ),
        rows,
        wide=wide,
    )
    price = best.fixed_usd / best.machines
    print(
        f"\n{best.machines} machines of type {sizing.instance_type} cost least: {best.cost_usd:,.2f} USD, with a mean "
        f"wait of {best.wait_mean_h:.2f} h. Each costs {price:,.2f} USD over the run."
    )
