"""`betimes run` and `betimes attach`: print the output of a job as it comes, and end as it ends."""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Annotated

from betimes.cli.live.following import INTERRUPTED, Left
from betimes.cli.live.jobs.ids import Ids
from betimes.cli.live.jobs.job_options import Job
from betimes.cli.live.jobs.submit import Command, submit_one
from betimes.cli.verbs import Json, Option, State
from betimes.errors import BetimesError, InputError
from betimes.printing import report

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from typing import Any

    from betimes.client.plain import PlainClient
    from betimes.service.views.models import JobView

BY_SIGNAL = 128  # and the signal's number is the exit code of a command that a signal has ended


Pty = Annotated[
    bool,
    Option("--pty", help="With this terminal, for a shell or an editor; where jobs run on this machine."),
]


def run(
    job: Job, command: Command = None, pty: Pty = False, state: State = None, as_json: Json = False
) -> None:
    """Submit a command, print its output as it comes, and exit with its exit code.

    When it is to be done is a line on standard error. Ctrl-C, or SIGTERM, cancels the job, which has its grace period
    then; a second one leaves it. A command that a signal has ended gives 128 and the signal's number. With --json the
    output goes to standard error, and the job is printed as an object once it is over.

    With --pty keys are passed on as they are typed, Ctrl-C too, and the job ends with this terminal.
    """
    from betimes.cli.live.connection import connect
    from betimes.cli.live.jobs.logs import copy
    from betimes.cli.render.as_json import print_json
    from betimes.cli.render.times import both, now

    if job.get("array") is not None or job.get("as_one"):
        raise InputError("run: it takes one job; submit an array with `betimes submit`")
    with connect(state, waits=True) as service, ExitStack() as left:
        at = left.enter_context(terminal_for(service, job, as_json=as_json)) if pty else None
        if at is not None and command:
            from betimes.service.spec.environments import with_terminal

            job = {**job, "name": job.get("name") or command[0].rsplit("/", 1)[-1], "requeue": False}
            job["env"] = [*(job.get("env") or ()), *(["TERM"] if "TERM" in os.environ else ())]
            command = with_terminal(command, at.getsockname())
        taken = submit_one(service, "run", command, job, reads_input=not pty)
        (job_id,) = taken.job_ids
        ends_at = None if taken.quote is None else taken.quote.finish_at
        done = "" if ends_at is None else f", done {both(ends_at, now())}"
        report("betimes", f"job {job_id}{done}")

        def show() -> None:
            if at is None:
                copy(service.logs(job_id, follow=True), sys.stderr if as_json else sys.stdout)
            else:
                show_terminal(service, job_id, at)

        over, code = follow(service, job_id, state, show)
    if as_json:
        print_json(over)
    end_as(over, code)


def follow(
    service: PlainClient,
    job_id: int,
    state: str | None,
    show: Callable[[], None],
    confirm: Callable[[], bool] = lambda: True,
) -> tuple[JobView, int | None]:
    """Show a job's output, and wait until it is over. The job, and its exit code, if it has one.

    Ctrl-C and SIGTERM cancel it where that is confirmed.
    """
    with _cancelled_by_signals(state, job_id, confirm) as asked:
        show()
        over = service.wait(job_id)
    return over, _exit_code(service, over, was_asked=asked.is_set())


def terminal_for(
    service: PlainClient, job: dict[str, Any], *, as_json: bool
) -> AbstractContextManager[socket.socket]:
    """The place at which a job finds its terminal. Raises InputError where that cannot be."""
    from betimes.cli.live.jobs.terminal import listening

    if as_json or job.get("image") is not None:
        raise InputError(
            f"--pty: it does not go with {'--json' if as_json else '--image'}; leave one of them out"
        )
    away = next((node.name for node in service.nodes() if node.kind != "local"), None)
    if away is not None:
        raise InputError(f"--pty: it is for jobs on this machine, and node {away} is none; leave it out")
    return listening()


def show_terminal(service: PlainClient, job_id: int, at: socket.socket) -> None:
    """Be the terminal of a job; of one that has ended without it, print the output."""
    from betimes.cli.live.jobs.logs import copy
    from betimes.cli.live.jobs.terminal import connect_terminal

    had_one = connect_terminal(at, lambda: service.job(job_id).job.finished_at is not None)
    if not had_one and service.job(job_id).runs:
        copy(service.logs(job_id), sys.stderr)


def attach(ids: Ids, state: State = None) -> None:
    """Print what a job prints from now on, and exit with its exit code.

    Ctrl-C in a terminal asks whether to cancel the job; without that it goes on, and so it does without a terminal.
    """
    from betimes.cli.live.connection import connect
    from betimes.cli.live.jobs.ids import resolve
    from betimes.cli.live.jobs.logs import copy

    with connect(state, waits=True) as service:
        wanted = resolve(service, ids)
        if len(wanted) > 1:
            raise InputError(f"attach: {len(wanted)} jobs are named; name one")
        (job_id,) = wanted
        job = service.job(job_id).job
        if job.finished_at is not None:
            raise InputError(f"job {job_id} is over; `betimes logs {job_id}` prints its output")
        if job.started_at is None:
            report("betimes", f"job {job_id} has not started yet")
        tail = None if job.started_at is None else 0
        over, code = follow(
            service,
            job_id,
            state,
            lambda: copy(service.logs(job_id, follow=True, tail=tail)),
            lambda: _is_to_end(job_id),
        )
    end_as(over, code)


def _is_to_end(job_id: int) -> bool:
    """Ask in a terminal whether a job is to be cancelled."""
    if not sys.stdin.isatty():
        return False
    print(
        f"\nbetimes: cancel job {job_id}? y; or Enter: leave, and it goes on ",
        end="",
        file=sys.stderr,
        flush=True,
    )
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def end_as(over: JobView, code: int | None) -> None:
    """Raise Left with the exit code, or BetimesError where a job has ended otherwise."""
    if code is None:
        ended = "was cancelled" if over.status == "cancelled" else "has failed"
        raise BetimesError(f"job {over.job_id} {ended}; `betimes job {over.job_id}` shows why")
    if code:
        raise Left(code)


@contextmanager
def _cancelled_by_signals(
    state: str | None, job_id: int, confirm: Callable[[], bool]
) -> Iterator[threading.Event]:
    """Inside, Ctrl-C and SIGTERM cancel the job if that is confirmed; whether one did. The output is read on meanwhile.

    Raises Left for one that is not confirmed, and for another one.
    """
    from betimes.cli.live.connection import connect

    asked = threading.Event()

    def cancel() -> None:
        with connect(state) as another:
            another.cancel([job_id], where_possible=True)

    def heed(*_: object) -> None:
        if asked.is_set() or not confirm():
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
