"""Cancelling, holding and releasing several jobs: all or none, or those to which it can be done."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Literal

from betimes.errors import Conflict
from betimes.service.controller import Controller
from betimes.service.scheduling.scheduler import Scheduler
from betimes.service.shown import job_view
from betimes.service.views import JobView

What = Literal["cancel", "hold", "release"]


async def steer(
    controller: Controller, what: What, ids: Sequence[int], user: str, where_possible: bool
) -> list[JobView]:
    """Do the same with every job, or with none if one of them cannot be; returns those to which it was done.

    where_possible: leave those out to which it cannot be done. Raises Unknown, and else Conflict.
    """

    def act(scheduler: Scheduler) -> list[int]:
        able = [number for number in dict.fromkeys(ids) if _can_be(scheduler, what, number, where_possible)]
        for number in able:
            job = scheduler.ledger.jobs.get(number)
            if job is not None and not job.status.is_over:  # one that waited for another has ended with it
                getattr(scheduler, what)(number, user)
        return able

    able = await controller.ask(act)
    store, waiting = controller.store, controller.scheduler.wait_reasons(None)
    rows = await asyncio.to_thread(lambda: [store.job(number) or {} for number in able])
    return [job_view(row, waiting) for row in rows]


def _can_be(scheduler: Scheduler, what: What, number: int, where_possible: bool) -> bool:
    try:
        scheduler.control.check(what, number)
    except Conflict:
        if not where_possible:
            raise
        return False
    return True
