"""The service's side of one node's agent: the runs to have there, sent again at each attachment."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from betimes.errors import Unavailable
from betimes.service.executors.local import Around
from betimes.service.executors.protocol import Launch, Place
from betimes.service.executors.ray.connection import Agents
from betimes.service.executors.supervision.files import is_full
from betimes.service.scheduling.events import Ended, Report, RunId, Signalled, Trouble

AGAIN_S = 0.5  # between two tries to attach
FULL_AGAIN_S = 1.0  # between two tries to send to a node with a full disk
PIECE_BYTES = 4 * 2**20  # of an archive, in a call
_BEGINNING = ("start", "adopt")

log = logging.getLogger(__name__)


@dataclass
class _Wanted:
    """A run that is to be on the node until it is reported as ended."""

    launch: Launch
    stop_by: float | None = None
    """By the monotonic clock: when its grace period is over; null: it is not to stop."""
    lacks_room: bool = False  # for its archive, as reported
    ended: asyncio.Event = field(default_factory=asyncio.Event)


class NodeLink:
    """Keeps a session with the agent of a node and passes its reports to `listener`, with the node's name.

    After any interruption it attaches again: the agent receives all runs, reports their fates and starts those that it
    does not know.
    """

    def __init__(
        self,
        node: str,
        agents: Agents,
        listener: Callable[[str, Report], None],
        cpu: float,
        around: Around | None = None,
    ) -> None:
        self.node = node
        self._agents, self._listener, self._cpu, self._around = agents, listener, cpu, around
        self._runs: dict[RunId, _Wanted] = {}
        self._session = ""
        self._attached = asyncio.Event()
        self._archives: set[str] = set()  # that are on the node
        self._sending = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._go(self._keep())

    @property
    def has_runs(self) -> bool:
        """Whether something is to run there."""
        return bool(self._runs)

    def start(self, launch: Launch) -> None:
        """Have a run there from now on."""
        if launch.run not in self._runs:
            self._runs[launch.run] = _Wanted(launch)
            self._go(self._request(launch.run, "start", lambda wanted: (wanted.launch,)))

    def want(self, launch: Launch) -> None:
        """Have a run there that may be there already; a new link sends it when it attaches."""
        self._runs.setdefault(launch.run, _Wanted(launch))

    def stop(self, run: RunId, grace_s: float) -> None:
        """Stop a run within its grace period, which includes the time until the agent is reached."""
        wanted = self._runs.get(run)
        if wanted is None:
            return
        by = time.monotonic() + grace_s
        wanted.stop_by = by if wanted.stop_by is None else min(by, wanted.stop_by)
        self._go(self._request(run, "stop", _stop_of))

    def signal(self, run: RunId, number: int, to: Signalled) -> None:
        """Send a signal to a run's processes."""
        self._go(self._request(run, "signal", lambda wanted: (wanted.launch.run, number, to)))

    def limit(self, run: RunId, time_limit_s: float) -> None:
        """Give a run another time limit."""
        if (wanted := self._runs.get(run)) is not None:
            wanted.launch = replace(wanted.launch, time_limit_s=time_limit_s)
            self._go(self._request(run, "limit", lambda wanted: (wanted.launch.run, time_limit_s)))

    async def resize(self, run: RunId, units: int, places: tuple[Place, ...]) -> bool:
        """Notify a run of its new units; False: it must be restarted, or the node does not answer."""
        await self._attached.wait()
        try:
            return await self._agents.call(self.node, "ask", self._session, "resize", run, units, places)
        except Unavailable as error:
            log.warning("run %d.%d is not resized: %s", *run, error)
            return False

    async def ended(self, run: RunId) -> None:
        """Wait until nothing of a run is left there."""
        if (wanted := self._runs.get(run)) is not None:
            await wanted.ended.wait()

    async def close(self) -> None:
        """Ask nothing more; runs go on."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for wanted in self._runs.values():
            wanted.ended.set()

    # --- the session ---

    async def _keep(self) -> None:
        """Attach and listen, for ever; log once when the node does not answer."""
        answers = True
        while True:
            try:
                await self._attach()
                answers = True
                await self._listen()
            except Unavailable as error:
                self._attached.clear()
                if answers:
                    log.warning("node %s does not answer; its runs go on: %s", self.node, error)
                answers = False
                await asyncio.sleep(AGAIN_S)

    async def _attach(self) -> None:
        session = secrets.token_hex(8)
        await self._agents.call(self.node, "attach", session, self._cpu, self._around)
        self._session = session
        self._archives = await self._those_there()
        runs = list(self._runs.values())
        ready = [wanted.launch for wanted in runs if self._has_archive(wanted.launch)]
        if ready:
            await self._agents.call(self.node, "ask", session, "adopt", ready)
        for wanted in runs:
            if not self._has_archive(wanted.launch):
                self._go(self._request(wanted.launch.run, "adopt", lambda wanted: ([wanted.launch],)))
            elif wanted.stop_by is not None:
                await self._agents.call(self.node, "ask", session, "stop", *_stop_of(wanted))
        self._attached.set()

    async def _those_there(self) -> set[str]:
        """The archives on the node, of those that its runs need."""
        wanted = {run.launch.archive for run in self._runs.values() if run.launch.archive is not None}
        return {
            archive
            for archive in wanted
            if await self._agents.call(self.node, "has_archive", self._session, archive)
        }

    def _has_archive(self, launch: Launch) -> bool:
        return launch.archive is None or launch.archive in self._archives

    async def _provide(self, wanted: _Wanted) -> None:
        """Send the archive that a run needs, unless it is on the node. Where the disk there is full it waits for room.

        After other failures the run itself fails without the archive. Raises Unavailable.
        """
        archive = wanted.launch.archive
        while archive is not None and not self._has_archive(wanted.launch) and wanted.stop_by is None:
            try:
                async with self._sending:
                    if archive not in self._archives:
                        await send_archive(self._agents, self.node, self._session, archive)
                        self._archives.add(archive)
            except OSError as error:
                if not is_full(error):
                    log.warning("node %s does not get %s: %s", self.node, archive, error)
                    return
                if not wanted.lacks_room:
                    wanted.lacks_room = True
                    message = f"it cannot be started yet: no room for its upload on node {self.node}"
                    self._listener(self.node, Trouble(wanted.launch.run, time.time(), message))
                await asyncio.sleep(FULL_AGAIN_S)

    async def _listen(self) -> None:
        after = 0
        while True:
            reports = await self._agents.call(self.node, "reports", self._session, after)
            for number, report in reports:
                after = number
                if isinstance(report, Ended) and (wanted := self._runs.pop(report.run, None)) is not None:
                    wanted.ended.set()
                self._listener(self.node, report)

    async def _request(self, run: RunId, method: str, of: Callable[[_Wanted], tuple[Any, ...]]) -> None:
        """Call a method of its executor about a run until the node has taken it, or the run has ended."""
        while True:
            await self._attached.wait()
            if (wanted := self._runs.get(run)) is None:
                return
            try:
                if method in _BEGINNING:
                    await self._provide(wanted)
                await self._agents.call(self.node, "ask", self._session, method, *of(wanted))
                # The request may have come before the run.
                if method in _BEGINNING and wanted.stop_by is not None:
                    await self._agents.call(self.node, "ask", self._session, "stop", *_stop_of(wanted))
                return
            except Unavailable:
                await asyncio.sleep(AGAIN_S)  # the listener notices, too, and attaches again

    def _go(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("node %s: %s", self.node, error, exc_info=error)


def _stop_of(wanted: _Wanted) -> tuple[RunId, float]:
    assert wanted.stop_by is not None, "it is to stop"
    return wanted.launch.run, max(0.0, wanted.stop_by - time.monotonic())


# --- archives of uploaded directories, for a node that does not share the service's disk ---


async def send_archive(agents: Agents, node: str, session: str, archive: str) -> None:
    """Send an archive to a node unless it is there.

    Raises Unavailable; OSError where it cannot be read here, or written there.
    """
    if await agents.call(node, "has_archive", session, archive):
        return
    file = await asyncio.to_thread(Path(archive).open, "rb")
    try:
        offset = 0
        while piece := await asyncio.to_thread(file.read, PIECE_BYTES):
            await agents.call(node, "take_piece", session, archive, offset, piece)
            offset += len(piece)
    finally:
        file.close()
    await agents.call(node, "take_archive", session, archive)
