"""Nodes of a cloud: they boot, run jobs, are taken back or given back, and a service that starts again knows them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from betimes.cluster.offer import Offer, Spot
from betimes.cluster.revocation import Exponential
from betimes.errors import Conflict, Refused, Unknown
from betimes.service.engines.messages import RentMachine
from betimes.service.machines.fake_cloud import FakeCloud, Outage, Reclaim, SetPrice, Slow, Step
from betimes.service.machines.machine import Machine
from betimes.service.machines.provider import (
    CloudEvent,
    Failed,
    OpenCloud,
    Reclaimed,
    ReclaimNotice,
    RequestId,
)
from betimes.service.runtime.clock import VirtualClock
from betimes.service.runtime.rentals import Rentals
from betimes.service.scheduling.engine_factory import Settings
from betimes.service.scheduling.job_states import Status
from betimes.service.scheduling.ledger import Ledger
from betimes.service.startup.in_memory import assembled
from betimes.service.store.store import Store
from betimes.service.views.models import JobFilter, NodeSpec, NodeView
from tests.service.machines.kinds import kind
from tests.service.reliability.cluster import spec

BIG = kind("big", 4, 16, usd_per_h=2.0, capacity=3, boot_s=60.0, notice_s=20.0)
POLICIES = ["fifo", "nodes:fifo"]


def clouds(*steps: Step, offered: Offer = BIG, cloud: type[FakeCloud] = FakeCloud) -> OpenCloud:
    def open_cloud(held: Any, made: Any) -> FakeCloud:
        opened = cloud([offered], script=steps)
        opened.resume(held, made)
        return opened

    return open_cloud


class House:
    """A service on one small node of its own, with a cloud, at a virtual time."""

    def __init__(self, folder: Path, policy: str, open_cloud: OpenCloud, begins_at: float = 1000.0) -> None:
        self.policy, self.open_cloud, self.folder, self.begins_at = policy, open_cloud, folder, begins_at
        self.store, self.clock = Store.in_memory(folder), VirtualClock(begins_at, 0.0)
        self.settings = Settings()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """While this is entered the service runs; entered again, it starts again from its store."""
        async with assembled(
            [Machine("own-0", "virtual", "own", 1.0, 8.0, 0.0)],
            self.policy,
            self.folder,
            clock=self.clock,
            store=self.store,
            settings=self.settings,
            cloud=self.open_cloud,
        ) as service:
            self.service, self.controller, self.backend = service, service.controller, service.backend
            await service.settle()
            yield

    async def at(self, second: float) -> None:
        """It is so many seconds after the first start, and all that happens by then has happened."""
        await self.service.advance_to(self.begins_at + second)

    async def rent(self, count: int = 1, kind: str = "big") -> list[NodeView]:
        return await self.backend.add_nodes(NodeSpec(kind="fake-cloud", type=kind, count=count), "ann")

    async def submit(self, *seconds: float, cpu: float = 2.0) -> list[int]:
        taken = await self.backend.submit([spec(each, cpu=cpu) for each in seconds], "ann")
        await self.at(self.clock.now_s() - self.begins_at)
        return [one.job_id for one in taken]

    async def statuses(self) -> dict[str, str]:
        return {node.name: node.status for node in await self.backend.nodes()}

    async def job(self, number: int) -> tuple[Status, int]:
        view = (await self.backend.job(number)).job
        return view.status, view.attempt

    def told(self, *kinds: str) -> list[tuple[str, str | None, float]]:
        events = self.store.events(kinds=kinds)
        return [(event.kind, event.node, event.at_s - self.begins_at) for event in events]


@pytest.fixture(params=POLICIES)
def policy(request: pytest.FixtureRequest) -> str:
    return request.param


def play(
    folder: Path, policy: str, test: Callable[[House], Awaitable[None]], open_cloud: OpenCloud | None = None
) -> House:
    house = House(folder, policy, open_cloud or clouds())

    async def main() -> None:
        async with house.open():
            await test(house)

    asyncio.run(main())
    return house


def test_a_rented_node_boots_runs_jobs_and_is_given_back(tmp_path: Path, policy: str) -> None:
    async def test(house: House) -> None:
        (node,) = await house.rent()
        assert (node.name, node.kind, node.status, node.usd_per_h) == ("big-0", "fake-cloud", "booting", 2.0)
        assert (node.cpu, node.free_cpu) == (4.0, 0.0)
        (job,) = await house.submit(100.0)
        assert (await house.backend.quote(spec(3600.0, cpu=2.0), "ann")).cost_usd == pytest.approx(1.0)
        waiting = (await house.backend.job(job)).job
        assert (waiting.status, waiting.attempt) == (Status.QUEUED, 0)
        assert waiting.reason is not None
        assert "when node big-0 is up" in waiting.reason.text
        await house.at(59.0)
        assert await house.statuses() == {"own-0": "up", "big-0": "booting"}
        await house.at(60.0)
        assert await house.statuses() == {"own-0": "up", "big-0": "up"}
        assert await house.job(job) == (Status.RUNNING, 1)
        await house.backend.drain("big-0", "ann")
        assert (await house.statuses())["big-0"] == "draining"
        await house.at(160.0)
        assert await house.job(job) == (Status.FINISHED, 1)
        assert await house.statuses() == {"own-0": "up"}
        with pytest.raises(Unknown, match="big-0"):
            await house.backend.undrain("big-0", "ann")
        (again,) = await house.rent()
        assert again.name == "big-1", "no name is used twice"
        assert (await house.backend.drain("big-1", "ann")).status == "gone"

    house = play(tmp_path, policy, test)
    assert house.told("node-added", "node-status", "node-gone") == [
        ("node-added", "own-0", 0.0),
        ("node-added", "big-0", 0.0),
        ("node-status", "big-0", 60.0),
        ("node-status", "big-0", 60.0),
        ("node-gone", "big-0", 160.0),
        ("node-added", "big-1", 160.0),
        ("node-gone", "big-1", 160.0),
    ]
    assert [row["status"] for row in house.store.nodes()] == ["gone", "gone", "up"]


def test_no_capacity(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        await house.rent(2)
        with pytest.raises(Conflict, match="no capacity: 2 big asked for, 1 of 3 free"):
            await house.rent(2)
        with pytest.raises(Refused, match="no instance type 'small'; there are big"):
            await house.rent(kind="small")
        assert list(await house.statuses()) == ["own-0", "big-0", "big-1"]
        await house.backend.drain("big-0", "ann")
        await house.at(1.0)
        assert [node.name for node in await house.rent(2)] == ["big-2", "big-3"]

    play(tmp_path, "fifo", test)


def test_names_of_own_nodes_are_not_rented(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        await house.backend.add_nodes(NodeSpec(type="big", cpu=1, memory_gib=1), "ann")
        with pytest.raises(Conflict, match="nodes of type big that are not rented"):
            await house.rent()

    play(tmp_path, "fifo", test)


def test_jobs_of_a_node_that_is_taken_back_go_on_elsewhere(tmp_path: Path, policy: str) -> None:
    async def test(house: House) -> None:
        await house.rent(2)
        await house.at(60.0)
        jobs = await house.submit(1000.0, 1000.0, 1000.0, 1000.0)
        assert [await house.job(job) for job in jobs] == [(Status.RUNNING, 1)] * 4
        await house.at(100.0)  # notice
        assert await house.statuses() == {"own-0": "up", "big-0": "draining", "big-1": "up"}
        assert [await house.job(job) for job in jobs] == [(Status.RUNNING, 1)] * 4
        await house.at(114.9)  # 2 s, and the grace period of 3 s, before it is taken away
        assert (await house.job(jobs[0]))[0] is Status.RUNNING
        await house.at(118.0)
        assert await house.statuses() == {"own-0": "up", "big-1": "up"}
        story = await house.backend.job(jobs[0])
        assert [run.outcome for run in story.runs] == ["node-goes"]
        (waits,) = [event for event in story.events if event.kind == "requeued"]
        assert waits.data["reason"]["code"] == "reclaimed"
        assert "reclaimed node big-0" in waits.data["reason"]["text"]
        assert story.job.status is Status.QUEUED
        await house.rent()
        await house.at(180.0)
        assert [await house.job(job) for job in jobs[:2]] == [(Status.RUNNING, 2)] * 2
        await house.at(3000.0)
        page = await house.backend.jobs(JobFilter())
        assert {view.status for view in page.items} == {Status.FINISHED}

    house = play(tmp_path, policy, test, clouds(Reclaim(1100.0, "big")))
    (gone,) = house.told("node-gone")
    assert 115.0 <= gone[2] <= 118.0, "given back as soon as it is empty"


@pytest.mark.parametrize("starts_again", [False, True])
def test_after_three_spot_machines_a_job_has_one_on_demand(tmp_path: Path, starts_again: bool) -> None:
    """However often the service starts again between them: each is taken away at 100, 200 and 300 s."""
    spot = kind("cheap", 4, 16, usd_per_h=2.0, boot_s=10.0, notice_s=0.0)
    offers = [replace(spot, spot=Spot(0.3, Exponential(1e6))), replace(spot, type="sure")]

    def open_cloud(held: Any, made: Any) -> FakeCloud:
        opened = FakeCloud(offers, script=[Reclaim(1000.0 + at_s, "cheap") for at_s in (100.0, 200.0, 300.0)])
        opened.resume(held, made)
        return opened

    house = House(tmp_path, "njw", open_cloud)

    async def main() -> None:
        async with house.open():
            await house.submit(1000.0)
            await house.at(250.0)
            if not starts_again:
                await house.at(2000.0)
        if starts_again:
            async with house.open():
                await house.at(2000.0)
        rented = [(node, at_s) for _, node, at_s in house.told("node-added") if node != "own-0"]
        assert rented == [("cheap-0", 0.0), ("cheap-1", 100.0), ("cheap-2", 200.0), ("sure-0", 300.0)]

    asyncio.run(main())


def test_a_short_notice_is_all_the_time_that_a_job_gets(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        await house.rent()
        await house.at(60.0)
        taken = await house.backend.submit(
            [
                spec(1000.0, cpu=2.0, grace_s=60.0),
                spec(1000.0, cpu=2.0, grace_s=60.0, requeue=False),
                spec(50.0, cpu=1.0, grace_s=0.0),
            ],
            "ann",
        )
        first, last, short = [one.job_id for one in taken]
        await house.at(101.0)
        (stops,) = [one for one in (await house.backend.job(first)).events if one.kind == "stopping"]
        assert (stops.at - 1000.0, stops.data["stop_by_at"] - 1000.0) == (100.0, 118.0)
        assert (await house.job(short))[0] is Status.RUNNING
        await house.at(119.0)
        assert (await house.job(first))[0] is Status.QUEUED
        failed = (await house.backend.job(last)).job
        assert failed.status is Status.FAILED
        assert failed.reason is not None
        assert "not requeued, as it was submitted with requeue = false" in failed.reason.text
        assert (await house.job(short)) == (Status.FINISHED, 1)

    play(tmp_path, "nodes:fifo", test, clouds(Reclaim(1100.0, "big")))


def test_a_node_that_does_not_boot_goes(tmp_path: Path, policy: str) -> None:
    bad = kind("big", 4, 16, boot_s=30.0, boot_failure_frac=1.0)

    async def test(house: House) -> None:
        await house.rent()
        await house.submit(10.0)
        await house.at(30.0)
        assert await house.statuses() == {"own-0": "up"}

    house = play(tmp_path, policy, test, clouds(offered=bad))
    (gone,) = house.store.events(kinds=["node-gone"])
    assert gone.data["why"] == "boot-failed"


def test_a_machine_elsewhere_that_does_not_boot_is_paid_for(tmp_path: Path) -> None:
    bad = kind(
        "big", 4, 16, usd_per_h=2.0, boot_s=90.0, boot_failure_frac=1.0, min_bill_s=60.0, bill_from="request"
    )

    def open_cloud(held: Any, made: Any) -> FakeCloud:
        return FakeCloud([bad], kind="cloud")

    async def test(house: House) -> None:
        await house.backend.add_nodes(NodeSpec(kind="cloud", type="big"), "ann")
        await house.at(90.0)
        assert await house.statuses() == {"own-0": "up"}

    (gone,) = play(tmp_path, "nodes:fifo", test, open_cloud).store.events(kinds=["node-gone"])
    assert gone.data["cost_usd"] == pytest.approx(90.0 * 2.0 / 3600.0)


def test_a_service_that_starts_again_knows_what_it_rents(tmp_path: Path, policy: str) -> None:
    house = House(tmp_path, policy, clouds())

    async def main() -> None:
        async with house.open():
            await house.rent()
            await house.at(30.0)
            await house.rent(2)
            await house.backend.drain("big-2", "ann")
        house.clock.advance_to(1040.0)
        async with house.open():
            assert await house.statuses() == {"own-0": "up", "big-0": "booting", "big-1": "booting"}
            await house.at(60.0)
            assert await house.statuses() == {"own-0": "up", "big-0": "up", "big-1": "booting"}
            (job,) = await house.submit(100.0)
        house.clock.advance_to(1070.0)
        async with house.open():
            assert await house.job(job) == (Status.RUNNING, 2)
            await house.at(90.0)
            assert await house.statuses() == {"own-0": "up", "big-0": "up", "big-1": "up"}
            with pytest.raises(Conflict, match="1 of 3 free"):
                await house.rent(2)
            (new,) = await house.rent()
            assert new.name == "big-3"

    asyncio.run(main())
    assert [at for kind, node, at in house.told("node-status") if node == "big-0"] == [60.0]


class Elsewhere(FakeCloud):
    """A cloud that knows of no machine from before a start whether it had booted."""

    def advance(self, now_s: float) -> list[CloudEvent]:
        return [
            Failed(each.at_s, RequestId("big", 0), each.node, "boot", "it has ended")
            if isinstance(each, Reclaimed)
            else each
            for each in super().advance(now_s)
            if not isinstance(each, ReclaimNotice)
        ]


@pytest.mark.parametrize("cloud", [FakeCloud, Elsewhere])
def test_what_happens_at_the_cloud_while_the_service_is_away(
    tmp_path: Path, policy: str, cloud: type[FakeCloud]
) -> None:
    house = House(tmp_path, policy, clouds(Reclaim(1100.0, "big"), cloud=cloud))

    async def main() -> None:
        async with house.open():
            await house.rent()
            await house.at(60.0)
            (job,) = await house.submit(1000.0)
            assert await house.job(job) == (Status.RUNNING, 1)
        house.clock.advance_to(1500.0)
        for _ in range(2):
            async with house.open():
                assert await house.statuses() == {"own-0": "up"}
                assert (await house.job(job))[0] is Status.QUEUED

    asyncio.run(main())
    (gone,) = house.store.events(kinds=["node-gone"])
    assert gone.data["why"] == "reclaimed"


def test_a_machine_is_paid_for_from_its_boot_until_its_end_whenever_that_is_noticed(tmp_path: Path) -> None:
    house = House(tmp_path, "fifo", clouds(Reclaim(1100.0, "big")))

    async def main() -> None:
        async with house.open():
            await house.rent()
        house.clock.advance_to(1090.0)
        async with house.open():
            assert await house.statuses() == {"own-0": "up", "big-0": "up"}
        house.clock.advance_to(1500.0)
        async with house.open():
            assert await house.statuses() == {"own-0": "up"}
            rentals, limits = house.controller.rentals, house.controller.scheduler.limits
            assert rentals is not None
            assert rentals.cost_usd(1500.0) == pytest.approx(60.0 * 2.0 / 3600.0), "up at 1060, gone at 1120"
            assert limits.spent_usd("month", 1500.0) == pytest.approx(rentals.cost_usd(1500.0))

    asyncio.run(main())


def test_a_cloud_that_does_not_answer(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        await house.rent()
        await house.at(100.0)
        with pytest.raises(Conflict, match="nothing is rented: the cloud"):
            await house.rent()
        assert (await house.backend.drain("big-0", "ann")).status == "gone"
        await house.at(300.0)
        await asyncio.sleep(1.1)  # until it is tried again
        await house.at(301.0)
        assert [node.name for node in await house.rent(3)] == ["big-1", "big-2", "big-3"]

    play(tmp_path, "fifo", test, clouds(Outage(1090.0, 1200.0)))


def test_a_cloud_that_takes_its_time(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        assert await house.rent(2) == []
        assert await house.rent(2) == []
        await house.at(40.0)
        assert await house.statuses() == {"own-0": "up", "big-0": "booting", "big-1": "booting"}
        await house.at(100.0)
        assert set((await house.statuses()).values()) == {"up"}

    house = play(tmp_path, "fifo", test, clouds(Slow(0.0, 2000.0, 40.0)))
    (refused,) = house.store.events(kinds=["not-rented"])
    assert refused.data["text"] == "no capacity: 2 big asked for, 1 of 3 free"


def test_a_price_that_changes(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        await house.rent()
        await house.at(80.0)
        assert [node.usd_per_h for node in await house.backend.nodes()] == [None, 3.0]
        assert (await house.statuses())["big-0"] == "up"

    play(tmp_path, "fifo", test, clouds(SetPrice(1070.0, "big", 3.0)))


def test_a_lease_costs_the_price_of_each_moment(tmp_path: Path) -> None:
    """The price doubles half an hour after the machine is up; a job holds half of it for an hour."""

    async def test(house: House) -> None:
        await house.rent()
        (job,) = await house.submit(3600.0)
        await house.at(3660.0)
        assert (await house.job(job))[0] is Status.FINISHED
        assert house.controller.rentals is not None
        assert house.controller.rentals.cost_usd(house.clock.now_s()) == pytest.approx(1.0 + 2.0)
        assert [one.cost_usd for one in (await house.backend.fleet()).machines] == [pytest.approx(3.0)]

    house = play(tmp_path, "fifo", test, clouds(SetPrice(2860.0, "big", 4.0)))

    async def again() -> None:
        async with house.open():
            fleet = await house.backend.fleet()
            assert [one.cost_usd for one in fleet.machines] == [pytest.approx(3.0)]
            assert fleet.today_usd == pytest.approx(3.0)
            assert house.controller.scheduler.ledger.spent_usd["ann"]["1970-01-01"] == pytest.approx(1.5)
            await house.backend.drain("big-0", "ann")
            await house.at(3660.0)

    asyncio.run(again())
    (gone,) = house.store.events(kinds=["node-gone"])
    assert gone.data["cost_usd"] == pytest.approx(3.0)


class Heard:
    """What is reported to a scheduler, by the name of the method."""

    def __init__(self) -> None:
        self.calls = list[tuple[str, tuple[Any, ...], dict[str, Any]]]()

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *given, **more: self.calls.append((name, given, more))


def scheduler_at(now_at: float, heard: Heard) -> Any:
    limits = SimpleNamespace(why_no_more=lambda *_: None)
    parts = {"nodes": heard, "machines": heard, "rentals": heard}
    return SimpleNamespace(now_at=now_at, ledger=Ledger(), limits=limits, **parts)


def test_an_order_counts_from_when_it_was_made() -> None:
    heard, move = Heard(), RentMachine(0, 0, 0)
    rentals = Rentals(clouds())
    rentals.order_shared(scheduler_at(100.0, heard), "big", move)
    rentals.advance(scheduler_at(104.0, heard))  # a turn that comes late
    [(ordered, machine, asked_at)] = [given for name, given, _ in heard.calls if name == "given_out"]
    assert (ordered, machine.name, asked_at) == (move, "big-0", 100.0)


def test_an_ordered_machine_that_is_gone_before_it_is_a_node_is_refused() -> None:
    heard, move = Heard(), RentMachine(0, 0, 0)
    rentals = Rentals(clouds(offered=replace(BIG, boot_s=2.0, boot_failure_frac=1.0)))
    rentals.order_shared(scheduler_at(100.0, heard), "big", move)
    rentals.advance(scheduler_at(110.0, heard))
    [(refused, type_, _)] = [given for name, given, _ in heard.calls if name == "refused"]
    assert (refused, type_) == (move, "big")
