"""A service on a virtual clock, without a socket, whose searches a test carries out."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from betimes.foresight.tuning import Front
from betimes.service.executors.virtual import WORK
from betimes.service.machines.machine import Machine
from betimes.service.runtime.adviser import AdviseFor
from betimes.service.runtime.clock import VirtualClock
from betimes.service.scheduling.events import Event
from betimes.service.spec.job_spec import JobSpec
from betimes.service.startup.in_memory import assembled
from betimes.service.store.store import Store
from betimes.service.tuning.process import Order, ReportProgress, in_process
from betimes.service.tuning.retune import Retune
from tests.service.tuning.fronts import front

PATIENCE_S = 60.0


def spec(work_s: float, **asked: Any) -> JobSpec:
    """A job that takes so long on one unit, and whose submitter knows it."""
    asked.setdefault("estimate_s", work_s)
    return JobSpec(command=["x"], workdir="/", env={WORK: str(work_s)}, grace_s=0.0, **asked)


class Searches:
    """A search by hand: each order waits until the test lets it end with a front, or with an error."""

    def __init__(self, at_once: Callable[[Order], Front] | None = None) -> None:
        self.at_once = at_once
        self.orders: list[Order] = []
        self.told: ReportProgress = lambda _: None
        self.stop = asyncio.Event()
        self.cancelled = 0
        self.ends: asyncio.Future[Front]

    async def __call__(self, order: Order, told: ReportProgress, stop: asyncio.Event) -> Front:
        self.orders.append(order)
        if self.at_once is not None:
            return self.at_once(order)
        self.told, self.stop, self.ends = told, stop, asyncio.get_running_loop().create_future()
        try:
            return await self.ends
        except asyncio.CancelledError:
            self.cancelled += 1
            raise

    async def end(self, found: Front) -> None:
        """Let the search that goes on, or is about to, end with a front."""
        async with asyncio.timeout(PATIENCE_S):
            while not hasattr(self, "ends"):
                await asyncio.sleep(0.005)
        self.ends.set_result(found)


class House:
    """A service with four cores; opened again, it starts again from its store and its folder."""

    def __init__(
        self,
        folder: Path,
        policy: str = "fifo",
        retune: Retune | None = None,
        searches: Searches | None = None,
        cores: float = 4.0,
        advises: AdviseFor = in_process,
    ) -> None:
        self.advises = advises
        self.folder, self.policy, self.retune, self.cores = folder, policy, retune, cores
        self.searches = searches or Searches()
        self.store = Store.in_memory(folder)

    @asynccontextmanager
    async def open(self, arrivals: list[tuple[float, JobSpec]] | None = None) -> AsyncIterator[House]:
        async with assembled(
            [Machine("n", "virtual", "n", self.cores, 8.0, 0.0)],
            self.policy,
            self.folder,
            clock=VirtualClock(0.0, math.inf),
            store=self.store,
            at_once=True,
            arrivals=arrivals,
            retune=self.retune,
            search=self.searches,
            advises=self.advises,
        ) as service:
            self.clock, self.controller = service.clock, service.controller
            self.tuner, self.backend = service.tuner, service.backend
            yield self

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for something to become true."""
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                await asyncio.sleep(0.001)

    async def all_over(self) -> None:
        """Wait until every job is, and every search."""
        source = self.controller.source
        await self.until(
            lambda: (
                (source is None or source.next_at() == math.inf)
                and not self.controller.scheduler.ledger.jobs
                and self.tuner.going is None
            )
        )

    async def submit(self, *work_s: float, **asked: Any) -> list[int]:
        taken = await self.backend.submit([spec(each, **asked) for each in work_s], "ann")
        return [one.job_id for one in taken]

    async def found(self, found: Front | None = None) -> None:
        """Let the search that is going on end."""
        await self.until(lambda: hasattr(self.searches, "ends") and not self.searches.ends.done())
        self.searches.ends.set_result(found or front())
        await self.until(lambda: self.tuner.going is None)

    def told(self, *kinds: str) -> list[Event]:
        return self.store.events(kinds=kinds)
