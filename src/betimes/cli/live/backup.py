"""`betimes service backup` and `betimes service restore`: a service's log in one file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from betimes.cli.verbs import Argument, Json, Option
from betimes.errors import InputError
from betimes.printing import report

StateHere = Annotated[
    str | None,
    Option(
        "--service",
        metavar="DIR",
        help="The state directory (default: $BETIMES_STATE, then ~/.local/state/betimes).",
        show_default=False,
    ),
]
Database = Annotated[
    str | None,
    Option(
        "--database",
        metavar="URL",
        help="The database, if `betimes up` was given one and config.toml does not name it.",
        show_default=False,
    ),
]


def backup(
    file: Annotated[
        str,
        Argument(metavar="FILE", help="The file to write; an older one is replaced.", show_default=False),
    ],
    state: StateHere = None,
    database: Database = None,
    as_json: Json = False,
) -> None:
    """Write the service's log, and what its jobs need to start, to one file; the service goes on meanwhile.

    In it are the database as of one instant, archived events, the uploads of unfinished jobs, and config.toml. Tokens
    are in it as hashes; output, checkpoints and the operator's token are not. A database on PostgreSQL is backed up by
    pg_dump.
    """
    from betimes.cli.render.as_json import print_json
    from betimes.cli.render.tables import say
    from betimes.service.store.backup import back_up
    from betimes.units import file_size

    folder, path = _places(
        state,
        database,
        "pg_dump --format=custom --file=FILE URL backs it up (docs: run the service, Backup)",
    )
    target = Path(file).expanduser()
    made = back_up(path, folder, target)
    for upload in made.missing:
        report("betimes: note", f"{upload} is missing, which a job that is not over needs")
    if as_json:
        print_json(
            {
                "file": str(target.absolute()),
                "bytes": made.bytes,
                "last_event": made.content.last_event,
                "jobs": made.content.jobs,
            }
        )
        return
    say(
        f"{target}: {made.content.jobs} jobs, up to event {made.content.last_event}, {file_size(made.bytes)}."
    )


def restore(
    file: Annotated[
        str, Argument(metavar="FILE", help="A file that `betimes service backup` wrote.", show_default=False)
    ],
    state: StateHere = None,
    database: Database = None,
    force: Annotated[
        bool,
        Option(
            "--force",
            help="Restore also where a log is, which is kept in a folder beside; runs and checkpoints stay.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Put the log of a backup into a state directory in which no service runs.

    All of it is put there, or nothing. Start the service as the output shows: where the backup was made, runs that go
    on are found again; elsewhere unfinished jobs are held until they are released, since the first service may go on.
    """
    from betimes.cli.render.as_json import print_json
    from betimes.cli.render.tables import say
    from betimes.service.store.backup import restore as put_back

    folder, path = _places(
        state,
        database,
        "pg_restore --clean --if-exists --dbname=URL FILE restores it (docs: run the service, Backup)",
    )
    done = put_back(Path(file).expanduser(), path, folder, force=force)
    start = (
        "betimes up --as-copy"
        if done.is_elsewhere
        else "betimes up --accept-loss"
        if done.aside
        else "betimes up"
    )
    if as_json:
        print_json(
            {
                "state": str(folder),
                "last_event": done.content.last_event,
                "jobs": done.content.jobs,
                "aside": None if done.aside is None else str(done.aside),
                "start": start,
            }
        )
        return
    say(f"{folder}: {done.content.jobs} jobs, up to event {done.content.last_event}.")
    if done.aside is not None:
        say(f"The log that was there is kept in {done.aside}; remove it when all is well.")
    if done.is_elsewhere:
        say(
            f"It was backed up in {done.content.home.directory} on {done.content.home.host}. Start it with `{start}`: "
            "unfinished jobs are held; once the first service is gone for good, let them start (betimes release --all)."
        )
    else:
        say(f"Start it with `{start}`.")


def _places(state: str | None, database: str | None, how: str) -> tuple[Path, Path]:
    """The state directory and its SQLite database. Raises InputError for one on a server; `how`: what to do then."""
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    from betimes.service.access.address import default_state
    from betimes.service.startup.config import read_settings

    folder = default_state() if state is None else Path(state).expanduser().absolute()
    given = read_settings({"state": str(folder), "database": database}).get("database")
    if given is None:
        return folder, folder / "betimes.db"
    try:
        url = make_url(given.value)
    except ArgumentError:
        raise InputError(f"{given.where}: {given.value!r} is not the address of a database") from None
    if url.get_backend_name() != "sqlite" or not url.database:
        raise InputError(f"{given.where}: the database is on a server: {how}")
    return folder, Path(url.database).absolute()
