"""Executors start, signal, stop and resize runs, and report their fates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from betimes.cluster.resources import Natural
from betimes.service.scheduling.events import Report, RunId, Signalled

FORCE_AFTER_S = 5.0
"""From the end of the grace period until an executor itself ends a run."""


@dataclass(frozen=True)
class Place:
    """Units of a run on a node."""

    node: str
    units: int


@dataclass(frozen=True)
class Launch:
    """Everything needed to start a run; `env` is complete except for the executor's variables."""

    run: RunId
    command: tuple[str, ...]
    workdir: str
    env: dict[str, str]
    units: int
    places: tuple[Place, ...]
    cpu: float  # a unit
    memory_gib: float  # a unit; 0: no limit
    gpu: float  # a unit
    grace_s: float
    folder: str  # of the run: logs, exit status; made by the executor
    checkpoint_dir: str  # made by the executor
    control: str  # the FIFO over which the service reaches the run's supervisor; made by the executor
    identity: str  # of the run: unique among the runs of all logs
    time_limit_s: float | None = None  # of this run: warned, stopped with its grace period, killed
    warn_s: float = 60.0
    archive: str | None = None  # of a directory: it runs in a copy of that, and not in `workdir`
    unit_on: Mapping[str, Natural] = field(default_factory=dict[str, Natural])
    """The demand of a unit on each node, where families differ; the amounts above are then those of the first."""
    speed: float = 1.0  # of the job on these nodes, as specified; for runs that only take time
    estimate_s: float | None = None  # as specified, on `max_units`; likewise
    max_units: int = 1
    stdin: str | None = None  # the command's standard input
    warn_signal: str = "USR1"
    output: str | None = None  # the file for standard output and, without `error`, for standard error
    error: str | None = None
    may_restart: bool = True  # False: the start is on the disk before the run begins
    user: str | None = None  # the Unix user as whom it runs; null: the service's
    keeps_checkpoints: bool = True  # `checkpoint_dir` is the service's; else the job has named it


Listener = Callable[[Report], None]  # called in the event loop's thread; must not block


class Executor(Protocol):
    """Runs commands on nodes. Every method may safely be called again for the same run."""

    async def start(self, launch: Launch) -> None:
        """Start a run; `Started`, or `Ended` with why=start-failed, is reported once it is known.

        A full disk is no reason to fail: the run is started once there is room.
        """
        ...

    async def signal(self, run: RunId, number: int, to: Signalled) -> None:
        """Send a signal to processes of a run, which does with it what it likes; nothing happens if it has ended."""
        ...

    async def stop(self, run: RunId, grace_s: float) -> None:
        """SIGTERM, and SIGKILL when the grace period is over, even if the service is gone by then. `Ended` follows.

        A run still there a few seconds later is ended by the executor itself, which reports `Trouble`.
        """
        ...

    async def limit(self, run: RunId, time_limit_s: float) -> None:
        """Give a run another time limit, from its start; nothing happens if it has ended."""
        ...

    async def resize(self, run: RunId, units: int, places: tuple[Place, ...]) -> bool:
        """Notify a run with a resize handler of its new units; False: it has none and must be restarted."""
        ...

    async def drop(self, run: RunId) -> None:
        """A node of a run is lost, and the run with it: kill the rest on other nodes. Nothing is reported."""
        ...

    async def adopt(self, launches: Sequence[Launch]) -> None:
        """After a restart of the service: report each as `Started` (adopted) or `Ended`, and start what never was."""
        ...

    async def close(self) -> None:
        """Stop watching; runs go on."""
        ...
