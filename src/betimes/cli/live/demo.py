"""`betimes demo`: a service of its own, three real jobs, what they were promised and what came of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from betimes.cli.live.jobs.completing import complete_policy
from betimes.cli.verbs import Json
from betimes.errors import InputError


def demo(
    once: Annotated[bool, typer.Option("--once", help="Stop after the summary, and leave nothing.")] = False,
    trace: Annotated[
        str | None,
        typer.Option(
            "--trace",
            metavar="FILE",
            help="Replay this trace instead of running real jobs; a generator or sample will do.",
            show_default=False,
        ),
    ] = None,
    units: Annotated[
        int | None,
        typer.Option("--units", metavar="N", help="The pool of the replay.", min=1, show_default=False),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs", metavar="N", help="Keep the first N jobs of the trace.", min=1, show_default=False
        ),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(
            "--policy",
            metavar="NAME[:k=v,...]",
            help="Who starts when; by default fifo.",
            autocompletion=complete_policy,
            show_default=False,
        ),
    ] = None,
    speed: Annotated[
        str,
        typer.Option("--speed", metavar="X", help="Seconds of the trace a second; max: as fast as it goes."),
    ] = "3600",
    promises: Annotated[
        int | None,
        typer.Option(
            "--promises",
            metavar="N",
            help="Promise an end to N jobs of the trace, evenly spread; by default to all. Each takes a play-out.",
            min=0,
            show_default=False,
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show what Betimes does: start a service with a fresh state, give it three small jobs, and follow them.

    At the end what was promised stands beside what happened, and the service runs on until Ctrl-C. With --json the
    jobs are printed when they are over, and the service is stopped.
    """
    import tempfile

    from betimes.cli.live.demonstration.child import running_service
    from betimes.cli.live.demonstration.live import Demonstration
    from betimes.cli.live.demonstration.replay import replay

    if trace is None and any(number is not None for number in (units, jobs, promises)):
        raise InputError("--units, --jobs and --promises are for a replay; give --trace FILE as well")
    state = Path(tempfile.mkdtemp(prefix="betimes-demo-"))
    once = once or as_json
    chosen = [] if policy is None else ["--policy", policy]
    if trace is not None:
        words = ["--replay", trace, "--speed", speed, *chosen]
        words += [] if units is None else ["--units", str(units)]
        words += [] if jobs is None else ["--jobs", str(jobs)]
        words += [] if promises is None else ["--promises", str(promises)]
        with running_service(state, words, keep=not once) as service:
            replay(service, once=once, as_json=as_json)
        return
    with running_service(state, ["--usual", "10s", *chosen], keep=not once) as service:
        Demonstration(service, once=once, as_json=as_json).show()
