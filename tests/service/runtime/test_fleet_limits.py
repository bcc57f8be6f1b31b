"""Limits of what is rented are kept whatever a policy decides, and said in every reason to wait."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis.strategies import lists, sampled_from, tuples

from betimes.errors import Conflict
from betimes.service.machines.budgets import Budgets, FleetLimits, parse_budgets
from betimes.service.runtime.fleet_views import fleet
from betimes.service.scheduling.engine_factory import Settings
from betimes.service.scheduling.job_states import Status
from betimes.service.scheduling.user_budgets import LOOK_S
from betimes.service.spec.groups import parse_groups
from betimes.service.spec.users import User, UserChanges, UserLimits
from betimes.service.views.models import GiveBackSpec
from tests.service.reliability.cluster import spec
from tests.service.runtime.test_rentals import House, clouds

DAY_S = 86400.0
MIDNIGHT_S = 7200.0
"""After the first start of a test that begins in the evening: fewer ticks until the budget of a day is new."""


def play(
    folder: Path,
    policy: str,
    settings: Settings,
    test: Callable[[House], Awaitable[None]],
    *more: Callable[[House], Awaitable[None]],
    begins_at: float = 1000.0,
) -> House:
    """A test, and others after new starts of the service."""
    house = House(folder, policy, clouds(), begins_at)
    house.settings = settings
    play_with(house, test, *more)
    return house


def play_with(house: House, *tests: Callable[[House], Awaitable[None]]) -> None:
    """Tests, each after a new start of the service."""

    async def main() -> None:
        for one in tests:
            async with house.open():
                await one(house)

    asyncio.run(main())


async def reason(house: House, number: int) -> str:
    view = (await house.backend.job(number)).job
    return "" if view.reason is None else view.reason.text


@pytest.mark.parametrize("policy", ["fifo", "nodes:fifo"])
def test_a_machine_goes_when_its_lease_is_as_long_as_it_may_be(tmp_path: Path, policy: str) -> None:
    async def first(house: House) -> None:
        await house.rent()
        await house.at(60.0)
        believed = spec(3000.0, cpu=2.0).model_copy(update={"estimate_s": 300.0})
        job = (await house.backend.submit([believed], "ann"))[0].job_id
        await house.at(100.0)
        assert (await house.job(job)) == (Status.RUNNING, 1)

    async def again(house: House) -> None:
        await house.at(479.0)
        assert await house.statuses() == {"own-0": "up", "big-0": "up"}
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
        await house.at(MIDNIGHT_S - 100.0)
        assert await house.statuses() == {"own-0": "up"}

    async def next_day(house: House) -> None:
        spent_usd = house.controller.scheduler.limits.spent_usd("day", house.clock.now_s())
        assert spent_usd > 0.15, "known after a restart"
        await house.at(MIDNIGHT_S + 200.0)
        assert len(await house.statuses()) == 2

    settings = Settings(budgets=parse_budgets(["0.2usd/day"]))
    house = play(tmp_path, policy, settings, test, next_day, begins_at=DAY_S - MIDNIGHT_S)
    assert {kind for kind, *_ in house.told("limit-reached")} == {"limit-reached"}


@pytest.mark.parametrize("whose", ["ann", "group lab"])
def test_a_users_budget_for_a_day_is_kept_on_machines_that_jobs_share(tmp_path: Path, whose: str) -> None:
    """Ann's two jobs hold half of a machine of 2 USD an hour each: 20 cents are spent after six minutes."""

    async def test(house: House) -> None:
        anns = await house.submit(50_000.0, 50_000.0, cpu=2.0)
        (bobs,) = [one.job_id for one in await house.backend.submit([spec(3000.0, cpu=4.0)], "bob")]
        await house.at(400.0)
        assert [(await house.job(job))[0] for job in anns] == [Status.RUNNING, Status.RUNNING]
        await house.at(500.0)
        assert [(await house.job(job))[0] for job in anns] == [Status.BLOCKED, Status.BLOCKED]
        assert await reason(house, anns[0]) == (
            f"{whose}'s budget of $0.2 a day for rented machines is spent; it waits until 1970-01-02T00:00:00Z"
        )
        assert (await house.job(bobs))[0] == Status.RUNNING, "it is nobody else's"
        (late,) = await house.submit(10.0, cpu=2.0)
        assert (await house.job(late))[0] == Status.BLOCKED
        budgets = house.controller.scheduler.budgets
        assert 0.17 < budgets.spent_usd("ann", "day") <= 0.21

    async def again(house: House) -> None:
        await house.at(4000.0)
        assert list(await house.statuses()) == ["own-0"], "what ann may not use is given back"
        assert await reason(house, 1) != ""
        await house.at(MIDNIGHT_S + 100.0)
        assert (await house.job(1))[0] == Status.RUNNING

    lab = parse_groups([{"name": "lab", "users": ["cid", "ann"], "usd_per_day": 0.2}])
    settings = Settings(budgets=parse_budgets(["ann=0.2usd/day"]))
    settings = settings if whose == "ann" else Settings(groups=lab)
    house = play(tmp_path, "odb", settings, test, again, begins_at=DAY_S - MIDNIGHT_S)
    reached = house.store.events(kinds=["limit-reached"])
    assert {(event.node, event.data["user"]) for event in reached} == {(None, "ann")}


