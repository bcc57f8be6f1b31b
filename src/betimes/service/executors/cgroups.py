"""Finding a control group under which runs can have their own."""

from __future__ import annotations

import os
from pathlib import Path

_MOUNTS = Path("/proc/self/mountinfo")
_OWN = Path("/proc/self/cgroup")
_SERVICE = (
    "service"  # where the service itself moves to: a group with processes cannot have limited groups below it
)


def find_group() -> Path | None:
    """The control group (v2) of this process, if groups with a memory limit can be made below it; else None.

    A process that is alone in its group moves to one below, as the kernel demands; so it is with a systemd unit that
    has `Delegate=yes`.
    """
    try:
        mount = _mount_point(_MOUNTS.read_text(encoding="utf-8"))
        own = next(
            (line[3:] for line in _OWN.read_text(encoding="utf-8").splitlines() if line.startswith("0::")),
            None,
        )
    except OSError:  # no Linux
        return None
    if mount is None or own is None:
        return None
    group = mount / own.lstrip("/")
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
    except OSError:  # not ours to change, or others are inside: then runs are looked at
        return False
    return True


def _mount_point(mounts: str) -> Path | None:
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        if after.split(" ", 1)[0] == "cgroup2":
            return Path(before.split(" ")[4])
    return None
