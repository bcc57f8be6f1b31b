"""Limits of what is rented are kept whatever a policy decides, and said in every reason to wait."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from betimes.errors import Conflict
from betimes.service.machines.budgets import Budgets, FleetLimits, parse_budgets
from betimes.service.runtime.fleet_views import fleet
from betimes.service.scheduling.engine_factory import Settings
from betimes.service.scheduling.job_states import Status
from betimes.service.views.models import GiveBackSpec
from tests.service.runtime.test_rentals import House, clouds

DAY_S = 86400.0


def play(
    folder: Path,
    policy: str,
    settings: Settings,
    test: Callable[[House], Awaitable[None]],
    *more: Callable[[House], Awaitable[None]],
) -> House:
    """A test, and others after new starts of the service."""
    house = House(folder, policy, clouds())
    house.settings = settings

    async def main() -> None:
        for one in (test, *more):
            async with house.open():
                await one(house)

    asyncio.run(main())
    return house


async def reason(house: House, number: int) -> str:
    view = (await house.backend.job(number)).job
    return "" if view.reason is None else view.reason.text


@pytest.mark.parametrize("policy", ["fifo", "nodes:fifo"])
def test_a_machine_goes_when_its_lease_is_as_long_as_it_may_be(tmp_path: Path, policy: str) -> None:
    async def first(house: House) -> None:
        await house.rent()
        await house.at(60.0)
        (job,) = await house.submit(3000.0)
        await house.at(479.0)
        assert await house.statuses() == {"own-0": "up", "big-0": "up"}
        assert (await house.job(job)) == (Status.RUNNING, 1)

    async def again(house: House) -> None:
        await house.at(481.0)
        assert (await house.statuses())["big-0"] == "draining"
        await house.at(601.0)
        assert await house.statuses() == {"own-0": "up"}
        (job,) = house.controller.scheduler.ledger.jobs.values()
        assert job.status == Status.QUEUED

    house = play(tmp_path, policy, Settings(fleet=FleetLimits(longest_lease_s=600.0)), first, again)
    assert house.told("limit-reached") == [("limit-reached", "big-0", 480.0)]
    (stops,) = house.told("stopping")
    assert stops[2] == 595.0, "2 s, and the grace period of 3 s, before the end"
    (gone,) = house.store.events(kinds=["node-gone"])
    assert 1595.0 <= gone.at_s <= 1598.0
    cost_usd = (gone.at_s - 1060.0) * 2.0 / 3600.0
    assert (gone.data["why"], gone.data["cost_usd"]) == ("given-back", pytest.approx(cost_usd))
    *_, requeued = house.store.events(kinds=["requeued"])
    assert "given back, since the longest lease of 600 s" in requeued.data["reason"]["text"]


def test_the_fleet_is_no_larger_than_it_may_be(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        with pytest.raises(
            Conflict, match=r"nothing is rented: the largest fleet is 1 machine .--most-machines.; 0 rented"
        ):
            await house.rent(2)
        jobs = await house.submit(3000.0, 3000.0, cpu=4.0)
        await house.at(200.0)
        assert sorted(await house.statuses()) == ["big-0", "own-0"]
        assert (await house.job(jobs[0]))[0] == Status.RUNNING
        assert "nothing more is rented, since the largest fleet is 1 machine" in await reason(house, jobs[1])

    play(tmp_path, "odb", Settings(fleet=FleetLimits(most_machines=1)), test)


@pytest.mark.parametrize("policy", ["odb", "njw"])
def test_a_budget_is_kept_and_begins_anew_with_the_day(tmp_path: Path, policy: str) -> None:
    async def test(house: House) -> None:
        (job,) = await house.submit(100_000.0, cpu=4.0)
        await house.at(1500.0)
        assert (await house.statuses())["own-0"] == "up"
        spent_usd = house.controller.scheduler.limits.spent_usd("day", house.clock.now_s())
        assert 0.8 * 0.2 < spent_usd <= 0.2
        assert "the budget of $0.2 a day is spent" in await reason(house, job)
        with pytest.raises(Conflict, match=r"nothing is rented: the budget of \$0.2 a day is spent"):
            await house.rent()
        await house.at(DAY_S - 1100.0)
        assert await house.statuses() == {"own-0": "up"}

    async def next_day(house: House) -> None:
        spent_usd = house.controller.scheduler.limits.spent_usd("day", house.clock.now_s())
        assert spent_usd > 0.15, "known after a restart"
        await house.at(DAY_S - 1000.0 + 200.0)
        assert len(await house.statuses()) == 2

    settings = Settings(budgets=parse_budgets(["0.2usd/day"]))
    house = play(tmp_path, policy, settings, test, next_day)
    assert {kind for kind, *_ in house.told("limit-reached")} == {"limit-reached"}


def test_no_machine_is_rented_that_would_have_to_go_at_once(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        await house.submit(3000.0, 3000.0, 3000.0, cpu=4.0)
        await house.at(200.0)

    # Three minutes of a machine cost 10 cents: one is rented, and no three.
    house = play(tmp_path, "odb", Settings(budgets=parse_budgets(["0.15usd/day"])), test)
    assert [node for _, node, _ in house.told("node-added")] == ["own-0", "big-0"]


def test_a_budget_of_nothing_rents_nothing(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        (job,) = await house.submit(100.0, cpu=4.0)
        await house.at(600.0)
        assert await house.statuses() == {"own-0": "up"}
        assert "the budget of $0 a month is spent" in await reason(house, job)

    play(tmp_path, "odb", Settings(budgets=parse_budgets(["0usd/month"])), test)


def test_what_is_rented_is_shown_and_given_back_by_hand(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        await house.rent(2)
        await house.at(60.0)
        (job,) = await house.submit(3000.0)
        await house.at(1860.0)
        machines = (await house.backend.fleet()).machines
        used = next(each for each in machines if each.jobs == [job])
        assert (used.why, used.cost_usd, used.paid_until_at) == ("by hand", pytest.approx(1.0), 2860.0)
        assert (await house.backend.fleet()).today_usd == pytest.approx(2.0)
        other = next(each.name for each in machines if each.name != used.name)
        found = await house.backend.give_back(GiveBackSpec(machine=other), "ann")
        assert [each.name for each in found.machines] == [used.name], "nothing ran on the other"
        found = await house.backend.give_back(GiveBackSpec(machine=used.name), "ann")
        assert [(each.name, each.status) for each in found.machines] == [(used.name, "draining")]
        found = await house.backend.give_back(GiveBackSpec(now=True), "ann")
        assert (found.machines, found.today_usd) == ([], pytest.approx(2.0))
        assert found.no_more is not None
        assert (await house.job(job))[0] == Status.QUEUED
        with pytest.raises(Conflict, match="nothing is rented"):
            await house.rent()
        with pytest.raises(Conflict, match=r"node own-0 is not rented; `betimes fleet` lists what is"):
            await house.backend.give_back(GiveBackSpec(machine="own-0"), "ann")

    play(tmp_path, "nodes:fifo", Settings(), test)


def test_costs_are_shown_until_now_also_when_nothing_has_happened_since(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        await house.rent()
        await house.at(60.0)
        scheduler, up_at = house.controller.scheduler, house.clock.now_s()
        later = fleet(scheduler, up_at + 1800.0)
        (machine,) = later.machines
        assert (machine.cost_usd, later.today_usd) == (pytest.approx(1.0), pytest.approx(1.0))
        tomorrow = fleet(scheduler, DAY_S + 3600.0)
        assert (tomorrow.today_usd, tomorrow.month_usd) == (
            pytest.approx(2.0),
            pytest.approx((DAY_S + 3600.0 - up_at) * 2.0 / 3600.0),
        )

    play(tmp_path, "fifo", Settings(), test)


def test_how_budgets_are_written() -> None:
    assert parse_budgets(["ann=50", "50usd/day", "600/month"]) == Budgets(
        {"ann": 50.0}, {"day": 50.0, "month": 600.0}
    )
    for wrong, said in (
        (["50usd"], "as in 50usd/day"),
        (["5usd/day", "6usd/day"], "a day has a budget already"),
        (["1.2.3usd/day"], "'1.2.3' is not an amount of money"),
    ):
        with pytest.raises(ValueError, match=said):
            parse_budgets(wrong)
