"""Carries out effects: executors start, stop and resize runs, virtual worlds forget them, a cloud takes nodes back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from betimes.errors import CloudError, Unavailable
from betimes.service.executors.local import LocalExecutor
from betimes.service.executors.protocol import Executor, Place
from betimes.service.executors.ray.executor import RayExecutor
from betimes.service.executors.virtual import VirtualExecutor, VirtualWorld
from betimes.service.runtime.inbox import Inbox
from betimes.service.runtime.launches import Launches
from betimes.service.runtime.planning import Background, PlannerThread, Selections
from betimes.service.runtime.rentals import Rentals
from betimes.service.scheduling.effects import (
    AskPlanner,
    DropRun,
    Effect,
    GiveBack,
    LimitRun,
    OrderMachine,
    RentMachines,
    ResizeRun,
    SelectMember,
    SignalRun,
    StartRun,
    StopRun,
    SuspendRun,
)
from betimes.service.scheduling.events import RunId
from betimes.service.scheduling.job import Job
from betimes.service.scheduling.scheduler import Scheduler

RETRY_S = 1.0  # between two tries of an effect

log = logging.getLogger(__name__)


class EffectRunner:
    """Carries effects out, and puts their results into the inbox.

    now_s: the present instant, by the service's clock.
    """

    def __init__(
        self,
        inbox: Inbox,
        background: Background,
        launches: Launches,
        rentals: Rentals | None,
        now_s: Callable[[], float],
        selections: Selections,
        planner: PlannerThread,
    ) -> None:
        self.executors: dict[str, Executor] = {}
        self.worlds: list[VirtualWorld] = []
        self._selections, self._planner = selections, planner
        self._inbox, self._background, self._launches = inbox, background, launches
        self._rentals, self._now_s = rentals, now_s

    @property
    def cluster(self) -> RayExecutor | None:
        """The executor of several nodes that run commands; null: this machine is the only one."""
        found = self.executors.get("ray", self.executors.get("rented"))
        return found if isinstance(found, RayExecutor) else None

    def admit(self, kind: str, executor: Executor) -> None:
        """Runs on nodes of this kind are carried out by `executor`."""
        self.executors[kind] = executor

    async def adopt(self, scheduler: Scheduler) -> None:
        """After a start: adopt runs from before, and go on stopping those that were to stop."""
        launched = [job for job in scheduler.ledger.jobs.values() if job.run is not None and job.run.launched]
        for kind, executor in self.executors.items():
            mine = [job for job in launched if _kind_of(job, scheduler) == kind]
            await executor.adopt(
                [self._launches.of(job, scheduler.ledger.nodes, scheduler.pace(job)) for job in mine]
            )
            for job in mine:
                run = job.run
                limit_s = job.run_limit_s
                if run is not None and limit_s is not None:  # it may have been changed just before
                    await self._limit(executor, RunId(job.job_id, run.number), limit_s)
                if run is not None and (run.suspended_at is not None or run.suspended_s):
                    await self._suspend(executor, RunId(job.job_id, run.number), scheduler)
                if run is not None and run.stopping is not None:
                    left_s = max(0.0, (run.stop_by_at or 0.0) - self._now_s())
                    await self._stop(executor, RunId(job.job_id, run.number), left_s)

    async def carry_out(self, effect: Effect, scheduler: Scheduler) -> None:
        """Carry out an effect; slow work goes on in the background."""
        if isinstance(effect, GiveBack):
            self._give_back(effect.node, scheduler.now_at)
            return
        if isinstance(effect, RentMachines):
            assert self._rentals is not None, "machines are rented from a cloud"
            self._rentals.order(scheduler, effect.job, effect.type, effect.count)
            self._inbox.woken.set()
            return
        if isinstance(effect, OrderMachine):
            assert self._rentals is not None, "machines are rented from a cloud"
            self._rentals.order_shared(scheduler, effect.type, effect.move)
            self._inbox.woken.set()
            return
        if isinstance(effect, SelectMember):
            self._selections.begin(effect)
            return
        if isinstance(effect, AskPlanner):
            self._planner.ask(effect)
            return
        if isinstance(effect, DropRun):
            for world in self.worlds:
                world.forget(effect.run, scheduler.now_at, discards=effect.discards)
            for executor in self.executors.values():
                await executor.drop(effect.run)
            return
        job = scheduler.ledger.jobs.get(effect.run.job)
        if job is None or job.run is None or job.run.number != effect.run.number:
            return
        executor = self.executors[_kind_of(job, scheduler)]
        if isinstance(effect, StartRun):
            await executor.start(self._launches.of(job, scheduler.ledger.nodes, scheduler.pace(job)))
        elif isinstance(effect, StopRun):
            if isinstance(executor, VirtualExecutor):
                executor.world.note_stop(effect.run, effect.why)
            await self._stop(executor, effect.run, effect.grace_s)
        elif isinstance(effect, LimitRun):
            await self._limit(executor, effect.run, effect.time_limit_s)
        elif isinstance(effect, SuspendRun):
            await self._suspend(executor, effect.run, scheduler)
        elif isinstance(effect, SignalRun):
            await self._ask(
                executor, effect.run, lambda _: executor.signal(effect.run, effect.number, effect.to)
            )
        elif isinstance(effect, ResizeRun):
            places = tuple(Place(node, units) for node, units in effect.places)
            if isinstance(executor, VirtualExecutor):  # at this very instant
                await self._resize(executor, effect, places)
            else:
                self._background.go(self._resize(executor, effect, places))

    async def close(self) -> None:
        """Let executors go; runs go on."""
        for executor in self.executors.values():
            await executor.close()

    async def _stop(self, executor: Executor, run: RunId, grace_s: float) -> None:
        """Stop a run; one that has not even started, or cannot be reached just now, is not waited for."""
        await self._ask(executor, run, lambda late_s: executor.stop(run, max(0.0, grace_s - late_s)))

    async def _limit(self, executor: Executor, run: RunId, time_limit_s: float) -> None:
        """Give a run another time limit; likewise."""
        await self._ask(executor, run, lambda _: executor.limit(run, time_limit_s))

    async def _suspend(self, executor: Executor, run: RunId, scheduler: Scheduler) -> None:
        """Suspend a run or let it go on, whichever is asked for once it can be reached."""
        if not isinstance(executor, LocalExecutor | VirtualExecutor):
            raise TypeError(f"internal: run {run.job}.{run.number} is not on this machine")

        async def ask(_: float) -> None:
            job = scheduler.ledger.jobs.get(run.job)
            if job is None or job.run is None or job.run.number != run.number:
                return
            if job.is_suspended and job.run.stopping is None:
                await executor.suspend(run)
            else:
                await executor.resume(run, job.run_limit_s)

        await self._ask(executor, run, ask)

    async def _ask(
        self, executor: Executor, run: RunId, ask: Callable[[float], Coroutine[Any, Any, None]]
    ) -> None:
        """Ask now, or until it is reached; `ask` gets by how many seconds it comes late."""
        if isinstance(executor, VirtualExecutor):
            await ask(0.0)
        else:
            self._background.go(self._ask_sometime(run, ask))

    async def _ask_sometime(self, run: RunId, ask: Callable[[float], Coroutine[Any, Any, None]]) -> None:
        began_at, late_s = self._now_s(), 0.0
        while True:
            try:
                await ask(late_s)
                return
            except Unavailable as error:
                log.warning("run %d.%d cannot be reached yet: %s", *run, error)
                await asyncio.sleep(RETRY_S)
                late_s = self._now_s() - began_at

    async def _resize(self, executor: Executor, effect: ResizeRun, places: tuple[Place, ...]) -> None:
        done = await executor.resize(effect.run, effect.units, places)
        run = effect.run
        self._inbox.tell(
            f"resize of run {run.job}.{run.number}",
            lambda scheduler: scheduler.reports.resized(run, effect.units, effect.places, done),
        )

    def _give_back(self, node: str, now_at: float) -> None:
        """Give a rented node back; a cloud that does not answer is asked again until it does."""
        assert self._rentals is not None, "only a cloud's nodes are given back"
        try:
            self._rentals.give_back(node, now_at)
        except CloudError as error:
            log.warning("node %s cannot be given back yet: %s", node, error)
            self._background.go(self._give_back_later(node))

    async def _give_back_later(self, node: str) -> None:
        await asyncio.sleep(RETRY_S)
        self._inbox.tell(f"return of node {node}", lambda scheduler: scheduler.nodes.give_back(node))


def _kind_of(job: Job, scheduler: Scheduler) -> str:
    """The kind of the nodes that a job runs on."""
    run = job.run
    name = run.places[0][0] if run is not None and run.places else ""
    node = scheduler.ledger.nodes.get(name)
    return node.machine.kind if node is not None else "virtual"
