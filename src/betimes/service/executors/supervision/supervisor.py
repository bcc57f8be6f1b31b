"""A supervisor's work: one run from start to end; and the process that forks supervisors (`serve`).

A service starts one such process, which ends with the service; supervisors are in separate sessions, and go on.
"""

from __future__ import annotations

import gc
import marshal
import os
import resource
import select
import socket
import stat
import sys
import time

from .command import READY, READY_LIMITED, Log, become_command
from .curve import Curve
from .files import (
    BELL_FD,
    BUSY,
    CURVE,
    ERRORS,
    EXIT,
    LOG,
    NO_ROOM,
    RUNS,
    SHIM,
    as_json,
    clear_way,
    is_full,
    reserve_exit,
    sync_exit,
    take_run,
    write_atomically,
    write_exit,
)
from .gpus import Gpus
from .processes import (
    Memory,
    become_subreaper,
    boot_id,
    catches,
    children,
    cpu_s,
    descendants,
    send,
    signal,
    start_ticks,
    status,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

_CHUNK = 1 << 16
_LOOK_S = 0.2  # between two looks at a stopping run, beyond the signals of its processes
_NEVER = float("inf")
_SHOWS_USE = sys.platform == "linux"  # the use of other processes


def main(folder: str, launch: dict[str, Any]) -> int:
    """Supervise the run of this folder from start to end; the exit status is 0, or why nothing began: BUSY, NO_ROOM.

    launch: of launch.json.
    """
    os.set_inheritable(BELL_FD, False)
    os.closerange(BELL_FD + 1, os.sysconf("SC_OPEN_MAX"))  # what the service inherited
    lock = take_run(folder)
    if lock is None:
        return BUSY
    os.chdir(folder)  # which may be set aside while it runs, as that of another log
    return Supervisor(os.curdir, launch, lock).run()


class _NoRoom(Exception):
    """The disk is full before the command has begun: it can be started later."""


class Supervisor:
    """One run. The command's process stays unreaped to the end, so that its group's number is not reused."""

    def __init__(self, folder: str, launch: dict[str, Any], lock: int) -> None:
        self.folder, self.launch = folder, launch
        self.held = [lock]  # descriptors that show others that exit.json is still to be written
        owner = launch.get("owner")
        self.log = Log(
            os.path.join(folder, LOG),
            launch["log_bytes"],
            launch["log_files"],
            None if owner is None else (owner["uid"], owner["gid"]),
        )
        self.memory = Memory(launch["memory_bytes"], launch["cgroup"])
        self.curve, self.gpus = Curve(folder), Gpus(launch["gpus"])
        self.pid = 0  # of the command, and so of its group and session
        self.status: int | None = None  # as waited for
        self.ended = False  # the command has, perhaps not all that it started
        self.killed = False  # the grace period was not enough
        self.why: str | None = None  # it was stopped
        self.is_out_of_memory = False
        self.has_lost_node = False  # the process with which it is to end has ended
        self.grace_s = 0.0
        # By the monotonic clock.
        self.warn_at = self.limit_at = self.kill_at = self.look_at = self.curve_at = _NEVER
        self.suspended_at: float | None = None  # likewise
        self.suspended_s = 0.0  # before that
        self.began = self.started = time.monotonic()  # this process has, and the command
        self.started_s = time.time()
        self.has_begun = False  # the command
        self.asked = b""  # a request that has not come in full
        self.complaint = ""  # the last one

    def run(self) -> int:
        """Start the command, watch it to its end, and write exit.json: 0; NO_ROOM: nothing has begun."""
        become_subreaper()
        try:
            trouble = self._start()
            if trouble is None:
                self._watch()
            self._kill_all()
            if self.pid:
                self._read_output()
            self._record(trouble, "start-failed")
        except _NoRoom as full:
            self._kill_all()
            self.memory.leave()
            self._complain(str(full))
            self._let_go()
            return NO_ROOM
        except BaseException as error:
            self._kill_all()
            self._record(f"its supervisor failed: {error!r}; see {ERRORS} in the run's folder", "lost")
            raise
        return 0

    # --- start ---

    def _start(self) -> str | None:
        """Start the command; the error if that fails. Raises _NoRoom."""
        # Before anything runs, so that exit.json can be written even on a full disk.
        making = os.path.join(self.folder, EXIT)
        try:
            reserve_exit(self.folder)
            making = self.launch["control"]
            self.control = _open_fifo(making)
            self.held.append(self.control)
        except OSError as error:
            return self._cannot_write(making, error)
        self.log.write(b"")
        self.woken = _take_signals()
        self.output, output = os.pipe()
        os.set_blocking(self.output, False)
        reports, report = os.pipe()
        gate, open_gate = os.pipe()
        shim = os.getpid()
        try:
            self.pid = os.fork()
        except OSError as error:
            return (
                f"cannot start a process: {error.strerror}; there are too many, or too little memory is left"
            )
        if self.pid == 0:
            os.close(open_gate)
            become_command(self.launch, shim, output, report, gate, self.memory)
        for theirs in (output, report, gate):
            os.close(theirs)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        trouble = None
        if self.launch["time_limit_s"] is not None:
            self._limit(self.launch["time_limit_s"])
        answer = self._hear(reports)
        if answer == READY:
            trouble = self._announce()
            if trouble is None:
                os.write(open_gate, READY_LIMITED if self.memory.is_left_to_command else READY)
        os.close(open_gate)  # without a byte: the process only exits
        while more := self._hear(reports):
            answer += more
        os.close(reports)
        failure = answer.removeprefix(READY).decode("utf-8", "replace")
        trouble = trouble or failure or None
        self.has_begun = trouble is None and answer == READY and not self.killed
        if self.has_begun:
            self._ring()
        return trouble

    def _hear(self, reports: int) -> bytes:
        """Wait for the next report of the command's process; empty: it began, or ended, or was to be killed before.

        It may hang for good - in a folder on a file server that is away, at an output that is a FIFO - so that
        requests and the time limit hold meanwhile.
        """
        poller = select.poll()
        for descriptor in (self.woken, self.control, reports):
            poller.register(descriptor, select.POLLIN)
        while True:
            for descriptor, _ in poller.poll(self._wait_ms()):
                if descriptor == reports:
                    return os.read(reports, 4096)
                self._attend(descriptor)
            self._reap()
            self._see_to_limits()
            if self._is_over() and not self.ended:
                return b""

    def _ring(self) -> None:
        """Let the service know that the command runs."""
        try:
            os.write(BELL_FD, bytes([RUNS]))
        except BrokenPipeError:  # it was killed: the next one finds the run by its folder
            return

    def _announce(self) -> str | None:
        """Pin and limit the command's process, and write shim.json, before anything runs."""
        cpus, pinning = self.launch["cpus"], None
        if cpus and hasattr(os, "sched_setaffinity"):
            try:
                os.sched_setaffinity(self.pid, cpus)
            except OSError as error:  # a core that is offline, or not ours to use: slower, not wrong
                pinning = f"not pinned: {error.strerror}"
        self.memory.take(self.pid)
        command_start_ticks = start_ticks(self.pid)
        self.started, self.started_s = time.monotonic(), time.time()
        self.look_at = self.started + self.memory.look_s
        if _SHOWS_USE:
            self.curve_at = self.started + self.curve.look_s
        about = {
            "identity": self.launch["identity"],
            "pid": os.getpid(),
            "start_ticks": start_ticks(os.getpid()),
            "boot_id": boot_id(),
            "pgid": self.pid,
            "command_start_ticks": command_start_ticks,
            "started_at_s": self.started_s,
            "started_steady_s": self.started,
            "cpus": cpus,
            "pinning": pinning,
            "gpus": self.launch["gpus"],
            "memory_bytes": self.launch["memory_bytes"],
            "memory_limited_by": self.memory.by,
            "cgroup": self.memory.group,
        }
        try:  # not synced: if the machine itself stops, launch.json is enough
            write_atomically(os.path.join(self.folder, SHIM), as_json(about))
        except OSError as error:
            return self._cannot_write(os.path.join(self.folder, SHIM), error)
        return None

    def _cannot_write(self, path: str, error: OSError) -> str:
        path = os.path.normpath(os.path.join(self.launch["folder"], path))
        message = f"cannot write {path}: {error.strerror}"
        if is_full(error):
            raise _NoRoom(message)
        return message

    # --- watch ---

    def _watch(self) -> None:
        """Watch until the command has ended and, if it was stopped, its group too or the grace period is over."""
        poller = select.poll()
        for descriptor in (self.woken, self.control, self.output):
            poller.register(descriptor, select.POLLIN)
        node = self._open_node()
        if node is not None:
            poller.register(node, select.POLLIN)
        while not self._is_over():
            for descriptor, _ in poller.poll(self._wait_ms()):
                if descriptor == self.output:
                    if not self._read_output():
                        poller.unregister(self.output)
                elif descriptor == node:
                    self.has_lost_node = True
                else:
                    self._attend(descriptor)
            self._reap()
            self._see_to_limits()

    def _attend(self, descriptor: int) -> None:
        """Read requests, or the signals that have come."""
        if descriptor == self.control:
            self._obey()
        elif signal.SIGTERM in os.read(self.woken, 4096):  # perhaps the machine shuts down
            self._stop("stopped", self.launch["grace_s"])

    def _see_to_limits(self) -> None:
        """Look at the memory and at what is used if it is time to, and keep the time limit."""
        now = time.monotonic()
        if now >= self.look_at:
            self.look_at = now + self.memory.look_s
            self.is_out_of_memory = self.memory.is_exceeded(os.getpid())
        if now >= self.curve_at:
            self._measure(now)
        if self.why is None and not self.ended and self.suspended_at is None:
            if now >= self.limit_at:
                self._stop("time-limit", self.launch["grace_s"])
            elif now >= self.warn_at:
                self._warn(now)

    def _measure(self, now: float) -> None:
        """Take what the run uses into its curve; where the disk has no room, the next look tries again."""
        shim = os.getpid()
        try:
            self.curve.add(now - self.started, cpu_s(shim), self.memory.in_use(shim), self.gpus.use())
        except OSError as error:
            self._complain(f"cannot write {CURVE}: {error}")
        self.curve_at = now + self.curve.look_s

    def _is_over(self) -> bool:
        if self.is_out_of_memory:
            return True  # at once: within a grace period it could take what others need
        if self.has_lost_node:
            return True  # at once: its job is started on another node
        if self.ended and (self.why is None or not self._group_lives()):
            return True  # the signal may end a script at once; its program gets time to save its work
        self.killed = time.monotonic() >= self.kill_at
        return self.killed

    def _open_node(self) -> int | None:
        """A descriptor that is readable once the process with which the run is to end has ended; null: there is none,
        or it has ended already.
        """
        if self.launch.get("ends_with") is None or not hasattr(os, "pidfd_open"):
            return None
        pid, began = self.launch["ends_with"]
        try:
            node = os.pidfd_open(pid)
        except ProcessLookupError:
            node = None
        if node is None or start_ticks(pid) != began:  # checked last: now no other process gets its number
            self.has_lost_node = True
        return node

    def _group_lives(self) -> bool:
        found = map(status, descendants(os.getpid()))
        return any(one is not None and one.lives and one.group == self.pid for one in found)

    def _wait_ms(self) -> float | None:
        until = self.kill_at if self.why is not None else min(self.warn_at, self.limit_at)
        if self.suspended_at is not None:
            until = _NEVER
        wait_s = max(0.0, min(until, self.look_at, self.curve_at) - time.monotonic())
        if self.ended:
            wait_s = min(wait_s, _LOOK_S)
        return None if wait_s == _NEVER else min(wait_s, 1e6) * 1000 + 1

    def _read_output(self) -> bool:
        """Copy available output; False: there will be no more."""
        for _ in range(16):  # then other things get their turn
            try:
                chunk = os.read(self.output, _CHUNK)
            except BlockingIOError:
                return True
            if not chunk:
                return False
            self.log.write(chunk)
        return True

    def _obey(self) -> None:
        *requests, self.asked = (self.asked + os.read(self.control, 4096)).split(b"\n")
        for request in requests:
            what, _, amount = request.partition(b" ")
            try:
                if what == b"stop":
                    self._stop("stopped", float(amount))
                elif what == b"signal":
                    number, _, to = amount.partition(b" ")
                    self._signal(int(number), to.decode("ascii"))
                elif what == b"limit":
                    self._limit(float(amount))
                elif what == b"suspend":
                    self._suspend()
                elif what == b"resume":
                    self._resume()
                elif what == b"memory":
                    self.memory.allow(int(amount))
                elif what == b"gpus":
                    self.gpus = Gpus(amount.decode("ascii").split(",") if amount else ())
            except (OSError, ValueError, OverflowError) as error:
                # A process that can write here can write anything.
                self._complain(f"ignored {request!r}: {error}")

    def _limit(self, time_limit_s: float) -> None:
        """Set the time limit, from the supervisor's start; it is warned again if it was before."""
        if self.launch["time_limit_s"] == time_limit_s and self.limit_at != _NEVER:
            return
        self.launch["time_limit_s"], self.limit_at = time_limit_s, self.began + time_limit_s
        self.warn_at = self.limit_at - self.launch["warn_s"] if self.launch["warn_s"] else _NEVER

    def _suspend(self) -> None:
        """Suspend the command and all that it started; its time limit waits."""
        if self.why is not None or self.suspended_at is not None:
            return
        send(-self.pid, signal.SIGSTOP)  # at one instant; then those that have left the group
        self._signal(signal.SIGSTOP)
        self.suspended_at = time.monotonic()

    def _resume(self) -> None:
        if self.suspended_at is not None:
            self._signal(signal.SIGCONT)
            self.suspended_s += time.monotonic() - self.suspended_at
            self.suspended_at = None

    def _signal(self, number: int, to: str = "all") -> None:
        """Send a signal to all processes; `command`: to the first alone; `steps`: to those that `srun` has started.

        Where there are no steps, all others stand for them; and of those that stand, the ones that handle the signal,
        if any do, as it kills the rest.
        """
        pids = list(descendants(os.getpid())) or [-self.pid]
        if to == "command":
            pids = [self.pid]
        elif to == "steps":
            found = {pid: status(pid) for pid in pids}  # tasks of steps have sessions of their own
            pids = [pid for pid, one in found.items() if one is not None and one.session != self.pid] or pids
            pids = [pid for pid in pids if catches(pid, number)] or pids
        for pid in pids:
            send(pid, number)

    def _stop(self, why: str, grace_s: float) -> None:
        """SIGTERM, and an end to the grace period; of several calls, the earliest end counts.

        A command that has ended by itself has done its work, even if unnoticed so far.
        """
        self._reap()
        if self.ended and self.why is None:
            return
        if self.why is None:
            self.why = why
            for number in (signal.SIGTERM, signal.SIGCONT):  # suspended processes could not act on it
                send(-self.pid, number)
            self._resume()
        kill_at = time.monotonic() + grace_s
        if kill_at < self.kill_at:
            self.kill_at, self.grace_s = kill_at, grace_s

    def _warn(self, now: float) -> None:
        """A signal to processes that handle it, as it kills all others; if none does, look again in a second."""
        number = getattr(signal, "SIG" + self.launch.get("warn_signal", "USR1"))
        warned = [pid for pid in descendants(os.getpid()) if catches(pid, number)]
        for pid in warned:
            send(pid, number)
        self.warn_at = _NEVER if warned else now + 1.0

    def _reap(self) -> None:
        """Reap all ended processes but the command itself, whose end is only noticed."""
        if not hasattr(os, "waitid"):  # where no orphans come here either
            if self.status is None:
                pid, waited = os.waitpid(self.pid, os.WNOHANG)
                if pid:
                    self.ended, self.status = True, waited
            return
        while not self.ended:
            found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if found is None:
                return
            if found.si_pid == self.pid:
                self.ended = True
            else:
                os.waitpid(found.si_pid, 0)

    # --- end ---

    def _kill_all(self) -> None:
        """Kill until no child is left: orphans become the shim's children, and only it can reap them."""
        self.memory.kill()
        pause_s = 0.001
        while self.pid:
            if self.status is None:
                send(-self.pid, signal.SIGKILL)
            for child in children(os.getpid()):
                send(child, signal.SIGKILL)
            try:
                while (waited := os.waitpid(-1, os.WNOHANG))[0]:
                    if waited[0] == self.pid:
                        self.status = waited[1]
            except ChildProcessError:
                return
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, 0.05)

    def _record(self, trouble: str | None, why_trouble: str) -> None:
        """Write exit.json, however long it takes to find room, and notify the service before it is on the disk: the
        service acts on it only after a commit.
        """
        now = time.monotonic()
        suspended_s = self.suspended_s + (0.0 if self.suspended_at is None else now - self.suspended_at)
        code = None if self.status is None or trouble else os.waitstatus_to_exitcode(self.status)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        rss_bytes = used.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        peak_bytes = self.memory.peak_bytes() or rss_bytes
        if code == -signal.SIGKILL and not self.killed:
            # Perhaps by the kernel, which may be quicker than a look.
            is_above = 0 < self.memory.limit_bytes < max(peak_bytes, rss_bytes)
            self.is_out_of_memory = self.is_out_of_memory or is_above or self.memory.ran_out()
        if self.is_out_of_memory:
            self.why = self.why or "out-of-memory"
            self.memory.used_bytes = max(self.memory.used_bytes, peak_bytes)
        if self.has_lost_node and self.why is None:
            self.why = "node-lost"
        text = as_json(
            {
                "why": why_trouble if trouble else self.why or "exited",
                "exit_code": code if code is not None and code >= 0 else None,
                "signal": -code if code is not None and code < 0 else None,
                "message": trouble or self._message(),
                "started_at_s": self.started_s,
                "ended_at_s": time.time(),
                "run_s": now - self.started - suspended_s,
                "max_rss_gib": peak_bytes / 2**30,
                "cpu_s": used.ru_utime + used.ru_stime,
                "memory_limited_by": self.memory.by,
                "log_lost_bytes": self.log.lost_bytes,
            }
        )
        self.memory.leave()
        while True:
            try:
                write_exit(self.folder, text)
                break
            except FileNotFoundError:  # the folder was removed, and the run with it
                return
            except OSError as error:
                self._complain(f"cannot write {EXIT}, will try again: {error}")
                if not clear_way(self.folder, error):
                    time.sleep(1.0)
        self._let_go()
        os.close(BELL_FD)
        try:
            sync_exit(self.folder)
        except FileNotFoundError:  # the service knows the end, and has removed the folder
            return
        except OSError as error:
            self._complain(f"{EXIT} may not survive a power failure: {error}")

    def _let_go(self) -> None:
        """Release all descriptors held."""
        for descriptor in self.held:
            os.close(descriptor)

    def _complain(self, text: str) -> None:
        """Write an error to shim.err, unless it is the last one again."""
        if text == self.complaint:
            return
        self.complaint = text
        try:
            os.write(2, f"{text}\n".encode("utf-8", "backslashreplace"))
        except OSError:  # it is on the full disk: a lost message is no reason to end
            return

    def _message(self) -> str | None:
        parts: list[str] = []
        if self.why == "time-limit":
            limit_s = self.launch["time_limit_s"]
            if self.suspended_s:  # the limit was extended by about as much
                gone = f", without {self.suspended_s:.0f} s for which it was suspended"
                parts.append(f"it reached its time limit of {round(limit_s - self.suspended_s, 1):g} s{gone}")
            else:
                parts.append(f"it reached its time limit of {limit_s:g} s")
        if self.why == "time-limit" and not self.has_begun:
            parts.append(
                "its command had not begun: its folder, or an output file, could not be opened in that time"
            )
        if self.why == "node-lost":
            parts.append("its node has left the cluster, and it was killed")
        if self.killed:
            parts.append(
                f"it was killed, as its grace period of {self.grace_s:g} s was not enough for it to end"
            )
        limit = f"limit {_amount(self.memory.limit_bytes)}"
        if self.is_out_of_memory:
            parts.append(f"out of memory: used {_amount(self.memory.used_bytes)}, {limit}")
        elif self.memory.ran_out():
            parts.append(f"one of its processes was killed: out of memory, {limit}")
        if self.log.dropped_bytes:
            kept = f"{self.log.files} files of {self.log.most_bytes} bytes are kept"
            parts.append(f"{self.log.dropped_bytes} bytes of its oldest output were dropped, as {kept}")
        if self.log.failed_bytes:
            parts.append(f"{self.log.failed_bytes} bytes of its output could not be kept: {self.log.trouble}")
        return "; ".join(parts) or None


