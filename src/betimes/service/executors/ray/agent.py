"""The agent on each node of a cluster: the local executor of that machine, as a Ray actor. It imports no Ray.

A service attaches under a new session, which closes the executor of the previous one; runs go on, and are adopted as
when the service restarts on its own machine. Ray may end and restart the actor at any time.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import platform
import sys
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

from betimes import __version__
from betimes.errors import Unavailable
from betimes.service.executors.commands import failure_of
from betimes.service.executors.local import Around, LocalExecutor
from betimes.service.executors.log_files import LogCursor
from betimes.service.executors.supervision import processes
from betimes.service.executors.supervisors import Forker
from betimes.service.machines.gpus import find_gpus
from betimes.service.machines.local import available_cores
from betimes.service.scheduling.events import Ended, Report
from betimes.service.uploads.kept import Uploads

LEASE = "BETIMES_LEASE"
"""Names a file of a rented machine, which ends once no service has renewed it for a while."""
POLL_S = 5.0  # a request waits so long for reports
MOST_CURSORS = 64  # of logs that are read at once


@dataclass(frozen=True)
class NodeFacts:
    """An agent's report of its machine."""

    hostname: str
    betimes: str  # version
    python: str
    now_s: float  # seconds since 1970
    gpus: int
    asks_for_token: bool = False  # Ray there refuses clients without the cluster's token


class NodeAgent:
    """Starts, stops and watches the runs of one node; all methods are called in one event loop.

    ends_with: the process with which the node's runs end, by default the parent: Ray's own process of the node;
    0: they end with no process, as on the service's own machine. forker: as that of `LocalExecutor`.
    """

    def __init__(self, ends_with: int | None = None, forker: Forker | None = None) -> None:
        self._forker = forker
        self._node = os.getppid() if ends_with is None else ends_with
        self._node_began = processes.start_ticks(self._node)
        self._session = ""
        self._executor: LocalExecutor | None = None
        self._reports: deque[tuple[int, Report]] = deque()  # not acknowledged yet
        self._numbers = count(1)
        self._reported = asyncio.Event()
        self._cursors: dict[str, LogCursor] = {}  # by the reader's name for them, the last used one last

    async def attach(self, session: str, cpu: float, around: Around | None = None) -> None:
        """Begin a session; cpu: the cores that the node has for jobs, which are pinned where those are all.

        around: as that of `LocalExecutor`. Requests of earlier sessions are refused from now on. Raises Unavailable
        once the node has left the cluster.
        """
        if self._has_left:
            raise Unavailable("its node has left the cluster")
        self._session = session
        executor, self._executor = self._executor, None
        if executor is not None:
            await executor.close()
        self._reports.clear()
        self._reported.set()  # wakes requests for reports of the previous session
        cores = available_cores()
        gpus = await asyncio.to_thread(find_gpus, _environ_of(self._node))
        ids = tuple(gpu.id for gpu in gpus.gpus)
        self._executor = LocalExecutor(
            self._hear,
            cpus=cores if cpu >= len(cores) else (),
            gpus=ids,
            ends_with=self._node or None,
            forker=self._forker,
            around=around,
        )

    async def close(self) -> None:
        """Watch no longer; runs go on."""
        executor, self._executor = self._executor, None
        if executor is not None:
            await executor.close()
        for cursor in self._cursors.values():
            cursor.close()
        self._cursors.clear()

    async def ask(self, session: str, method: str, *args: Any) -> Any:
        """Call a method of the node's executor (`protocol.Executor`). Raises Unavailable for another session."""
        return await getattr(self._of(session), method)(*args)

    async def has_archive(self, session: str, archive: str) -> bool:
        """Whether the archive of an uploaded directory is on this machine."""
        self._of(session)
        return await asyncio.to_thread(_has_archive, Path(archive))

    async def take_piece(self, session: str, archive: str, offset: int, piece: bytes) -> None:
        """Write a piece of an archive behind those before it. Raises OSError where there is no room."""
        self._of(session)
        await asyncio.to_thread(_take_piece, Path(archive), offset, piece)

    async def take_archive(self, session: str, archive: str) -> None:
        """All pieces have come. Raises Unavailable if they differ from those sent."""
        self._of(session)
        await asyncio.to_thread(_take_archive, Path(archive))

    async def taken_away_at(self) -> float | None:
        """The instant at which this machine of EC2 is taken away, seconds since 1970; null: none is known."""
        return await asyncio.to_thread(_taken_away_at)

    async def reports(self, session: str, after: int) -> list[tuple[int, Report]]:
        """The reports after that number, which acknowledges all up to it; waits some seconds for the first."""
        self._of(session)
        if lease := os.environ.get(LEASE):
            os.utime(lease)
        while self._reports and self._reports[0][0] <= after:
            self._reports.popleft()
        if not self._reports:
            self._reported.clear()
            try:
                async with asyncio.timeout(POLL_S):
                    await self._reported.wait()
            except TimeoutError:
                return []
            self._of(session)
        return list(self._reports)

    async def read_log(self, reader: str, path: str, tail: int | None, skip_bytes: int) -> bytes:
        """Up to 64 KiB of the next bytes of a log, for this reader; empty: that is all for now.

        skip_bytes: those already read, in case the reader has been forgotten here.
        """
        cursor, missed = self._cursors.pop(reader, None), b""
        if cursor is None:
            cursor, missed = await asyncio.to_thread(_cursor_at, Path(path), tail, skip_bytes)
        self._cursors[reader] = cursor
        if len(self._cursors) > MOST_CURSORS:
            self._cursors.pop(next(iter(self._cursors))).close()
        return missed or await asyncio.to_thread(cursor.read)

    async def failure_of(
        self, command: str, environment: Mapping[str, str], limit_s: float, name: str, mark: str
    ) -> str | None:
        """Run a command of the operator's here; why it failed, as `commands.failure_of`."""
        return await failure_of(command, environment, limit_s, name, mark)

    async def facts(self) -> NodeFacts:
        """The machine as it is now."""
        environ = _environ_of(self._node)
        found = await asyncio.to_thread(find_gpus, environ)
        return NodeFacts(
            platform.node(),
            __version__,
            ".".join(map(str, sys.version_info[:3])),
            time.time(),
            len(found.gpus),
            environ.get("RAY_AUTH_MODE") == "token",
        )

    async def sees(self, path: str) -> bool:
        """Whether there is such a file on this machine."""
        return await asyncio.to_thread(os.path.exists, path)

    @property
    def _has_left(self) -> bool:
        return self._node > 0 and not processes.lives(self._node, self._node_began)

    def _hear(self, report: Report) -> None:
        if isinstance(report, Ended) and report.why == "node-lost" and self._has_left:
            return  # Ray reports it to the service, which until then would start the job here again
        self._reports.append((next(self._numbers), report))
        self._reported.set()

    def _of(self, session: str) -> LocalExecutor:
        if self._executor is None or session != self._session:
            raise Unavailable("the node's agent does not know this session: attach again")
        return self._executor


