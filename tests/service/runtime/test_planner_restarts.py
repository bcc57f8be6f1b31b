"""A service that plans in rounds is killed while a job is bound to machines that boot, or moves: nothing is lost."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from betimes.cluster import Cluster, Offer
from betimes.service.machines.cloud_file import cloud_of
from betimes.service.runtime.clock import VirtualClock
from betimes.service.runtime.in_memory import Assembly, assembled
from betimes.service.scheduling.engine_factory import Settings
from betimes.service.store.memory import MemoryStore
from betimes.service.views.models import Status
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
    store, clock = MemoryStore(tmp_path), VirtualClock(0.0, 0.0)

    def service() -> AbstractAsyncContextManager[Assembly]:
        return assembled(
            (),
            f"eva:t=1,keep_old={keep_old}",
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
