"""The cores, GPUs and memory of this machine that each run has: assigned at its start, changed while it runs (see
`betimes.resizing`).
"""

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
from betimes.service.executors.run_folder import Assigned, Damaged, job_folder, read_bytes
from betimes.service.executors.supervision import files, processes
from betimes.service.executors.supervisors import write_request
from betimes.service.scheduling.events import RunId

_WHOLE = 1e-6  # an amount so close to a whole number is one; likewise for the free share of a GPU


class Devices:
    """Free and taken devices. Only whole cores are pinned; the same calls in the same order give the same devices."""

    def __init__(self, cpus: Sequence[int], gpus: Sequence[str]) -> None:
        self.cpus, self.gpus = tuple(sorted(cpus)), tuple(gpus)
        self._held: dict[RunId, Assigned] = {}

    def take(self, run: RunId, cpu: float, gpu: float) -> Assigned:
        """So many cores and GPUs for a run: first those it already holds, then the lowest free ones.

        A share of a GPU goes where it leaves the least free. Where too little is free a run gets the GPU with the most
        free, and is unpinned if cores lack: the scheduler decides how much may run.
        """
        before = self._held.pop(run, Assigned())
        self._held[run] = Assigned(self._cores(cpu, before), self._shares(gpu, before))
        return self._held[run]

    def hold(self, run: RunId, assigned: Assigned) -> None:
        """Restore a run's devices as recorded at their assignment."""
        self._held[run] = assigned

    def held(self, run: RunId) -> Assigned:
        """A run's devices; none if it is not known."""
        return self._held.get(run, Assigned())

    def give_back(self, run: RunId) -> None:
        """A run has ended."""
        self._held.pop(run, None)

    def _cores(self, cpu: float, before: Assigned) -> tuple[int, ...]:
        count = round(cpu)
        if abs(cpu - count) > _WHOLE or not count:
            return ()
        taken = {core for held in self._held.values() for core in held.cpus}
        free = [core for core in self.cpus if core not in taken]
        free.sort(key=lambda core: (core not in before.cpus, core))
        return tuple(sorted(free[:count])) if len(free) >= count else ()

    def _shares(self, gpu: float, before: Assigned) -> dict[str, float]:
        free = dict.fromkeys(self.gpus, 1.0)
        for held in self._held.values():
            for name, share in held.gpus.items():
                free[name] = free.get(name, 1.0) - share
        shares: dict[str, float] = {}
        left = gpu
        while left > _WHOLE and len(shares) < len(self.gpus):
            share = min(left, 1.0)
            others = [name for name in self.gpus if name not in shares]
            enough = [name for name in others if free[name] >= share - _WHOLE]
            if enough:
                name = min(enough, key=lambda name: (name not in before.gpus, round(free[name], 6)))
            else:
                name = max(others, key=lambda name: free[name])
                share = min(share, max(free[name], _WHOLE))
            shares[name] = share
            left -= share
        return {name: shares[name] for name in self.gpus if name in shares}


_MOST_BYTES = 1024  # of a handler's file


# --- while a run runs ---


def resize_handlers(folder: str, shim: Mapping[str, Any]) -> list[int]:
    """The processes of a run that registered a handler and will not die of the signal; on Linux only."""
    members = set(processes.descendants(shim["pid"]))
    found: list[int] = []
    with contextlib.suppress(OSError):  # none has registered, or the job has put something else there
        for entry in Path(job_folder(folder), HANDLERS).iterdir():
            pid = int(entry.name) if entry.name.isascii() and entry.name.isdigit() else 0
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
        return processes.raise_limit(group, limit_bytes)
    if shim.get("memory_limited_by", "").startswith("RLIMIT"):
        return False
    try:
        write_request(control, f"memory {limit_bytes:d}")
    except Unavailable:
        return False
    return True


def notify(
    folder: str,
    shim: Mapping[str, Any],
    control: str,
    to: Sequence[int],
    units: int,
    assigned: Assigned,
    cpus: Sequence[int],
) -> None:
    """Record the run's units and devices, pin its processes (`cpus` empty: leave them), signal its handlers, and have
    its supervisor measure the GPUs that it has now.

    OSError where units.json cannot be written.
    """
    now = {"units": units, "cpus": list(assigned.cpus), "gpus": dict(assigned.gpus)}
    # Readable, as the folder is its owner's alone, and the owner may be another user.
    files.write_atomically(f"{job_folder(folder)}/{UNITS}", files.as_json(now), 0o644)
    if cpus and hasattr(os, "sched_setaffinity"):
        for pid in processes.descendants(shim["pid"]):
            for thread in processes.threads(pid):
                # It has ended; or a core is offline, which makes it slower.
                with contextlib.suppress(OSError):
                    os.sched_setaffinity(thread, cpus)
    for pid in to:
        processes.send(pid, signal.SIGUSR2)
    if assigned.gpus:
        with contextlib.suppress(Unavailable):  # it has ended
            write_request(control, f"gpus {','.join(assigned.gpus)}")


def _began(entry: Path) -> int | None:
    try:
        return json.loads(read_bytes(str(entry), _MOST_BYTES) or b"{}").get("start_ticks")
    except (Damaged, OSError, ValueError, AttributeError, RecursionError):
        # Not (or no longer) a handler's file.
        return None
