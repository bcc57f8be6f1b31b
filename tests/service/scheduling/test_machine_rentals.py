"""Machines that a policy rents at ticks for whatever it places on them: restarts, refusals, other policies."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from betimes.errors import Refused
from betimes.service.machines.fake_cloud import FakeCloud, Outage, Reclaim
from betimes.service.scheduling.job_states import Status
from tests.service.machines.kinds import kind
from tests.service.reliability.cluster import spec
from tests.service.runtime.test_rentals import House, clouds, play

BIG = replace(kind("big", 4, 16, usd_per_h=2.0, capacity=3, boot_s=60.0, notice_s=20.0), bill_step_s=600.0)


def test_they_are_rented_kept_through_a_restart_and_given_back(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        jobs = await house.submit(500.0, 500.0)  # two cores each
        assert await house.statuses() == {"own-0": "up", "big-0": "booting", "big-1": "booting"}
        await house.at(100.0)
        assert [await house.job(job) for job in jobs] == [(Status.RUNNING, 1)] * 2

    async def after(house: House) -> None:
        assert (await house.statuses())["big-0"] == "up"
        await house.at(700.0)
        assert await house.statuses() == {"own-0": "up"}

    house = play(tmp_path, "odb", test, clouds(offered=BIG))
    resume(house, after)
    gone = {
        event.node: (event.at_s - 1000.0, event.data["cost_usd"])
        for event in house.store.events(kinds=["node-gone"])
    }
    # Both jobs find room on the first at 60 s. What is paid for ends at 660 s, and the last tick before is at 640 s.
    assert gone == {"big-1": (60.0, 0.0), "big-0": (640.0, pytest.approx(2.0 / 6))}
    assert [event.data["type"] for event in house.store.events(kinds=["ordered"])] == ["big", "big"]


def resume(house: House, test: Callable[[House], Awaitable[None]]) -> None:
    async def main() -> None:
        async with house.open():
            await test(house)

    asyncio.run(main())


def test_a_policy_that_rents_nothing_gives_them_back_when_they_are_empty(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        (job,) = await house.submit(500.0)
        await house.at(100.0)
        assert await house.job(job) == (Status.RUNNING, 1)
        await house.controller.ask(
            "policy", lambda scheduler: scheduler.policy.set_policy("nodes:fifo", "ann")
        )
        assert (await house.statuses())["big-0"] == "draining"
        await house.at(620.0)
        assert await house.job(job) == (Status.FINISHED, 1)
        assert await house.statuses() == {"own-0": "up"}

    play(tmp_path, "odb", test, clouds(offered=BIG))


def test_a_machine_that_is_taken_away_is_replaced(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        (job,) = await house.submit(500.0)
        await house.at(100.0)
        assert await house.statuses() == {"own-0": "up", "big-0": "up"}
        await house.at(200.0)
        assert "big-0" not in await house.statuses()
        await house.at(300.0)
        assert (await house.statuses())["big-1"] == "up"
        assert await house.job(job) == (Status.RUNNING, 2)

    play(tmp_path, "odb", test, clouds(Reclaim(1150.0, "big", 1), offered=BIG))


def test_a_refusal_is_logged_once_and_the_policy_asks_again(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        (job,) = await house.submit(500.0)
        await house.at(119.0)
        assert list(await house.statuses()) == ["own-0"]
        await house.at(300.0)
        assert await house.job(job) == (Status.RUNNING, 1)

    house = play(tmp_path, "odb", test, clouds(Outage(1000.0, 1110.0), offered=BIG))
    assert len(house.told("not-rented")) == 1


def test_a_planner_goes_without_a_type_that_the_cloud_refuses(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        (job,) = await house.submit(2000.0)
        await house.at(290.0)
        assert list(await house.statuses()) == ["own-0"]
        await house.at(400.0)
        assert (await house.statuses())["dear-0"] == "up"
        await house.at(1400.0)
        assert await house.job(job) == (Status.RUNNING, 1)

    def open_cloud(held: Any, made: Any) -> FakeCloud:
        dear = replace(BIG, type="dear", usd_per_h=3.0)
        cloud = FakeCloud([BIG, dear], script=(Outage(1000.0, 1110.0),))
        cloud.resume(held, made)
        return cloud

    house = play(tmp_path, "no-packing", test, open_cloud)
    assert [event.data["type"] for event in house.store.events(kinds=["ordered"])] == ["big", "dear"]


def test_a_planner_asks_again_for_the_only_type_there_is(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        (job,) = await house.submit(2000.0)
        await house.at(890.0)
        assert await house.job(job) == (Status.QUEUED, 0)
        await house.at(1000.0)
        assert await house.job(job) == (Status.RUNNING, 1)

    house = play(tmp_path, "no-packing", test, clouds(Outage(1000.0, 1110.0), offered=BIG))
    assert [event.at_s - 1000.0 for event in house.store.events(kinds=["ordered"])] == [0.0, 900.0]


def test_what_no_machine_holds_is_refused(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        with pytest.raises(Refused, match="no offer of the cloud holds it either"):
            await house.backend.submit([spec(10.0, cpu=5.0)], "ann")

    play(tmp_path, "odb", test, clouds(offered=BIG))
