"""Ending what is left of a run whose supervisor was killed."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from betimes.service.executors.supervision import memory, processes

_PATIENCE_S = (
    10.0  # for processes that do not die: in the hands of a driver, or of a file server that is away
)


def kill_leftovers(shim: Mapping[str, Any], folder: str, identity: str) -> tuple[int, list[int]]:
    """Kill the processes of a run, given its shim.json: how many there were, and those that would not die.

    They are known by the command's session and group, as descendants of a supervisor that lives, and by
    BETIMES_RUN_DIR in their environment, so that those which left the session are found too. Of those, processes of
    another identity stay: another run had, or has, a folder of this name (`fates.set_aside`).
    """
    if (group := shim.get("cgroup")) and Path(group).is_dir():
        memory.kill_group(group)
    give_up = time.monotonic() + _PATIENCE_S
    killed: set[int] = set()
    while left := list(_leftovers(shim, folder, identity)):
        if time.monotonic() > give_up:
            return len(killed), left
        for pid in left:
            processes.send(pid, signal.SIGKILL)
        killed.update(left)
        time.sleep(0.01)
    if group:
        memory.remove_group(group)
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
