"""Conversations with the service, without the means: generators that say what to do next and are told what came of it.

Every one is carried out by `Client` with blocking calls and by `AsyncClient` without.
"""

from __future__ import annotations

import json
import math
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from betimes.client import calls
from betimes.client.sse import EventReader
from betimes.client.way import Lost, may_repeat
from betimes.errors import NotReachable, Unavailable, Unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from pathlib import Path
    from typing import TypeAlias

    from betimes.client.calls import Call, Conditions
    from betimes.client.way import Way

OVER = ("finished", "failed", "cancelled")


class Send(NamedTuple):
    """Make a call; the reply is its response (`status_code`, `content`, `url`), or the error Lost or NotReachable."""

    call: Call
    stream: bool = False  # the body is left to `Read`, once the status says success


class Read(NamedTuple):
    """Read on; the reply is a piece of the body, None at its end, or the error."""

    response: Any


class Shut(NamedTuple):
    """Close a stream that is not needed any more; those left open are closed at the end of the conversation."""

    response: Any


class Pause(NamedTuple):
    """Let time pass, s."""

    seconds: float


class Aside(NamedTuple):
    """Do this, which takes its time on the disk; the reply is what it returns, and what it raises ends it all."""

    work: Callable[[], Any]


class Emit(NamedTuple):
    """Hand this to the caller that iterates."""

    what: Any


if TYPE_CHECKING:
    Step: TypeAlias = Send | Read | Shut | Pause | Aside
    Talk: TypeAlias = Generator[Step, Any, Any]
    Feed: TypeAlias = Generator[Step | Emit, Any, None]


def ask(way: Way, call: Call, deadline: float = math.inf) -> Talk:
    """Make a call, again after a lost connection where that does no harm, until `deadline` of the monotonic clock."""
    pauses = way.pauses(deadline)
    while True:
        reply = yield Send(call)
        if not isinstance(reply, Exception):
            try:
                return way.answer(call, reply)
            except Unavailable as error:
                if way.waits is None:
                    raise
                reply = error
        yield from _try_again(way, call, reply, pauses)


def upload(way: Way, folder: Path) -> Talk:
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
    return way.decode("Uploaded", "", json.dumps(uploaded(folder, packed, sent)).encode(), str(folder))


def uploaded(folder: Path, packed: Any, sent: bool) -> dict[str, Any]:
    """What is told of a directory once the service has it: the fields of `Uploaded`."""
    return {
        "folder": str(folder),
        "sha256": packed.sha256,
        "files": packed.contents.files,
        "bytes": packed.contents.bytes,
        "archive_bytes": packed.archive_bytes,
        "sent": sent,
    }


def wait(way: Way, number: int, timeout_s: float | None) -> Talk:
    """The job when it is over. Raises TimeoutError."""
    deadline = math.inf if timeout_s is None else time.monotonic() + timeout_s
    while True:
        left = max(0.0, min(deadline - time.monotonic(), calls.WAIT_S))
        job = yield from ask(way, calls.wait(number, left), deadline)
        if job.status in OVER:
            return job
        if time.monotonic() >= deadline:
            raise TimeoutError(f"job {number} is still {job.status} after {timeout_s:g} s")
        yield Pause(0.1)  # a service that is about to stop answers at once


def every_job(way: Way, conditions: Conditions) -> Feed:
    """All pages of the list of jobs."""
    conditions = conditions.copy()
    while True:
        page = yield from ask(way, calls.jobs(conditions))
        for item in page.items:
            yield Emit(item)
        if page.following is None:
            return
        conditions["after"] = page.following


def logged_events(way: Way, after: int, job: int | None, kinds: tuple[str, ...]) -> Feed:
    """The events that are in the log now."""
    following: int | None = after
    while following is not None:
        page = yield from ask(way, calls.events(following, job, kinds))
        for event in page.items:
            yield Emit(event)
        following = page.following


def followed_events(way: Way, after: int, job: int | None, kinds: tuple[str, ...]) -> Feed:
    """Events without end; after a lost connection from the last one on, none twice and none left out."""
    reader = EventReader(after)
    pauses = way.pauses()
    while True:
        call = calls.event_stream(reader.last, job, kinds)
        reply = yield from _stream(way, call, pauses)
        while isinstance(piece := (yield Read(reply)), bytes):
            pauses = way.pauses()  # it was well until now
            for data in reader.feed(piece):
                yield Emit(way.decode("EventView", "", data, str(reply.url)))
        yield Shut(reply)
        reader.restart()
        gone = piece if piece is not None else NotReachable("the service has stopped")
        yield from _try_again(way, call, gone, pauses)


def log(way: Way, call: Call) -> Feed:
    """A run's output as far as it is there, piece by piece."""
    reply = yield from _stream(way, call, way.pauses())
    while isinstance(piece := (yield Read(reply)), bytes):
        yield Emit(piece)
    if piece is not None:
        raise way.lost(piece, unsure=True) from piece


def followed_log(way: Way, number: int, attempt: int | None, tail: int | None, rank: int | None) -> Feed:
    """A run's output until the run is over; after a lost connection from the byte on that came last.

    With `tail` the service cannot find that byte again: then what was written in between is left out.
    """
    story = yield from ask(way, calls.job(number))
    run = attempt or story.job.attempt or None  # None: wait for the first
    seen = 0
    pauses = way.pauses()
    call = calls.log(number, run, True, tail, rank)
    while True:
        reply = yield from _stream(way, call, pauses)
        skip = seen if tail is None else 0
        while isinstance(piece := (yield Read(reply)), bytes):
            pauses = way.pauses()  # it was well until now
            if len(piece) > skip:
                seen += len(piece) - skip
                yield Emit(piece[skip:])
            skip = max(0, skip - len(piece))
        yield Shut(reply)
        if (
            piece is None
        ):  # the run is over, or the service is about to stop; one that is back later cannot tell which
            about = calls.job(number)
            reply = yield Send(about)
            try:
                if isinstance(reply, Exception):
                    raise reply
                story = way.answer(about, reply)
            except (Lost, NotReachable, Unavailable) as error:
                piece = error
            else:
                of_it = [each for each in story.runs if each.number == (run or 1)]
                is_over = story.job.attempt > (run or 1) or any(each.ended_at is not None for each in of_it)
                if is_over or story.job.status in OVER:
                    return
                piece = NotReachable("the service has stopped")
        yield from _try_again(way, call, piece, pauses)
        if story.job.attempt or run or seen:
            run = run or 1
        call = calls.log(number, run, True, None if tail is None else 0, rank)


def _stream(way: Way, call: Call, pauses: Iterator[float]) -> Talk:
    """The response of a call whose body is yet to be read."""
    while True:
        reply = yield Send(call, stream=True)
        if not isinstance(reply, Exception):
            try:
                way.answer(call, reply)
                return reply
            except Unavailable as error:
                if way.waits is None:
                    raise
                reply = error
        yield from _try_again(way, call, reply, pauses)


def _try_again(way: Way, call: Call, error: Exception, pauses: Iterator[float]) -> Talk:
    """Pause before another attempt, or raise NotReachable."""
    if not may_repeat(call, error):
        raise way.lost(error, unsure=True) from error
    pause = next(pauses, None)
    if pause is None:
        raise way.lost(error) from error
    way.note_wait(error)
    yield Pause(pause)
