"""Processes of this machine: identity, ancestors, descendants, how to reach them, and the memory limit of a run.

Linux shows all of it in /proc. Elsewhere a run is only its process group, and a process only its number. psutil does
not stand in for it: it shows no handlers of signals, and looks for children among all processes of the machine.
"""

from __future__ import annotations

import ctypes
import os
import resource
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Iterator, Sequence
else:
    try:
        import _signal as signal  # without its enums, whose import takes as long as all of Python's own start
    except ImportError:  # another implementation of Python
        import signal

_LINUX = sys.platform == "linux"
_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")  # of processor time, a second
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_prctl = ctypes.CDLL(None).prctl if _LINUX else None


def boot_id() -> str:
    """The id of this boot of the machine; empty where it is not known."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except FileNotFoundError:
        return ""


class Status:
    """A process in /proc: its state (Z: it has ended), parent, group, session, when it began, and its
    processor time with that of the children that it has waited for.
    """

    __slots__ = ("cpu_ticks", "group", "parent", "session", "start_ticks", "state")

    def __init__(self, line: bytes) -> None:
        fields = line[line.rindex(b")") + 2 :].split()  # the name before may hold anything
        self.state = fields[0].decode()
        self.parent, self.group, self.session = (int(field) for field in fields[1:4])
        self.cpu_ticks = sum(map(int, fields[11:15]))
        self.start_ticks = int(fields[19])

    @property
    def lives(self) -> bool:
        """Whether it has not ended; an ended process stays until its parent reaps it."""
        return self.state not in "ZX"


def status(pid: int) -> Status | None:
    """The status of a process; None: there is none, or /proc does not show it."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return Status(file.read())
    except (FileNotFoundError, ProcessLookupError):
        return None


def start_ticks(pid: int) -> int | None:
    """The start of a process, in clock ticks since boot: with its number, this identifies it for good."""
    found = status(pid)
    return None if found is None else found.start_ticks


def lives(pid: int, ticks: int | None) -> bool:
    """Whether exactly this process has not ended yet; `ticks` None: any with the number."""
    found = status(pid)
    if found is not None:
        return found.lives and ticks in (None, found.start_ticks)
    return not _LINUX and send(pid, 0)


def children(pid: int) -> list[int]:
    """The child processes, ended but unreaped ones included."""
    found: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children", "rb") as file:
                found += map(int, file.read().split())
    except ProcessLookupError:
        return found
    except FileNotFoundError:  # it ended, or the kernel keeps no such list
        if os.path.exists(f"/proc/{pid}/task/{pid}"):
            return [other for other in everyone() if (of := status(other)) is not None and of.parent == pid]
    return found


def descendants(pid: int) -> Iterator[int]:
    """Its children, their children, and so on."""
    following = children(pid)
    while following:
        one = following.pop()
        yield one
        following += children(one)


def threads(pid: int) -> list[int]:
    """The numbers of a process's threads; none if it has ended."""
    try:
        return [int(task) for task in os.listdir(f"/proc/{pid}/task")]
    except (FileNotFoundError, ProcessLookupError):
        return []


def everyone() -> list[int]:
    """All processes that /proc shows."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()] if _LINUX else []


def resident_bytes(pid: int) -> int:
    """The memory that a process has in use, shared pages included; 0: there is no such process."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            return int(file.read().split()[1]) * _PAGE
    except (FileNotFoundError, ProcessLookupError):
        return 0


def proportional_bytes(pid: int) -> int:
    """The memory that a process has in use, a page shared by n processes counted as an nth; slow for large ones."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            for line in file:
                if line.startswith(b"Pss:"):
                    return int(line.split()[1]) * 1024
    except (
        FileNotFoundError,
        ProcessLookupError,
        PermissionError,
    ):
        # Ended, an old kernel, or another user by now.
        return resident_bytes(pid)
    return resident_bytes(pid)


def cpu_s(shim: int) -> float:
    """The processor time, s, of all that this process, a supervisor, has started, ended or not."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = map(status, descendants(shim))
    return used.ru_utime + used.ru_stime + sum(one.cpu_ticks for one in found if one is not None) / _TICKS


def catches(pid: int, number: int) -> bool:
    """Whether a process handles a signal, that is: does not die of it; from /proc only."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            for line in file:
                if line.startswith(b"SigCgt:"):
                    return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    except (FileNotFoundError, ProcessLookupError):
        return False
    return False


def send(pid: int, number: int) -> bool:
    """Send a signal to a process, or to a group if the number is negative; False: there is none."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    except PermissionError:  # it has changed its user: it exists, but out of reach
        return True
    return True


def become_subreaper() -> None:
    """Become the parent of all orphans among the descendants, wherever they went."""
    if _prctl is not None:
        _prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with(parent: int) -> None:
    """Have this process killed when its parent dies, so that no command runs without supervision."""
    if _prctl is not None:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(0)


def become_user(uid: int, gid: int, groups: Sequence[int], streams: Sequence[int]) -> None:
    """Give up this process's rights, those of root, for those of a user, for good. OSError where that is not possible.

    streams: descriptors that become the user's, too, so that /dev/stdout and the like can be opened by name.
    """
    for stream in streams:
        os.fchown(stream, uid, gid)
    os.setgroups(groups)  # while this is still root, and the user last, who could not change groups
    os.setgid(gid)
    os.setuid(uid)
    os.umask(0o022)


