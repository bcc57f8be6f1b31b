"""`betimes cancel`, `hold` and `release`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from betimes.cli import options
from betimes.cli.connection import State
from betimes.cli.waiting import Ids

if TYPE_CHECKING:
    from betimes.client import Client
    from betimes.service.views import JobView


def cancel(ids: Ids, state: State = None, as_json: options.Json = False) -> None:
    """Cancel jobs: those that wait at once, those that run after their grace period at the latest."""
    _each(ids, state, as_json, lambda service, wanted: service.cancel(wanted))


def hold(ids: Ids, state: State = None, as_json: options.Json = False) -> None:
    """Keep waiting jobs from starting, until they are released."""
    _each(ids, state, as_json, lambda service, wanted: service.hold(wanted))


def release(ids: Ids, state: State = None, as_json: options.Json = False) -> None:
    """Let jobs that were held start again."""
    _each(ids, state, as_json, lambda service, wanted: service.release(wanted))


def _each(
    ids: list[str],
    state: str | None,
    as_json: bool,
    ask: Callable[[Client, list[int]], list[JobView]],
) -> None:
    from betimes.cli.as_json import print_json
    from betimes.cli.connection import connect
    from betimes.cli.ids import parse_ids
    from betimes.cli.listing import say
    from betimes.cli.words import job_name

    wanted = parse_ids(ids)
    with connect(state) as service:
        changed = ask(service, wanted)
    if as_json:
        print_json(changed)
    else:
        say(*(f"Job {job.job_id}, {job_name(job)}: {job.status.value}" for job in changed))
