"""Machines that the policy rents for one job alone: over restarts of the service, and where the cloud has trouble."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from betimes.errors import Refused
from betimes.kernels import as_array
from betimes.service.machines.budgets import parse_budgets
from betimes.service.machines.fake_cloud import Outage, Reclaim, SetCapacity
from betimes.service.machines.provider import OpenCloud
from betimes.service.runtime.rentals import Rentals
from betimes.service.scheduling.engine_factory import Settings
from betimes.service.scheduling.job_states import Status
from betimes.service.spec.users import User, UserLimits
from tests.service.reliability.cluster import spec
from tests.service.runtime.test_rentals import BIG, House, clouds


def play(
    folder: Path,
    policy: str,
    *acts: Callable[[House], Awaitable[None]],
    open_cloud: OpenCloud | None = None,
    settings: Settings | None = None,
) -> House:
    """The acts, one after another; between two of them the service is stopped, and started again from its store."""
    house = House(folder, policy, open_cloud or clouds())
    house.settings = settings or Settings()

    async def main() -> None:
        for act in acts:
            async with house.open():
                await act(house)

    asyncio.run(main())
    return house


def leases(house: House) -> list[tuple[str | None, float, float | None]]:
    """Each machine with when it was rented, and when it was gone."""
    rented = {event.node: event.at_s - 1000.0 for event in house.store.events(kinds=["node-added"])}
    gone = {event.node: event.at_s - 1000.0 for event in house.store.events(kinds=["node-gone"])}
    return [(node, at_s, gone.get(node)) for node, at_s in rented.items() if node != "own-0"]


async def two_jobs(house: House) -> None:
    own, other = await house.submit(100.0, 100.0, cpu=1.0)
    assert (own, other) == (1, 2)
    assert await house.job(own) == (Status.RUNNING, 1)
    assert await house.statuses() == {"own-0": "up", "big-0": "booting"}
    view = (await house.backend.job(other)).job
    assert view.status is Status.QUEUED
    assert view.reason is not None
    assert view.reason.text == "a machine of type big is rented for it alone, and boots"


def test_a_machine_for_one_job_survives_restarts(tmp_path: Path) -> None:
    async def boots(house: House) -> None:
        assert await house.statuses() == {"own-0": "up", "big-0": "booting"}
        await house.at(60.0)
        assert await house.statuses() == {"own-0": "up", "big-0": "up"}
        assert await house.job(2) == (Status.RUNNING, 1)

    async def runs(house: House) -> None:
        # The virtual world has ended with the service; the machine is still rented, and the job starts there again.
        assert await house.statuses() == {"own-0": "up", "big-0": "up"}
        assert await house.job(2) == (Status.RUNNING, 2)
        await house.at(300.0)
        assert await house.job(2) == (Status.FINISHED, 2)

    house = play(tmp_path, "njw", two_jobs, boots, runs)
    assert leases(house) == [("big-0", 0.0, 160.0)]


def test_a_machine_that_is_drained_before_it_is_up_is_rented_anew(tmp_path: Path) -> None:
    async def drained(house: House) -> None:
        await house.at(10.0)
        assert (await house.backend.drain("big-0", "ann")).status == "gone"
        await house.at(10.0)
        assert await house.statuses() == {"own-0": "up", "big-1": "booting"}

    async def ends(house: House) -> None:
        await house.at(300.0)
        assert await house.job(2) == (Status.FINISHED, 1)

    house = play(tmp_path, "njw", two_jobs, drained, ends)
    assert [node for node, _, _ in leases(house)] == ["big-0", "big-1"]


def test_killed_before_the_cloud_was_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(Rentals, "order", lambda *_: None)

        async def dies(house: House) -> None:
            await house.submit(100.0, 100.0, cpu=1.0)
            assert await house.statuses() == {"own-0": "up"}

        house = House(tmp_path, "njw", clouds())

        async def first() -> None:
            async with house.open():
                await dies(house)

        asyncio.run(first())

    async def second() -> None:
        async with house.open():
            await house.at(10.0)
            assert await house.statuses() == {"own-0": "up", "big-0": "booting"}
            await house.at(300.0)
            assert await house.job(2) == (Status.FINISHED, 1)

    asyncio.run(second())
    assert [node for node, _, _ in leases(house)] == ["big-0"]


def test_a_wait_goes_on_over_a_restart(tmp_path: Path) -> None:
    async def waits(house: House) -> None:
        await house.submit(1000.0, 100.0, cpu=1.0)
        await house.at(50.0)
        assert await house.statuses() == {"own-0": "up"}

    async def rents(house: House) -> None:
        await house.at(119.0)
        assert await house.statuses() == {"own-0": "up"}
        await house.at(121.0)
        assert await house.statuses() == {"own-0": "up", "big-0": "booting"}
        await house.at(400.0)

    house = play(tmp_path, "ajw-t:b=2m", waits, rents)
    assert leases(house) == [("big-0", 120.0, 280.0)]


def test_a_speculative_run_is_over_after_a_restart(tmp_path: Path) -> None:
    async def runs(house: House) -> None:
        await house.submit(1000.0, 500.0, cpu=1.0)
        await house.at(70.0)
        assert await house.job(2) == (Status.RUNNING, 1)

    async def stops(house: House) -> None:
        await house.at(170.0)
        assert await house.job(2) == (Status.QUEUED, 2)
        assert await house.statuses() == {"own-0": "up"}

    async def waits(house: House) -> None:
        await house.at(3000.0)
        assert await house.job(2) == (Status.FINISHED, 3)

    house = play(tmp_path, "ljw:t=100,lengths=speculate", runs, stops, waits)
    assert leases(house) == [("big-0", 0.0, 160.0)]


@pytest.mark.parametrize(
    ("policy", "finish_s"),
    [
        ("ljw:t=100,lengths=speculate", 1500.0),  # boots, speculates up to 160, waits for the first
        ("compound:t=100,b=600,lengths=speculate,waits=none", 1320.0),  # has waited at 760, and is rented for
        ("compound:t=100,b=600,lengths=speculate", 720.0),  # would wait in vain
        ("compound:t=100,b=900,lengths=speculate", 1500.0),
    ],
)
def test_a_speculative_run_is_promised_what_becomes_of_it(
    tmp_path: Path, policy: str, finish_s: float
) -> None:
    async def asks(house: House) -> None:
        await house.submit(1000.0, 500.0, cpu=1.0)
        for second in (0.0, 30.0, 70.0, 161.0, 300.0):
            await house.at(second)
            view = (await house.backend.job(2)).job
            assert view.estimate is not None
            assert view.estimate.finish_at == pytest.approx(1000.0 + finish_s)
        await house.at(2000.0)
        story = await house.backend.job(2)
        assert story.quote_error_s == pytest.approx(0.0)
        assert story.job.finished_at == pytest.approx(1000.0 + finish_s)

    play(tmp_path, policy, asks)


def test_a_job_that_is_cancelled_gives_its_machine_back(tmp_path: Path) -> None:
    async def cancels(house: House) -> None:
        await two_jobs(house)
        await house.backend.steer("cancel", [2], "ann")
        await house.at(1.0)
        assert await house.statuses() == {"own-0": "up"}

    assert leases(play(tmp_path, "njw", cancels)) == [("big-0", 0.0, 0.0)]


def test_without_capacity_a_job_waits_until_there_is_some(tmp_path: Path) -> None:
    async def crowded(house: House) -> None:
        await house.submit(1000.0, 100.0, 100.0, cpu=1.0)
        assert await house.statuses() == {"own-0": "up", "big-0": "booting"}
        await house.at(400.0)

    house = play(tmp_path, "njw", crowded, open_cloud=clouds(offered=replace(BIG, capacity=1)))
    assert leases(house) == [("big-0", 0.0, 160.0), ("big-1", 180.0, 340.0)]


def test_a_cloud_with_less_than_it_offers_is_asked_again(tmp_path: Path) -> None:
    async def crowded(house: House) -> None:
        await house.submit(1000.0, 100.0, 100.0, cpu=1.0)
        assert await house.statuses() == {"own-0": "up", "big-0": "booting"}
        events = (await house.backend.job(3)).events
        (refused,) = [event for event in events if event.kind == "unrented"]
        assert refused.data["reason"]["text"] == (
            "no machine of type big is rented for it: no capacity: 1 big asked for, 0 of 1 free; asked again in 60 s"
        )
        await house.at(179.0)
        assert await house.statuses() == {"own-0": "up"}
        await house.at(180.0)
        assert await house.statuses() == {"own-0": "up", "big-1": "booting"}
        await house.at(400.0)

    house = play(tmp_path, "njw", crowded, open_cloud=clouds(SetCapacity(1000.0, "big", 1)))
    assert leases(house) == [("big-0", 0.0, 160.0), ("big-1", 180.0, 340.0)]


def test_a_cloud_that_does_not_answer_is_asked_again(tmp_path: Path) -> None:
    async def troubled(house: House) -> None:
        await house.submit(1000.0, 100.0, cpu=1.0)
        assert await house.statuses() == {"own-0": "up"}
        await house.at(60.0)
        assert await house.statuses() == {"own-0": "up", "big-0": "booting"}

    play(tmp_path, "njw", troubled, open_cloud=clouds(Outage(0.0, 1030.0)))


def test_a_machine_that_does_not_boot_is_replaced(tmp_path: Path) -> None:
    async def troubled(house: House) -> None:
        await house.submit(1000.0, 100.0, cpu=1.0)
        await house.at(100.0)
        assert await house.statuses() == {"own-0": "up", "big-3": "booting"}
        assert await house.job(2) == (Status.QUEUED, 0)

    bad = replace(BIG, boot_s=30.0, boot_failure_frac=1.0)
    house = play(tmp_path, "njw", troubled, open_cloud=clouds(offered=bad))
    assert [until for _, _, until in leases(house)] == [30.0, 60.0, 90.0, None]


def test_a_machine_that_is_taken_away_is_replaced(tmp_path: Path) -> None:
    async def taken(house: House) -> None:
        await house.submit(1000.0, 500.0, cpu=1.0)
        await house.at(121.0)
        story = await house.backend.job(2)
        assert [run.outcome for run in story.runs] == ["node-goes"]
        assert await house.statuses() == {"own-0": "up", "big-1": "booting"}

    house = play(tmp_path, "njw", taken, open_cloud=clouds(Reclaim(1100.0, "big")))
    assert leases(house) == [("big-0", 0.0, 118.0), ("big-1", 118.0, None)]


def test_what_neither_a_node_nor_an_offer_holds_is_refused(tmp_path: Path) -> None:
    async def refuses(house: House) -> None:
        (wide,) = await house.submit(10.0, cpu=4.0)
        await house.at(80.0)
        assert await house.job(wide) == (Status.FINISHED, 1)
        with pytest.raises(
            Refused, match=r"cpu: The largest machine here has 1 core; .*no offer of the cloud holds it"
        ):
            await house.submit(10.0, cpu=5.0)
        with pytest.raises(Refused, match=r"cpu: .*it is not to be rented for"):
            await house.backend.submit([spec(10.0, cpu=4.0, rent="never")], "ann")

    play(tmp_path, "njw", refuses)


def test_a_policy_that_rents_nothing_rents_for_nobody(tmp_path: Path) -> None:
    async def refuses(house: House) -> None:
        with pytest.raises(Refused, match="rent: the policy in force rents no machines"):
            await house.backend.submit([spec(10.0, cpu=1.0, rent="now")], "ann")

    play(tmp_path, "nodes:fifo", refuses)


@pytest.mark.parametrize(("rent", "nodes"), [("never", ["own-0"]), ("now", ["own-0", "big-0"])])
def test_a_users_choice_goes_before_the_policys(rent: str, nodes: list[str], tmp_path: Path) -> None:
    async def chooses(house: House) -> None:
        await house.submit(1000.0, cpu=1.0)
        await house.backend.submit([spec(10.0, cpu=1.0, rent=rent)], "ann")
        await house.at(1.0)
        assert list(await house.statuses()) == nodes

    play(tmp_path, "ajw" if rent == "now" else "njw", chooses)


def test_another_policy_takes_over_while_a_machine_is_rented(tmp_path: Path) -> None:
    async def switches(house: House) -> None:
        await two_jobs(house)
        await house.backend.set_policy("nodes:fifo", "ann")
        await house.at(70.0)
        assert await house.job(2) == (Status.RUNNING, 1)
        await house.at(200.0)
        assert await house.job(2) == (Status.FINISHED, 1)

    house = play(tmp_path, "njw", switches)
    assert leases(house) == [("big-0", 0.0, 160.0)]


@pytest.mark.parametrize("other", ["njw", "nodes:fifo"], ids=["a restart", "another policy"])
def test_a_job_whose_machine_boots_counts_among_the_running_ones_of_its_user(
    other: str, tmp_path: Path
) -> None:
    async def begins(house: House) -> None:
        await house.backend.add_user(User(name="ann", limits=UserLimits(max_running_jobs=2)), "ann")
        await two_jobs(house)
        await same_counts(house)
        if other != "njw":
            await house.backend.set_policy(other, "ann")

    async def goes_on(house: House) -> None:
        await same_counts(house)
        (third,) = await house.submit(10.0, cpu=0.5)
        reason = (await house.backend.job(third)).job.reason
        assert reason is not None
        assert reason.text.startswith("the running jobs of ann hold 2 of at most 2 jobs")
        for second in (61.0, 101.0, 160.0, 171.0):
            await house.at(second)
            await same_counts(house)
        assert await house.job(third) == (Status.FINISHED, 1)

    async def same_counts(house: House) -> None:
        """Log and engine have counted the same for each user."""
        scheduler = house.controller.scheduler
        users = as_array(scheduler.engine.state.users)
        for at, account in enumerate(scheduler.ledger.shares.accounts.values()):
            for name, value in vars(account).items():
                assert users[at][name] == pytest.approx(value, rel=1e-12, abs=1e-9), name

    play(tmp_path, "njw", begins, goes_on)


def test_a_quote_has_both_options_and_which_is_taken(tmp_path: Path) -> None:
    async def asks(house: House) -> None:
        assert (await house.backend.quote(spec(100.0, cpu=1.0), "ann")).options == [], "it starts at once"
        await house.submit(1000.0, cpu=1.0)
        asked = await house.backend.quote(spec(1800.0, cpu=1.0), "ann")
        wait, rent = asked.options
        assert (wait.what, wait.start_at, wait.finish_at, wait.cost_usd) == ("wait", 2000.0, 3800.0, None)
        assert (rent.what, rent.start_at, rent.finish_at, rent.cost_usd) == ("rent now", 1060.0, 2860.0, 1.0)
        assert (wait.is_taken, rent.is_taken, rent.instance_type) == (True, False, "big")
        assert wait.why == "as the policy decides (ljw:t=10m)"
        assert (asked.start_at, asked.finish_at, asked.cost_usd) == (2000.0, 3800.0, None)
        (short,) = await house.backend.submit([spec(360.0, cpu=1.0)], "ann")
        assert short.quote is not None
        taken = [option for option in short.quote.options if option.is_taken]
        assert [(option.what, option.finish_at, option.cost_usd) for option in taken] == [
            ("rent now", 1420.0, 0.2)
        ]
        assert (short.quote.finish_at, short.quote.cost_usd) == (1420.0, 0.2)
        (stored,) = (await house.backend.job(short.job_id)).quotes
        assert stored.options == short.quote.options

    play(tmp_path, "ljw:t=10m", asks)


def test_a_job_that_waits_says_until_when(tmp_path: Path) -> None:
    async def asks(house: House) -> None:
        (_, waits) = await house.submit(1000.0, 100.0, cpu=1.0)
        reason = (await house.backend.job(waits)).job.reason
        assert reason is not None
        assert reason.text.endswith("a machine is rented for it")
        assert reason.evidence["rents_at"] == 1120.0
        (wait, rent) = (await house.backend.quote(spec(100.0, cpu=1.0), "ann")).options
        assert (wait.start_at, wait.instance_type, wait.is_taken) == (1180.0, "big", True)
        assert rent.start_at == 1060.0

    play(tmp_path, "ajw-t:b=2m", asks)


def test_a_budget_is_kept_over_a_restart_and_named(tmp_path: Path) -> None:
    # A machine costs 2 USD an hour: an hour is within the budget, another half is not.
    async def spends(house: House) -> None:
        await house.submit(10_000.0, 3600.0, 1800.0, cpu=1.0)
        assert await house.statuses() == {"own-0": "up", "big-0": "booting"}
        reason = (await house.backend.job(3)).job.reason
        assert reason is not None
        (unrented,) = [event for event in (await house.backend.job(3)).events if event.kind == "unrented"]
        assert unrented.data["reason"]["text"] == (
            "ann has spent $2.00 of $2.50 on rented machines in 1970-01, and this would cost about $1.00"
        )
        await house.at(4000.0)
        assert await house.job(2) == (Status.FINISHED, 1)

    async def asks(house: House) -> None:
        assert house.controller.scheduler.ledger.spent_usd == {"ann": {"1970-01-01": 2.0, "1970-01": 2.0}}
        with pytest.raises(Refused, match=r"rent: ann has spent \$2.00 of \$2.50 .* ask for a larger budget"):
            await house.backend.submit([spec(1800.0, cpu=1.0, rent="now")], "ann")
        with pytest.raises(Refused, match="rent: ann has spent"):
            await house.backend.quote(spec(1800.0, cpu=1.0, rent="now"), "ann")
        await house.backend.submit([spec(360.0, cpu=1.0, rent="now")], "ann")
        await house.at(4001.0)
        assert await house.statuses() == {"own-0": "up", "big-1": "booting"}

    play(tmp_path, "njw", spends, asks, settings=Settings(budgets=parse_budgets(["ann=2.5", "*=0"])))


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["ann"], "ann: expected USER=USD"),
        (["ann=many"], "ann=many: 'many' is not an amount of money; give USD a month"),
        (["ann=-1"], "ann=-1: '-1' is not an amount of money"),
        (["ann=nan"], "ann=nan: 'nan' is not an amount of money"),
        (["ann=1", "ann=2"], "ann=2: ann has a budget a month already"),
    ],
)
def test_a_budget_that_is_not_money_is_refused(texts: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        parse_budgets(texts)


@pytest.mark.parametrize(
    ("policy", "work_s"),
    [
        ("ljw:t=100,lengths=speculate", 60.0),  # ends within its speculative run
        ("ljw:t=100,lengths=speculate", 500.0),  # goes on on the owned node, once that is free
        ("compound:t=100,b=600,lengths=speculate,waits=none", 500.0),  # is rented for again at 760
        ("compound:t=100,b=600,lengths=speculate", 500.0),  # at once
        ("compound:t=100,b=900,lengths=speculate", 500.0),
        ("njw", 500.0),
        ("ajw-t:b=2m", 500.0),
        ("ljw:t=600", 500.0),
    ],
)
def test_what_is_quoted_is_what_is_paid_speculative_runs_included(
    tmp_path: Path, policy: str, work_s: float
) -> None:
    async def pays(house: House) -> None:
        await house.submit(1000.0, cpu=1.0)
        job = spec(work_s, cpu=1.0)
        asked = await house.backend.quote(job, "ann")
        (taken,) = await house.backend.submit([job], "ann")
        assert taken.quote is not None
        (chosen,) = [option for option in taken.quote.options if option.is_taken]
        assert asked.cost_usd == taken.quote.cost_usd == chosen.cost_usd
        await house.at(3000.0)
        assert (await house.job(taken.job_id))[0] is Status.FINISHED
        assert house.controller.rentals is not None
        paid_usd = house.controller.rentals.cost_usd(house.clock.now_s())
        assert paid_usd > 0.0
        assert asked.cost_usd == pytest.approx(paid_usd)

    play(tmp_path, policy, pays)