@pytest.mark.parametrize("by", ["setting", "limit", "group"])
def test_a_users_machine_goes_when_the_budget_of_the_day_is_spent(tmp_path: Path, by: str) -> None:
    """It was expected to cost 11 cents, and the job goes on for longer than it said."""

    async def test(house: House) -> None:
        if by == "limit":
            ann = User(name="ann", limits=UserLimits(max_usd_per_day=0.2))
            await house.backend.add_user(ann, "operator")
        (job,) = [
            one.job_id
            for one in await house.backend.submit(
                [spec(50_000.0, cpu=4.0).model_copy(update={"estimate_s": 200.0})], "ann"
            )
        ]
        await house.at(200.0)
        assert (await house.job(job))[0] == Status.RUNNING
        await house.at(800.0)
        assert list(await house.statuses()) == ["own-0"]
        assert f"{whose} has spent $0.19 of $0.20 on" in await reason(house, job)
        assert "on rented machines on 1970-01-01" in await reason(house, job)
        await house.at(DAY_S - 900.0)
        assert (await house.job(job))[0] == Status.RUNNING

    whose = "group lab" if by == "group" else "ann"
    budgets = parse_budgets(["ann=0.2usd/day"] if by == "setting" else [])
    lab = [{"name": "lab", "users": ["ann"], "usd_per_day": 0.2}] if by == "group" else []
    play(tmp_path, "njw", Settings(budgets=budgets, groups=parse_groups(lab)), test)


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


@pytest.mark.parametrize("policy", ["odb", "njw", "no-packing:period=60"])
def test_a_quote_counts_on_no_machine_that_a_budget_forbids(tmp_path: Path, policy: str) -> None:
    async def test(house: House) -> None:
        await house.submit(300.0, cpu=1.0)
        await house.at(60.0)
        waits = await house.backend.quote(spec(50.0, cpu=1.0), "ann")
        assert waits.start_at == pytest.approx(1300.0, abs=60.0), "on the owned machine, after the job there"
        assert [one.what for one in waits.options if one.instance_type] == []
        never = await house.backend.quote(spec(50.0, cpu=4.0), "ann")
        assert (never.start_at, never.finish_at, never.options) == (None, None, [])
        assert never.reason is not None
        assert "nothing more is rented, since the budget of $0 a month is spent" in never.reason.text

    play(tmp_path, policy, Settings(budgets=parse_budgets(["0usd/month"])), test)


