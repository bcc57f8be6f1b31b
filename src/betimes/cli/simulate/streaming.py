"""`simulate --stream`: jobs in chunks, for more jobs than fit in memory; only their times are kept."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from betimes.cli.render.progress import Display
from betimes.cli.simulate.flags import RunFlags
from betimes.cli.simulate.sources import GENERATED_UNITS, is_generated
from betimes.cli.simulate.study import Study, load, notes_of
from betimes.cli.warming import compile_kernels
from betimes.errors import ClusterError, InputError

if TYPE_CHECKING:
    from betimes.cluster import Cluster
    from betimes.foresight.engines import AnyChosen
    from betimes.workload import Workload


def run_in_chunks(wanted: Study, policy: AnyChosen, runs: RunFlags, *, as_json: bool) -> None:
    """Run the jobs in chunks, and print the figures; raises InputError for options that need all jobs at once."""
    from betimes.outcome import show, to_json
    from betimes.policies import parse_nodes_policy
    from betimes.twin.nodes.streaming import StreamedSimulation
    from betimes.twin.sizes import Sizes

    flags = wanted.flags
    if wanted.engines != ("nodes",):
        raise InputError("--stream: jobs in chunks run on nodes; give --cluster, or leave --stream out")
    for name, given in {
        "out": runs.out,
        "report": runs.report,
        "open": runs.open_report,
        "plots": runs.plots,
        "processes": runs.processes,
        "ray": runs.ray,
        "seeds": flags.seeds,
        "predict": wanted.options.predict,
        "status": flags.status != "all",
        "measure": wanted.measure != (0.0, 1.0),
    }.items():
        if given:
            raise InputError(f"--{name}: with --stream only the figures of all jobs are kept; leave one out")
    if wanted.options.users is not None:
        raise InputError("--users: with --stream users do not share; leave one of them out")
    if str(wanted.options.sizes) == "learned":
        raise InputError(
            "--sizes learned: with --stream run times are not learned; choose estimate or last-two"
        )
    display = Display()
    with display.shown():
        display.expect("reading", None)
        started = time.perf_counter()
        chunks, jobs, cluster, estimated = _chunks(wanted, display.note)
        display.finish("reading")
        load_s = time.perf_counter() - started
        compile_s = compile_kernels({"": policy}, False, display)[""]
        sizes = wanted.options.sizes or Sizes("estimate" if estimated else "true")
        options = replace(wanted.options, cluster=cluster, units=None, sizes=sizes)
        run = StreamedSimulation(chunks, parse_nodes_policy(str(policy)), options)
        run.run(lambda done: display.at("jobs", str(policy), done, jobs))
        result = run.result()
        if not len(result.submit_s):
            raise ClusterError(f"{flags.file}: no job fits the cluster {cluster.name}; {result.reason}")
        if result.refused:
            display.note(f"{flags.file}: {result.reason}; jobs refused in all: {result.refused:,}")
    display.say_notes()
    figures = result.summary()
    figures["timing"] = {
        "load_s": load_s,
        "compile_s": compile_s,
        "wall_s": result.wall_s,
        "jobs_per_s": figures["jobs"] / result.wall_s if result.wall_s > 0 else None,
        "events": result.events,
    }
    if as_json:
        print(to_json(figures))
    else:
        show([figures])


def _chunks(wanted: Study, note: Callable[[str], Any]) -> tuple[Iterator[Workload], int, Cluster, bool]:
    """The jobs and their number, the nodes, and whether there are estimates.

    Some generators make jobs in chunks; other workloads are read as a whole and cut.
    """
    import numpy as np

    from betimes.workload.generators import generate_in_chunks, parse_spec
    from betimes.workload.generators.year import CHUNK

    flags, cluster = wanted.flags, wanted.options.cluster
    made = None
    if is_generated(flags.file):
        units = flags.units or (GENERATED_UNITS if cluster is None else cluster.units)
        made = generate_in_chunks(flags.file, units=units, seed=flags.seed)
    if made is None:
        loaded = load(wanted, flags.seed)
        workload, options = loaded.placed["nodes"]
        for each in notes_of(workload):
            note(each)
        rows = range(0, len(workload), CHUNK)
        parts = (workload[np.arange(begin, min(begin + CHUNK, len(workload)))] for begin in rows)
        return (
            parts,
            len(workload),
            options.nodes_for(workload),
            not bool(np.isnan(workload.estimate_s).all()),
        )
    if cluster is None:
        raise InputError(f"--stream: {flags.file} does not say what it runs on; give --cluster FILE.toml")
    for name in ("jobs", "load", "trial", "grace", "on_wide"):
        if getattr(flags, name) is not None:
            raise InputError(
                f"--{name.replace('_', '-')}: {flags.file} is generated in chunks, and not known as a whole; "
                "leave it out, or --stream"
            )
    return made, int(parse_spec(flags.file)[1]["jobs"]), cluster, False
