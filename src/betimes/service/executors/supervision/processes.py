"""Processes of this machine: identity, ancestors, descendants, and how to reach them.

Linux shows all of it in /proc. Elsewhere a run is only its process group, and a process only its number.
"""

from __future__ import annotations

import ctypes
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Iterator
else:
    try:
        import _signal as signal  # without its enums, whose import takes as long as all of Python's own start
    except ImportError:  # another implementation of Python
        import signal

_LINUX = sys.platform == "linux"
_PAGE = os.sysconf("SC_PAGE_SIZE")
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
    """A process in /proc: its state (Z: it has ended), parent, group, session, and when it began."""

    __slots__ = ("group", "parent", "session", "start_ticks", "state")

    def __init__(self, line: bytes) -> None:
        fields = line[line.rindex(b")") + 2 :].split()  # the name before may hold anything
        self.state = fields[0].decode()
        self.parent, self.group, self.session = (int(field) for field in fields[1:4])
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
