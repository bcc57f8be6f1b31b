"""Machines that a live pool rents by its policy's rule: restarts, refusals, failures, limits, other policies.

The service has one core; a job of 2,000 s of work on up to five cores wants a machine of four, which is up after 60 s.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from betimes.cluster.offer import Offer
from betimes.errors import PolicyError, Refused
from betimes.kernels import FloatTable
from betimes.policies.hooks import Prepared
from betimes.service.engines.pool import LivePool
from betimes.service.machines.budgets import parse_budgets
from betimes.service.machines.fake_cloud import FakeCloud, Outage, Slow
from betimes.service.scheduling.engine_factory import Settings
from betimes.service.scheduling.job_states import Status
from tests.service.machines.kinds import kind
from tests.service.reliability.cluster import spec
from tests.service.runtime.test_fleet_limits import play_with, reason
from tests.service.runtime.test_rentals import House, clouds, play

FOUR = replace(kind("big", 4, 16, usd_per_h=2.0, capacity=3, boot_s=60.0, notice_s=20.0), bill_step_s=600.0)
POLICY = "fifo:rent_within=200"


async def submit(house: House, work_s: float = 2000.0) -> int:
    """A job that can use all that there will be."""
    believed = spec(work_s, max_units=5)
    (taken,) = await house.backend.submit([believed], "ann")
    await house.at(house.clock.now_s() - 1000.0)
    return taken.job_id


async def set_policy(house: House, policy: str) -> None:
    await house.backend.set_policy(policy, "ann")


def gone(house: House) -> dict[str | None, tuple[float, Any]]:
    """When the machines went, and what each has cost, cents."""
    events = house.store.events(kinds=["node-gone"])
    found = {event.node: (event.at_s - 1000.0, round(event.data["cost_usd"] * 100, 1)) for event in events}
    assert len(found) == len(events), "each goes once"
    return found


@pytest.mark.parametrize("again_s", [0.0, 30.0, 100.0])
def test_a_machine_is_kept_through_a_restart_and_paid_for_once(tmp_path: Path, again_s: float) -> None:
    async def first(house: House) -> None:
        await submit(house)
        await house.at(again_s)

    async def again(house: House) -> None:
        await house.at(max(again_s, 61.0))
        assert await house.statuses() == {"own-0": "up", "big-0": "up"}
        await house.at(501.0)
        assert (await house.job(1))[0] == Status.FINISHED
        await house.at(700.0)
        assert await house.statuses() == {"own-0": "up"}

    house = House(tmp_path, POLICY, clouds(offered=FOUR))
    play_with(house, first, again)
    assert gone(house) == {"big-0": (660.0, 33.3)}
    assert len(house.told("ordered")) == 1


@pytest.mark.parametrize("again_s", [30.0, 100.0, 300.0])
def test_what_is_believed_of_a_wide_job_past_its_estimate_is_the_same_after_a_restart(
    tmp_path: Path, again_s: float
) -> None:
    """It needs all five cores, for 1,000 s and not for 100 s; another comes at 350 s, for which more is rented."""
    believed_s = list[float]()

    async def begins(house: House) -> None:
        asked = spec(5000.0, min_units=5, max_units=5, estimate_s=100.0)
        await house.backend.submit([asked], "ann")
        await house.at(again_s)

    async def goes_on(house: House) -> None:
        await house.at(350.0)
        with pytest.raises(Refused, match="14 units can never be held at once"):
            await house.backend.submit([spec(100.0, min_units=14, max_units=14)], "ann")
        await house.backend.submit([spec(100.0, min_units=6, max_units=8)], "ann")
        scheduler = house.controller.scheduler
        believed_s.append(scheduler.engine.believed_left(1, 350.0))

    def outcome(folder: Path, *parts: Callable[[House], Awaitable[None]]) -> tuple[Any, ...]:
        folder.mkdir()
        house = House(folder, POLICY, clouds(offered=FOUR))
        play_with(house, *parts)
        return believed_s.pop(), house.told("ordered")

    async def at_once(house: House) -> None:
        await begins(house)
        await goes_on(house)

    restarted = outcome(tmp_path / "restarted", begins, goes_on)
    assert restarted == outcome(tmp_path / "not", at_once)
    # 500 were believed at first, and 2,000 by now, of which 290 s on five cores have done 1,450.
    assert restarted[0] == 550.0
    assert [at for _, _, at in restarted[1]] == [0.0, 350.0]


def test_an_order_that_was_not_answered_is_made_again_after_a_restart(tmp_path: Path) -> None:
    async def first(house: House) -> None:
        await submit(house)
        await house.at(10.0)
        assert await house.statuses() == {"own-0": "up"}

    async def again(house: House) -> None:
        await house.at(100.0)
        assert await house.statuses() == {"own-0": "up", "big-0": "up"}
        await house.at(1000.0)
        assert (await house.job(1))[0] == Status.FINISHED

    house = House(tmp_path, POLICY, clouds(Slow(1000.0, 1011.0, 20.0), offered=FOUR))
    play_with(house, first, again)
    assert [at for _, _, at in house.told("ordered")] == [0.0, 10.0]
    assert list(gone(house)) == ["big-0"]


class Duds(FakeCloud):
    """A cloud of which no machine comes up, though none of its offers says so."""

    def offers(self) -> list[Offer]:
        return [replace(offer, boot_failure_frac=0.0) for offer in super().offers()]


def test_machines_that_never_come_up_cost_nothing_and_the_job_goes_on_with_what_is_owned(
    tmp_path: Path,
) -> None:
    async def test(house: House) -> None:
        job = await submit(house)
        await house.at(61.0)
        assert await house.statuses() == {"own-0": "up"}
        await house.at(1999.0)
        assert await house.job(job) == (Status.RUNNING, 1)
        await house.at(2001.0)
        assert await house.job(job) == (Status.FINISHED, 1)

    house = play(tmp_path, POLICY, test, clouds(offered=replace(FOUR, boot_failure_frac=1.0), cloud=Duds))
    assert [at for _, _, at in house.told("ordered")] == [120.0 * number for number in range(15)]
    assert gone(house) == {f"big-{number}": (120.0 * number + 60.0, 0.0) for number in range(15)}


def test_a_refusal_is_logged_once_and_the_cloud_asked_again(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        await submit(house)
        await house.at(119.0)
        assert list(await house.statuses()) == ["own-0"]
        await house.at(200.0)
        assert (await house.statuses())["big-0"] == "up"

    house = play(tmp_path, POLICY, test, clouds(Outage(1000.0, 1110.0), offered=FOUR))
    assert [at for _, _, at in house.told("ordered")] == [0.0, 60.0, 120.0]
    assert len(house.told("not-rented")) == 1


def test_a_spent_budget_takes_the_machine_away_and_the_job_goes_on_with_what_is_owned(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        job = await submit(house, 6000.0)
        await house.at(100.0)
        assert (await house.statuses())["big-0"] == "up"
        waits = await submit(house)
        await house.at(1000.0)
        assert await house.statuses() == {"own-0": "up"}
        assert (await house.job(job))[0] == Status.RUNNING
        assert (await house.job(waits))[0] == Status.QUEUED
        assert "the budget of $0.2 a day is spent" in await reason(house, waits)
        spent_usd = house.controller.scheduler.limits.spent_usd("day", house.clock.now_s())
        assert 0.1 < spent_usd <= 0.2

    house = House(tmp_path, POLICY, clouds(offered=kind("big", 4, 16, usd_per_h=2.0, boot_s=60.0)))
    house.settings = Settings(budgets=parse_budgets(["0.2usd/day"]))
    play_with(house, test)


@pytest.mark.parametrize("away_s", [30.0, 100.0])
def test_the_policy_is_changed_away_and_back(tmp_path: Path, away_s: float) -> None:
    """A machine that boots goes at once; one with work goes when that is done, beside one that is ordered anew."""

    async def test(house: House) -> None:
        job = await submit(house)
        await house.at(away_s)
        await set_policy(house, "fifo")
        await house.at(away_s + 10.0)
        there = await house.statuses()
        assert there == ({"own-0": "up"} if away_s < 60.0 else {"own-0": "up", "big-0": "draining"})
        await set_policy(house, POLICY)
        await house.at(away_s + 80.0)
        assert (await house.statuses())["big-1"] == "up"
        await house.at(2000.0)
        assert await house.job(job) == (Status.FINISHED, 1)
        assert await house.statuses() == {"own-0": "up"}

    house = play(tmp_path, POLICY, test, clouds(offered=FOUR))
    assert set(gone(house)) == {"big-0", "big-1"}


def test_a_job_that_needs_more_than_is_owned_is_rented_for_however_short_it_is(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        (short,) = await house.backend.submit([spec(100.0, min_units=5, max_units=5)], "ann")
        await house.at(59.0)
        assert (await house.job(short.job_id))[0] == Status.QUEUED
        await house.at(81.0)
        assert (await house.job(short.job_id))[0] == Status.FINISHED
        await house.at(700.0)
        assert await house.statuses() == {"own-0": "up"}

    house = play(tmp_path, POLICY, test, clouds(offered=FOUR))
    assert gone(house) == {"big-0": (660.0, 33.3)}


def test_a_job_that_can_never_be_held_is_refused_by_the_limit_that_forbids_it(tmp_path: Path) -> None:
    """One core is owned, and of the three machines of four a budget allows for two: 9 cores."""

    async def test(house: House) -> None:
        by_budget = (
            r"10 units can never .* hold 9 at most, by rent_budget of the policy \(USD an hour for all: 4\)"
        )
        with pytest.raises(Refused, match=by_budget) as refused:
            await house.backend.submit([spec(100.0, min_units=10, max_units=10)], "ann")
        assert refused.value.field == "min_units"
        (wide,) = await house.backend.submit([spec(900.0, min_units=9, max_units=9)], "ann")
        await house.at(61.0)
        # Machines that are there by now are not counted twice.
        with pytest.raises(Refused, match=by_budget):
            await house.backend.submit([spec(100.0, min_units=10, max_units=10)], "ann")
        with pytest.raises(Refused, match="no offer of the cloud holds it either"):
            await house.backend.submit([spec(100.0, cpu=5.0)], "ann")
        await house.at(200.0)
        assert (await house.job(wide.job_id))[0] == Status.FINISHED
        (wider,) = await house.backend.submit([spec(100.0, max_units=10)], "ann")
        assert wider.note is not None
        assert "of the 10 units that it can use it gets 9 at most, rented machines included" in wider.note

    play(tmp_path, f"{POLICY},rent_budget=4", test, clouds(offered=FOUR))


def test_a_policy_of_a_user_that_cannot_divide_the_larger_pool_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its promises cannot be made, as machines come in their play-outs; once one is up, fifo takes over."""
    prepared = LivePool._prepared  # pyright: ignore[reportPrivateUsage]

    def of_one_unit(self: LivePool, units: int, speedup: FloatTable) -> Prepared:
        if self.policy.policy.name == "srsf" and units > 1:
            raise PolicyError("policy srsf: it is for a pool of one unit")
        return prepared(self, units, speedup)

    monkeypatch.setattr(LivePool, "_prepared", of_one_unit)

    async def test(house: House) -> None:
        job = await submit(house)
        await house.at(30.0)
        assert house.controller.scheduler.ledger.jobs[job].status == Status.RUNNING
        with pytest.raises(PolicyError, match="a pool of one unit"):
            await house.job(job)  # of which the end is foreseen
        other = await submit(house, 10.0)
        await house.at(90.0)
        assert house.controller.scheduler.ledger.policy == "fifo"
        await house.at(2100.0)
        assert [(await house.job(number))[0] for number in (job, other)] == [Status.FINISHED] * 2

    play(tmp_path, "srsf:rent_within=200", test, clouds(offered=FOUR))