@pytest.mark.parametrize("policy", ["njw"])
def test_a_quote_rents_for_nobody_whose_budget_is_spent(tmp_path: Path, policy: str) -> None:
    async def test(house: House) -> None:
        await house.submit(300.0, cpu=1.0)
        await house.at(60.0)
        bobs = await house.backend.quote(spec(50.0, cpu=4.0), "bob")
        assert bobs.start_at == 1120.0, "nobody limits bob"
        anns = await house.backend.quote(spec(50.0, cpu=4.0), "ann")
        assert anns.start_at is None
        assert anns.reason is not None
        assert "ann has spent $0.00 of $0.00" in anns.reason.text

    play(tmp_path, policy, Settings(budgets=parse_budgets(["ann=0"])), test)


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
    found = parse_budgets(["ann=50", "ann=9usd/day", "*=20usd/month", "50usd/day", "600/month"])
    assert found == Budgets(
        {"ann": {"month": 50.0, "day": 9.0}, "*": {"month": 20.0}}, {"day": 50.0, "month": 600.0}
    )
    assert [found.of(user, "month") for user in ("ann", "bob")] == [50.0, 20.0]
    assert [found.of(user, "day") for user in ("ann", "bob")] == [9.0, math.inf]
    for wrong, said in (
        (["50usd"], "as in 50usd/day"),
        (["5usd/day", "6usd/day"], "a day has a budget already"),
        (["ann=50/week"], "as in ann=50 or ann=20usd/day"),
        (["=50usd/day"], "as in ann=50 or ann=20usd/day"),
        (["ann=5usd/day", "ann=6/day"], "ann has a budget a day already"),
        (["1.2.3usd/day"], "'1.2.3' is not an amount of money"),
    ):
        with pytest.raises(ValueError, match=said):
            parse_budgets(wrong)


def test_a_spent_budget_of_a_user_holds_until_it_is_raised(tmp_path: Path) -> None:
    """What was foreseen to be spent falls when the jobs stop, which starts none of them again."""

    async def test(house: House) -> None:
        await house.backend.add_user(User(name="ann", limits=UserLimits(max_usd_per_day=0.2)), "operator")
        jobs = await house.submit(50_000.0, 50_000.0, cpu=2.0)
        await house.at(4000.0)
        assert [await house.job(job) for job in jobs] == [(Status.BLOCKED, 1)] * 2
        (ann,) = await house.backend.users()
        day, month = ann.spent
        assert (day.spent_usd, day.budget_usd, day.is_spent) == (pytest.approx(0.2, abs=0.01), 0.2, True)
        assert (month.spent_usd, month.budget_usd, month.is_spent) == (day.spent_usd, None, False)
        assert (ann.held.running_jobs, ann.held.queued_jobs) == (0, 2)

    async def again(house: House) -> None:
        await house.at(5000.0)
        assert [await house.job(job) for job in (1, 2)] == [(Status.BLOCKED, 1)] * 2
        changes = UserChanges(limits=UserLimits(max_usd_per_day=0.4))
        await house.backend.change_user("ann", changes, "operator")
        await house.at(5200.0)
        assert [await house.job(job) for job in (1, 2)] == [(Status.RUNNING, 2)] * 2

    house = play(tmp_path, "odb", Settings(), test, again)
    assert len(house.store.events(kinds=["limit-reached"])) == 1


@pytest.mark.parametrize("policy", ["njw", "compound:t=2m,b=5m"])
def test_a_job_that_only_a_rented_machine_holds_is_foreseen_where_the_budget_is_spent_and_its_user_has_limits(
    tmp_path: Path, policy: str
) -> None:
    """It asked for a machine every minute of a forecast without an end, in which the service stood still."""

    async def test(house: House) -> None:
        await house.backend.add_user(User(name="bob", limits=UserLimits(max_units=3)), "operator")
        await house.submit(5000.0, 3000.0, cpu=1.0)
        await house.at(2000.0)
        (wide,) = await house.backend.submit([spec(1000.0, cpu=4.0)], "bob")
        await house.at(2100.0)
        assert await house.job(wide.job_id) == (Status.QUEUED, 0)
        assert "since the budget of $0.5 a day is spent" in await reason(house, wide.job_id)

    play(tmp_path, policy, Settings(budgets=parse_budgets(["0.5usd/day"])), test)


