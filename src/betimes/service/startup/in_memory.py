"""Assembles the service in memory: store, clock, runs and cloud, without a process, a socket or a database.

The controller, the scheduler and the API's backend are those of the real service (`bootstrap`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from betimes.errors import ServiceError
from betimes.service.access.auth import RunTokens
from betimes.service.executors.virtual import VirtualExecutor, VirtualWorld
from betimes.service.machines.machine import Machine
from betimes.service.machines.provider import OpenCloud
from betimes.service.runtime.adviser import AdviseFor, LiveAdviser
from betimes.service.runtime.clock import Clock, VirtualClock
from betimes.service.runtime.controller import LEASE_S, Controller
from betimes.service.runtime.launches import Launches
from betimes.service.runtime.promises import Promises
from betimes.service.runtime.rentals import Rentals
from betimes.service.runtime.replay import Source
from betimes.service.runtime.service_backend import ServiceBackend
from betimes.service.runtime.tuner import LiveTuner
from betimes.service.scheduling.engine_factory import Settings
from betimes.service.spec.job_spec import JobSpec
from betimes.service.store.store import Store
from betimes.service.tuning.process import SearchFor, in_process, search_in_process
from betimes.service.tuning.retune import Retune
from betimes.service.uploads.kept import Uploads, uploads_of

DEFAULT_RUN_S = 3600.0


@dataclass(frozen=True)
class Assembly:
    """The parts of a service that runs in this event loop."""

    store: Store
    clock: Clock | VirtualClock
    controller: Controller
    world: VirtualWorld
    tuner: LiveTuner
    backend: ServiceBackend
    deciding: asyncio.Future[None]  # done when the controller has ended

    async def settle(self) -> None:
        """Return once everything due by now has been decided, stored and carried out, late promises included.

        Raises the error that ended the controller.
        """
        while True:
            self.controller.at_rest.clear()
            self.controller.inbox.woken.set()
            resting = asyncio.ensure_future(self.controller.at_rest.wait())
            try:
                await asyncio.wait((resting, self.deciding), return_when=asyncio.FIRST_COMPLETED)
            finally:
                resting.cancel()
            if self.deciding.done() or not self.backend.promises.late:
                break
            await asyncio.sleep(0.001)
        if self.deciding.done():
            self.deciding.result()
            raise ServiceError("the service has ended; nothing can happen in it any more")

    async def advance_to(self, at: float) -> None:
        """Move a virtual clock on to `at`, s: events due until then happen at their own instants."""
        if not isinstance(self.clock, VirtualClock):
            raise TypeError("only a virtual clock can be moved on")
        self.clock.advance_to(at)
        await self.settle()


@asynccontextmanager
async def assembled(
    machines: Iterable[Machine],
    policy: str,
    folder: Path,
    *,
    clock: Clock | VirtualClock,
    store: Store | None = None,
    settings: Settings | None = None,
    cloud: OpenCloud | None = None,
    lease_s: float = LEASE_S,
    at_once: bool = False,
    arrivals: Iterable[tuple[float, JobSpec]] | None = None,
    promise_every: int = 1,
    users: Sequence[str] | None = None,
    retune: Retune | None = None,
    search: SearchFor = search_in_process,
    advises: AdviseFor = in_process,
    world_of: Callable[[float, bool, float], VirtualWorld] = VirtualWorld,
) -> AsyncIterator[Assembly]:
    """A service while this is entered. Raises PolicyError, and what a cloud refuses.

    A `store` with a history is continued, with the history's `machines` and `policy`; runs of the earlier service are
    requeued.

    at_once: a preempted job has left at once, as in a pool of the simulator; else it has its grace period.
    arrivals: jobs that are submitted by themselves, (when, the job); one in `promise_every` is promised an end.
    users: whose they are.
    world_of: makes the world of virtual runs, from the arguments of `VirtualWorld`.
    """
    kept = Store.in_memory(folder) if store is None else store
    tokens = RunTokens(b"in memory")
    controller = Controller(
        kept,
        clock,
        Launches(folder, kept.log_id, tokens.issue),
        settings or Settings(),
        DEFAULT_RUN_S,
        lease_s,
        rentals=Rentals(cloud) if cloud is not None else None,
    )
    known = controller.recover()
    scheduler = controller.scheduler
    scheduler.begin(clock.now_s())
    if known:
        controller.resume()
    else:
        scheduler.nodes.add_all(machines, "operator")
        scheduler.open(policy, clock.now_s())
    world = admit_virtual_nodes(controller, at_once, world_of)
    if arrivals is not None:
        controller.source = Source(arrivals, promise_every, users)
    tuner = LiveTuner(controller, folder, retune, search)
    uploads = Uploads(uploads_of(folder))
    backend = ServiceBackend(
        controller, Promises(controller), tokens, tuner, uploads, LiveAdviser(controller, tuner, advises)
    )
    if known:
        await controller.adopt()
    deciding = asyncio.ensure_future(controller.run())
    try:
        yield Assembly(kept, clock, controller, world, tuner, backend, deciding)
    finally:
        await controller.stop()
        await deciding
        if store is None:
            kept.close()


def admit_virtual_nodes(
    controller: Controller,
    at_once: bool,
    world_of: Callable[[float, bool, float], VirtualWorld] = VirtualWorld,
) -> VirtualWorld:
    """Let runs on virtual nodes, and on those of a fake cloud, only take time."""
    world = world_of(controller.settings.restart_s, at_once, controller.scheduler.ledger.epoch_at)
    controller.effects.worlds.append(world)
    executor = VirtualExecutor(world, lambda: controller.scheduler.now_at, controller.inbox.hear)
    for kind in ("virtual", "fake-cloud"):
        controller.effects.admit(kind, executor)
    return world
