"""A service that plans in rounds is killed while a job is bound to machines that boot, or moves: nothing is lost."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path

import pytest

from betimes.cluster import Cluster, Offer
from betimes.service.machines.cloud_file import cloud_of
from betimes.service.runtime.clock import VirtualClock
from betimes.service.scheduling.engine_factory import Settings
from betimes.service.scheduling.job_states import Status
from betimes.service.startup.in_memory import Assembly, assembled
from betimes.service.store.store import Store
from tests.service.reliability.cluster import spec

OFFERS = (
    Offer(type="c2", cpu=2, memory_gib=8, usd_per_h=0.1, boot_s=100.0),
    Offer(type="c4", cpu=4, memory_gib=16, usd_per_h=0.18, boot_s=100.0),
)
CLUSTER = Cluster("planned", (), offers=OFFERS)
WORK_S = (550.0, 4000.0)
"""Both share a c4 from 400 s on; when the first has ended, the other moves to a c2, decided at 1,200 s."""


@pytest.mark.parametrize("keep_old", ["true", "false"])
@pytest.mark.parametrize(
    "killed_s",
    [300.0, 350.0, 400.0, 1200.0, 1205.0, 1250.0, 1300.0, 1305.0],
    ids=[
        "ordered",
        "boots",
        "up",
        "move decided",
        "leaves at once",
        "target boots",
        "target up",
        "has moved",
    ],
)
def test_a_job_survives_a_restart_while_it_is_bound(killed_s: float, keep_old: str, tmp_path: Path) -> None:
    store, clock = Store.in_memory(tmp_path), VirtualClock(0.0, 0.0)

    def service() -> AbstractAsyncContextManager[Assembly]:
        return assembled(
            (),
            f"eva:t=1,rounds=fixed,keep_old={keep_old}",
            tmp_path,
            clock=clock,
            store=store,
            settings=Settings(),
            cloud=cloud_of(CLUSTER),
        )

    async def main() -> None:
        async with service() as first:
            await first.settle()
            await first.advance_to(1.0)
            await first.backend.submit([spec(each, cpu=2.0) for each in WORK_S], "ann")
            await first.settle()
            await first.advance_to(killed_s)
        async with service() as again:
            await again.settle()
            await again.advance_to(9000.0)
            for job in (1, 2):
                assert (await again.backend.job(job)).job.status is Status.FINISHED
            fleet = await again.backend.fleet()
            assert fleet.machines == [], "all are given back"

    asyncio.run(main())
    events = list(store.each_event(0))
    assert Counter(event.job for event in events if event.kind == "finished") == {1: 1, 2: 1}
    moves = [event.at_s for event in events if event.kind == "migrating"]
    assert moves, "the job moves, if not again"
    assert moves[0] == 1200.0
    for job in (1, 2):
        runs = [event.kind for event in events if event.job == job and event.kind in ("launched", "ended")]
        assert runs == ["launched", "ended"] * (len(runs) // 2), "never two runs at once"
    gone = Counter(event.node for event in events if event.kind == "node-gone")
    rented = Counter(event.node for event in events if event.kind == "node-added")
    assert gone == dict.fromkeys(rented, 1), "every machine that was rented is given back, once"


def test_a_throughput_alone_that_was_measured_is_known_after_a_restart(tmp_path: Path) -> None:
    store, clock, steps = Store.in_memory(tmp_path), VirtualClock(0.0, 0.0), 1e5

    def service() -> AbstractAsyncContextManager[Assembly]:
        return assembled(
            (),
            "eva:t=1,profile=30m",
            tmp_path,
            clock=clock,
            store=store,
            settings=Settings(),
            cloud=cloud_of(replace(CLUSTER, offers=OFFERS[1:])),
        )

    async def report(parts: Assembly, until_s: float, per_s: float) -> None:
        """Both jobs report every 40 s, as far as they run."""
        done = 0.0
        while clock.now_s() < until_s:
            await parts.advance_to(clock.now_s() + 40.0)
            done += 40.0 * per_s
            for job in (1, 2):
                run = parts.controller.scheduler.ledger.jobs[job].run
                if run is not None and run.started_at is not None:
                    await parts.backend.progress(job, run.number, done, steps)
                    await parts.settle()

    async def shares(parts: Assembly) -> bool:
        return [len(one.jobs) for one in (await parts.backend.fleet()).machines if one.jobs] == [2]

    async def main() -> None:
        async with service() as first:
            await first.settle()
            await first.advance_to(1.0)
            await first.backend.submit([spec(steps, cpu=2.0) for _ in range(2)], "ann")
            await first.settle()
            await first.advance_to(450.0)
            assert not await shares(first), "alone until their throughput is known"
            await report(first, 800.0, 1.0)
            assert await shares(first)
            assert [event.job for event in store.each_event(0) if event.kind == "measured"] == [1, 2]
        async with service() as again:
            assert {job.alone_per_s for job in again.controller.scheduler.ledger.jobs.values()} == {1.0}
            await again.settle()
            await again.advance_to(1300.0)  # they were put back into the queue, and share a machine again
            assert await shares(again)
            await report(again, 3000.0, 0.3)
            assert not await shares(again), "each shows 0.3 of what it did alone, in the life before"

    asyncio.run(main())
