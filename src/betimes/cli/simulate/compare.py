"""`betimes compare`: one workload under several policies, side by side."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from betimes.cli import options
from betimes.cli.simulate.flags import RunFlags, SimulationFlags, spread_flags
from betimes.cli.verbs import Json, Option, Output
from betimes.errors import InputError, SlurmError

if TYPE_CHECKING:
    from betimes.workload import Workload


@spread_flags
def compare(
    policies: options.Policies,
    simulation: SimulationFlags,
    runs: RunFlags,
    slurm_history: Annotated[
        str | None,
        Option(
            "--slurm-history",
            metavar="TIME",
            help="In place of FILE: what Slurm's accounting (sacct) has of so long, as in 30d, on Slurm's own nodes.",
            show_default=False,
        ),
    ] = None,
    slurm_bin: Annotated[
        Path | None,
        Option(
            "--slurm-bin",
            metavar="DIR",
            help="With --slurm-history: the directory of Slurm's commands, if not in PATH.",
            show_default=False,
        ),
    ] = None,
    output: Output = None,
    as_json: Json = False,
) -> None:
    """Run a workload under several policies, in parallel, and show them in one table, a row each.

    The figures are those of `betimes simulate`, which takes the same options. Each policy runs on the
    engine that it is for, with the same jobs: those for a pool resize them (elastic), those for nodes run them at their
    full width (rigid). Where there are both, each row names its engine: compare those of one engine with each other.
    """
    from betimes.cli.simulate.running import run, study

    if slurm_history is None and slurm_bin is not None:
        raise InputError("--slurm-bin is about an existing Slurm; add --slurm-history")
    with _source(simulation, slurm_history, slurm_bin) as found:
        wanted, chosen, engines = study(policies, found, several=True, timeline=bool(runs.out or runs.plots))
        run(wanted, chosen, engines, runs, as_json=as_json, compared=True, wide=output is not None)


@contextmanager
def _source(
    simulation: SimulationFlags, slurm_history: str | None, slurm_bin: Path | None
) -> Iterator[SimulationFlags]:
    """The flags with jobs and nodes of Slurm as files, while this is entered. Raises InputError, SlurmError."""
    if slurm_history is None:
        yield simulation
        return
    import tempfile
    import time

    from betimes.cli.duration_options import parse_option
    from betimes.printing import report
    from betimes.slurm.commands import Commands
    from betimes.slurm.history import as_toml, placed, read_history
    from betimes.slurm.picture import Looks

    if simulation.file:
        raise InputError(f"--slurm-history: {simulation.file} is given as well; leave one of them out")
    since_at = time.time() - parse_option("--slurm-history", slurm_history, 60.0)
    looks = Looks(Commands(slurm_bin))
    try:
        history = read_history(looks.commands, since_at)
    except SlurmError as error:
        raise SlurmError(
            f"{error}; where accounting cannot be read, compare a trace: betimes compare FILE"
        ) from None
    workload, cluster = placed(history, looks.machines())
    if (happened := _happened(workload)) is not None:
        report("betimes: note", happened)
    with tempfile.TemporaryDirectory() as folder:
        jobs, nodes = Path(folder) / "slurm.parquet", Path(folder) / "slurm.toml"
        workload.to_parquet(jobs)
        nodes.write_text(as_toml(cluster), encoding="utf-8")
        yield replace(
            simulation,
            file=str(jobs),
            cluster=simulation.cluster or str(nodes),
            on_wide=simulation.on_wide or "drop",
        )


def _happened(workload: Workload) -> str | None:
    """The outcome of the jobs in Slurm, in words; null: no wait is known."""
    import numpy as np

    from betimes.foresight.learn import WAIT
    from betimes.units import length

    wait_s = np.asarray(workload.extra.get(WAIT, ()), dtype=float)
    known = np.isfinite(wait_s)
    if not known.any():
        return None
    jct_s = wait_s + workload.work_s / workload.max_units
    return (
        f"in Slurm its {len(workload):,} jobs waited for {length(float(wait_s[known].mean()))} in the mean, and were "
        f"done after {length(float(jct_s[known].mean()))}"
    )
