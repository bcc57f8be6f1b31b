"""`betimes events`: what happened and what was decided, as it is in the log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from betimes.cli import options
from betimes.cli.completing import complete_job
from betimes.cli.connection import State
from betimes.cli.listing import Column

if TYPE_CHECKING:
    from betimes.service.views import EventView

EVENT_COLUMNS = (
    Column("Event", right=True),
    Column("At"),
    Column("Job", rank=1, right=True),
    Column("What"),
    Column("Because of", rank=2),
    Column("Details", rank=3, flexible=True),
)


def events(
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what happens next, until Ctrl-C.")
    ] = False,
    after: Annotated[
        int, typer.Option("--after", metavar="N", min=0, help="Those behind event N; 0: from the first.")
    ] = 0,
    job: Annotated[
        int | None,
        typer.Option(
            "--job",
            metavar="ID",
            min=1,
            help="Those of this job.",
            autocompletion=complete_job,
            show_default=False,
        ),
    ] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option("--kind", metavar="NAME", help="Those of this kind; repeatable.", show_default=False),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", metavar="N", min=1, help="The first N at most.", show_default=False),
    ] = None,
    state: State = None,
    as_json: options.Json = False,
) -> None:
    """Print the log of events: inputs and decisions, each with its cause.

    With --follow, --json prints an object a line instead of one array, so that a program can read along.
    """
    from itertools import islice

    from betimes.cli.as_json import print_json
    from betimes.cli.clock import now
    from betimes.cli.connection import connect
    from betimes.cli.following import until_interrupted
    from betimes.cli.listing import say, show

    wanted: dict[str, Any] = {"after": after, "job": job, "kinds": tuple(kind or ())}
    with connect(state) as service:
        found = islice(service.events(**wanted, follow=follow), limit)
        if follow:
            with until_interrupted():
                for event in found:
                    if as_json:
                        print_json(event, on_one_line=True)
                    else:
                        say(event_line(event, now()))
            return
        listed = list(found)
    if as_json:
        print_json(listed)
    elif listed:
        show(EVENT_COLUMNS, [event_row(event, now()) for event in listed])
    else:
        say("There is no such event.")


def event_row(event: EventView, at_now: float, *, with_job: bool = True) -> list[str]:
    """The cells of `EVENT_COLUMNS`."""
    from betimes.cli.clock import clock

    job = str(event.job_id) if with_job and event.job_id is not None else ""
    return [
        str(event.event_id),
        clock(event.at, at_now),
        job,
        event.kind,
        event.cause,
        _details(event),
    ]


def event_line(event: EventView, at_now: float) -> str:
    """An event on one line, as they are printed one by one."""
    from betimes.cli.listing import printable

    number, at, job, kind, cause, details = event_row(event, at_now)
    who = f"job {job}" if job else ""
    return printable(f"{number:>6} {at}  {who:<10} {kind:<16} {cause}  {details}".rstrip())


def _details(event: EventView) -> str:
    parts = [f"on {event.node}"] if event.node is not None else []
    parts += [
        f"{name}={_short(value)}" for name, value in event.data.items() if value not in (None, "", [], {})
    ]
    return " ".join(parts)


def _short(value: Any) -> str:
    import json

    if isinstance(value, float):
        return f"{value:.6g}" if abs(value) < 1e6 else f"{value:.0f}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
