"""`betimes tune --live`: the service searches on its recent workload; this shows the progress and the front."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from betimes.errors import BetimesError, InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import typer

    from betimes.cli.render.progress import Display
    from betimes.client.plain import PlainClient
    from betimes.service.tuning.view import TuningView

_EVERY_S = 0.3
_BOTH = {
    "live",
    "state",
    "objective",
    "evaluations",
    "budget",
    "jobs",
    "seed",
    "solver",
    "sizes",
    "out",
    "output",
    "as_json",
}
"""Options of the verb that apply to the running service."""


def check_source(context: typer.Context, file: str | None, live: bool) -> None:
    """Raise InputError unless either a trace or the running service is given, and every option applies to it."""
    if file is None and not live:
        raise InputError("tune: give a trace, or --live for the jobs that the running service was given last")
    if file is not None and live:
        raise InputError(f"tune: give either {file} or --live")
    given = [
        parameter
        for parameter in context.command.params
        if (source := context.get_parameter_source(parameter.name or "")) is not None
        and source.name == "COMMANDLINE"
    ]
    for parameter in given:
        if live and parameter.name not in _BOTH:
            raise InputError(
                f"tune: {parameter.opts[0]} does not go with --live: what the service has is taken"
            )
        if not live and parameter.name == "state":
            raise InputError("tune: --service is for --live")


def tune_live(
    objectives: Sequence[str] | None,
    evaluations: int,
    budget: str | None,
    jobs: int | None,
    seed: int,
    solver: str,
    sizes: str | None,
    out: str | None,
    state: str | None,
    as_json: bool,
    wide: bool = False,
) -> None:
    """Begin a search, follow it, and print the front; Ctrl-C ends it with the front so far."""
    from betimes.cli import folders
    from betimes.cli.duration_options import parse_option
    from betimes.cli.live.connection import connect
    from betimes.cli.render.as_json import print_json
    from betimes.cli.render.fronts import write
    from betimes.cli.render.progress import Display

    if out is not None:
        folders.check("--out", out)
    given: dict[str, Any] = {
        "objectives": list(objectives) if objectives else None,
        "budget_s": parse_option("--budget", budget, 1e-6) if budget is not None else None,
        "jobs": jobs,
        "sizes": sizes,
    }
    asked = {name: value for name, value in given.items() if value is not None}
    display = Display()
    with connect(state) as service:
        begun = service.tune(evaluations=evaluations, seed=seed, solver=solver, **asked)
        if begun.search is not None and begun.search.note is not None:
            display.note(begun.search.note)
        with display.shown():
            found = _followed(service, begun, display)
    if out is not None and found.front is not None:
        with folders.staged(out) as stage:
            write(found.front, stage)
    display.say_notes()
    if as_json:
        print_json(found)
    else:
        show_front(found, wide=wide)


def show_front(found: TuningView, *, wide: bool = False) -> None:
    """Print the front as a table, the policy in force marked, and last the point that is better than that, if any."""
    from betimes.cli.render.fronts import show, verdict
    from betimes.cli.render.tables import say
    from betimes.cli.render.times import both, now

    if found.front is None:
        raise InputError("there is no front yet; `betimes tune --live` searches for one")
    show(found.front, None if found.in_force is None else found.in_force.policy, wide=wide)
    say(f"Of {both(found.at, now())}; on {found.front.workload}.")
    say("`betimes policy set front:NUMBER` puts a point in force.")
    if found.in_force is not None:
        say(verdict(found.front, found.in_force))


def _followed(service: PlainClient, found: TuningView, display: Display) -> TuningView:
    """Follow a search and return its view when it has ended."""
    from betimes.cli.live import following

    begun_at = found.search.begun_at if found.search is not None else math.nan
    while (search := found.search) is not None:
        if search.begun_at != begun_at:
            raise BetimesError(
                "another search has taken the place of this one; `betimes policy front` shows its front"
            )
        volume = "" if search.hypervolume is None else f", hypervolume {search.hypervolume:.4f}"
        display.at("search", f"{search.doing}: {search.front} on the front{volume}", search.done, search.of)
        try:
            following.pause(_EVERY_S)
            found = service.tuning()
        except KeyboardInterrupt:
            if search.stopping:
                raise
            display.note("asked to end with the front so far")
            found = service.stop_tuning()
    if found.problem is not None:
        raise InputError(f"tune: {found.problem}")
    return found
