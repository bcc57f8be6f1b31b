"""The memory limit of a run: a control group of its own where there can be one, else a resource limit."""

from __future__ import annotations

import os
import resource
import sys

# Of each process. RLIMIT_DATA counts what a process may write, RLIMIT_AS all it has reserved: CUDA reserves far more
# than there is.
LIMIT = resource.RLIMIT_DATA if sys.platform == "linux" else resource.RLIMIT_AS
LIMIT_NAME = "RLIMIT_DATA" if sys.platform == "linux" else "RLIMIT_AS"


class Memory:
    """A limit of so many bytes (0: none); `group` names a new control group under one that allows it, or is None."""

    def __init__(self, limit_bytes: int, group: str | None) -> None:
        self.limit_bytes = limit_bytes
        self.group = group if limit_bytes else None
        self.by = LIMIT_NAME if limit_bytes else "none"

    @property
    def is_left_to_command(self) -> bool:
        """Whether the new process has to limit itself: there is a limit, and no control group."""
        return self.by.startswith(LIMIT_NAME)

    def take(self, pid: int) -> None:
        """Limit a process that has not begun yet, and with it all that it will start."""
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
            self.by = f"{LIMIT_NAME}, for want of a control group: {error.strerror}"
        else:
            self.by = "cgroup v2"

    def limit_self(self) -> None:
        """The resource limit, in the process that is about to become the command."""
        _, most = resource.getrlimit(LIMIT)
        limit = self.limit_bytes if most == resource.RLIM_INFINITY else min(self.limit_bytes, most)
        resource.setrlimit(
            LIMIT, (limit, most)
        )  # soft: against mistakes, and it can be raised when the run grows

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
        """The most memory that the control group held at once; None: the kernel does not tell."""
        peak = _read(self.group, "memory.peak") if self.group is not None else ""
        return int(peak) if peak else None

    def leave(self) -> None:
        """Remove the control group, which is empty by now."""
        if self.group is not None:
            remove_group(self.group)
        self.group = None


def raise_limit(group: str, limit_bytes: int) -> bool:
    """Raise the limit of a control group, never lower it; False: that is not allowed."""
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
