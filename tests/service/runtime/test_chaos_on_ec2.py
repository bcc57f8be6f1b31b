"""A service that rents from EC2 on a bad day, and is killed again and again: what runs, what is lost, what is paid."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from betimes.errors import Conflict
from betimes.service.executors.rented.ec2 import TRIES
from betimes.service.executors.virtual import VirtualExecutor, VirtualWorld
from betimes.service.machines.budgets import MONTH
from betimes.service.runtime.controller import Controller
from betimes.service.startup import in_memory
from betimes.service.startup.in_memory import admit_virtual_nodes
from betimes.service.views.models import GiveBackSpec, NodeSpec
from tests.service.executors.rented.clouds import CLUSTER, Ec2Stage
from tests.service.executors.rented.fake_ec2 import refusal
from tests.service.runtime.test_rentals import House

JOBS, LIVES, STEP_S = 60, 12, 5.0
PRICES = {"small": 3.6, "big": 7.2}


class Afternoon:
    """A service under `nodes:fifo`, which somebody rents machines for, and EC2 at the same virtual time."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.lot = random.Random(seed)
        self.stage = Ec2Stage(folder)
        self.house = House(
            folder, "nodes:fifo", lambda held, made: self.stage.open(CLUSTER, [*held], dict(made))
        )
        self.jobs: list[int] = []

    async def live(self, steps: int, *, is_bad: bool) -> None:
        """A life of the service."""
        async with self.house.open():
            for _ in range(steps):
                if is_bad:
                    await self.misfortune()
                await self.step()

    async def step(self, for_s: float = STEP_S) -> None:
        stage, controller = self.stage, self.house.controller
        stage.now_s += for_s
        stage.nodes.names.clear()
        stage.nodes.names.update(stage.ec2.names())
        assert controller.rentals is not None
        if controller.rentals.poll():
            controller.inbox.tell("news of the cloud", controller.rentals.advance)
        await self.house.at(stage.now_s - 1000.0)

    async def misfortune(self) -> None:
        """One of what may happen, or a demand for machines or for a job."""
        lot, ec2 = self.lot, self.stage.ec2
        match lot.randrange(12):
            case 0 | 1 | 2 if len(self.jobs) < JOBS:
                self.jobs += await self.house.submit(lot.choice([10.0, 40.0]), cpu=1.0)
            case 3 | 4 | 5:
                try:
                    await self.rent(lot.choice(["small", "big"]))
                except Conflict:
                    return  # there are as many as there may be
            case 6 if ec2.running():
                ec2.end(lot.choice(ec2.running())["InstanceId"])
            case 7:
                ec2.lost[lot.choice(["run_instances", "terminate_instances"])] = lot.randrange(1, 7)
            case 8:
                ec2.errors["run_instances"] = [refusal(lot.choice(["RequestLimitExceeded", "InternalError"]))]
            case 9:
                ec2.is_down = not ec2.is_down
            case 10:
                ec2.seen_late_s = lot.choice([0.0, 20.0])
            case 11:
                nodes = [node.name for node in await self.house.backend.nodes() if node.kind == "cloud"]
                if nodes:
                    await self.house.backend.give_back(
                        GiveBackSpec(machine=lot.choice(nodes), now=True), "ann"
                    )

    async def rent(self, type_: str) -> None:
        await self.house.backend.add_nodes(NodeSpec(kind="cloud", type=type_), "ann")
        await self.step(0.0)


@pytest.fixture(autouse=True)
def machines_that_only_take_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def admit(controller: Controller, *how: Any) -> VirtualWorld:
        world = admit_virtual_nodes(controller, *how)
        executor = VirtualExecutor(world, lambda: controller.scheduler.now_at, controller.inbox.hear)
        controller.effects.admit("cloud", executor)
        return world

    monkeypatch.setattr(in_memory, "admit_virtual_nodes", admit)


def test_a_machine_that_goes_late_is_paid_for_until_then(tmp_path: Path) -> None:
    afternoon = Afternoon(tmp_path, 0)
    ec2, house = afternoon.stage.ec2, afternoon.house

    async def main() -> None:
        async with house.open():
            await afternoon.rent("big")
            await afternoon.step(100.0)
            ec2.is_down = True
            await house.backend.give_back(GiveBackSpec(machine="big-0", now=True), "ann")
            await afternoon.step(200.0)
        ec2.is_down = False
        await afternoon.live(20, is_bad=False)

    asyncio.run(main())
    gone, billed = house.store.events(kinds=["node-gone", "node-billed"])
    assert gone.data["cost_usd"] == pytest.approx(0.2)
    assert (billed.node, billed.data["ended_at"]) == ("big-0", 1305.0)
    assert (billed.data["cost_usd"], billed.data["more_usd"]) == pytest.approx((0.61, 0.41))
    limits = house.controller.scheduler.limits
    assert limits.spent_usd(MONTH, house.clock.now_s()) == pytest.approx(0.61)


def test_a_machine_that_the_log_does_not_know_is_paid_for(tmp_path: Path) -> None:
    afternoon = Afternoon(tmp_path, 0)
    ec2, house = afternoon.stage.ec2, afternoon.house
    ec2.lost["run_instances"] = TRIES

    async def main() -> None:
        async with house.open():
            await afternoon.rent("big")
            for _ in range(20):
                await afternoon.step()

    asyncio.run(main())
    (billed,) = house.store.events(kinds=["node-gone", "node-billed"])
    assert (billed.kind, billed.node) == ("node-billed", "big-0")
    assert billed.data["cost_usd"] == billed.data["more_usd"] == pytest.approx(0.12), "a minute at least"


@pytest.mark.slow  # twelve lives of a service each
@pytest.mark.parametrize("seed", range(3))
def test_no_job_is_lost_no_machine_left_and_the_bill_is_the_providers(tmp_path: Path, seed: int) -> None:
    afternoon = Afternoon(tmp_path, seed)
    ec2, house = afternoon.stage.ec2, afternoon.house

    async def main() -> None:
        for _ in range(LIVES):
            await afternoon.live(afternoon.lot.randrange(1, 40), is_bad=True)
        ec2.is_down, ec2.seen_late_s = False, 0.0
        ec2.lost.clear()
        ec2.errors.clear()
        await afternoon.live(300, is_bad=False)
        async with house.open():
            for node in await house.backend.nodes():
                if node.kind == "cloud":
                    await house.backend.give_back(GiveBackSpec(machine=node.name, now=True), "ann")
            for _ in range(20):
                await afternoon.step()

    asyncio.run(main())
    finished = [event.job or 0 for event in house.store.events(kinds=["finished"])]
    assert sorted(finished) == afternoon.jobs
    assert ec2.running() == []
    events = house.store.events(kinds=["node-gone", "node-billed"])
    spent_usd = {event.node: event.data["cost_usd"] for event in events}  # what was known of it last
    assert sum(spent_usd.values()) == pytest.approx(ec2.bill_usd(PRICES), abs=0.005)
    month_usd = house.controller.scheduler.limits.spent_usd(MONTH, house.clock.now_s())
    assert month_usd == pytest.approx(ec2.bill_usd(PRICES), abs=0.005)
    charged_usd = sum(row["usd"] for row in house.store.charged(0.0, 1e12, None))
    assert charged_usd == pytest.approx(ec2.bill_usd(PRICES), abs=0.005)
