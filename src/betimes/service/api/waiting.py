"""Waiting for the end of a job without asking again and again."""

from __future__ import annotations

import asyncio
import contextlib

from betimes.service.api.context import Context
from betimes.service.api.streams import until
from betimes.service.views.models import JobView


async def wait_until_over(here: Context, job_id: int, timeout_s: float) -> JobView:
    """The job when it is over, when the time is up, or when the service stops. Raises Unknown."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    story = await here.backend.job(job_id)
    if story.job.status.is_over or not timeout_s:
        return story.job
    # Whatever ends the job is logged after the last event that its story knows.
    known = story.events[-1].event_id if story.events else 0
    events = until(here.backend.watch(known), here.closing, timeout_s)
    async with contextlib.aclosing(events):
        async for event in events:
            if event is not None and event.job_id == job_id:
                job = (await here.backend.job(job_id)).job
                if job.status.is_over:
                    return job
            if loop.time() >= deadline:
                break
    return (await here.backend.job(job_id)).job
