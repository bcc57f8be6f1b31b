"""`betimes maintenance`: windows in which no job starts on some machines, or runs into them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from betimes.cli.render.tables import Column
from betimes.cli.verbs import Argument, Json, Option, Output, State
from betimes.errors import InputError, Refused

if TYPE_CHECKING:
    from betimes.service.views.models import MaintenanceView

_COLUMNS = (
    Column("Nr", right=True),
    Column("From"),
    Column("To"),
    Column("Nodes", flexible=True),
    Column("Reason", flexible=True),
    Column("By", rank=2),
    Column("Jobs that may be hit", rank=1, flexible=True),
)
_TIME = "+2h, 18:00, tomorrow 9:00 or 2026-11-27T16:00, in local time"


def list_windows(output: Output = None, state: State = None, as_json: Json = False) -> None:
    """List the maintenance that is announced or goes on, and the jobs that run there and may not be over by then."""
    from betimes.cli.live.connection import connect
    from betimes.cli.render.as_json import print_json

    with connect(state) as service:
        found = service.maintenance()
    if as_json:
        print_json(found)
    else:
        _print(found, wide=output is not None)


def add(
    from_text: Annotated[
        str, Option("--from", metavar="TIME", help=f"When it begins: {_TIME}.", show_default=False)
    ] = "",
    to_text: Annotated[
        str,
        Option(
            "--to",
            metavar="TIME",
            help="When it ends; 20:00 is the next one after --from, and +2h is two hours after it.",
            show_default=False,
        ),
    ] = "",
    nodes: Annotated[
        str | None,
        Option(
            "--nodes",
            metavar="A,B",
            help="Names of nodes; by default all that are not rented.",
            show_default=False,
        ),
    ] = None,
    reason: Annotated[
        str, Option("--reason", metavar="TEXT", help="Shown to those who wait.", show_default=False)
    ] = "",
    users: Annotated[
        str | None,
        Option(
            "--for",
            metavar="A,B",
            help="Users for whom the nodes are reserved: their jobs start there nevertheless.",
            show_default=False,
        ),
    ] = None,
    stop: Annotated[
        bool,
        Option(
            "--stop",
            help="Stop jobs that still run there, in time for their grace periods; they are requeued.",
        ),
    ] = False,
    state: State = None,
    as_json: Json = False,
) -> None:
    """Announce maintenance: from now on only jobs start there that are over by then; those that run go on."""
    from betimes.cli.live.connection import connect
    from betimes.cli.render.as_json import print_json
    from betimes.cli.render.tables import say
    from betimes.cli.render.times import now, sentence

    if not from_text or not to_text:
        raise InputError(f"{'--to' if from_text else '--from'}: missing; write a time such as {_TIME}")
    from_at, to_at = window_of("--from", from_text, "--to", to_text)
    names = names_of("--nodes", nodes) if nodes is not None else []
    guests = names_of("--for", users) if users is not None else []
    with connect(state) as service:
        try:
            made = service.add_maintenance(
                from_at, to_at, nodes=names, reason=reason, stop=stop, users=guests
            )
        except Refused as refused:
            option = {"from_at": "--from", "to_at": "--to", "users": "--for"}.get(refused.field or "")
            if option is None:
                raise
            text = sentence(str(refused).removeprefix(f"{refused.field}: "), now())
            raise InputError(f"{option}: {text}") from None
    if as_json:
        print_json(made)
        return
    whose = f"but for those of {', '.join(made.users)} " if made.users else ""
    say(f"{_called(made)} is announced: {whose}only jobs that are over by then start there.")
    if made.running:
        jobs, is_one = ", ".join(map(str, made.running)), len(made.running) == 1
        then = f"go{'es' if is_one else ''} on then; `betimes requeue` or `betimes cancel` ends a run"
        if stop:
            then = f"{'is' if is_one else 'are'} stopped then, and requeued"
        say(f"Job{'' if is_one else 's'} {jobs} may still run there when it begins, and {then}.")


def remove(
    numbers: Annotated[
        list[int],
        Argument(metavar="NR...", help="As `betimes maintenance list` shows them.", show_default=False),
    ],
    state: State = None,
    as_json: Json = False,
) -> None:
    """Call maintenance off, or end it early: jobs start there again."""
    from betimes.cli.live.connection import connect
    from betimes.cli.render.as_json import print_json
    from betimes.cli.render.tables import say

    with connect(state) as service:
        gone = [service.remove_maintenance(number) for number in numbers]
    if as_json:
        print_json(gone)
        return
    for window in gone:
        say(f"{_called(window)} is removed.")


def window_of(begin: str, from_text: str, end: str, to_text: str) -> tuple[float, float]:
    """The instants of a window; a time of day at its end is the next one after its begin. Raises InputError."""
    from_at = _instant(begin, from_text)
    return from_at, _instant(end, to_text, None if to_text.strip().lower().startswith("now") else from_at)


def names_of(option: str, text: str) -> list[str]:
    """The names in A,B. Raises InputError where there is none."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise InputError(f"{option} {text!r}: give names such as A,B, or leave {option} out")
    return names


def _instant(option: str, text: str, after_at: float | None = None) -> float:
    """The first instant of that name after another, by default now."""
    from betimes.service.spec.spelling import parse_begin

    try:
        return parse_begin(text, after_at)
    except (ValueError, OverflowError, OSError) as error:
        raise InputError(f"{option}: {error}") from None


def _called(window: MaintenanceView) -> str:
    from betimes.cli.render.times import now, to_the_minute

    when = f"from {to_the_minute(window.from_at, now())} to {to_the_minute(window.to_at, now())}"
    return f"Maintenance {window.number} of {', '.join(window.nodes) or 'all nodes'} {when}"


def _print(found: Sequence[MaintenanceView], *, wide: bool) -> None:
    from betimes.cli.render.tables import say, show
    from betimes.cli.render.times import now, to_the_minute

    if not found:
        say("No maintenance is announced; `betimes maintenance add` announces some.")
        return
    columns = _COLUMNS
    rows = [
        [
            str(each.number),
            to_the_minute(each.from_at, now()),
            to_the_minute(each.to_at, now()),
            ", ".join(each.nodes) or "all",
            each.reason,
            each.user,
            ", ".join(map(str, each.running)),
        ]
        for each in found
    ]
    if any(each.users for each in found):
        columns = (*columns[:4], Column("For", flexible=True), *columns[4:])
        for row, each in zip(rows, found, strict=True):
            row.insert(4, ", ".join(each.users))
    show(columns, rows, wide=wide)