# --- the memory limit of a run ---

_LOOK_S = 0.2  # between two looks at the use of a run's processes
_POLLS = sys.platform == "linux"  # elsewhere a process's use is unknown
_WITHOUT_GROUP = "polling" if _POLLS else "RLIMIT_AS of each process"


class Memory:
    """A limit of so many bytes (0: none) on the resident memory of all of a run's processes together.

    `group` names a new control group under one that allows it. Without one (None) the processes are polled, or, where
    the system does not report their use, each has a resource limit. Reserved memory is free.
    """

    def __init__(self, limit_bytes: int, group: str | None) -> None:
        self.limit_bytes = limit_bytes
        self.group = group if limit_bytes else None
        self.by = _WITHOUT_GROUP if limit_bytes else "none"
        # By all of its processes, when they were last looked at, and ever.
        self.used_bytes = self.most_bytes = 0

    @property
    def is_left_to_command(self) -> bool:
        """Whether the new process has to limit itself: there is a limit, and nothing else to enforce it."""
        return not _POLLS and self.by.startswith(_WITHOUT_GROUP)

    @property
    def look_s(self) -> float:
        """Time until the next look at the run's use, s; infinity: the kernel enforces the limit."""
        return _LOOK_S if _POLLS and self.by.startswith(_WITHOUT_GROUP) else float("inf")

    def is_exceeded(self, shim: int) -> bool:
        """Whether a run's processes together exceed its limit, shared pages counted once."""
        self.used_bytes = self.in_use(shim)
        self.most_bytes = max(self.most_bytes, self.used_bytes)
        return self.used_bytes > self.limit_bytes

    def in_use(self, shim: int) -> int:
        """The memory in use by a run's processes, bytes, as its control group counts it; without one what is resident,
        where shared pages count once if they would exceed the limit else.
        """
        counted = _read(self.group, "memory.current") if self.group is not None else ""
        if counted:
            return int(counted)
        pids = list(descendants(shim))
        used_bytes = sum(map(resident_bytes, pids))
        is_above = 0 < self.limit_bytes < used_bytes
        return sum(map(proportional_bytes, pids)) if is_above else used_bytes

    def allow(self, limit_bytes: int) -> None:
        """Raise the run's limit; it is never lowered, as used memory cannot be taken away."""
        self.limit_bytes = max(self.limit_bytes, limit_bytes)

    def take(self, pid: int) -> None:
        """Limit a process that has not begun yet, and with it all its descendants."""
        if self.group is None:
            return
        try:
            os.makedirs(self.group, exist_ok=True)
            _write(self.group, "memory.max", self.limit_bytes)
            for name in ("memory.swap.max", "memory.oom.group"):
                if os.path.exists(os.path.join(self.group, name)):  # not without swap, not in older kernels
                    _write(self.group, name, int(name == "memory.oom.group"))
            _write(self.group, "cgroup.procs", pid)
        except OSError as error:
            self.leave()
            self.by = f"{_WITHOUT_GROUP}, for want of a control group: {error.strerror}"
        else:
            self.by = "cgroup v2"

    def limit_self(self) -> None:
        """The resource limit, in the process that is about to become the command."""
        _, most = resource.getrlimit(resource.RLIMIT_AS)
        limit = self.limit_bytes if most == resource.RLIM_INFINITY else min(self.limit_bytes, most)
        resource.setrlimit(resource.RLIMIT_AS, (limit, most))  # soft: against mistakes

    def kill(self) -> None:
        """Kill all that is in the control group, if there is one."""
        if self.group is not None:
            kill_group(self.group)

    def ran_out(self) -> bool:
        """Whether the kernel killed a process of the control group for memory."""
        if self.group is None:
            return False
        found = dict(line.split() for line in _read(self.group, "memory.events").splitlines())
        return int(found.get("oom_kill", 0)) > 0

    def peak_bytes(self) -> int | None:
        """The run's peak memory, bytes; None: not known for the run as a whole."""
        peak = _read(self.group, "memory.peak") if self.group is not None else ""
        return int(peak) if peak else self.most_bytes or None

    def leave(self) -> None:
        """Remove the control group, which is empty by now."""
        if self.group is not None:
            remove_group(self.group)
        self.group = None


def raise_limit(group: str, limit_bytes: int) -> bool:
    """Raise, never lower, the limit of a control group; False: that is not allowed."""
    try:
        limit = _read(group, "memory.max").strip()
        if limit != "max" and int(limit or 0) < limit_bytes:
            _write(group, "memory.max", limit_bytes)
    except OSError:
        return False
    return True


def kill_group(group: str) -> None:
    """Kill all that is in a control group, where the kernel offers it (Linux 5.14)."""
    if os.path.exists(os.path.join(group, "cgroup.kill")):
        _write(group, "cgroup.kill", 1)


def remove_group(group: str) -> None:
    """Remove an empty control group; one that is not there or still in use is left alone."""
    try:
        os.rmdir(group)
    except OSError:  # it costs a few kilobytes, and is found again under the same name
        return


def _write(group: str, name: str, value: int) -> None:
    descriptor = os.open(os.path.join(group, name), os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, b"%d" % value)
    finally:
        os.close(descriptor)


def _read(group: str, name: str) -> str:
    try:
        with open(os.path.join(group, name), encoding="ascii") as file:
            return file.read()
    except FileNotFoundError:
        return ""
