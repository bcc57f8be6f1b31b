"""Conversations with the service, without the means: generators that say what to do next and are told what came of it.

Every one is carried out by `Client` with blocking calls and by `AsyncClient` without.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

import httpx

from betimes.client import calls
from betimes.client.calls import Call, Conditions
from betimes.client.discovery import Way, may_repeat
from betimes.client.sse import EventReader
from betimes.errors import NotReachable, Unknown
from betimes.service.views.models import EventView, JobView, Uploaded

if TYPE_CHECKING:
    from betimes.service.uploads.archive import Packed

T = TypeVar("T")


@dataclass(frozen=True)
class Send:
    """Make a call; the reply is its response, or the httpx or NotReachable error that it met."""

    call: Call[Any]
    stream: bool = False  # the body is left to `Read`, once the status says success


@dataclass(frozen=True)
class Read:
    """Read on; the reply is a piece of the body, None at its end, or the error."""

    response: httpx.Response


@dataclass(frozen=True)
class Shut:
    """Close a stream that is not needed any more; those left open are closed at the end of the conversation."""

    response: httpx.Response


@dataclass(frozen=True)
class Pause:
    """Let time pass, s."""

    seconds: float


@dataclass(frozen=True)
class Aside(Generic[T]):
    """Do this, which takes its time on the disk; the reply is what it returns, and what it raises ends it all."""

    work: Callable[[], T]


@dataclass(frozen=True)
class Emit(Generic[T]):
    """Hand this to the caller that iterates."""

    what: T


Step: TypeAlias = Send | Read | Shut | Pause | Aside[Any]
Talk: TypeAlias = Generator[Step, Any, T]
Feed: TypeAlias = Generator[Step | Emit[T], Any, None]


def ask(way: Way, call: Call[T]) -> Talk[T]:
    """Make a call, again after a lost connection where that does no harm."""
    pauses = way.pauses()
    while True:
        reply = yield Send(call)
        if isinstance(reply, httpx.Response):
            way.reached = True
            return call.answer(reply)
        yield from _try_again(way, call, reply, pauses)


def upload(way: Way, folder: Path) -> Talk[Uploaded]:
    """Send a directory, unless the service has it."""
    import tempfile  # not for every command

    from betimes.service.uploads.archive import pack

    limits = yield from ask(way, calls.upload_limits())
    with tempfile.TemporaryFile() as archive:
        packed = yield Aside(lambda: pack(folder, archive, limits.most_bytes, limits.most_files))
        sent = False
        try:
            yield from ask(way, calls.upload(packed.sha256))
        except Unknown:
            yield from ask(way, calls.send_upload(packed.sha256, archive))
            sent = True
    return uploaded(folder, packed, sent)


def uploaded(folder: Path, packed: Packed, sent: bool) -> Uploaded:
    """What is told of a directory once the service has it."""
    return Uploaded(
        folder=str(folder),
        sha256=packed.sha256,
        files=packed.contents.files,
        bytes=packed.contents.bytes,
        archive_bytes=packed.archive_bytes,
        sent=sent,
    )


def wait(way: Way, number: int, timeout_s: float | None) -> Talk[JobView]:
    """The job when it is over. Raises TimeoutError."""
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    while True:
        left = calls.WAIT_S if deadline is None else max(0.0, min(deadline - time.monotonic(), calls.WAIT_S))
        job = yield from ask(way, calls.wait(number, left))
        if job.status.is_over:
            return job
        if deadline is not None and time.monotonic() >= deadline:
            raise TimeoutError(f"job {number} is still {job.status.value} after {timeout_s:g} s")
        yield Pause(0.1)  # a service that is about to stop answers at once


def every_job(way: Way, conditions: Conditions) -> Feed[JobView]:
    """All pages of the list of jobs."""
    conditions = Conditions(**conditions)
    while True:
        page = yield from ask(way, calls.jobs(conditions))
        for item in page.items:
            yield Emit(item)
        if page.following is None:
            return
        conditions["after"] = page.following


def logged_events(way: Way, after: int, job: int | None, kinds: tuple[str, ...]) -> Feed[EventView]:
    """The events that are in the log now."""
    following: int | None = after
    while following is not None:
        page = yield from ask(way, calls.events(following, job, kinds))
        for event in page.items:
            yield Emit(event)
        following = page.following


def followed_events(way: Way, after: int, job: int | None, kinds: tuple[str, ...]) -> Feed[EventView]:
    """Events without end; after a lost connection from the last one on, none twice and none left out."""
    reader = EventReader(after)
    pauses = way.pauses()
    while True:
        call = calls.event_stream(reader.last, job, kinds)
        reply = yield Send(call, stream=True)
        if isinstance(reply, httpx.Response):
            way.reached = True
            call.answer(reply)
            while isinstance(piece := (yield Read(reply)), bytes):
                pauses = way.pauses()  # it was well until now
                for event in reader.feed(piece):
                    yield Emit(event)
            yield Shut(reply)
            reader.restart()
            reply = piece if piece is not None else NotReachable("the service has stopped")
        yield from _try_again(way, call, reply, pauses)


def log(way: Way, call: Call[None]) -> Feed[bytes]:
    """A run's output, piece by piece. It is not taken up again after a lost connection: lines might come twice."""
    pauses = way.pauses()
    reply = yield Send(call, stream=True)
    while not isinstance(reply, httpx.Response):
        yield from _try_again(way, call, reply, pauses)
        reply = yield Send(call, stream=True)
    way.reached = True
    call.answer(reply)
    while isinstance(piece := (yield Read(reply)), bytes):
        yield Emit(piece)
    if piece is not None:
        raise way.lost(piece, unsure=True) from piece


def _try_again(way: Way, call: Call[Any], error: Exception, pauses: Iterator[float]) -> Talk[None]:
    """Pause before another attempt, or raise NotReachable."""
    if not may_repeat(call, error):
        raise way.lost(error, unsure=True) from error
    pause = next(pauses, None)
    if pause is None:
        raise way.lost(error) from error
    yield Pause(pause)
