"""Resizing a running run: its handlers, its resources, and the notification. See `betimes.resizing`."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from betimes.errors import Unavailable
from betimes.resizing import HANDLERS, UNITS
from betimes.service.executors.devices import Assigned
from betimes.service.executors.records import Damaged, read_bytes
from betimes.service.executors.run_folder import job_folder
from betimes.service.executors.supervision import files, memory, processes
from betimes.service.executors.supervisors import write_request

_MOST_BYTES = 1024  # of a handler's file


def handlers(folder: str, shim: Mapping[str, Any]) -> list[int]:
    """The processes of a run that registered a handler and will not die of the signal; on Linux only."""
    members = set(processes.descendants(shim["pid"]))
    found: list[int] = []
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):  # none has registered
        for entry in Path(job_folder(folder), HANDLERS).iterdir():
            pid = int(entry.name) if entry.name.isdigit() else 0
            if (
                pid in members
                and _began(entry) == processes.start_ticks(pid)
                and processes.catches(pid, signal.SIGUSR2)
            ):
                found.append(pid)
    return sorted(found)


def allow_memory(shim: Mapping[str, Any], control: str, limit_bytes: int) -> bool:
    """Raise a run's memory limit, if any; it is never lowered, as used memory cannot be taken away.

    False: that is not allowed.
    """
    if not shim.get("memory_bytes") or not limit_bytes:
        return True
    if group := shim.get("cgroup"):
        return memory.raise_limit(group, limit_bytes)
    if shim.get("memory_limited_by", "").startswith("RLIMIT"):
        return False
    try:
        write_request(control, f"memory {limit_bytes:d}")
    except Unavailable:
        return False
    return True


def tell(
    folder: str,
    shim: Mapping[str, Any],
    to: Sequence[int],
    units: int,
    assigned: Assigned,
    cpus: Sequence[int],
) -> None:
    """Record the run's units and devices, pin its processes (`cpus` empty: leave them), and signal its handlers.

    OSError where units.json cannot be written.
    """
    now = {"units": units, "cpus": list(assigned.cpus), "gpus": dict(assigned.gpus)}
    files.write_atomically(f"{job_folder(folder)}/{UNITS}", files.as_json(now))
    if cpus and hasattr(os, "sched_setaffinity"):
        for pid in processes.descendants(shim["pid"]):
            for thread in processes.threads(pid):
                # It has ended; or a core is offline, which makes it slower.
                with contextlib.suppress(OSError):
                    os.sched_setaffinity(thread, cpus)
    for pid in to:
        processes.send(pid, signal.SIGUSR2)


def _began(entry: Path) -> int | None:
    try:
        return json.loads(read_bytes(str(entry), _MOST_BYTES) or b"{}").get("start_ticks")
    except (
        Damaged,
        OSError,
        ValueError,
        AttributeError,
        RecursionError,
    ):  # not (or no longer) a handler's file
        return None
