"""The local executor: runs are processes of this machine, each under a shim that outlives the service."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import signal
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar

from betimes.errors import NotAllowed, Unavailable
from betimes.service.access.unix_users import account_of
from betimes.service.executors.commands import failure_of
from betimes.service.executors.devices import Devices, allow_memory, notify, resize_handlers
from betimes.service.executors.protocol import FORCE_AFTER_S, Launch, Listener, Place
from betimes.service.executors.run_folder import (
    Fate,
    Keeping,
    Never,
    Over,
    Running,
    Starting,
    assigned,
    last_error,
    look,
    make_copy,
    record_end,
    sync_launch,
    write_launch,
)
from betimes.service.executors.supervision import files, processes
from betimes.service.executors.supervisors import (
    Forker,
    Watch,
    is_known,
    kill_leftovers,
    remove_control,
    write_request,
)
from betimes.service.machines.cgroups import find_group
from betimes.service.machines.local import available_cores
from betimes.service.scheduling.events import Ended, NodeFault, RunId, Signalled, Started, Trouble
from betimes.service.uploads.archive import DamagedArchive

_AGAIN_S = 0.02  # between two looks at a run that another shim is about to start
_PATIENCE_S = 5.0  # for changes in a run's folder, before others no longer wait for it
_TROUBLE_S = 1.0  # until a folder that could not be read is tried again
_THREADS = 8  # for work on files and processes
P = ParamSpec("P")
T = TypeVar("T")
Around = Callable[[Literal["prolog", "epilog"], Launch, Mapping[str, str]], Awaitable[str | None]]
"""Runs an operator's command before or after a run, with these variables; why it failed, and null where it did not."""
_log = logging.getLogger(__name__)


@dataclass(eq=False)
class _Run:
    """A run that has not been reported as ended."""

    launch: Launch
    shim: dict[str, Any] | None = None  # its shim.json, once it runs
    spawned: int | None = None  # the shim that was started here
    bell: int | None = None  # of that shim, until it is watched
    gave_way: bool = False  # to another shim
    watch: Watch | None = None
    settled: asyncio.Event = field(default_factory=asyncio.Event)  # it is known whether it runs
    asked_to_stop: bool = False
    is_suspended: bool = False
    is_late: bool = False  # it goes on after its time limit
    is_forced: bool = False  # the service ends it itself, as its supervisor does not
    force: asyncio.TimerHandle | None = None  # when it does so
    limit: asyncio.TimerHandle | None = None  # when its supervisor must have seen its time limit
    trouble: str = ""  # as last reported
    waits_for_room: bool = False  # on the disk, to be started
    is_prepared: bool = False  # its prolog has ended
    beside: asyncio.Future[str | None] | None = None  # its prolog or epilog, while that runs

    def close_bell(self) -> None:
        """Close its shim's bell."""
        if self.bell is not None:
            os.close(self.bell)
            self.bell = None


