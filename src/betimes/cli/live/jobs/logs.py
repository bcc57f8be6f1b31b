"""`betimes logs`: the output of a job."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated, Any, TextIO

from betimes.cli.live.jobs.ids import Ids
from betimes.cli.verbs import Json, Option, State
from betimes.errors import InputError
from betimes.printing import report

if TYPE_CHECKING:
    from betimes.client.plain import PlainClient


def logs(
    ids: Ids,
    follow: Annotated[
        bool,
        Option("--follow", "-f", help="Go on with what it prints next, until it is over or Ctrl-C."),
    ] = False,
    attempt: Annotated[
        int | None,
        Option("--attempt", metavar="N", min=1, help="Its Nth run. By default the last.", show_default=False),
    ] = None,
    tail: Annotated[
        int | None,
        Option("--tail", metavar="N", min=0, help="The last N lines only.", show_default=False),
    ] = None,
    rank: Annotated[
        int | None,
        Option(
            "--rank",
            metavar="N",
            min=0,
            help="Of a run on several nodes of a cluster, the Nth of them. By default 0.",
            show_default=False,
        ),
    ] = None,
    state: State = None,
    as_json: Json = False,
) -> None:
    """Print what a job has written to standard output and standard error, byte by byte.

    How much of it is not kept, as newer output took its place, is reported on standard error. With --json one object,
    or an array where several jobs are named: `job_id`, `attempt` (null: the last), `log`, once all of it is known, and
    `log_lost_bytes`.
    """
    from betimes.cli.live.connection import connect
    from betimes.cli.live.following import until_interrupted
    from betimes.cli.live.jobs.ids import resolve
    from betimes.cli.render.as_json import print_json

    if follow and as_json:
        raise InputError("--follow: with --json there is one answer, at the end; leave one of them out")
    with connect(state, waits=follow) as service:
        wanted = resolve(service, ids)
        if follow and len(wanted) > 1:
            raise InputError(f"--follow: {len(wanted)} jobs are named; name the one that is to be followed")
        if as_json:
            found = [_as_json(service, job_id, attempt, tail, rank) for job_id in wanted]
            print_json(found if len(found) > 1 else found[0])
            return
        for job_id in wanted:
            if len(wanted) > 1:
                copy([b"==> job %d <==\n" % job_id])
            with until_interrupted() if follow else nullcontext():
                copy(service.logs(job_id, attempt=attempt, follow=follow, tail=tail, rank=rank))
            if tail is None and (lost_bytes := _lost_bytes(service, job_id, attempt)):
                note = f"{lost_bytes:,} bytes of its output are not kept; `betimes job {job_id}` shows why"
                report("betimes: note", note)


def _as_json(
    service: PlainClient, job_id: int, attempt: int | None, tail: int | None, rank: int | None
) -> dict[str, Any]:
    pieces = service.logs(job_id, attempt=attempt, tail=tail, rank=rank)
    log = b"".join(map(_bytes, pieces)).decode("utf-8", "replace")
    lost_bytes = _lost_bytes(service, job_id, attempt)
    return {"job_id": job_id, "attempt": attempt, "log": log, "log_lost_bytes": lost_bytes}


def _lost_bytes(service: PlainClient, job_id: int, attempt: int | None) -> int:
    """The number of bytes of a run's output that were not kept."""
    runs = service.job(job_id).runs
    found = [run for run in runs if run.number == attempt] if attempt is not None else runs[-1:]
    return sum(run.log_lost_bytes or 0 for run in found)


def copy(pieces: Iterable[bytes | str], to: TextIO | None = None) -> None:
    """Write pieces as they come, unchanged, by default to standard output: a log need not be text."""
    out = (to or sys.stdout).buffer
    for piece in pieces:
        out.write(_bytes(piece))
        out.flush()


def _bytes(piece: bytes | str) -> bytes:
    return piece if isinstance(piece, bytes) else piece.encode()
