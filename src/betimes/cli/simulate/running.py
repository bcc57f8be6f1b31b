"""From checked options to printed figures: the common part of `simulate` and `compare`."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Collection
from contextlib import ExitStack, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from betimes.cli import folders
from betimes.cli.render.progress import Display
from betimes.cli.simulate.flags import RunFlags, SimulationFlags
from betimes.cli.simulate.outcomes import Outcomes
from betimes.cli.simulate.sources import is_for_nodes, read
from betimes.cli.simulate.study import FAIR, Loaded, Run, Study, load, notes_of, wants_fair
from betimes.cli.simulate.workers import results
from betimes.cli.warming import compile_closed_loop, compile_kernels
from betimes.errors import InputError, PolicyError
from betimes.processes import cpus

if TYPE_CHECKING:
    from betimes.foresight.engines import AnyChosen, Engine
    from betimes.outcome import Result
    from betimes.workload import Workload

MOST_JOBS_HERE = 20_000
"""Up to this many jobs in all runs together, starting other processes takes longer than they save."""


def study(
    policies: str, flags: SimulationFlags, *, several: bool, timeline: bool
) -> tuple[Study, dict[str, AnyChosen], dict[str, Engine]]:
    """The study that the flags describe, its policies, and the engine of each; checked as far as possible without jobs.

    Raises InputError and its children.
    """
    from betimes.outcome import parse_measure
    from betimes.policies.pool.renting import renting_rule

    options = flags.options(timeline=timeline)
    families = () if options.cluster is None else options.cluster.families
    chosen, engines, workload = chosen_policies(policies, flags, families, several=several)
    used = tuple(dict.fromkeys(engines.values()))
    if "nodes" in used and flags.fair is not None:
        raise InputError(
            f"--{'' if flags.fair else 'no-'}fair: there is no max-min run on nodes; leave it out"
        )
    if "pool" in used and flags.grace is not None:
        raise InputError(
            f"--grace {flags.grace}: on a pool jobs leave at once; leave it out, or give --engine nodes"
        )
    if flags.load is not None and not (flags.load > 0 and math.isfinite(flags.load)):
        raise InputError(f"--load {flags.load:g}: the offered load is a number above 0, such as 0.8")
    for engine in used:
        options.check(engine)
    rules = [renting_rule(name, each.values) for name, each in chosen.items() if engines[name] == "pool"]
    wanted = Study(
        flags=flags,
        options=options,
        engines=used,
        measure=parse_measure(flags.measure),
        grace=parse_grace(flags.grace) if flags.grace is not None else None,
        workload=workload,
        rule=next((rule for rule in rules if rule is not None), None),
    )
    return wanted, chosen, engines


def run(
    wanted: Study,
    policies: dict[str, AnyChosen],
    engines: dict[str, Engine],
    runs: RunFlags,
    *,
    as_json: bool,
    compared: bool,
    wide: bool = False,
) -> None:
    """Make all runs, write the files asked for and print the figures: `compared`, as one of several.

    wide: a comparison has all its figures, however narrow the terminal is.
    """
    from betimes.cli.render.tables import say_left_out
    from betimes.outcome import show, to_json

    names = list(policies)
    if runs.out is not None:
        folders.check_results(runs.out, several=len(policies) > 1 or wanted.flags.seeds is not None)
    elif runs.open_report or runs.report:
        option = "--open" if runs.open_report else "--report"
        raise InputError(
            f"{option}: the report is one of the files of --out; name a directory with --out DIR"
        )
    if runs.plots is not None:
        folders.check("--plots", runs.plots)
    display = Display()
    with display.shown(), ExitStack() as stack:
        beforehand_s = compile_closed_loop(display) if is_for_nodes(wanted.flags.file) else 0.0
        display.expect("reading", None)
        loaded = load(wanted, wanted.flags.seed)
        display.finish("reading")
        for note in notes_of(loaded.workload):
            display.note(note)
        if wanted.flags.seeds is not None and not (
            wanted.is_random() or any(map(_may_draw, policies.values()))
        ):
            display.note(
                f"every seed gives the same result: nothing is drawn at random with {wanted.flags.file}"
            )
        if wanted.options.predict:
            for note in map(_promised_by, names, policies.values()):
                if note is not None:
                    display.note(note)
        fair = wants_fair(wanted, len(loaded.workload))
        if compared and len(wanted.engines) > 1:
            display.note(_widths(engines, loaded))
        needed = dict(policies)
        if fair:
            from betimes.policies import parse_policy

            needed.setdefault(FAIR, parse_policy(FAIR))
        took = compile_kernels(needed, wanted.options.predict, display)
        stages = [
            stack.enter_context(folders.staged(path)) if path else None for path in (runs.out, runs.plots)
        ]
        outcomes = Outcomes(wanted, engines, *stages, report=runs.report or runs.open_report)
        made = [Run(FAIR, seed, "pool", fair=True) for seed in wanted.all_seeds() if fair]
        made += [Run(name, seed, engines[name]) for seed in wanted.all_seeds() for name in names]
        bars = {run: _bar(run, names) for run in made}
        for each in made:
            display.expect(bars[each], len(loaded.workload))
        processes = runs.processes
        if processes is None and not runs.ray:
            processes = cpus() if len(made) * len(loaded.workload) > MOST_JOBS_HERE else 1
        for each, result in results(
            wanted,
            loaded,
            made,
            processes,
            display.note,
            lambda run, more: display.advance(bars[run], more),
            ray=runs.ray,
        ):
            outcomes.take(each, _with_compilation(result, beforehand_s + took[each.policy]), fair=fair)
        outcomes.finish(display.note)
    if runs.open_report and runs.out is not None:
        open_in_browser(Path(runs.out) / folders.REPORT, display.note)
    display.say_notes()
    rows = outcomes.rows()
    if as_json:
        print(to_json(rows if compared else rows[0]))
    else:
        say_left_out(show(outcomes.shown(), wide=wide))


def open_in_browser(page: Path, note: Callable[[str], object]) -> None:
    """Open a page in the user's browser; if there is none, note where the page is."""
    import webbrowser

    if not webbrowser.open(page.absolute().as_uri()):
        note(f"there is no browser to open {page} in; copy it to a machine that has one")


