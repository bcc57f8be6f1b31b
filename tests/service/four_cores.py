"""A service in this process, on one virtual node of four cores, under fifo and a clock that jumps."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from pathlib import Path

from betimes.service.access.auth import RunTokens
from betimes.service.executors.virtual import WORK, VirtualExecutor, VirtualWorld
from betimes.service.machines.machine import Machine
from betimes.service.promises.play_out import Promises
from betimes.service.runtime.clock import VirtualClock
from betimes.service.runtime.controller import Controller
from betimes.service.runtime.launches import Launches
from betimes.service.runtime.service_backend import ServiceBackend
from betimes.service.scheduling.engine_factory import Settings
from betimes.service.spec.job_spec import JobSpec
from betimes.service.store.memory import MemoryStore
from betimes.service.tuning.tuner import LiveTuner

RUN_S = 100.0


def spec(**asked: object) -> JobSpec:
    return JobSpec(command=["x"], workdir="/", estimate_s=RUN_S, env={WORK: str(RUN_S)}, **asked)  # type: ignore[arg-type]


def on_four_cores(folder: Path, ask: Callable[[ServiceBackend], Awaitable[None]]) -> None:
    async def serve() -> None:
        store, clock, tokens = MemoryStore(folder), VirtualClock(0.0, math.inf), RunTokens(b"secret")
        controller = Controller(store, clock, Launches(folder, tokens.issue), Settings(), 3600.0)
        controller.scheduler.begin(0.0)
        controller.scheduler.nodes.add(Machine("n", "virtual", "n", 4.0, 8.0, 0.0), "operator")
        controller.scheduler.open("fifo", 0.0)
        world = VirtualWorld(0.0, at_once=True)
        controller.effects.worlds.append(world)
        executor = VirtualExecutor(world, lambda: controller.scheduler.now_at, controller.inbox.hear)
        controller.effects.admit("virtual", executor)
        backend = ServiceBackend(controller, Promises(controller), tokens, LiveTuner(controller, folder))
        deciding = asyncio.ensure_future(controller.run())
        await ask(backend)
        await controller.stop()
        await deciding

    asyncio.run(serve())


async def over(backend: ServiceBackend) -> None:
    async with asyncio.timeout(60):
        while backend.scheduler.ledger.jobs:
            await asyncio.sleep(0.005)
