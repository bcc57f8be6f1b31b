"""`betimes advise`: past jobs again under the policies that fit, and the few worth having."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from betimes.cli import options
from betimes.cli.live.jobs.completing import complete_policy
from betimes.cli.simulate.flags import SimulationFlags, spread_flags
from betimes.cli.verbs import Json, Output, State

if TYPE_CHECKING:
    from betimes.cli.render.progress import Display
    from betimes.foresight.advice import Advice
    from betimes.twin.options import SimulationOptions
    from betimes.workload import Workload

EVERY_S = 0.5
MOST_JOBS_HERE = 500
"""Up to this many jobs, starting other processes takes longer than they save."""

File = Annotated[
    str | None,
    typer.Argument(
        metavar="FILE",
        help="A trace, as of `betimes simulate`; without it the running service's own last jobs.",
        show_default=False,
    ),
]
Last = Annotated[str, typer.Option("--last", metavar="TIME", help="The jobs of so long at the end: 24h, 7d.")]
Budget = Annotated[
    str,
    typer.Option(
        "--budget",
        metavar="TIME",
        help="Simulate for so long. The policies share the time; one that takes longer than its part is left out, and "
        "named.",
    ),
]
InForce = Annotated[
    str | None,
    typer.Option(
        "--policy",
        metavar="NAME[:k=v,...]",
        help="The policy that decides now, with which others are compared. By default easy, as most clusters have it; "
        "fifo where jobs change their widths.",
        autocompletion=complete_policy,
        show_default=False,
    ),
]


@dataclass(frozen=True, kw_only=True)
class TraceFlags:
    """The flags of a simulation that advice has, too."""

    file: File = None
    units: options.Units = None
    cluster: options.Cluster = None
    curves: options.Curves = None
    trial: options.Trial = None
    restart_s: options.RestartS = 0.0
    sizes: options.Sizes = None
    users: options.Users = None
    seed: options.Seed = 0
    form: options.Format = "auto"
    on_bad_rows: options.OnBadRows = "fail"


_OF_SERVICE = {"state", "last", "budget", "output", "as_json"}
"""Options that apply to the running service."""


@spread_flags
def advise(
    context: typer.Context,
    *,
    trace: TraceFlags,
    policy: InForce = None,
    last: Last = "7d",
    budget: Budget = "2m",
    processes: options.Processes = None,
    state: State = None,
    output: Output = None,
    as_json: Json = False,
) -> None:
    """Say which policies are worth having: run the last days again under those that fit the machines.

    The jobs are those of the running service, which works it out beside its work, or of a trace.
    One table shows waits, slowdown, promises, fairness and cost of each beside the policy in force; below it stand the
    few that are worth having, what each brings and gives up, and what to type.
    """
    from betimes.cli.duration_options import parse_option
    from betimes.cli.render.progress import Display

    _check_source(context, trace.file)
    period_s, budget_s = parse_option("--last", last, 60.0), parse_option("--budget", budget, 1.0)
    if trace.file is None:
        found = _asked_of_service(state, period_s, budget_s)
        show(found, wide=output is not None, as_json=as_json, live=True)
        return
    from betimes.foresight.advice import Period, candidates
    from betimes.foresight.advice import advise as advised
    from betimes.processes import cpus

    display = Display()
    with display.shown():
        workload, simulated = _read(trace, display)
        period = Period.last(workload, period_s)
        in_force = policy or _usual(period.workload)
        size = processes or (cpus() if len(period.workload) > MOST_JOBS_HERE else 1)
        found = advised(
            period,
            simulated,
            in_force,
            candidates(period.workload, simulated.cluster),
            budget_s=budget_s,
            processes=size,
            progress=lambda done, of: display.at("advise", f"{done} of {of} policies", done, of),
        )
        display.finish("advise")
    display.say_notes()
    show(found, wide=output is not None, as_json=as_json, cluster=trace.cluster)


def _check_source(context: typer.Context, file: str | None) -> None:
    """Raise InputError for an option that does not apply to the source of the jobs."""
    from betimes.errors import InputError

    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if source is None or source.name != "COMMANDLINE" or parameter.name == "file":
            continue
        if file is None and parameter.name not in _OF_SERVICE:
            raise InputError(
                f"advise: {parameter.opts[0]} is about a trace; name it, or leave this out: the running service's own "
                "machines and policy are taken"
            )
        if file is not None and parameter.name == "state":
            raise InputError(
                f"advise: {parameter.opts[0]} is about a running service; leave it out, or {file}"
            )


def _asked_of_service(state: str | None, period_s: float, budget_s: float) -> Advice:
    """The service's advice, with its progress on the way. Raises InputError where it has none."""
    from betimes.cli.live import following
    from betimes.cli.live.connection import connect
    from betimes.cli.render.progress import Display
    from betimes.errors import InputError

    display = Display()
    with connect(state) as service, display.shown():
        found = service.advise(last_s=period_s, budget_s=budget_s)
        while (going := found.going) is not None:
            display.at("advise", f"{going.done} of {going.of} policies", going.done, max(1, going.of))
            following.pause(EVERY_S)
            found = service.advice()
        display.finish("advise")
    if found.problem is not None or found.advice is None:
        raise InputError(
            f"advise: {found.problem or 'the service was started again meanwhile; ask once more'}"
        )
    return found.advice


