"""A service in this process, on one virtual node of four cores, under fifo and a clock that jumps."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from pathlib import Path

from betimes.service.executors.virtual import WORK
from betimes.service.machines.machine import Machine
from betimes.service.runtime.clock import VirtualClock
from betimes.service.runtime.service_backend import ServiceBackend
from betimes.service.spec.job_spec import JobSpec
from betimes.service.startup.in_memory import assembled

RUN_S = 100.0


def spec(**asked: object) -> JobSpec:
    return JobSpec(command=["x"], workdir="/", estimate_s=RUN_S, env={WORK: str(RUN_S)}, **asked)  # type: ignore[arg-type]


def on_four_cores(folder: Path, ask: Callable[[ServiceBackend], Awaitable[None]]) -> None:
    async def serve() -> None:
        node, clock = Machine("n", "virtual", "n", 4.0, 8.0, 0.0), VirtualClock(0.0, math.inf)
        async with assembled([node], "fifo", folder, clock=clock, at_once=True) as service:
            await ask(service.backend)

    asyncio.run(serve())


async def over(backend: ServiceBackend) -> None:
    async with asyncio.timeout(60):
        while backend.scheduler.ledger.jobs:
            await asyncio.sleep(0.005)
