"""Work ordered in full - a search, advice - in a process that ends with the service (`worker`)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import pickle
import signal
import sys
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel

from betimes.cluster import Cluster
from betimes.errors import InputError, ServiceError
from betimes.foresight.tuning import Front, Progress, Search, tune
from betimes.service.tuning.recent import Recent
from betimes.service.views.models import TuneSpec

ReportProgress = Callable[[dict[str, Any]], None]
"""Receives the progress of work; of a search: doing, done, of, front, hypervolume."""

Brought_co = TypeVar("Brought_co", bound=BaseModel, covariant=True)


class Work(Protocol[Brought_co]):
    """Everything that some work needs; it travels to another process, and what it brings comes back as JSON."""

    @property
    def brings(self) -> type[Brought_co]:
        """The kind of the result."""
        ...

    def work(self, stopped: Callable[[], bool], report: ReportProgress) -> Brought_co:
        """The result, at once where `stopped` says so. Raises InputError; KeyboardInterrupt: there is none yet."""
        ...


@dataclass(frozen=True)
class Order:
    """The search space, the jobs, and the policies to compare with: the first is the one in force."""

    spec: TuneSpec
    recent: Recent
    cluster: Cluster
    restart_s: float
    resize_interval_s: float
    resize_gain: bool
    baselines: tuple[str, ...]

    @property
    def brings(self) -> type[Front]:
        """The kind of the result."""
        return Front

    def work(self, stopped: Callable[[], bool], report: ReportProgress) -> Front:
        """As `carry_out`, with progress as it is sent."""

        def progressed(progress: Progress) -> None:
            volume = progress.hypervolume if math.isfinite(progress.hypervolume) else None
            report({**asdict(progress), "hypervolume": volume})

        return self.carry_out(stopped, progressed)

    def carry_out(self, stopped: Callable[[], bool], progress: Callable[[Progress], object]) -> Front:
        """The front. Jobs that the cluster cannot hold now are left out. Raises as `tune` does."""
        spec = self.spec
        return tune(
            self.recent.workload,
            spec.objectives,
            cluster=self.cluster,
            curves=self.recent.curves,
            sizes=spec.sizes,
            restart_s=self.restart_s,
            resize_interval_s=self.resize_interval_s,
            resize_gain=self.resize_gain,
            on_wide="drop",
            how=Search(
                evaluations=spec.evaluations,
                budget_s=spec.budget_s,
                solver=spec.solver,
                seed=spec.seed,
                jobs=spec.jobs,
                baselines=self.baselines,
                cached=False,  # the workload differs the next time
            ),
            stopped=stopped,
            progress=progress,
        )


SearchFor = Callable[[Order, ReportProgress, asyncio.Event], Awaitable[Front]]
"""Carries out an order; the event asks it to end with the front so far. Raises InputError, ServiceError."""

WORKER = "betimes.service.tuning.worker"
STOP = b"s"
LONGEST_LINE = 1 << 28


async def search_in_process(order: Order, report: ReportProgress, stop: asyncio.Event) -> Front:
    """A `SearchFor`: one process, in a separate session, killed when this is cancelled."""
    return await in_process(order, report, stop)


async def in_process(order: Work[Brought_co], report: ReportProgress, stop: asyncio.Event) -> Brought_co:
    """Carry work out in one process, in a separate session, killed when this is cancelled.

    Raises InputError, ServiceError.
    """
    # Its input stays open as long as the service lives: end of file means that the service has gone.
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", WORKER),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
        limit=LONGEST_LINE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    asking = asyncio.ensure_future(_ask_to_stop(stop, process.stdin))
    try:
        process.stdin.write(await asyncio.to_thread(pickle.dumps, order))
        with contextlib.suppress(ConnectionError):  # it has ended already: see below
            await process.stdin.drain()
        async for line in process.stdout:
            message: dict[str, Any] = json.loads(line)
            if "brought" in message:
                return await asyncio.to_thread(order.brings.model_validate, message["brought"])
            if "refused" in message:
                raise InputError(message["refused"])
            report(message["progress"])
        raise ServiceError(f"the process of it ended {_how(await process.wait())}; see the service's log")
    finally:
        asking.cancel()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.stdin.close()
        await process.wait()


async def _ask_to_stop(stop: asyncio.Event, writer: asyncio.StreamWriter) -> None:
    await stop.wait()
    writer.write(STOP)


def _how(code: int) -> str:
    return f"by signal {-code}" if code < 0 else f"with code {code}"
