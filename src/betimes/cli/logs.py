"""`betimes logs`: what a job has printed."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Annotated

import typer

from betimes.cli import options
from betimes.cli.connection import State
from betimes.cli.job import Id
from betimes.errors import InputError


def logs(
    ident: Id,
    follow: Annotated[
        bool,
        typer.Option("--follow", "-f", help="Go on with what it prints next, until it is over or Ctrl-C."),
    ] = False,
    attempt: Annotated[
        int | None,
        typer.Option(
            "--attempt", metavar="N", min=1, help="Its Nth run. By default the last.", show_default=False
        ),
    ] = None,
    tail: Annotated[
        int | None,
        typer.Option("--tail", metavar="N", min=0, help="The last N lines only.", show_default=False),
    ] = None,
    state: State = None,
    as_json: options.Json = False,
) -> None:
    """Print what a job has written to standard output and standard error, byte by byte.

    With --json one object: `job_id`, `attempt` (null: the last) and `log`, once all of it is known.
    """
    from betimes.cli.as_json import print_json
    from betimes.cli.connection import connect
    from betimes.cli.following import until_interrupted
    from betimes.cli.ids import parse_id

    job_id = parse_id(ident)
    if follow and as_json:
        raise InputError("--follow: with --json there is one answer, at the end; leave one of them out")
    with connect(state) as service:
        pieces = service.logs(job_id, attempt=attempt, follow=follow, tail=tail)
        if as_json:
            log = b"".join(map(_bytes, pieces)).decode("utf-8", "replace")
            print_json({"job_id": job_id, "attempt": attempt, "log": log})
        elif follow:
            with until_interrupted():
                _copy(pieces)
        else:
            _copy(pieces)


def _copy(pieces: Iterable[bytes | str]) -> None:
    """Write as the pieces come, unchanged: a log need not be text."""
    for piece in pieces:
        sys.stdout.buffer.write(_bytes(piece))
        sys.stdout.buffer.flush()


def _bytes(piece: bytes | str) -> bytes:
    return piece if isinstance(piece, bytes) else piece.encode()