def _open_fifo(path: str) -> int:
    """The run's control FIFO; also open for writing, so that it never ends."""
    try:
        os.mkfifo(path, 0o600)
    except FileExistsError:
        if not stat.S_ISFIFO(os.stat(path).st_mode):
            raise
    return os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)


def _take_signals() -> int:
    """A descriptor from which the numbers of the signals that matter can be read."""
    woken, wake = os.pipe()
    for end in (woken, wake):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, lambda _number, _frame: None)
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    return woken


def _amount(size_bytes: int) -> str:
    """Memory as `betimes job` writes it: `200 MiB`, `1.5 GiB`."""
    return f"{size_bytes / 2**30:.3g} GiB" if size_bytes >= 2**30 else f"{size_bytes / 2**20:.3g} MiB"


# --- the process that forks the supervisor of each run, with all of a supervisor's imports done ---

NUMBER_BYTES = 8  # of a request's length, and of an answer: a process, or an error's number below zero


def serve(descriptor: int) -> None:
    """Fork a supervisor for each request that comes over this socket, until its other end is closed.

    A request is its length, with the descriptors of shim.err and of the bell, and then the marshalled folder and
    launch.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # supervisors record their results
    gc.freeze()  # so that supervisors share these pages
    with socket.socket(fileno=descriptor) as service:
        while True:
            try:
                length, handed, _, _ = socket.recv_fds(service, NUMBER_BYTES, 2)
            except ConnectionResetError:  # the service was killed before it had read an answer
                return
            if not length:
                return
            count = int.from_bytes(length, "little")
            request = service.recv(count, socket.MSG_WAITALL)
            if len(request) < count:  # the service was killed before it had sent all
                return
            try:
                answer = os.fork()
                if answer == 0:
                    _supervise(*marshal.loads(request), *handed)
            except OSError as error:
                answer = -(error.errno or 1)
            for one in handed:
                os.close(one)
            try:
                service.sendall(answer.to_bytes(NUMBER_BYTES, "little", signed=True))
            except (BrokenPipeError, ConnectionResetError):  # it was killed meanwhile
                return


def _supervise(folder: str, launch: dict[str, Any], errors: int, bell: int) -> NoReturn:
    """Be the supervisor of a run. The bell gets one byte: the command runs, or why nothing has begun."""
    code = 1
    try:
        os.setsid()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor, number in ((null, 0), (null, 1), (errors, 2), (bell, BELL_FD)):
            os.dup2(descriptor, number)
        code = main(folder, launch)
        if code:
            os.write(BELL_FD, bytes([code]))
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        sys.stderr.flush()
    os._exit(code)
