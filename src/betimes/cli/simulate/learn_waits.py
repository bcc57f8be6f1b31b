"""`betimes policy learn-waits`: a model that predicts how long jobs wait for owned machines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from betimes.cli import options
from betimes.cli.simulate.size_fleet import Cluster
from betimes.cli.verbs import Json

if TYPE_CHECKING:
    from betimes.foresight.waits import Evaluation

KINDS = ("linear", "forest", "boosting")

Model = Annotated[str, typer.Option("--model", metavar="KIND", help=f"What is fitted: {', '.join(KINDS)}.")]
Train = Annotated[
    float,
    typer.Option(
        "--train", metavar="SHARE", help="The share of the jobs, the earliest, that it is fitted to."
    ),
]
Out = Annotated[
    str, typer.Option("--out", metavar="FILE.npz", help="Where the model goes.", show_default=False)
]


def learn_waits(
    file: options.File,
    policy: options.Policy,
    cluster: Cluster,
    out: Out,
    model: Model = "boosting",
    train: Train = 0.7,
    jobs: options.Jobs = None,
    seed: options.Seed = 0,
    form: options.Format = "auto",
    on_bad_rows: options.OnBadRows = "fail",
    as_json: Json = False,
) -> None:
    """Learn how long jobs wait for owned machines, from a simulation in which that is known for sure.

    The workload runs under sww or compound; the model is fitted to the first jobs that wait and tried on the
    others. Use it with `compound:waits=learned,model=FILE.npz`.
    """
    from pathlib import Path

    from betimes.cli.render.progress import Display
    from betimes.cli.simulate.sources import read
    from betimes.cli.warming import compile_kernels
    from betimes.cluster import read_cluster
    from betimes.foresight.waits import learn
    from betimes.outcome import to_json
    from betimes.policies import parse_nodes_policy

    chosen, nodes = parse_nodes_policy(policy), read_cluster(cluster)
    display = Display()
    with display.shown():
        workload = read(file, None, seed, form, on_bad_rows, nodes)
        workload = workload if jobs is None else workload.head(jobs)
        compile_kernels({policy: chosen}, False, display)
        made, found = learn(workload, chosen, nodes, model, train)
        made.save(Path(out))
    display.say_notes()
    if as_json:
        print(to_json(as_row(model, found)))
    else:
        _show(model, found, out)


def as_row(kind: str, found: Evaluation) -> dict[str, Any]:
    """The object that `--json` prints."""
    return {
        "model": kind,
        "jobs": found.jobs,
        "vain_frac": found.vain_frac,
        "mcc": [{"wait_s": at_s, "mcc": mcc} for at_s, mcc in found.mcc.items()],
        "error_mean_s": found.error_s,
        "abstained_frac": found.abstained_frac,
        "calibration": [{"predicted_s": guess, "true_s": true} for guess, true in found.calibration],
    }


def _show(kind: str, found: Evaluation, out: str) -> None:
    print(
        f"{found.jobs:,} later jobs had to wait, {found.vain_frac:.1%} of them longer than b. The {kind} model:"
    )
    for at_s, mcc in found.mcc.items():
        print(f"  Matthews correlation at {at_s / 3600:g} h   {mcc:.3f}")
    print(f"  mean absolute error                {found.error_s / 3600:.2f} h")
    print(f"  unlike what was learned            {found.abstained_frac:.1%}")
    print(
        "  predicted and true mean wait       "
        + ", ".join(f"{guess / 3600:.1f}/{true / 3600:.1f} h" for guess, true in found.calibration)
    )
    print(f"Written to {out}; use it with waits=learned,model={out}.")