def _widths(engines: dict[str, Engine], loaded: Loaded) -> str:
    """A note on the widths of the same jobs under the policies of the two engines."""
    pool, nodes = (", ".join(name for name in engines if engines[name] == each) for each in ("pool", "nodes"))
    options = loaded.placed["pool"][1]
    where = f"{options.units} units" if options.cluster is None else f"the units of {options.cluster.name}"
    return (
        f"{pool}: elastic, jobs are resized on {where}; {nodes}: rigid, jobs run at their full width on nodes"
    )


def _promised_by(name: str, policy: AnyChosen) -> str | None:
    """A note that promises are those of the member in force, where another may be selected; None: the policy's."""
    from betimes.policies.nodes.hooks import NodesPolicy
    from betimes.policies.nodes.portfolio import changes_member

    if not isinstance(policy.policy, NodesPolicy) or not changes_member(policy.policy, policy.values):
        return None
    return (
        f"{name}: each promise is made under the member in force when the job is submitted; a job ends at another time "
        "if another member is selected later"
    )


def _with_compilation(result: Result, seconds: float) -> Result:
    return replace(result, timing=replace(result.timing, compile_s=result.timing.compile_s + seconds))


def _may_draw(policy: AnyChosen) -> bool:
    """Whether the policy may draw lots: in a random order, and policies with victims or members get the seed."""
    draws = any(getattr(policy.policy, name, None) is not None for name in ("evict", "members"))
    return draws or policy.values.get("order") == "random"


def _bar(run: Run, names: list[str]) -> str:
    from betimes.outcome.tables import short_names

    return "max-min, to compare with" if run.fair else short_names(names)[names.index(run.policy)]


def chosen_policies(
    text: str, flags: SimulationFlags, families: Collection[str], *, several: bool
) -> tuple[dict[str, AnyChosen], dict[str, Engine], Workload | None]:
    """The policies that an option names, and the engine of each, by name; families: of the cluster's machines.

    A name that both engines have means nodes where another policy is only for nodes, where there are nodes, or where
    the jobs are rigid: they are read for that, and returned. Raises PolicyError for unknown ones, one named twice, or
    one that is for the other engine; InputError for jobs that cannot be read.
    """
    from betimes.foresight.engines import NODES, engine_for, engines_of, named_engine
    from betimes.policies import parse_nodes_policy, parse_policy, split_policies
    from betimes.policies.nodes.heterogeneous_wfq import where_alike

    engine, cluster, file = flags.engine, flags.cluster, flags.file
    for_nodes = engine == "auto" and cluster is None and is_for_nodes(file)
    because = f"{file.partition(':')[0]} makes jobs for nodes" if for_nodes else ""
    texts = split_policies(text)
    if not several and len(texts) > 1:
        raise PolicyError(
            f"--policy {text}: this names {len(texts)} policies; `betimes compare` takes several"
        )
    chosen: dict[str, AnyChosen] = {}
    engines: dict[str, Engine] = {}
    workload = None
    with redirect_stdout(sys.stderr):  # a user's file may print
        texts = [where_alike(each, families) for each in texts]
        named = [named_engine(each) for each in texts]
        homes = [(engine,) if engine else engines_of(plain) for engine, plain in named]
        prefers_nodes = cluster is not None or (NODES,) in homes
        undecided = any(len(each) > 1 for each in homes)
        if engine == "auto" and undecided and not prefers_nodes and not for_nodes:
            workload = read(file, flags.units, flags.seed, flags.form, flags.on_bad_rows)
            prefers_nodes = bool((workload.min_units == workload.max_units).all())
        for one in texts:
            found = engine_for(one, engine, because, prefers_nodes=prefers_nodes)
            policy = parse_nodes_policy(one) if found == NODES else parse_policy(one)
            name = f"{found}:{policy}" if named_engine(one)[0] else str(policy)
            for other, known in chosen.items():
                if str(known) == str(policy) and engines[other] == found:
                    raise PolicyError(f"--policies: {policy} is named 2 times; name it once")
            chosen[name], engines[name] = policy, found
    return chosen, engines, workload


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
