"""Notification of a running job that it now holds more or fewer units."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

HANDLERS = "handlers"  # a folder of the run's: a file a process that handles SIGUSR2, named by its number
UNITS = "units.json"  # in the run's folder: what it holds since it was last resized

Handler = TypeVar("Handler", bound=Callable[[int], object])


def on_resize(handler: Handler) -> Handler:
    """Have `handler(units)` called, in the main thread, whenever the job is resized; without one it is restarted.

    Registers this process with Betimes and takes SIGUSR2 for it; outside Betimes nothing happens. Before the handler
    is called BETIMES_UNITS, BETIMES_CPUS and CUDA_VISIBLE_DEVICES are set anew, for the processes that it starts; a
    process that uses GPUs keeps those it began with. Each process of a job may register its own handler; of several
    in one process the last counts. Can be used as a decorator. Raises ValueError if it is not called in the main
    thread, and OSError if the run's folder cannot be written.
    """
    folder = os.environ.get("BETIMES_RUN_DIR")
    if folder:
        signal.signal(signal.SIGUSR2, lambda _number, _frame: _resized(Path(folder), handler))
        _register(Path(folder))
    return handler


def _register(folder: Path) -> None:
    handlers = folder / HANDLERS
    handlers.mkdir(exist_ok=True)
    partial = handlers / f"{os.getpid()}.part"
    partial.write_text(json.dumps({"start_ticks": _start_ticks()}), encoding="ascii")
    partial.replace(handlers / str(os.getpid()))


def _start_ticks() -> int | None:
    """The start of this process, so that another one that gets its number later is not taken for it."""
    try:
        return int(Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()[19])
    except FileNotFoundError:  # no Linux
        return None


def _resized(folder: Path, handler: Callable[[int], object]) -> None:
    try:
        now = json.loads((folder / UNITS).read_text(encoding="ascii"))
    except FileNotFoundError:  # the signal came from elsewhere
        return
    os.environ["BETIMES_UNITS"] = str(now["units"])
    if now["cpus"]:
        os.environ["BETIMES_CPUS"] = ",".join(map(str, now["cpus"]))
    else:
        os.environ.pop("BETIMES_CPUS", None)
    if "CUDA_VISIBLE_DEVICES" in os.environ:
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(now["gpus"])
    handler(now["units"])
