"""The supervisors of runs, from the service's side: it starts them, sends requests, notices ends, and kills what a
killed one has left. A supervisor's own code is in the package `supervision`.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import marshal
import os
import resource
import signal
import socket
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from betimes.errors import Unavailable
from betimes.service.executors.supervision import files, processes
from betimes.service.executors.supervision.supervisor import NUMBER_BYTES

_FILES = resource.getrlimit(resource.RLIMIT_NOFILE)[0]  # at import, before the server raises it for itself
_SHIM = str(Path(__file__).resolve().with_name("shim.py"))
_APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
_ANSWER_S = 20.0  # an answer takes a millisecond: after this the process is suspended, or hangs
# The job can read its supervisor's environment, so that holds nothing of the service's but library paths.
_ENVIRON = {
    name: value for name, value in os.environ.items() if name in ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
}
_HELD_BACK = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)  # until a supervisor can handle them
_DEATH_S = 10.0  # for processes that do not die: a driver, or a file server that is away, holds them
_log = logging.getLogger(__name__)

# --- starting ---


class Forker:
    """Starts its process when first needed, and another one if that has ended. Threads may share it."""

    def __init__(self) -> None:
        self.pid: int | None = None
        self._socket: socket.socket | None = None
        self._lock = threading.Lock()

    def spawn(self, folder: str, record: dict[str, Any]) -> tuple[int, int]:
        """Start the supervisor of a run: its process, and the bell, a descriptor that yields one byte once the
        command runs (RUNS) or a supervisor has begun nothing (its exit status), and that ends with the run:
        exit.json is there, or its supervisor was killed.

        OSError where there are too many processes or too little memory, or no room on the disk.
        """
        errors = os.open(f"{folder}/{files.ERRORS}", _APPEND, 0o600)
        bell, ring = os.pipe()
        try:
            return self._ask(marshal.dumps((folder, record)), errors, ring), bell
        except BaseException:
            os.close(bell)
            raise
        finally:
            os.close(errors)
            os.close(ring)

    def close(self) -> None:
        """Let the process end; supervisors go on."""
        with self._lock:
            self._end()

    def _ask(self, request: bytes, *handed: int) -> int:
        with self._lock:
            try:
                answer = self._answer(request, handed)
            except OSError:
                answer = b""
            if len(answer) < NUMBER_BYTES:  # it was killed: of a run's two supervisors one gives way
                self._end(by_force=True)
                answer = self._answer(request, handed)
        number = int.from_bytes(answer, "little", signed=True)
        if number <= 0:
            raise OSError(-number, os.strerror(-number), "a supervisor")
        return number

    def _answer(self, request: bytes, handed: tuple[int, ...]) -> bytes:
        service = self._socket or self._begin()
        socket.send_fds(service, [len(request).to_bytes(NUMBER_BYTES, "little")], handed)
        service.sendall(request)
        return service.recv(NUMBER_BYTES, socket.MSG_WAITALL)

    def _begin(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        with theirs:
            self.pid = os.posix_spawn(
                sys.executable,
                [sys.executable, "-I", "-S", "-X", "utf8", _SHIM, str(_FILES)],
                _ENVIRON,
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, theirs.fileno(), 0),
                    (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                ],
                setsid=True,
                setsigmask=_HELD_BACK,
                setsigdef=_HELD_BACK,
            )
        ours.settimeout(_ANSWER_S)
        self._socket = ours
        return ours

    def _end(self, by_force: bool = False) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self.pid is not None:
            if by_force:
                os.kill(self.pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self.pid, 0)
            self.pid = None


async def is_known(bell: int) -> int | None:
    """Wait until it is known whether the command runs; `bell` is that of `spawn`.

    Returns RUNS, or the exit status of a supervisor that has begun nothing: BUSY, NO_ROOM; null: another end.
    """
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_reader(bell, lambda: ready.done() or ready.set_result(None))
    try:
        await ready
    finally:
        loop.remove_reader(bell)
    word = os.read(bell, 1)
    return word[0] if word else None


# --- requests, by the FIFO of the run ---


def write_request(control: str, request: str) -> None:
    """Send a request to a supervisor; nothing happens if it has ended. Unavailable where it does not read."""
    try:
        descriptor = _open_fifo(control)
    except OSError as error:
        raise Unavailable(f"{control} cannot be opened: {error.strerror}; try again") from error
    if descriptor is None:  # the shim has just ended
        return
    try:
        os.write(descriptor, request.encode("ascii") + b"\n")
    except BlockingIOError as error:
        raise Unavailable(
            f"the run's supervisor is suspended and reads no commands ({control}); resume it with kill -CONT"
        ) from error
    except BrokenPipeError:  # it has ended since
        return
    finally:
        os.close(descriptor)


def is_heard(control: str) -> bool:
    """Whether a supervisor listens, that is: lives, and has not written exit.json."""
    descriptor = _open_fifo(control)
    if descriptor is not None:
        os.close(descriptor)
    return descriptor is not None


def _open_fifo(control: str) -> int | None:
    """The end of the FIFO to write to; null: it has no reader. OSError where that cannot be known."""
    try:
        descriptor = os.open(control, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ENXIO, errno.ENOENT, errno.ELOOP, errno.EISDIR, errno.ENOTDIR):
            return None
        raise
    if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)  # a job has replaced it
    return None


def remove_control(control: str) -> None:
    """Remove the FIFO of a run that is over."""
    try:
        Path(control).unlink(missing_ok=True)
    except OSError as error:  # it takes no room, and is not looked at again
        _log.warning("the control FIFO of a run that is over cannot be removed: %s", error)


# --- noticing the end ---


class Watch:
    """Calls `ended` once, from the event loop, when a process has ended: by a pidfd if there are any, else by looking.

    The process is known by number and start, so that another one with the same number does not count. A child of this
    process is reaped. With a `bell`, a descriptor that it closes, the end of that counts instead.
    """

    def __init__(
        self,
        pid: int,
        ticks: int | None,
        ended: Callable[[], None],
        look_s: float,
        bell: int | None = None,
    ) -> None:
        self.pid, self.ticks = pid, ticks
        self._ended, self._look_s = ended, look_s
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._bell = bell
        self._pidfd = None if bell is not None else _open_pidfd(pid)
        if bell is not None:
            self._loop.add_reader(bell, self._report_end)
        elif self._pidfd is not None and processes.lives(pid, ticks):
            # Checked last: now no other process gets its number.
            self._loop.add_reader(self._pidfd, self._report_end)
        else:
            self._look()

    def send(self, number: int) -> None:
        """Send a signal to exactly this process; nothing happens if it has ended."""
        if self._pidfd is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, number)
        elif processes.lives(self.pid, self.ticks):
            processes.send(self.pid, number)

    def cancel(self) -> None:
        """Watch no longer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for descriptor in (self._bell, self._pidfd):
            if descriptor is not None:
                self._loop.remove_reader(descriptor)
                os.close(descriptor)
        self._bell = self._pidfd = None

    def _look(self) -> None:
        reap(self.pid)
        if processes.lives(self.pid, self.ticks):
            self._timer = self._loop.call_later(self._look_s, self._look)
        else:
            self._timer = self._loop.call_later(0, self._report_end)

    def _report_end(self) -> None:
        self.cancel()
        reap(self.pid)
        self._ended()


