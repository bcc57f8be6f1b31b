"""Limits on this process from the kernel's control groups (versions 1, 2, and both at once), and the place for groups
of runs (version 2).

A limit may be set on the process's own group or on any above it; the smallest counts. The files are described in
the kernel's Documentation/admin-guide/cgroup-v1 and cgroup-v2.rst, /proc/self/{cgroup,mountinfo} in proc(5).
"""

from __future__ import annotations

import logging
import math
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

_LOG = logging.getLogger(__name__)
_ESCAPE = re.compile(r"\\([0-7]{3})")
_SERVICE = "service"
"""The group of the service itself: a group with processes cannot have limited groups below it."""


@dataclass(frozen=True)
class Limits:
    """Cores (a fraction of processor time) and bytes of memory; infinity: no limit."""

    cpu: float = math.inf
    memory_bytes: float = math.inf


def read_limits(process: Path = Path("/proc/self")) -> Limits:
    """The limits of the process whose folder of /proc this is; none where there are no control groups."""
    cpu = memory_bytes = math.inf
    for controllers, folder in _groups(process):
        if "cpu" in controllers:
            cpu = min(cpu, _read(folder, _cores_1))
        if "memory" in controllers:
            memory_bytes = min(memory_bytes, _read(folder, _bytes_1))
        if not controllers:
            cpu = min(cpu, _read(folder, _cores_2))
            memory_bytes = min(memory_bytes, _read(folder, _bytes_2))
    return Limits(cpu, memory_bytes)


def find_group(process: Path = Path("/proc/self")) -> Path | None:
    """The control group (v2) of this process, if groups with a memory limit can be made below it; else None.

    A process that is alone in its group moves to one below, as the kernel demands. A unit of systemd has such a group
    with `Delegate=yes` and `DelegateSubgroup=service`: in the unit's own group systemd starts the next service, which
    the kernel refuses once groups below are limited.
    """
    group = next((folder for controllers, folder in _groups(process) if not controllers), None)
    if group is None or group.name.endswith(".service"):
        return None
    if group.name == _SERVICE and allow_memory(group.parent):  # it has moved before
        return group.parent
    return group if allow_memory(group) else None


def allow_memory(group: Path) -> bool:
    """Have the groups below this one limit memory; False: that is not possible."""
    try:
        if "memory" not in (group / "cgroup.controllers").read_text(encoding="ascii").split():
            return False
        below = group / "cgroup.subtree_control"
        if "memory" in below.read_text(encoding="ascii").split():
            return os.access(group, os.W_OK)
        inside = (group / "cgroup.procs").read_text(encoding="ascii").split()
        if inside == [str(os.getpid())]:
            (group / _SERVICE).mkdir(exist_ok=True)
            (group / _SERVICE / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")
        below.write_text("+memory", encoding="ascii")
    except OSError:  # not ours to change, or others are inside: then runs are polled
        return False
    return True


def _cores_2(folder: Path) -> float:
    quota, period = (folder / "cpu.max").read_text().split()
    return math.inf if quota == "max" else int(quota) / int(period)


def _bytes_2(folder: Path) -> float:
    limit = (folder / "memory.max").read_text().strip()
    return math.inf if limit == "max" else int(limit)


def _cores_1(folder: Path) -> float:
    quota = int((folder / "cpu.cfs_quota_us").read_text())
    return math.inf if quota < 0 else quota / int((folder / "cpu.cfs_period_us").read_text())


def _bytes_1(folder: Path) -> float:
    return int((folder / "memory.limit_in_bytes").read_text())  # no limit is a number beyond any memory


def _read(folder: Path, limit: Callable[[Path], float]) -> float:
    try:
        return limit(folder)
    except FileNotFoundError:
        return math.inf  # the group at the root, or one without this controller
    except (OSError, ValueError, ZeroDivisionError) as error:
        _LOG.warning("a limit of control group %s cannot be read (%s); taken for none", folder, error)
        return math.inf


def _groups(process: Path) -> Iterator[tuple[frozenset[str], Path]]:
    """The folder of the process's group in every hierarchy, and of those above it; no controllers: version 2."""
    try:
        own = (process / "cgroup").read_text()
        mounts = (process / "mountinfo").read_text()
    except FileNotFoundError:
        return  # not Linux
    paths = {
        frozenset(filter(None, controllers.split(","))): path
        for _, controllers, path in (line.split(":", 2) for line in own.splitlines())
    }
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        root, mount = (_unescaped(text) for text in before.split()[3:5])
        kind, _, options = after.split(" ", 2)
        for controllers, path in paths.items():
            v1 = kind == "cgroup" and controllers and controllers <= set(options.split(","))
            if v1 or (kind == "cgroup2" and not controllers):
                for part in _upwards(path, root):
                    yield controllers, Path(mount) / part


def _upwards(path: str, root: str) -> list[PurePosixPath]:
    """A group below the mount, and all above it, relative to the mount."""
    group = PurePosixPath(path)
    # A container may see a part of the hierarchy that its path is not in: then the top of that part counts.
    inside = group.is_relative_to(root) and ".." not in group.parts
    below = group.relative_to(root) if inside else PurePosixPath()
    return [below, *below.parents]


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda found: chr(int(found[1], 8)), text)
