"""Request bodies as parameters of routes: bounded, checked, and in slices that leave the event loop its turns.

They are dependencies and no body parameters of FastAPI. Those are read before any dependency: in full, however long and
however slowly they come, before the caller is known; they are parsed and checked in one go, during which nobody else is
answered; and they are checked as Python values, so that "2" is a number unless every model is strict.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any

from fastapi import Request
from pydantic import BaseModel, ValidationError
from pydantic_core import from_json, to_json

from betimes.service.api.context import context
from betimes.service.api.failures import Rejected, invalid, refusal, shown
from betimes.service.api.limits import Limits
from betimes.service.api.models import Fault, JobBatch
from betimes.service.spec.job_spec import JobSpec

ARCHIVE = "application/zip"  # of an archive of a directory
_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")  # in a text of JSON
SLICE = 200  # jobs between two turns of the event loop: a few milliseconds


class Sent:
    """A dependency: the body as one of these models.

    any_type: whatever its Content-Type. Raises Rejected: 400, 408, 413, 415, 422.
    """

    def __init__(self, *models: type[BaseModel], any_type: bool = False) -> None:
        self.models, self._any_type = models, any_type

    async def __call__(self, request: Request) -> Any:
        """Read and check it."""
        limits = (await context(request)).limits
        if not self._any_type:
            _check_type(request)
        return _checked(await _read(request, limits.job_bytes, limits.pause_s), self.models[0])


class SentJobs(Sent):
    """A dependency: the jobs of the body, and whether it is a batch. Raises Rejected as `Sent` does."""

    def __init__(self) -> None:
        super().__init__(JobSpec, JobBatch)

    async def __call__(self, request: Request) -> tuple[list[JobSpec], bool]:
        """Read and check them."""
        limits = (await context(request)).limits
        _check_type(request)
        body = await _read(request, limits.batch_bytes, limits.pause_s)
        parsed = _parsed(body)
        if isinstance(parsed, dict) and "jobs" in parsed:
            return await _batch(parsed, len(body) > limits.job_bytes, limits), True
        if len(body) > limits.job_bytes:
            raise _too_large("a job", limits.job_bytes)
        return [_checked(body, JobSpec)], False


def _checked(body: bytes, model: type[Any]) -> Any:
    try:
        found = model.model_validate_json(body, strict=True)
    except ValidationError as error:
        what = "job" if model is JobSpec else "request of this kind"
        raise refusal(invalid(error, what, model)) from None
    if _NUL.search(body):
        message = "a text of the body holds a NUL character (\\u0000), which cannot be kept; leave it out"
        raise Rejected(422, "refused", message)
    return found


async def _batch(parsed: dict[str, Any], weigh: bool, limits: Limits) -> list[JobSpec]:
    jobs = parsed["jobs"]
    strangers = [name for name in parsed if name != "jobs"]
    if strangers:
        raise Rejected(422, "refused", f"{strangers[0]}: there is no such field beside jobs", strangers[0])
    if not isinstance(jobs, list):
        raise Rejected(422, "refused", "jobs: must be a list of jobs", "jobs")
    if not 1 <= len(jobs) <= limits.batch_jobs:
        few_or_many = f"jobs: a batch holds 1 to {limits.batch_jobs} jobs, not {len(jobs)}"
        raise Rejected(422, "refused", few_or_many, "jobs")
    specs: list[JobSpec] = []
    faults: list[Fault] = []
    for number, job in enumerate(jobs):
        # Back to JSON, whose rules are the stricter ones: "2" is no number there.
        text = to_json(job)
        if weigh and len(text) > limits.job_bytes:
            raise _too_large(f"jobs[{number}]: a job", limits.job_bytes)
        try:
            specs.append(JobSpec.model_validate_json(text, strict=True))
        except ValidationError as error:
            faults += invalid(error, "job", JobSpec, f"jobs[{number}]")
        if number % SLICE == SLICE - 1:
            await asyncio.sleep(0)
    if faults:
        raise refusal(faults)
    return specs


def _parsed(body: bytes) -> Any:
    try:
        return from_json(body)
    except ValueError as error:
        raise Rejected(400, "bad-json", f"the body is not JSON: {error}") from None


def check_archive(request: Request) -> None:
    """Raise Rejected (415) for a body that is not sent as an archive."""
    kind = _type_of(request)
    if kind != ARCHIVE:
        message = f"send the body as Content-Type: {ARCHIVE}, not {shown(kind) or 'as nothing'}"
        raise Rejected(415, "unsupported-media-type", message)


def _type_of(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _check_type(request: Request) -> None:
    """A page of another site can send forms and plain text without asking, but no JSON."""
    kind = _type_of(request)
    if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
        message = f"send the body as Content-Type: application/json, not {shown(kind) or 'as nothing'}"
        raise Rejected(415, "unsupported-media-type", message)


async def read_pieces(request: Request, most: int, pause_s: float) -> AsyncIterator[bytes]:
    """The body as it comes. Raises Rejected: 408, 413."""
    size = 0
    async for piece in _unless_it_pauses(request, pause_s):
        size += len(piece)
        # Up to twice the limit is read, so that the sender sees the answer.
        if size > 2 * most:
            raise _too_large("a body", most)
        if size <= most:
            yield piece
    if size > most:
        raise _too_large("a body", most)


async def _read(request: Request, most: int, pause_s: float) -> bytes:
    return b"".join([piece async for piece in read_pieces(request, most, pause_s)])


async def _unless_it_pauses(request: Request, pause_s: float) -> AsyncIterator[bytes]:
    """The pieces of a body; Rejected for a request that stops half way."""
    pieces = request.stream()
    while True:
        try:
            async with asyncio.timeout(pause_s):
                piece = await anext(pieces, None)
        except TimeoutError:
            message = f"nothing more of the body has come for {pause_s:g} s; send it in one go"
            raise Rejected(408, "too-slow", message, headers={"Connection": "close"}) from None
        if piece is None:
            return
        yield piece


def _too_large(what: str, most: int) -> Rejected:
    return Rejected(
        413, "too-large", f"{what} has at most {most} bytes here; send less, or in several requests"
    )
