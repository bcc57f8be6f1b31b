"""What the controller is told or asked, and how whoever asked gets an answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from betimes.service.node import LOST
from betimes.service.scheduling.run_reports import Report, RunId, Started, Trouble
from betimes.service.scheduling.scheduler import Scheduler
from betimes.service.spec import JobSpec

Act = Callable[[Scheduler], Any]

log = logging.getLogger(__name__)


@dataclass
class Input:
    """Something to be done with the state, and who waits for it."""

    act: Act
    done: asyncio.Future[Any] | None = None
    answer: tuple[str, str, Callable[[Any], Any]] | None = (
        None  # idempotency: user, key, what to keep of the result
    )
    meanwhile: Callable[[], None] | None = None  # to be called once it is done, while it is being stored


class Broken(Exception):
    """An input was done in part, or not at all, and nobody knows why: the state cannot be trusted any more."""

    def __init__(self, one: Input, error: Exception) -> None:
        super().__init__(str(error))
        self.one, self.error = one, error


def answer(one: Input, result: Any) -> None:
    """Give whoever waits a result, or raise it there; nobody waits for a second one."""
    if one.done is None or one.done.done():
        if isinstance(result, BaseException) and one.done is None:
            log.warning("not done: %s", result)
        return
    if isinstance(result, BaseException):
        one.done.set_exception(result)
    else:
        one.done.set_result(result)


def submit_to(scheduler: Scheduler, spec: JobSpec, user: str) -> None:
    """A job of a replayed trace."""
    scheduler.submission.submit(spec, user)


def lose(scheduler: Scheduler, name: str) -> None:
    """A node has not been heard of for as long as its lease."""
    if scheduler.ledger.nodes[name].is_there:
        scheduler.nodes.set_status(name, LOST, "timer")


def report_to(scheduler: Scheduler, report: Report) -> None:
    """An executor has told something."""
    if isinstance(report, Started):
        scheduler.reports.started(report)
    elif isinstance(report, Trouble):
        scheduler.reports.troubled(report)
    else:
        scheduler.reports.ended(report)


def in_order(report: Report) -> tuple[bool, RunId]:
    """Starts first; then ends, those of earlier jobs first."""
    return not isinstance(report, Started), report.run