def test_a_policy_that_cannot_be_put_in_force_changes_nothing(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        (job,) = await house.submit(300.0, cpu=1.0)
        with pytest.raises(PolicyError, match="offer big has boot_sigma, and a pool rents machines that are"):
            await set_policy(house, POLICY)
        await house.at(400.0)
        assert await house.job(job) == (Status.FINISHED, 1)

    house = play(tmp_path, "nodes:fifo", test, clouds(offered=replace(FOUR, boot_sigma=0.5)))
    assert house.controller.scheduler.ledger.policy == "nodes:fifo"


def test_who_is_told_that_offers_or_a_wish_not_to_rent_change_nothing(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        unused = (await house.backend.policy()).unused or ""
        assert unused.startswith(
            "fifo rents nothing of what is offered: give it rent_within (such as rent_within=1h)"
        )
        with pytest.raises(Refused, match="rent: the policy in force rents no machines; leave it out"):
            await house.backend.submit([spec(10.0, rent="now")], "ann")
        await set_policy(house, POLICY)
        assert (await house.backend.policy()).unused is None
        with pytest.raises(Refused, match="rent: the policy in force rents for all jobs together"):
            await house.backend.submit([spec(10.0, rent="now")], "ann")
        (taken,) = await house.backend.submit([spec(10.0, rent="never")], "ann")
        assert "may run on a rented machine, too, though it is not to be rented for" in (taken.note or "")

    play(tmp_path, "fifo", test, clouds(offered=FOUR))
