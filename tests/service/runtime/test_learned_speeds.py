"""Jobs that report progress teach how fast a type of machines is for their workload; plans and promises go by that.

Hand-worked: a plain machine costs 1 USD an hour and a quick one 1.50 USD, and each holds one of these jobs. While
nothing is known, an hour of work costs 1 and 1.50 USD, so that jobs take plain machines, of which there is one. On the
quick one a job of workload `train` then shows two steps a second, on the plain one 1: an hour of work costs 0.75 USD.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from betimes.cluster import Cluster, Offer
from betimes.service.machines.cloud_file import cloud_of
from betimes.service.runtime.clock import VirtualClock
from betimes.service.scheduling.engine_factory import Settings
from betimes.service.scheduling.events import Ended, RunId
from betimes.service.spec.job_spec import JobSpec
from betimes.service.startup.in_memory import Assembly, assembled
from betimes.service.store.store import Store
from tests.service.reliability.cluster import spec

OFFERS = (
    Offer(type="plain", cpu=2, memory_gib=8, usd_per_h=1.0, capacity=1, boot_s=100.0),
    Offer(type="quick", cpu=2, memory_gib=8, usd_per_h=1.5, boot_s=100.0),
)
CLUSTER = Cluster("unlike", (), offers=OFFERS)
STEPS_PER_S = {"plain": 1.0, "quick": 2.0}


def job(work_s: float, workload: str | None = "train") -> JobSpec:
    return spec(work_s, cpu=2.0).model_copy(update={"workload": workload, "estimate_s": work_s})


def test_the_next_plan_and_the_next_promise_use_what_was_learned(tmp_path: Path) -> None:
    store, clock = Store.in_memory(tmp_path), VirtualClock(0.0, 0.0)

    def service() -> AbstractAsyncContextManager[Assembly]:
        settings, cloud = Settings(), cloud_of(CLUSTER)
        return assembled((), "eva:t=1", tmp_path, clock=clock, store=store, settings=settings, cloud=cloud)

    async def type_of(parts: Assembly, number: int) -> str:
        [machine] = [one for one in (await parts.backend.fleet()).machines if number in one.jobs]
        return machine.type

    async def finish_at(parts: Assembly, number: int) -> float:
        estimate = (await parts.backend.job(number)).job.estimate
        assert estimate is not None
        assert estimate.finish_at is not None
        return estimate.finish_at

    async def report(parts: Assembly, until_s: float) -> None:
        """Both jobs do what their machines can, and report it every 40 s."""
        ledger, done = parts.controller.scheduler.ledger, {1: 0.0, 2: 0.0}
        while clock.now_s() < until_s:
            await parts.advance_to(clock.now_s() + 40.0)
            for number in (1, 2):
                run = ledger.jobs[number].run
                if run is not None and run.started_at is not None:
                    done[number] += 40.0 * STEPS_PER_S[await type_of(parts, number)]
                    await parts.backend.progress(number, run.number, done[number], 20_000.0)
                    await parts.settle()

    async def main() -> None:
        async with service() as first:
            await first.settle()
            await first.advance_to(1.0)
            await first.backend.submit([job(20_000.0), job(20_000.0)], "ann")
            await first.settle()
            await first.advance_to(450.0)
            assert [await type_of(first, number) for number in (1, 2)] == ["plain", "quick"]
            await report(first, 590.0)
            measured = [(one.job, one.data) for one in store.each_event(0) if one.kind == "measured"]
            assert measured == [
                (1, {"alone_per_s": 1.0, "on": ["plain"]}),
                (2, {"alone_per_s": 2.0, "on": ["quick"]}),
            ]
            await first.backend.submit([job(1200.0), job(1200.0, None)], "ann")
            await first.settle()
            await report(first, 1010.0)
            assert [await type_of(first, number) for number in (3, 4)] == ["quick", "plain"]
            assert [await finish_at(first, number) for number in (3, 4)] == [1000.0 + 600.0, 1000.0 + 1200.0]
            assert await finish_at(first, 2) == 570.0 + (20_000.0 - 240.0) / 2.0, (
                "as its steps show all the time"
            )
            quotes = [await first.backend.quote(job(1200.0, each), "ann") for each in ("train", None)]
            assert [quote.cost_usd for quote in quotes] == [1200.0 / 3600.0 * 0.75, 1200.0 / 3600.0 * 1.0]
            assert await type_of(first, 1) == "quick", "it has moved: its work costs less there"
        async with service() as again:
            await again.settle()
            await again.backend.submit([job(1200.0)], "ann")
            await again.settle()
            await again.advance_to(1601.0)
            assert await type_of(again, 5) == "quick"
            run = again.controller.scheduler.ledger.jobs[5].run
            assert run is not None
            assert await finish_at(again, 5) == (run.started_at or 1600.0) + 600.0
            longest = again.controller.scheduler.ledger.jobs[2].run
            assert longest is not None
            await again.backend.progress(2, longest.number, 9_000.0, 20_000.0)
            await again.advance_to(1641.0)
            again.controller.inbox.hear(Ended(RunId(5, run.number), 0.0, 0))
            await again.backend.progress(2, longest.number, 9_400.0, 20_000.0)  # in the same turn
            assert [one.job for one in store.each_event(0) if one.kind == "measured"][-1] == 2

    asyncio.run(main())
