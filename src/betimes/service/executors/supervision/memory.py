"""The memory limit of a run: a separate control group where possible, else its processes are polled.

The limit is on resident memory, of all processes together; reserved memory is free. Where the system does not report
the use of a process there is a resource limit on each process instead.
"""

from __future__ import annotations

import os
import resource
import sys

from .processes import descendants, proportional_bytes, resident_bytes

_LOOK_S = 0.2  # between two looks at the use of a run's processes
_POLLS = sys.platform == "linux"  # elsewhere a process's use is unknown
_WITHOUT_GROUP = "polling" if _POLLS else "RLIMIT_AS of each process"


class Memory:
    """A limit of so many bytes (0: none); `group` names a new control group under one that allows it, or is None."""

    def __init__(self, limit_bytes: int, group: str | None) -> None:
        self.limit_bytes = limit_bytes
        self.group = group if limit_bytes else None
        self.by = _WITHOUT_GROUP if limit_bytes else "none"
        self.used_bytes = self.most_bytes = (
            0  # by all of its processes, when they were last looked at, and ever
        )

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
        pids = list(descendants(shim))
        self.used_bytes = sum(map(resident_bytes, pids))
        if self.used_bytes > self.limit_bytes:
            self.used_bytes = sum(map(proportional_bytes, pids))
        self.most_bytes = max(self.most_bytes, self.used_bytes)
        return self.used_bytes > self.limit_bytes

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