def _environ_of(pid: int) -> Mapping[str, str]:
    """The environment with which a process was started: Ray hides all GPUs from an actor that asks for none.

    0: that of this process.
    """
    if not pid:
        return os.environ
    try:
        found = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:  # not Linux
        return {}
    pairs = (one.decode("utf-8", "surrogateescape").partition("=") for one in found if b"=" in one)
    return {name: value for name, _, value in pairs}


def _cursor_at(path: Path, tail: int | None, skip_bytes: int) -> tuple[LogCursor, bytes]:
    """A place `skip_bytes` into a log, and bytes behind it that were read on the way.

    The place of a reader that began near the end is not known: it goes on at the end.
    """
    if not skip_bytes or tail is not None:
        return LogCursor(path, 0 if skip_bytes else tail), b""
    cursor = LogCursor(path)
    while chunk := cursor.read():
        if len(chunk) > skip_bytes:
            return cursor, chunk[skip_bytes:]
        skip_bytes -= len(chunk)
    return cursor, b""


# --- the notice that EC2 gives a spot machine, from the machine's own metadata service (IMDSv2) ---

METADATA = "AWS_EC2_METADATA_SERVICE_ENDPOINT"  # names another one, as AWS's libraries have it
_TTL, _TOKEN = "X-aws-ec2-metadata-token-ttl-seconds", "X-aws-ec2-metadata-token"
_METADATA_S = 2.0


def _taken_away_at() -> float | None:
    base = os.environ.get(METADATA, "http://169.254.169.254").rstrip("/")
    try:
        token = _read(Request(f"{base}/latest/api/token", headers={_TTL: "60"}, method="PUT"))
        action = f"{base}/latest/meta-data/spot/instance-action"  # there is none until there is a notice
        found: dict[str, str] = json.loads(_read(Request(action, headers={_TOKEN: token})))
        return datetime.fromisoformat(found["time"]).timestamp()
    except (URLError, TimeoutError, ConnectionError):
        return None


def _read(request: Request) -> str:
    with urlopen(request, timeout=_METADATA_S) as answer:
        return answer.read().decode()


# --- archives of uploaded directories ---
# They are kept where the service keeps them, so that one on a shared disk is there already. Each is sent once, and
# stays until no job has needed it there for a while.


def _has_archive(archive: Path) -> bool:
    """Whether an archive is on this machine; if so, it stays for a while."""
    return Uploads(archive.parent).use(archive.stem) is not None


def _take_piece(archive: Path, offset: int, piece: bytes) -> None:
    """Append a piece to an archive. OSError where there is no room, or earlier pieces are missing."""
    draft = _draft(archive)
    if offset == 0:
        archive.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with os.fdopen(os.open(draft, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+b") as file:
        file.truncate(offset)
        file.seek(offset)
        file.write(piece)


def _take_archive(archive: Path) -> None:
    """Give a complete archive its name, and remove archives that have not been used for long.

    Raises Unavailable if it differs from the one sent.
    """
    draft = _draft(archive)
    with draft.open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != archive.stem:
            draft.unlink()
            raise Unavailable(f"{archive} was damaged on its way to the node")
        os.fsync(file.fileno())
    draft.replace(archive)
    uploads = Uploads(archive.parent)
    uploads.remove(uploads.old())


def _draft(archive: Path) -> Path:
    return archive.with_name(f".{archive.stem}.node")
