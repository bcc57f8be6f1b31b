"""Before and after a supervisor is started: the record of what it is to do, and what became of it."""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from betimes.service.executors.devices import Assigned
from betimes.service.executors.protocol import Launch
from betimes.service.executors.records import Damaged, read
from betimes.service.executors.supervision import files
from betimes.service.executors.supervision.processes import boot_id
from betimes.service.uploads.archive import DamagedArchive, unpack


@dataclass(frozen=True)
class Keeping:
    """How much of a run's output is kept, the control group below which runs get theirs, and the process, by its number
    and its start, with which every run ends; null: runs outlive all other processes.
    """

    log_bytes: int
    log_files: int
    group: Path | None
    ends_with: tuple[int, int] | None = None


def make_copy(launch: Launch) -> None:
    """Unpack the directory that was sent along with a job into the run's folder; a copy that is there stands.

    Raises DamagedArchive for what is not there or cannot be unpacked; OSError where the disk does not allow it.
    """
    copy = Path(launch.folder, files.COPY)
    if launch.archive is None or copy.is_dir():
        return
    if not Path(launch.archive).exists():
        raise DamagedArchive(
            f"its uploaded directory is missing ({launch.archive}); submit it again with --upload"
        )
    _make_private(copy.parent)
    try:
        unpack(Path(launch.archive), copy)
    except DamagedArchive as error:
        raise DamagedArchive(
            f"its uploaded directory ({launch.archive}) {error}; remove that file, and submit again with --upload"
        ) from None


def write_launch(launch: Launch, assigned: Assigned, has_gpus: bool, keeping: Keeping) -> dict[str, Any]:
    """Make the run's folders and launch.json, and give its content; a launch.json that is there stands.

    It survives a power failure after `sync_launch`.

    OSError where that is not possible.
    """
    folder = Path(launch.folder)
    _make_private(folder)
    _make_private(Path(launch.checkpoint_dir))
    _make_private(Path(launch.control).parent)
    try:
        found = read(launch.folder, files.LAUNCH)
    except Damaged:  # a service was killed with the machine: the run has not begun
        found = None
    if found:
        return found
    own = Path(job_folder(launch.folder))
    _make_private(own)
    env = {**launch.env, "BETIMES_RUN_DIR": str(own), "BETIMES_RUN_ID": launch.identity}
    if assigned.cpus:
        env["BETIMES_CPUS"] = ",".join(map(str, assigned.cpus))
    if has_gpus:
        env["CUDA_VISIBLE_DEVICES"] = assigned.visible_gpus
    name = f"run-{launch.run.job}-{launch.run.number}-{launch.identity[:8]}"
    record = {
        **asdict(launch),
        "workdir": launch.workdir if launch.archive is None else str(folder / files.COPY),
        "run": list(launch.run),
        "command": list(launch.command),
        "places": [asdict(place) for place in launch.places],
        "env": env,
        "cpus": list(assigned.cpus),
        "gpus": dict(assigned.gpus),
        "memory_bytes": round(launch.memory_gib * launch.units * 2**30),
        "cgroup": None if keeping.group is None else str(keeping.group / name),
        "log_bytes": keeping.log_bytes,
        "log_files": keeping.log_files,
        "boot_id": boot_id(),
        "ends_with": keeping.ends_with,
    }
    files.write_atomically(str(folder / files.LAUNCH), json.dumps(record))
    return record


def job_folder(folder: str) -> str:
    """The folder of a run that is its job's, apart from what the service and the supervisor keep."""
    return str(Path(folder, files.JOB_FOLDER))


def sync_launch(folder: str) -> None:
    """Make the folder of a run and launch.json survive a power failure. OSError where that is not possible.

    A run whose folder a power failure has taken away is started again.
    """
    run = Path(folder)
    # One after the other, so that most file systems write their journal once.
    for made in (run / files.LAUNCH, run, run.parent, run.parent.parent):
        files.sync(str(made))


async def is_known(bell: int) -> int | None:
    """Wait until it is known whether the command runs; `bell` is that of `spawn`.

    Returns RUNS, or the exit status of a supervisor that has begun nothing: BUSY, NO_ROOM; null: it has ended
    otherwise.
    """
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_reader(bell, lambda: ready.done() or ready.set_result(None))
    try:
        await ready
    finally:
        loop.remove_reader(bell)
    word = os.read(bell, 1)
    return word[0] if word else None


def _make_private(folder: Path) -> None:
    """Make a folder and those above it that are not there, for their owner alone: `mkdir` would open the latter."""
    if not folder.is_dir():
        _make_private(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
