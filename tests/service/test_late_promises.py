"""Jobs that cannot queue when they are submitted are promised an end when they do, and nothing before."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from pathlib import Path

from betimes.service.auth import RunTokens
from betimes.service.building import Settings
from betimes.service.clock import VirtualClock
from betimes.service.controller import Controller
from betimes.service.desk import Desk
from betimes.service.executors.virtual import WORK, VirtualExecutor, VirtualWorld
from betimes.service.launches import Launches
from betimes.service.machines.machine import Machine
from betimes.service.promises import Promises
from betimes.service.spec import JobSpec
from betimes.service.store.memory import MemoryStore
from betimes.service.tuning.tuner import LiveTuner

RUN_S = 100.0


def spec(**asked: object) -> JobSpec:
    return JobSpec(command=["x"], workdir="/", estimate_s=RUN_S, env={WORK: str(RUN_S)}, **asked)  # type: ignore[arg-type]


def on_four_cores(folder: Path, ask: Callable[[Desk], Awaitable[None]]) -> None:
    async def serve() -> None:
        store, clock, tokens = MemoryStore(folder), VirtualClock(0.0, math.inf), RunTokens(b"secret")
        controller = Controller(store, clock, Launches(folder, tokens.issue), Settings(), 3600.0)
        controller.scheduler.begin(0.0)
        controller.scheduler.add_node(Machine("n", "virtual", "n", 4.0, 8.0, 0.0), "operator")
        controller.scheduler.open("fifo", 0.0)
        world = VirtualWorld(0.0, at_once=True)
        controller.worlds.append(world)
        executor = VirtualExecutor(world, lambda: controller.scheduler.now_at, controller.hear)
        controller.admit("virtual", executor)
        desk = Desk(controller, Promises(controller), tokens, LiveTuner(controller, folder))
        deciding = asyncio.ensure_future(controller.run())
        await ask(desk)
        await controller.stop()
        await deciding

    asyncio.run(serve())


async def over(desk: Desk) -> None:
    async with asyncio.timeout(60):
        while desk.scheduler.ledger.jobs:
            await asyncio.sleep(0.005)


def test_a_promise_of_an_array_says_how_many_elements_it_is_of(tmp_path: Path) -> None:
    async def ask(desk: Desk) -> None:
        with desk.controller.clock.hold():  # type: ignore[union-attr]
            (taken,) = await desk.submit([spec(array="1-6%2")], "ann")
            assert taken.quote is not None
            assert (taken.quote.elements, taken.quote.finish_at) == (2, RUN_S)
            (whole,) = await desk.submit([spec(array="1-2%2")], "ann")
            assert whole.quote is not None
            assert whole.quote.elements is None
            alone = await desk.quote(spec(array="1-6%2"), "ann")
            assert alone.elements == 1
        await over(desk)
        stories = [await desk.job(number) for number in taken.job_ids]
        promised = [[quote.finish_at for quote in story.quotes] for story in stories]
        assert promised == [[story.job.finished_at] for story in stories]  # as nothing else has come
        assert [story.job.finished_at for story in stories] == [100.0, 100.0, 200.0, 200.0, 300.0, 300.0]

    on_four_cores(tmp_path, ask)


def test_one_that_follows_another_is_promised_an_end_when_it_queues(tmp_path: Path) -> None:
    async def ask(desk: Desk) -> None:
        with desk.controller.clock.hold():  # type: ignore[union-attr]
            (first,) = await desk.submit([spec()], "ann")
            (second,) = await desk.submit([spec(after=[str(first.job_id)])], "ann")
            assert second.quote is None
            assert (await desk.job(second.job_id)).quotes == []
        await over(desk)
        story = await desk.job(second.job_id)
        assert [(quote.made_at, quote.finish_at) for quote in story.quotes] == [(100.0, 200.0)]
        assert story.told_s == 0.0

    on_four_cores(tmp_path, ask)
