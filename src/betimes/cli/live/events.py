"""`betimes events`: inputs and decisions in the event log."""

from __future__ import annotations

import sys
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Annotated, NamedTuple

from betimes.cli.live.jobs.completing import complete_job
from betimes.cli.render.tables import Column
from betimes.cli.verbs import Json, Option, Output, State

if TYPE_CHECKING:
    from betimes.client.plain import PlainClient
    from betimes.service.views.models import EventView

EVENT_COLUMNS = (
    Column("Event", right=True),
    Column("At"),
    Column("Job", rank=1, right=True),
    Column("What"),
    Column("Because of", rank=2),
    Column("Details", rank=3, flexible=True),
)


NEWEST = 100
_BEFORE = 10  # past events shown before following


def events(
    follow: Annotated[
        bool, Option("--follow", "-f", help="Go on with what happens next, until Ctrl-C.")
    ] = False,
    after: Annotated[
        int | None,
        Option(
            "--after",
            metavar="N",
            min=0,
            help="Those behind event N, from the oldest on. By default the newest, or with --follow the last "
            f"{_BEFORE} and those that follow.",
            show_default=False,
        ),
    ] = None,
    job: Annotated[
        int | None,
        Option(
            "--job",
            metavar="ID",
            min=1,
            help="Those of this job, by default from its first.",
            autocompletion=complete_job,
            show_default=False,
        ),
    ] = None,
    kind: Annotated[
        list[str] | None,
        Option("--kind", metavar="NAME", help="Those of this kind; repeatable.", show_default=False),
    ] = None,
    by: Annotated[
        str | None,
        Option(
            "--by",
            metavar="USER",
            help="What this user did: the events that the user brought about.",
            show_default=False,
        ),
    ] = None,
    limit: Annotated[
        int | None,
        Option(
            "--limit",
            metavar="N",
            min=1,
            help=f"N at most. By default {NEWEST}; with --follow there is no limit.",
            show_default=False,
        ),
    ] = None,
    output: Output = None,
    state: State = None,
    as_json: Json = False,
) -> None:
    """Print the log of events: inputs and decisions, each with its cause.

    With --follow, --json prints an object a line instead of one array, so that a program can read along.
    """
    from betimes.cli.live.connection import connect
    from betimes.cli.render.as_json import print_json
    from betimes.cli.render.tables import say, show
    from betimes.cli.render.times import now

    with connect(state, waits=follow) as service:
        if follow:
            _follow(service, after, _Which(job, tuple(kind or ()), by), limit, as_json)
            return
        listed = _listed(service, after, _Which(job, tuple(kind or ()), by), limit or NEWEST)
    if as_json:
        print_json(listed)
        return
    if not kind:
        listed = [event for event in listed if worth_a_line(event)]
    if listed:
        show(EVENT_COLUMNS, [event_row(event, now()) for event in listed], wide=output is not None)
    else:
        say("No such events found.")


class _Which(NamedTuple):
    """The conditions that events must meet."""

    job: int | None = None
    kinds: tuple[str, ...] = ()
    by: str | None = None


def _listed(service: PlainClient, after: int | None, which: _Which, limit: int) -> list[EventView]:
    """The first behind `after`, or the newest; oldest first."""
    if after is not None:
        return list(islice(service.events(after, **which._asdict()), limit))
    # Ids have no gaps, so that without a filter reading can begin at the newest `limit`.
    before = _before_newest(service, limit) if which == _Which() else 0
    return list(deque(service.events(before, **which._asdict()), maxlen=limit))


def _before_newest(service: PlainClient, count: int) -> int:
    """The id before the newest events: `count` of them, or as many as are not archived in files."""
    health = service.health()
    return max(health.archived_upto, health.last_event_id - count)


def _follow(
    service: PlainClient,
    after: int | None,
    which: _Which,
    limit: int | None,
    as_json: bool,
) -> None:
    from betimes.cli.live.following import until_interrupted
    from betimes.cli.render.as_json import print_json
    from betimes.cli.render.tables import say
    from betimes.cli.render.times import now

    with until_interrupted():
        if after is None:
            after = _before_newest(service, _BEFORE) if which.job is None else 0
        for event in islice(service.events(after, follow=True, **which._asdict()), limit):
            if as_json:
                print_json(event, on_one_line=True)
            elif which.kinds or worth_a_line(event):
                say(event_line(event, now()))
                sys.stdout.flush()


def worth_a_line(event: EventView) -> bool:
    """Whether an event is shown to people: the line of an outrun belief makes that of the new promise redundant."""
    return event.kind != "quoted" or event.data.get("quote", {}).get("basis") != "doubled"


def event_row(event: EventView, at_now: float, *, with_job: bool = True) -> list[str]:
    """The cells of `EVENT_COLUMNS`."""
    from betimes.cli.render.events import details
    from betimes.cli.render.times import clock

    job = str(event.job_id) if with_job and event.job_id is not None else ""
    return [
        str(event.event_id),
        clock(event.at, at_now),
        job,
        event.kind,
        event.cause,
        details(event, at_now),
    ]


def event_line(event: EventView, at_now: float) -> str:
    """An event as one printed line."""
    number, at, job, kind, cause, details = event_row(event, at_now)
    who = f"job {job}" if job else ""
    return f"{number:>6} {at}  {who:<10} {kind:<16} {cause}  {details}".rstrip()
