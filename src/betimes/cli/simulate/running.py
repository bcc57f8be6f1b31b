"""From checked options to printed figures: the common part of `simulate` and `compare`."""

from __future__ import annotations

import math
import sys
from contextlib import ExitStack, redirect_stdout
from dataclasses import replace
from typing import TYPE_CHECKING

from betimes.cli import folders
from betimes.cli.render.progress import Display
from betimes.cli.simulate.outcomes import Outcomes
from betimes.cli.simulate.simulation_options import SimulationOptions
from betimes.cli.simulate.sources import is_for_nodes
from betimes.cli.simulate.study import FAIR, Loaded, Run, Study, load, notes_of, wants_fair
from betimes.cli.simulate.workers import results
from betimes.cli.warming import compile_closed_loop, compile_kernels
from betimes.errors import InputError, PolicyError
from betimes.processes import cpus

if TYPE_CHECKING:
    from betimes.foresight.engines import AnyChosen, Engine
    from betimes.outcome import Result

MOST_JOBS_HERE = 20_000
"""Up to this many jobs in all runs together, starting other processes takes longer than they save."""


def study(
    policies: str, options: SimulationOptions, *, several: bool, timeline: bool
) -> tuple[Study, dict[str, AnyChosen], dict[str, Engine]]:
    """The options as a `Study`, the policies and their engines; checked as far as possible without the trace.

    Raises InputError and its children.
    """
    from betimes.cluster import read_cluster
    from betimes.outcome import parse_measure
    from betimes.twin.sizes import parse_sizes
    from betimes.workload.speedup import SpeedupTable

    load, restart_s, interval_s = options.load, options.restart_s, options.resize_interval
    chosen, engines = chosen_policies(
        policies, several=several, engine=options.engine, cluster=options.cluster, file=options.file
    )
    used = tuple(dict.fromkeys(engines.values()))
    for engine in used:
        check_engine(engine, options)
    if options.cluster is not None and options.units is not None:
        raise InputError(
            f"--cluster {options.cluster}: --units {options.units} is given too; leave one of them out"
        )
    if load is not None and not (load > 0 and math.isfinite(load)):
        raise InputError(f"--load {load:g}: the offered load is a number above 0, such as 0.8")
    if not (restart_s >= 0 and math.isfinite(restart_s)):
        raise InputError(f"--restart-s {restart_s:g}: the time of a restart is a number of seconds from 0")
    if not (interval_s >= 0 and math.isfinite(interval_s)):
        raise InputError(
            f"--resize-interval {interval_s:g}: the time between resizes is a number of seconds from 0"
        )
    level = options.interval
    if level is not None:
        if not 0.0 < level < 1.0:
            raise InputError(
                f"--interval {level:g}: the share of jobs that are done within it, above 0 and below 1, such as 0.8"
            )
        if not options.predict and options.predict_sample is None:
            raise InputError(f"--interval {level:g}: an interval is part of a promise; give --predict too")
        if options.as_trials:
            raise InputError(f"--interval {level:g}: trials are promised without intervals; leave one out")
    wanted = Study(
        options=options,
        engines=used,
        cluster=read_cluster(options.cluster) if options.cluster is not None else None,
        curves=SpeedupTable.read_csv(options.curves) if options.curves is not None else None,
        measure=parse_measure(options.measure),
        sizes=str(parse_sizes(options.sizes)) if options.sizes is not None else None,
        grace=parse_grace(options.grace) if options.grace is not None else None,
        timeline=timeline,
    )
    return wanted, chosen, engines


def run(
    wanted: Study,
    policies: dict[str, AnyChosen],
    engines: dict[str, Engine],
    *,
    out: str | None,
    plots: str | None,
    processes: int | None,
    ray: bool,
    as_json: bool,
    compared: bool,
) -> None:
    """Make all runs, write the files asked for and print the figures: `compared`, as one of several."""
    from betimes.outcome import show, to_json

    names = list(policies)
    if out is not None:
        folders.check_results(out, several=len(policies) > 1 or wanted.options.seeds is not None)
    if plots is not None:
        folders.check("--plots", plots)
    display = Display()
    with display.shown(), ExitStack() as stack:
        beforehand_s = compile_closed_loop(display) if is_for_nodes(wanted.options.file) else 0.0
        display.expect("reading", None)
        loaded = load(wanted, wanted.options.seed)
        display.finish("reading")
        for note in notes_of(loaded.workload):
            display.note(note)
        if wanted.options.seeds is not None and not (
            wanted.is_random() or any(map(_may_draw, policies.values()))
        ):
            display.note(
                f"every seed gives the same result: nothing is drawn at random with {wanted.options.file}"
            )
        fair = wants_fair(wanted, len(loaded.workload))
        if compared and len(wanted.engines) > 1:
            display.note(_widths(engines, loaded))
        needed = dict(policies)
        if fair:
            from betimes.policies import parse_policy

            needed.setdefault(FAIR, parse_policy(FAIR))
        took = compile_kernels(needed, wanted.predicts, display)
        stages = [stack.enter_context(folders.staged(path)) if path else None for path in (out, plots)]
        outcomes = Outcomes(wanted, names, *stages)
        runs = [Run(FAIR, seed, "pool", fair=True) for seed in wanted.all_seeds() if fair]
        runs += [Run(name, seed, engines[name]) for seed in wanted.all_seeds() for name in names]
        bars = {run: _bar(run, names) for run in runs}
        for each in runs:
            display.expect(bars[each], len(loaded.workload))
        if processes is None and not ray:
            processes = cpus() if len(runs) * len(loaded.workload) > MOST_JOBS_HERE else 1
        for each, result in results(
            wanted,
            loaded,
            runs,
            processes,
            display.note,
            lambda run, more: display.advance(bars[run], more),
            ray=ray,
        ):
            outcomes.take(each, _with_compilation(result, beforehand_s + took[each.policy]), fair=fair)
        outcomes.finish(display.note)
    display.say_notes()
    rows = outcomes.rows()
    if as_json:
        if compared and len(wanted.engines) > 1:
            widths = {"pool": "elastic", "nodes": "rigid"}
            rows = [{**row, "widths": widths[engines[row["policy"]]]} for row in rows]
        print(to_json(rows if compared else rows[0]))
    else:
        show(outcomes.shown())


