"""GET /jobs/{job_id}/log: what a run has written, and what it goes on to write."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Annotated

from fastapi import APIRouter, Query

from betimes.errors import Unknown
from betimes.service.api.context import Context, Here, Viewer
from betimes.service.api.document import PREFIX, JobId, failing
from betimes.service.api.models import LogQuery
from betimes.service.api.streams import Stream, while_held
from betimes.service.executors.log_files import LogReader
from betimes.service.scheduling.job_states import Status
from betimes.service.views.models import JobFilter

router = APIRouter(prefix=PREFIX, tags=["jobs"])


@router.get(
    "/jobs/{job_id:job}/log",
    summary="A run's output",
    operation_id="get_log",
    response_class=Stream,
    responses={
        200: {
            "description": "Its output and errors, oldest first, as written.",
            "content": {"text/plain": {"schema": {"type": "string"}, "example": "epoch 1 of 20\n"}},
        },
        **failing(401, 403, 404, 422, 503),
    },
)
async def get_log(job_id: JobId, here: Here, caller: Viewer, asked: Annotated[LogQuery, Query()]) -> Stream:
    """The output of a job's run. A job that has not run yet has none; `follow` waits for its first run."""
    await here.permitted(caller, "read", [job_id])
    story = await here.backend.job(job_id)
    if story.trials:
        first = story.trials[0].job_id
        text = f"job {job_id} is a set of trials, each of which has output of its own"
        raise Unknown(f"{text}; `betimes job {job_id}` lists them, and `betimes logs {first}` is the first")
    latest = story.job.attempt
    run = asked.attempt if asked.attempt is not None else latest
    waits = run == 0 and asked.follow and not story.job.status.is_over
    if run == 0 and not waits:
        raise Unknown(f"job {job_id} has not run: it is {story.job.status.value}, and there is no output")
    reader = None if waits else await here.backend.open_log(job_id, run, asked.rank, asked.tail)
    text = _output(here, job_id, run or 1, reader, asked)
    return Stream(
        while_held(here, caller, text),
        media_type="text/plain; charset=utf-8",
        headers={"X-Content-Type-Options": "nosniff"},
    )


async def _output(
    here: Context, job_id: int, attempt: int, reader: LogReader | None, asked: LogQuery
) -> AsyncGenerator[bytes, None]:
    if reader is None:
        while not await _has_run(here, job_id):
            if await _closing(here, here.limits.over_s):
                return
        try:
            reader = await here.backend.open_log(job_id, attempt, asked.rank, asked.tail)
        except Unknown:  # it was cancelled before it ran
            return
    try:
        over = not asked.follow
        idle_s = here.limits.over_s  # since it was last known that the run goes on
        while True:
            chunk = await reader.read()
            if chunk:
                yield chunk
            elif over:
                return
            elif idle_s >= here.limits.over_s:
                over, idle_s = await _is_over(here, job_id, attempt), 0.0
            elif await _closing(here, here.limits.follow_s):
                return
            else:
                idle_s += here.limits.follow_s
    finally:
        reader.close()


async def _has_run(here: Context, job_id: int) -> bool:
    status, attempt = await _state(here, job_id)
    return attempt > 0 or status.is_over


async def _is_over(here: Context, job_id: int, attempt: int) -> bool:
    status, latest = await _state(here, job_id)
    return latest != attempt or status not in (Status.RUNNING, Status.STOPPING)


async def _state(here: Context, job_id: int) -> tuple[Status, int]:
    """Status and latest attempt, from one row of the list: the story is long, and this is asked every second."""
    page = await here.backend.jobs(JobFilter(after=job_id + 1, limit=1))
    if not page.items or page.items[0].job_id != job_id:
        return Status.FINISHED, 0  # it has been retired meanwhile
    return page.items[0].status, page.items[0].attempt


async def _closing(here: Context, timeout_s: float) -> bool:
    """Wait a while; True: the service is stopping."""
    try:
        async with asyncio.timeout(timeout_s):
            await here.closing.wait()
    except TimeoutError:
        return False
    return True
