"""`betimes run`: submit a command, print its output as it comes, and end as it ends."""

from __future__ import annotations

import signal
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from betimes.cli.live.following import INTERRUPTED, Left
from betimes.cli.live.jobs.job_options import Job
from betimes.cli.live.jobs.submit import Command, submit_one
from betimes.cli.verbs import Json, State
from betimes.errors import BetimesError, InputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TextIO

    from betimes.client.plain import PlainClient
    from betimes.service.views.models import JobView

BY_SIGNAL = 128  # and the signal's number is the exit code of a command that a signal has ended


def run(job: Job, command: Command = None, state: State = None, as_json: Json = False) -> None:
    """Submit a command, print its output as it comes, and exit with its exit code.

    When it is to be done is a line on standard error. Ctrl-C, or SIGTERM, cancels the job, which has its grace period
    then; a second one leaves it. A command that a signal has ended gives 128 and the signal's number. With --json the
    output goes to standard error, and the job is printed as an object once it is over.
    """
    from betimes.cli.live.connection import connect
    from betimes.cli.render.as_json import print_json
    from betimes.cli.render.times import both, now

    if job.get("array") is not None or job.get("as_one"):
        raise InputError("run: it takes one job; submit an array with `betimes submit`")
    with connect(state, waits=True) as service:
        taken = submit_one(service, "run", command, job)
        (job_id,) = taken.job_ids
        ends_at = None if taken.quote is None else taken.quote.finish_at
        done = "" if ends_at is None else f", done {both(ends_at, now())}"
        print(f"betimes: job {job_id}{done}", file=sys.stderr, flush=True)
        over, code = follow(service, job_id, state, sys.stderr if as_json else sys.stdout)
    if as_json:
        print_json(over)
    end_as(over, code)


def follow(service: PlainClient, job_id: int, state: str | None, to: TextIO) -> tuple[JobView, int | None]:
    """Copy a job's output until it is over; Ctrl-C and SIGTERM cancel it. The job, and its exit code, if it has one."""
    from betimes.cli.live.jobs.logs import copy

    with _cancelled_by_signals(state, job_id) as asked:
        copy(service.logs(job_id, follow=True), to)
        over = service.wait(job_id)
    return over, _exit_code(service, over, was_asked=asked.is_set())


def end_as(over: JobView, code: int | None) -> None:
    """Raise Left with the exit code, or BetimesError where a job has ended otherwise."""
    if code is None:
        ended = "was cancelled" if over.status == "cancelled" else "has failed"
        raise BetimesError(f"job {over.job_id} {ended}; `betimes job {over.job_id}` says why")
    if code:
        raise Left(code)


@contextmanager
def _cancelled_by_signals(state: str | None, job_id: int) -> Iterator[threading.Event]:
    """Inside, Ctrl-C and SIGTERM cancel the job; whether one came. The output is read on meanwhile."""
    from betimes.cli.live.connection import connect

    asked = threading.Event()

    def cancel() -> None:
        with connect(state) as another:
            another.cancel([job_id], where_possible=True)

    def heed(*_: object) -> None:
        if asked.is_set():
            raise Left
        asked.set()
        threading.Thread(target=cancel, daemon=True).start()

    before = {number: signal.signal(number, heed) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _exit_code(service: PlainClient, over: JobView, *, was_asked: bool) -> int | None:
    """That of the last run; null: the job has ended otherwise."""
    if was_asked:
        return INTERRUPTED
    if over.status == "finished":
        return 0
    runs = service.job(over.job_id).runs
    if not runs or over.status == "cancelled":
        return None
    return runs[-1].exit_code or (BY_SIGNAL + runs[-1].signal if runs[-1].signal else None)