def reap(pid: int) -> None:
    """Reap a child that has ended; one of another process, or that still runs, is left alone."""
    with contextlib.suppress(ChildProcessError):  # it is init's, as it was started before this service was
        os.waitpid(pid, os.WNOHANG)


def _open_pidfd(pid: int) -> int | None:
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:  # it has ended, there are too many descriptors, or the kernel is too old: then by looking
        return None


# --- leftovers of a run whose supervisor was killed ---


def kill_leftovers(shim: Mapping[str, Any], folder: str, identity: str) -> tuple[int, list[int]]:
    """Kill the processes of a run, given its shim.json: how many there were, and those that would not die.

    They are known by the command's session and group, as descendants of a live supervisor, and by BETIMES_RUN_DIR in
    their environment, so that those which left the session are found too. Processes of another identity stay: another
    run had, or has, a folder of this name (`run_folder.set_aside`).
    """
    if (group := shim.get("cgroup")) and Path(group).is_dir():
        processes.kill_group(group)
    give_up = time.monotonic() + _DEATH_S
    killed: set[int] = set()
    while left := list(_leftovers(shim, folder, identity)):
        if time.monotonic() > give_up:
            return len(killed), left
        for pid in left:
            processes.send(pid, signal.SIGKILL)
        killed.update(left)
        time.sleep(0.01)
    if group:
        processes.remove_group(group)
    return len(killed), []


def _leftovers(shim: Mapping[str, Any], folder: str, identity: str) -> Iterator[int]:
    number, since = shim.get("pgid"), shim.get("command_start_ticks") or 0
    leader = None if number is None else processes.status(number)
    # A number is not given out again while a group has it: a leader that began at another time leads another group.
    recycled = leader is not None and leader.start_ticks != since
    mark = f"BETIMES_RUN_DIR={folder}/".encode("utf-8", "surrogateescape")
    own_id = f"BETIMES_RUN_ID={identity}".encode()
    supervisor = shim.get("pid", 0)
    is_there = supervisor and processes.lives(supervisor, shim["start_ticks"])
    below = set(processes.descendants(supervisor)) if is_there else set[int]()
    for pid in processes.everyone():
        found = processes.status(pid)
        if found is None or not found.lives or found.start_ticks < since or pid == os.getpid():
            continue
        is_of_group = not recycled and number in (found.group, found.session)
        if is_of_group or pid in below or _is_marked(pid, mark, own_id):
            yield pid


def _is_marked(pid: int, mark: bytes, own_id: bytes) -> bool:
    try:
        environ = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        if not any(one.startswith(mark) or one + b"/" == mark for one in environ):
            return False
        return all(one == own_id for one in environ if one.startswith(b"BETIMES_RUN_ID="))
    except OSError:  # it has just ended, or belongs to another user and so is no run of ours
        return False
