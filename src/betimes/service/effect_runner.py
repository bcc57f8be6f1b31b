"""Where the service touches the world: executors, virtual worlds, and the cloud that it rents from."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Any

from betimes.errors import CloudError, Unavailable
from betimes.service.clock import Clock, VirtualClock
from betimes.service.executors.protocol import Executor, Place
from betimes.service.executors.virtual import VirtualExecutor, VirtualWorld
from betimes.service.inbox import Act, Input, report_to
from betimes.service.job import Job
from betimes.service.launches import Launches
from betimes.service.rentals import Rentals
from betimes.service.scheduling.effects import DropRun, Effect, GiveBack, ResizeRun, StartRun, StopRun
from betimes.service.scheduling.run_reports import Report, RunId
from betimes.service.scheduling.scheduler import Scheduler

RETRY_S = 1.0  # between two tries of what cannot be done just now

log = logging.getLogger(__name__)


class Hands:
    """Carries effects out, and puts what comes of them into the inbox."""

    def __init__(self, scheduler: Scheduler, clock: Clock | VirtualClock, launches: Launches) -> None:
        self.scheduler, self.clock, self.launches = scheduler, clock, launches
        self.executors: dict[str, Executor] = {}
        self.worlds: list[VirtualWorld] = []
        self.rentals: Rentals | None = None
        self.inbox: list[Input] = []
        self.woken = asyncio.Event()
        self.tasks: set[asyncio.Task[Any]] = set()

    def tell(self, act: Act) -> None:
        """Let something be done with the state at the next turn; nobody waits for it."""
        self.inbox.append(Input(act))
        self.woken.set()

    def admit(self, kind: str, executor: Executor) -> None:
        """Runs on nodes of this kind are carried out by `executor`."""
        self.executors[kind] = executor

    def hear(self, report: Report) -> None:
        """An executor's report."""
        self.tell(partial(report_to, report=report))

    async def adopt(self) -> None:
        """After a start: sort out what ran when the service went, and go on with what was to be stopped."""
        launched = [
            job for job in self.scheduler.ledger.jobs.values() if job.run is not None and job.run.launched
        ]
        for kind, executor in self.executors.items():
            mine = [job for job in launched if self._kind_of(job) == kind]
            await executor.adopt([self.launches.of(job) for job in mine])
            for job in mine:
                run = job.run
                if run is not None and run.stopping is not None:
                    left_s = max(0.0, (run.stop_by_at or 0.0) - self.clock.now_s())
                    await self._stop(executor, RunId(job.job_id, run.number), left_s)

    def go(self, work: Any) -> None:
        """Let something run beside, until it is done or the service stops."""
        task = asyncio.ensure_future(work)
        self.tasks.add(task)
        task.add_done_callback(self._gone)

    async def _carry_out(self, effect: Effect) -> None:
        if isinstance(effect, GiveBack):
            await self._give_back(effect.node)
            return
        if isinstance(effect, DropRun):
            for world in self.worlds:
                world.forget(effect.run, self.scheduler.now_at)
            return
        job = self.scheduler.ledger.jobs.get(effect.run.job)
        if job is None or job.run is None or job.run.number != effect.run.number:
            return
        executor = self.executors[self._kind_of(job)]
        if isinstance(effect, StartRun):
            await executor.start(self.launches.of(job))
        elif isinstance(effect, StopRun):
            await self._stop(executor, effect.run, effect.grace_s)
        elif isinstance(effect, ResizeRun):
            places = tuple(Place(node, units) for node, units in effect.places)
            if isinstance(executor, VirtualExecutor):  # at this very instant
                await self._resize(executor, effect, places)
            else:
                self.go(self._resize(executor, effect, places))

    async def _stop(self, executor: Executor, run: RunId, grace_s: float) -> None:
        """Tell a run to stop; nobody waits for one that has not even started, or cannot be reached just now."""
        if isinstance(executor, VirtualExecutor):
            await executor.stop(run, grace_s)
        else:
            self.go(self._stop_sometime(executor, run, grace_s))

    async def _stop_sometime(self, executor: Executor, run: RunId, grace_s: float) -> None:
        by_at = self.clock.now_s() + grace_s
        while True:
            try:
                await executor.stop(run, grace_s)
                return
            except Unavailable as error:
                log.warning("run %d.%d cannot be told to stop yet: %s", *run, error)
                await asyncio.sleep(RETRY_S)
                grace_s = max(0.0, by_at - self.clock.now_s())

    async def _resize(self, executor: Executor, effect: ResizeRun, places: tuple[Place, ...]) -> None:
        done = await executor.resize(effect.run, effect.units, places)
        self.tell(lambda scheduler: scheduler.reports.resized(effect.run, effect.units, effect.places, done))

    async def _give_back(self, node: str) -> None:
        """Give a rented node back; a cloud that does not answer is asked again until it does."""
        assert self.rentals is not None, "only a cloud's nodes are given back"
        try:
            self.rentals.give_back(node, self.scheduler.now_at)
        except CloudError as error:
            log.warning("node %s cannot be given back yet: %s", node, error)
            self.go(self._give_back_later(node))

    async def _give_back_later(self, node: str) -> None:
        await asyncio.sleep(RETRY_S)
        self.tell(lambda scheduler: scheduler.nodes.give_back(node))

    def _kind_of(self, job: Job) -> str:
        run = job.run
        name = run.places[0][0] if run is not None and run.places else ""
        node = self.scheduler.ledger.nodes.get(name)
        return node.machine.kind if node is not None else "virtual"

    def _gone(self, task: asyncio.Task[Any]) -> None:
        self.tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("beside the controller: %s", error, exc_info=error)
