"""`betimes wait`: until jobs are over, and how they ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from betimes.cli import options
from betimes.cli.completing import complete_job
from betimes.cli.connection import State

if TYPE_CHECKING:
    from betimes.client import Client
    from betimes.service.views import JobView

Ids = Annotated[
    list[str],
    typer.Argument(
        metavar="ID...",
        help="Numbers of jobs, or ranges of them as in 41-45.",
        autocompletion=complete_job,
        show_default=False,
    ),
]


def wait(ids: Ids, state: State = None, as_json: options.Json = False) -> None:
    """Wait until all of these jobs are over; exits with 1 if one of them failed or was cancelled."""
    from betimes.cli.as_json import print_json
    from betimes.cli.connection import connect
    from betimes.cli.ids import parse_ids

    wanted = parse_ids(ids)
    with connect(state) as service:
        over = wait_for(service, wanted)
    if as_json:
        print_json(over)
    say_and_judge(over, silent=as_json)


def wait_for(service: Client, job_ids: Sequence[int]) -> list[JobView]:
    """The jobs, once all of them are over, in the order given. Raises Unknown, and what the client raises."""
    return [service.wait(job_id) for job_id in job_ids]


def say_and_judge(over: Sequence[JobView], *, silent: bool) -> None:
    """Print how each ended, unless silent; raises BetimesError if one of them did not finish well."""
    from betimes.cli.clock import now
    from betimes.cli.listing import say
    from betimes.cli.words import against_promise
    from betimes.errors import BetimesError

    if not silent:
        say(*(against_promise(job, now()) for job in over))
    wrong = [job for job in over if job.status != "finished"]
    if wrong:
        first = wrong[0]
        others = f", and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        raise BetimesError(
            f"job {first.job_id} {_ended(first)}{others}; `betimes job {first.job_id}` says more"
        )


def _ended(job: JobView) -> str:
    return "was cancelled" if job.status == "cancelled" else str(job.status.value)