class LocalExecutor:
    """Runs commands on this machine.

    `cpus`: the cores that runs may be pinned to, by default those of this process. `gpus`: the GPUs as
    CUDA_VISIBLE_DEVICES names them, best by UUID, since numbers depend on CUDA_DEVICE_ORDER. `log_bytes`, `log_files`:
    of a run's output, so many files of that size are kept. `group`: a control group (v2) below which runs with a
    memory limit get groups, by default this process's own if that is possible; None: their use is polled.
    `look_s`: between two polls of processes where there are no pidfds. `force_after_s`: how long after its grace
    period a run that its supervisor has not ended is ended by the service, and then the supervisor. `ends_with`: a
    process with which every run is killed, as lost with its node; null: runs outlive all other processes. `forker`:
    starts supervisors for others, too, and is closed by its owner; null: it starts one with its first run. `around`:
    what is run before and after each run; a run whose prolog fails does not start.
    """

    def __init__(
        self,
        listener: Listener,
        *,
        cpus: Sequence[int] | None = None,
        gpus: Sequence[str] = (),
        log_bytes: int = 32 * 2**20,
        log_files: int = 4,
        group: Path | str | None = "find",
        look_s: float = 0.25,
        force_after_s: float = FORCE_AFTER_S,
        ends_with: int | None = None,
        forker: Forker | None = None,
        around: Around | None = None,
    ) -> None:
        self._listener = listener
        self._devices = Devices(available_cores() if cpus is None else cpus, gpus)
        found = find_group() if group == "find" else group
        began = processes.start_ticks(ends_with) if ends_with is not None else None
        self._keeping = Keeping(
            log_bytes,
            log_files,
            None if found is None else Path(found),
            (ends_with, began) if ends_with is not None and began is not None else None,
        )
        self._look_s, self._force_after_s = look_s, force_after_s
        self._runs: dict[RunId, _Run] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        # Separate threads, so that long computations elsewhere in the service do not keep runs waiting.
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="betimes-local")
        self._forker, self._shares_forker = forker or Forker(), forker is not None
        self._around = around
        self._closed = False

    # --- the protocol ---

    async def start(self, launch: Launch) -> None:
        """Start a run, unless it is or was; returns at once, `Started` or `Ended` is reported once it is known."""
        if launch.run not in self._runs:
            self._assign(launch)
            self._begin(launch)

    async def signal(self, run: RunId, number: int, to: Signalled) -> None:
        """Send a signal to processes of a run; nothing happens if it has ended."""
        await self._ask(run, f"signal {number:d} {to}")

    async def stop(self, run: RunId, grace_s: float) -> None:
        """SIGTERM to the run's process group, and SIGKILL to all of it when the grace period (s) is over."""
        if (found := self._runs.get(run)) is not None:
            found.asked_to_stop = True
            self._force_later(found, grace_s + self._force_after_s)
            self._resume(found)
        await self._ask(run, f"stop {grace_s!r}")

    async def limit(self, run: RunId, time_limit_s: float) -> None:
        """Give a run another time limit, from its start; nothing happens if it has ended."""
        if (found := self._runs.get(run)) is None:
            return
        await found.settled.wait()
        found.launch = replace(found.launch, time_limit_s=time_limit_s)
        if found.shim is not None:
            self._enforce_limit(found, found.shim)
        write_request(found.launch.control, f"limit {time_limit_s!r}")

    async def suspend(self, run: RunId) -> None:
        """Suspend all processes of a run, whose time limit waits until `resume`; nothing happens if it has ended."""
        if (found := self._runs.get(run)) is None:
            return
        await found.settled.wait()
        found.is_suspended = True
        _cancel(found.limit)
        write_request(found.launch.control, "suspend")

    async def resume(self, run: RunId, time_limit_s: float | None) -> None:
        """Let a suspended run go on, with this time limit from its start; nothing happens if it has ended."""
        if (found := self._runs.get(run)) is None:
            return
        await found.settled.wait()
        found.is_suspended = False
        if time_limit_s is not None:
            await self.limit(run, time_limit_s)
        write_request(found.launch.control, "resume")

    async def resize(self, run: RunId, units: int, places: tuple[Place, ...]) -> bool:
        """Notify a run that registered a handler (`betimes.on_resize`) of its new units, and assign their devices;
        False: it has none, its resources cannot be changed while it runs, or it is to have units on another node.
        """
        found = self._runs.get(run)
        if found is None:
            return False
        await found.settled.wait()
        launch, shim = found.launch, found.shim
        if shim is None or {place.node for place in places} != {place.node for place in launch.places}:
            return False
        handlers = await self._aside(resize_handlers, launch.folder, shim)
        memory_bytes = round(launch.memory_gib * units * 2**30)
        allowed = handlers and await self._aside(allow_memory, shim, launch.control, memory_bytes)
        if not allowed or run not in self._runs:  # it may have ended by now
            return False
        before = self._devices.held(run)
        now = self._devices.take(run, launch.cpu * units, launch.gpu * units)
        cpus = (now.cpus or self._devices.cpus) if before.cpus or now.cpus else ()
        try:
            await self._aside(notify, launch.folder, shim, launch.control, handlers, units, now, cpus)
        except OSError as error:
            _log.warning("run %d.%d is not resized: %s", *run, error)
            if run in self._runs:
                self._devices.hold(run, before)
            return False
        return True

    async def drop(self, run: RunId) -> None:
        """Nothing is left: a run of this machine has one node, which is lost with the service itself."""

    async def adopt(self, launches: Sequence[Launch]) -> None:
        """After a restart of the service: report each as `Started` (adopted) or `Ended`, and start what never was."""
        known = await self._aside(lambda: [assigned(one.folder, one.identity) for one in launches])
        new = [
            (launch, had) for launch, had in zip(launches, known, strict=True) if launch.run not in self._runs
        ]
        for launch, had in new:  # taken devices first, then free ones
            if had is not None:
                self._devices.hold(launch.run, had)
        for launch, had in new:
            if had is None:
                self._assign(launch)
            self._begin(launch)
        await asyncio.gather(
            *(found.settled.wait() for launch, _ in new if (found := self._runs.get(launch.run)))
        )

    async def failure_of(
        self, node: str, command: str, environment: Mapping[str, str], limit_s: float, name: str, mark: str
    ) -> str | None:
        """Run a command of the operator's here; why it failed, as `commands.failure_of`."""
        return await failure_of(command, environment, limit_s, name, mark)

    async def close(self) -> None:
        """Stop watching; runs go on. Waits until each run that is being started has its shim."""
        self._closed = True
        for run in self._runs.values():
            if run.beside is not None:  # it runs again after the next start
                run.beside.cancel()
        while self._tasks:
            await asyncio.wait(self._tasks)
        for run in self._runs.values():
            _cancel(run.watch, run.force, run.limit)
            run.close_bell()
        self._runs.clear()
        self._pool.shutdown()
        if not self._shares_forker:
            self._forker.close()

    # --- a run's way ---

    def _assign(self, launch: Launch) -> None:
        self._devices.take(launch.run, launch.cpu * launch.units, launch.gpu * launch.units)

    def _begin(self, launch: Launch) -> None:
        run = self._runs[launch.run] = _Run(launch)
        self._go(self._settle(run))

    def _go(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _aside(self, work: Callable[P, T], /, *args: P.args, **named: P.kwargs) -> T:
        """Do work on the disk, or that waits, in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, partial(work, *args, **named))

    async def _settle(self, run: _Run) -> None:
        """Find the run's fate, start it if it never was, and report."""
        folder, damage = run.launch.folder, None
        others_wait_until = time.monotonic() + _PATIENCE_S
        fate = await self._look(run)
        while not self._closed:
            match fate:
                case Over(exit=over):
                    await self._end(run, over)
                    return
                case Running(shim=shim) if processes.lives(shim["pid"], shim["start_ticks"]):
                    await self._watch(run, shim)
                    return
                case Starting(damage=str() as damage):
                    self._report_trouble(
                        run, f"{damage}; how it ended is known once its supervisor has ended"
                    )
                    run.settled.set()
                    await asyncio.sleep(_TROUBLE_S)
                case Running() | Starting():
                    if time.monotonic() > others_wait_until:
                        run.settled.set()
                    await asyncio.sleep(_AGAIN_S)
                case Never() if damage is not None:
                    await self._end(run, {"why": "lost", "message": damage})
                    return
                case Never() if run.waits_for_room and run.asked_to_stop:
                    message = "it was stopped before there was room on the disk to start it"
                    await self._end(run, {"why": "stopped", "message": message})
                    return
                case Never() if self._around is not None and not run.is_prepared:
                    if faults := await self._go_around("prolog", run, self._around):
                        over = {"why": "prolog-failed", "message": faults[0].why}
                        await self._end(run, over, faults)
                        return
                    run.is_prepared = True
                    continue
                case Never() if self._around is not None and run.asked_to_stop:
                    message = "it was stopped before its command was started"
                    await self._end(run, {"why": "stopped", "message": message})
                    return
                case Never():
                    try:
                        run.settled.clear()
                        fate = await self._launch(run)
                        continue
                    except (DamagedArchive, NotAllowed) as error:
                        await self._end(run, {"why": "start-failed", "message": str(error)})
                        return
                    except OSError as error:
                        what = f"{error.filename or folder}: {error.strerror}"
                        if not files.is_full(error):
                            message = f"cannot start it: {what}; make the folder writable"
                            await self._end(run, {"why": "start-failed", "message": message})
                            return
                        await self._wait_for_room(run, what)
            fate = await self._look(run)
        run.settled.set()

    async def _go_around(
        self,
        when: Literal["prolog", "epilog"],
        run: _Run,
        around: Around,
        ended: Mapping[str, str] | None = None,
    ) -> tuple[NodeFault, ...]:
        """Run the command before or after a run; the fault of the node where it fails.

        Others wait for it a while, and then no longer.
        """
        gpus = {"CUDA_VISIBLE_DEVICES": self._devices.held(run.launch.run).visible_gpus}
        variables = {**(gpus if self._devices.gpus else {}), **(ended or {})}
        run.beside = asyncio.ensure_future(around(when, run.launch, variables))
        if not (await asyncio.wait([run.beside], timeout=_PATIENCE_S))[0]:
            run.settled.set()
            await asyncio.wait([run.beside])
        beside, run.beside = run.beside, None
        why = None if beside.cancelled() else beside.result()
        if why is None:
            return ()
        node = run.launch.places[0].node
        _log.warning("node %s is drained: %s", node, why)
        return (NodeFault(node, when, why),)

    async def _wait_for_room(self, run: _Run, what: str) -> None:
        """The disk is full: the run is started once there is room; other runs are not held up."""
        run.waits_for_room = True
        self._report_trouble(run, f"it cannot be started yet: {what}; it starts once there is room")
        run.settled.set()
        await asyncio.sleep(_TROUBLE_S)

    def _report_trouble(self, run: _Run, message: str) -> None:
        """Report trouble, unless it is the last one again."""
        if message == run.trouble:
            return
        run.trouble = message
        _log.warning("run %d.%d: %s", *run.launch.run, message)
        if not self._closed:
            self._listener(Trouble(run.launch.run, time.time(), message))

    async def _look(self, run: _Run) -> Fate:
        """A run's fate; while it cannot be known, nothing is reported, and others are not held up."""
        launch = run.launch
        while not self._closed:
            try:
                return await self._aside(look, launch.folder, launch.control, launch.identity)
            except OSError as error:
                self._report_trouble(run, f"what becomes of it cannot be known yet: {error}")
                run.settled.set()
                await asyncio.sleep(_TROUBLE_S)
        return Starting()

    async def _launch(self, run: _Run) -> Fate:
        """Start a shim and wait until it knows whether the command runs; the run's fate."""
        folder = run.launch.folder
        run.spawned, run.bell = await self._aside(self._spawn, run.launch)
        if run.launch.may_restart:
            self._go(self._sync_launch(folder))
        try:
            async with asyncio.timeout(_PATIENCE_S):
                status = await is_known(run.bell)
        except TimeoutError:  # its folder or its output may hang; its supervisor heeds requests meanwhile
            run.settled.set()
            status = await is_known(run.bell)
        if status != files.RUNS:
            run.close_bell()
        run.gave_way = status == files.BUSY
        fate = await self._look(run)
        if status == files.RUNS:  # reported by itself, whatever the command has done to the folder since
            is_so = isinstance(fate, Over) or (isinstance(fate, Running) and fate.shim["pid"] == run.spawned)
            return fate if is_so else Running(_as_started(run.spawned))
        if isinstance(fate, Never):  # it gave way to another shim, or could not do its work
            run.spawned = None
            if status == files.NO_ROOM:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), folder)
            if not run.gave_way:
                error = await self._aside(last_error, folder)
                message = f"its supervisor could not start: {error or 'it was killed'}"
                return Over(await self._aside(record_end, folder, "start-failed", message))
        return fate

    def _spawn(self, launch: Launch) -> tuple[int, int]:
        owner = account_of(launch.user) if launch.user is not None else None
        make_copy(launch, owner)
        has, has_gpus = self._devices.held(launch.run), bool(self._devices.gpus)
        record = write_launch(launch, has, has_gpus, self._keeping, owner)
        if not launch.may_restart:
            sync_launch(launch.folder)
        return self._forker.spawn(launch.folder, record)

    async def _sync_launch(self, folder: str) -> None:
        """Sync during the start: the run may start again if the power fails before that."""
        try:
            await self._aside(sync_launch, folder)
        except OSError as error:
            _log.warning("%s may not survive a power failure: %s", folder, error)

    async def _watch(self, run: _Run, shim: dict[str, Any]) -> None:
        adopted = run.spawned != shim["pid"]
        launch = run.launch
        if adopted and (had := await self._aside(assigned, launch.folder, launch.identity)) is not None:
            self._devices.hold(launch.run, had)
        run.shim = shim
        if not self._closed:
            bell, run.bell = run.bell, None
            if run.is_suspended:  # it was before its supervisor could hear of it
                self._go(self.suspend(launch.run))
            run.watch = Watch(
                shim["pid"], shim["start_ticks"], lambda: self._go(self._finish(run)), self._look_s, bell
            )
            self._enforce_limit(run, shim)
            started_at_s = shim["started_at_s"]
            ago_s = _ago_s(started_at_s) if adopted else 0.0
            self._listener(
                Started(
                    run.launch.run, started_at_s, adopted, memory_limited_by=_limited_by(shim), ago_s=ago_s
                )
            )
        run.settled.set()

    def _enforce_limit(self, run: _Run, shim: dict[str, Any]) -> None:
        """Enforce a time limit that the supervisor, suspended by a job, does not: after a while."""
        if run.launch.time_limit_s is None or run.is_suspended:
            return
        since_s = shim.get("started_steady_s")
        ran_s = time.time() - shim["started_at_s"] if since_s is None else time.monotonic() - since_s
        left_s = run.launch.time_limit_s - max(0.0, ran_s)
        _cancel(run.limit)
        run.limit = asyncio.get_running_loop().call_later(
            max(0.0, left_s) + self._force_after_s, self._end_late, run
        )

    def _end_late(self, run: _Run) -> None:
        run.is_late = True
        self._resume(run)
        self._force_later(run, run.launch.grace_s + self._force_after_s)

    def _resume(self, run: _Run) -> None:
        """Resume a suspended supervisor, which can stop nothing."""
        found = processes.status(run.shim["pid"]) if run.shim is not None else None
        if run.watch is not None and found is not None and found.state in "Tt":
            self._report_trouble(
                run, "its supervisor was suspended, and is let go on so that it stops the run"
            )
            run.watch.send(signal.SIGCONT)

    def _force_later(self, run: _Run, delay_s: float) -> None:
        """End the run after that delay, unless it has ended by then; of several calls, the earliest end counts."""
        loop = asyncio.get_running_loop()
        if run.force is None or loop.time() + delay_s < run.force.when():
            _cancel(run.force)
            run.force = loop.call_later(delay_s, lambda: self._go(self._force(run)))

    async def _force(self, run: _Run) -> None:
        """End a run whose supervisor has not: first the command, then, if it does not record that, the supervisor.

        The command's processes are known by their session and their start, so that no other process is hit.
        """
        if run.beside is not None:  # none of its processes runs yet, or no more
            return
        run.is_forced = True
        after = f"{self._force_after_s:g} s after the grace period"
        if run.shim is None and run.spawned is not None:  # it hangs before the command has begun
            self._report_trouble(run, f"its supervisor had not started it {after}, and is killed")
            processes.send(run.spawned, signal.SIGKILL)
            return
        self._report_trouble(
            run, f"its supervisor had not stopped it {after}; the service kills its processes"
        )
        with contextlib.suppress(Unavailable):  # so that it knows why they ended, if it can still read
            write_request(run.launch.control, "stop 0")
        await self._aside(kill_leftovers, run.shim or {}, run.launch.folder, run.launch.identity)
        if run.watch is not None:
            run.watch.send(signal.SIGCONT)
        await asyncio.sleep(self._force_after_s)
        if run.watch is not None and self._runs.get(run.launch.run) is run:
            self._report_trouble(run, "its supervisor does not record that it has ended, and is killed, too")
            run.watch.send(signal.SIGKILL)

    async def _finish(self, run: _Run) -> None:
        """The shim has ended."""
        while not self._closed:
            match await self._look(run):
                case Over(exit=over):
                    await self._end(run, over)
                    return
                case Never():
                    message = f"its folder {run.launch.folder} was removed while it ran"
                    await self._end(run, {"why": "lost", "message": message})
                    return
                case Running() | Starting():  # another service looks at it
                    await asyncio.sleep(_AGAIN_S)

    async def _end(self, run: _Run, over: dict[str, Any], faults: tuple[NodeFault, ...] = ()) -> None:
        """Nothing of a run is left. faults: its prolog has failed, so that there is no epilog."""
        why = over["why"]
        if run.is_forced and (over.get("signal") == signal.SIGKILL or why in ("lost", "start-failed")):
            message = "the service has killed it, as its supervisor did not stop it"
            why = "stopped" if run.asked_to_stop else "time-limit"
            if why == "time-limit":
                message = f"it reached its time limit of {run.launch.time_limit_s:g} s; {message}"
            over = {**over, "message": message}
        run.close_bell()
        await self._aside(remove_control, run.launch.control)
        unseen = run.shim is None and run.spawned is not None  # it ended before it was looked at
        if unseen and why != "start-failed" and not self._closed:
            began_at = over.get("started_at_s") or time.time()
            self._listener(
                Started(run.launch.run, began_at, run.gave_way, memory_limited_by=_limited_by(over))
            )
        run.shim = run.watch = None
        run.settled.set()
        _cancel(run.force, run.limit)
        if self._around is not None and not faults and not self._closed:
            code = over.get("exit_code")
            ended = {"BETIMES_ENDED": why, "BETIMES_EXIT_CODE": "" if code is None else str(code)}
            faults = await self._go_around("epilog", run, self._around, ended)
            _cancel(run.force, run.limit)
        if self._closed:
            return
        self._runs.pop(run.launch.run, None)
        self._devices.give_back(run.launch.run)
        self._listener(
            Ended(
                run.launch.run,
                at_s=over.get("ended_at_s") or time.time(),
                exit_code=over.get("exit_code"),
                signal=over.get("signal"),
                why=why,
                message=over.get("message"),
                max_rss_gib=over.get("max_rss_gib"),
                cpu_s=over.get("cpu_s"),
                log_lost_bytes=over.get("log_lost_bytes"),
                ago_s=_ago_s(over.get("ended_at_s")),
                run_s=over.get("run_s"),
                faults=faults,
            )
        )

    async def _ask(self, run: RunId, request: str) -> None:
        """Ask a run's shim for something; nothing happens if it has ended, or is not known."""
        found = self._runs.get(run)
        if found is None:
            return
        await found.settled.wait()
        write_request(found.launch.control, request)


def _as_started(pid: int) -> dict[str, Any]:
    """Facts about a supervisor without its shim.json."""
    return {"pid": pid, "start_ticks": processes.start_ticks(pid), "started_at_s": time.time()}


def _ago_s(at_s: float | None) -> float:
    """Seconds since an instant, by the wall clock, as its writer's."""
    return 0.0 if at_s is None else max(0.0, time.time() - at_s)


def _limited_by(record: dict[str, Any]) -> str | None:
    by = record.get("memory_limited_by")
    return None if by == "none" else by


def _cancel(*waited: Watch | asyncio.TimerHandle | None) -> None:
    for one in waited:
        if one is not None:
            one.cancel()