def _widths(engines: dict[str, Engine], loaded: Loaded) -> str:
    """A note on the widths of the same jobs under the policies of the two engines."""
    pool, nodes = (", ".join(name for name in engines if engines[name] == each) for each in ("pool", "nodes"))
    machine = loaded.placed["pool"][1]
    where = f"{machine} units" if isinstance(machine, int) else f"the units of {machine.name}"
    return (
        f"{pool}: elastic, jobs are resized on {where}; {nodes}: rigid, jobs run at their full width on nodes"
    )


def _with_compilation(result: Result, seconds: float) -> Result:
    return replace(result, timing=replace(result.timing, compile_s=result.timing.compile_s + seconds))


def _may_draw(policy: AnyChosen) -> bool:
    """Whether the policy may draw lots: policies with victims or members get the seed."""
    return any(getattr(policy.policy, name, None) is not None for name in ("evict", "members"))


def _bar(run: Run, names: list[str]) -> str:
    from betimes.outcome.tables import short_names

    return "max-min, to compare with" if run.fair else short_names(names)[names.index(run.policy)]


def chosen_policies(
    text: str, *, several: bool, engine: str, cluster: str | None, file: str
) -> tuple[dict[str, AnyChosen], dict[str, Engine]]:
    """The policies that an option names, and the engine of each, by name.

    Raises PolicyError for unknown ones, one named twice, or one that is for the other engine.
    """
    from betimes.cli.simulate.sources import is_for_nodes
    from betimes.foresight.engines import NODES, engine_for, named_engine
    from betimes.policies import parse_nodes_policy, parse_policy, split_policies

    for_nodes = engine == "auto" and cluster is None and is_for_nodes(file)
    because = f"{file.partition(':')[0]} makes jobs for nodes" if for_nodes else ""
    texts = split_policies(text)
    if not several and len(texts) > 1:
        raise PolicyError(
            f"--policy {text}: this names {len(texts)} policies; `betimes compare` takes several"
        )
    chosen: dict[str, AnyChosen] = {}
    engines: dict[str, Engine] = {}
    with redirect_stdout(sys.stderr):  # a user's file may print
        for one in texts:
            found = engine_for(one, engine, because, cluster=cluster is not None)
            policy = parse_nodes_policy(one) if found == NODES else parse_policy(one)
            name = f"{found}:{policy}" if named_engine(one)[0] else str(policy)
            for other, known in chosen.items():
                if str(known) == str(policy) and engines[other] == found:
                    raise PolicyError(f"--policies: {policy} is named 2 times; name it once")
            chosen[name], engines[name] = policy, found
    return chosen, engines


def check_engine(engine: Engine, options: SimulationOptions) -> None:
    """Raise InputError for options that mean nothing on this engine."""
    held_back = bool(options.resize_interval or options.resize_gain)
    if engine == "nodes":
        if options.fractional:
            raise InputError("--fractional: jobs on nodes are never resized; leave it out")
        if options.fair is not None:
            raise InputError(
                f"--{'' if options.fair else 'no-'}fair: there is no max-min run on nodes; leave it out"
            )
        if held_back:
            option = "gain" if options.resize_gain else "interval"
            raise InputError(f"--resize-{option}: jobs on nodes are never resized; leave it out")
        if options.as_trials:
            raise InputError("--as-trials: sets of trials share the units of a pool; leave it out")
        if options.on_wide == "clip":
            raise InputError("--on-wide clip: jobs on nodes are never narrowed; choose drop or refuse")
        return
    if options.fractional and (options.cluster is not None or held_back):
        what = "resizes are held back in" if options.cluster is None else "units on nodes are"
        raise InputError(f"--fractional: {what} whole units; leave it out")
    if options.as_trials and (options.cluster is not None or options.fractional):
        what = "--cluster" if options.cluster is not None else "--fractional"
        raise InputError(f"--as-trials: trials take whole units of a pool without nodes; leave {what} out")
    for name, value, what in (
        ("overrun", options.overrun, "estimates do not end jobs"),
        ("grace", options.grace, "jobs leave at once"),
    ):
        if value is not None:
            raise InputError(f"--{name} {value}: on a pool {what}; leave it out, or give --engine nodes")


def parse_grace(text: str) -> tuple[float, float | None]:
    """Read `MEAN` or `MEAN:MAX`, in seconds; raises InputError."""
    mean, colon, most = text.partition(":")
    try:
        mean_s, most_s = float(mean), float(most) if colon else None
    except ValueError:
        mean_s, most_s = math.nan, None
    if not (0.0 <= mean_s < math.inf and (most_s is None or mean_s <= most_s < math.inf)):
        raise InputError(
            f"--grace {text}: expected a mean of 0 s or more, and a maximum not below it, as in 180:1200"
        )
    return mean_s, most_s
