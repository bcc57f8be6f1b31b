"""`betimes wait`: wait until jobs are over, and report their ends."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from betimes.cli.live.jobs.ids import Ids
from betimes.cli.verbs import Json, Option, State
from betimes.errors import BetimesError, NotReachable

if TYPE_CHECKING:
    from betimes.client.plain import PlainClient
    from betimes.service.views.models import JobView


class TimedOut(BetimesError):
    """The time limit is up, and the jobs are not known to be over."""

    exit_code = 3


class Unreachable(BetimesError):
    """No service answers, so that the jobs' status is unknown."""

    exit_code = 4


def wait(
    ids: Ids,
    timeout: Annotated[
        str | None,
        Option(
            "--timeout",
            metavar="TIME",
            help="Give up after that long, as in 10m; exits with 3.",
            show_default=False,
        ),
    ] = None,
    state: State = None,
    as_json: Json = False,
) -> None:
    """Wait until all of these jobs are over, also while the service is away.

    Exits with 1 if one of them failed or was cancelled, 3 if the time of --timeout is up, and 4 if no service answers
    to begin with.
    """
    from betimes.cli.duration_options import parse_option
    from betimes.cli.live.connection import connect
    from betimes.cli.live.jobs.ids import resolve
    from betimes.cli.render.as_json import print_json

    most_s = parse_option("--timeout", timeout) if timeout is not None else None
    with connect(state, waits=True) as service:
        try:
            wanted = resolve(service, ids)
        except NotReachable as error:
            raise Unreachable(str(error)) from None
        over = wait_for(service, wanted, most_s)
    if as_json:
        print_json(over)
    say_and_judge(over, silent=as_json)


def wait_for(service: PlainClient, job_ids: Sequence[int], most_s: float | None = None) -> list[JobView]:
    """The jobs, once all of them are over, in the order given. Raises BetimesError after `most_s` seconds."""
    deadline = None if most_s is None else time.monotonic() + most_s
    over: list[JobView] = []
    for job_id in job_ids:
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        try:
            over.append(service.wait(job_id, left))
        except TimeoutError:
            raise TimedOut(
                f"--timeout: job {job_id} is not over yet; `betimes job {job_id}` shows more"
            ) from None
        except NotReachable as error:
            if deadline is not None and time.monotonic() >= deadline:
                raise TimedOut(f"--timeout: whether job {job_id} is over is not known: {error}") from None
            raise Unreachable(str(error)) from None
    return over


def say_and_judge(over: Sequence[JobView], *, silent: bool) -> None:
    """Print the end of each job, unless silent; raises BetimesError if one of them did not finish well."""
    from betimes.cli.render.jobs import against_promise
    from betimes.cli.render.tables import say
    from betimes.cli.render.times import now
    from betimes.service.spec.spelling import job_number

    if not silent:
        say(*(against_promise(job, now()) for job in over))
    wrong = [job for job in over if job.status != "finished"]
    if wrong:
        first = wrong[0]
        others = f", and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        which = job_number(first.job_id)
        raise BetimesError(f"job {which} {_ended(first)}{others}; `betimes job {which}` shows more")


def _ended(job: JobView) -> str:
    return "was cancelled" if job.status == "cancelled" else str(job.status)