@pytest.mark.parametrize("policy", ["odb", "njw"])
def test_usage_divides_the_bill_among_users_and_nobody_in_the_numbers_of_budgets(
    tmp_path: Path, policy: str
) -> None:
    """While machines are there, after a restart, and when all have gone; shared ones, and those for one job alone."""

    async def check(house: House) -> None:
        usage, fleet_now = await house.backend.usage(None, 0.0, "user"), await house.backend.fleet()
        users = {one.name: one.figures.rented_usd or 0.0 for one in usage.groups}
        assert usage.unused_usd is not None
        assert usage.total.rented_usd == usage.total.cost_usd == pytest.approx(fleet_now.month_usd)
        assert sum(users.values()) + usage.unused_usd == pytest.approx(fleet_now.month_usd)
        budgets = house.controller.scheduler.budgets
        ahead_s = house.clock.now_s() - house.controller.scheduler.now_at
        assert users == {user: pytest.approx(budgets.spent_usd(user, "month", ahead_s)) for user in users}
        names = await house.backend.usage(None, 0.0, "name")
        assert sum(one.figures.rented_usd or 0.0 for one in names.groups) == pytest.approx(
            sum(users.values())
        )

    async def test(house: House) -> None:
        await house.backend.submit([spec(600.0, cpu=4.0, memory_gib=1.0), spec(2000.0, cpu=2.0)], "ann")
        await house.backend.submit([spec(900.0, cpu=2.0, memory_gib=9.0)], "bob")
        for second in (300.0, 700.0):
            await house.at(second)
            await check(house)

    async def again(house: House) -> None:
        await check(house)
        await house.at(6000.0)
        await check(house)
        assert (await house.backend.fleet()).machines == []

    house = play(tmp_path, policy, Settings(), test, again)
    billed = sum(event.data["cost_usd"] for event in house.store.events(kinds=["node-gone"]))
    assert billed > 0.5
    assert sum(row["usd"] for row in house.store.charged(0.0, 1e9, None)) == pytest.approx(billed)


@given(
    policy=sampled_from(["odb", "njw", "no-packing:period=60"]),
    budgets=lists(
        sampled_from(["0.15usd/day", "0.3usd/month", "ann=0.1usd/day", "*=0.2usd/day"]), unique=True
    ),
    longest_lease_s=sampled_from([None, 900.0]),
    most_machines=sampled_from([None, 1, 2]),
    asked=lists(
        tuples(
            sampled_from(["ann", "bob"]),
            sampled_from([1.0, 2.0, 4.0]),
            sampled_from([100.0, 600.0, 50_000.0]),
            sampled_from([60.0, 600.0]),
        ),
        min_size=1,
        max_size=5,
    ),
)
@settings(deadline=None)
def test_no_job_is_started_to_be_stopped(
    policy: str,
    budgets: list[str],
    longest_lease_s: float | None,
    most_machines: int | None,
    asked: list[tuple[str, float, float, float]],
) -> None:
    async def test(house: House) -> None:
        for user, cpu, work_s, estimate_s in asked:
            one = spec(work_s, cpu=cpu).model_copy(update={"estimate_s": estimate_s})
            await house.backend.submit([one], user)
        await house.at(3000.0)

    limits = FleetLimits(most_machines=most_machines, longest_lease_s=longest_lease_s)
    with TemporaryDirectory() as folder:
        house = play(Path(folder), policy, Settings(budgets=parse_budgets(budgets), fleet=limits), test)
        events = house.store.events(limit=100_000)
    is_over: dict[str | None, Any] = {}  # whose budget, by user
    going: set[str | None] = set()
    launched: dict[int | None, float] = {}
    for event in events:
        on = [name for name, _ in event.data.get("places", ()) if name != "own-0"]
        if event.kind == "limit-reached":
            going.add(event.node)
            if "budget" in event.data:
                is_over[event.data["budget"]["user"]] = event
        elif event.kind == "node-added" and None in is_over:
            raise AssertionError(f"{event} after {is_over[None]}")
        elif event.kind == "launched" and on:
            user = asked[(event.job or 0) - 1][0]
            assert user not in is_over, (event, is_over[user])
            assert going.isdisjoint(on), (event, going)
            launched[event.job] = event.at_s
        elif event.kind == "stopping" and event.cause == "limit":
            assert event.at_s - launched[event.job] >= LOOK_S, (event, launched)