def show(found: Advice, *, wide: bool, as_json: bool, cluster: str | None = None, live: bool = False) -> None:
    """Print advice; cluster: the file to start a service with; live: a service runs."""
    from betimes.cli.render.tables import Column, say
    from betimes.cli.render.tables import show as show_table
    from betimes.foresight.advice.shown import (
        cells,
        command,
        explained,
        short,
        text_of,
        titles,
        traded,
        verdict,
    )
    from betimes.outcome import to_json

    if as_json:
        commands = {each.policy: command(each.policy, live=live, cluster=cluster) for each in found.worth}
        print(to_json({**found.model_dump(mode="json"), "commands": commands}))
        return
    if found.rows:
        before = f" The {found.warm_up:,} before them only fill the machines." if found.warm_up else ""
        say(f"{found.workload}: {found.jobs:,} jobs in {text_of('s', found.span_s)}.{before}", "")
        headings = [title.replace(", ", "\n") for title in titles(found).values()]
        columns = (Column("Policy"), *(Column(each, rank=at, right=True) for at, each in enumerate(headings)))
        show_table(columns, cells(found), wide=wide, sections={0} if len(found.rows) > 1 else ())
        for row in found.rows:
            if short(row.policy) != row.policy:
                say(f"{short(row.policy)} = {row.policy}")
        say("", *explained(found))
    say("", verdict(found))
    for each in found.worth:
        better, worse = traded(found, each)
        say("", f"{each.policy}: {', '.join(each.purposes)}", f"  Better: {better}.")
        say(f"  Worse: {worse}." if worse else "  Nothing gets worse.")
        say(f"  {command(each.policy, live=live, cluster=cluster)}")
    if found.left_out:
        say("", "Left out:")
        for group in found.left_out:
            say(f"  {', '.join(group.policies)}: {group.why}.")


def _read(trace: TraceFlags, display: Display) -> tuple[Workload, SimulationOptions]:
    """The jobs of a trace and the options of their simulation. Raises InputError."""
    from dataclasses import replace

    from betimes.cli.simulate.sources import GENERATED_UNITS, is_generated, read
    from betimes.cli.simulate.study import notes_of
    from betimes.errors import InputError
    from betimes.twin.noted_cluster import noted_cluster
    from betimes.workload import mark_trials
    from betimes.workload.speedup import bind

    file = trace.file or ""
    options = SimulationFlags(**{**vars(trace), "file": file}).options(timeline=False)
    display.expect("reading", None)
    workload = read(file, trace.units, trace.seed, trace.form, trace.on_bad_rows, options.cluster)
    display.finish("reading")
    for note in notes_of(workload):
        display.note(note)
    if not len(workload):
        raise InputError(f"{file}: there is no job to simulate")
    if trace.trial is not None:
        table, _ = bind(workload.curve_names, int(workload.max_units.max()), options.curves)
        speed = table.at(workload.curve, workload.max_units)
        workload = mark_trials(workload, trace.trial, trace.seed, speedup_at_max=speed)
    if options.cluster is None and options.units is None:
        if (noted := noted_cluster(workload)) is not None:
            options = replace(options, cluster=noted)
        elif workload.machine_units is None and is_generated(file):
            options = replace(options, units=GENERATED_UNITS)
        else:
            options = replace(options, units=options.pool_units(workload))
    return workload, options


def _usual(workload: Workload) -> str:
    """The policy that most such machines have."""
    return "pool:fifo" if bool((workload.min_units < workload.max_units).any()) else "easy"
