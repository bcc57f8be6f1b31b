"""A portfolio in the service: selections in a thread, their choices as events, and what is refused."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from betimes.errors import PolicyError
from betimes.foresight.portfolio.driver import Selector
from betimes.service.engines.named_policies import check_live
from betimes.service.spec.users import User, UserChanges, UserLimits
from tests.service.reliability.cluster import spec
from tests.service.runtime.test_rentals import House, clouds, play
from tests.service.scheduling.test_machine_rentals import BIG, resume

POLICY = "portfolio:members=odb/fifo/best+oda/fifo/best,period=3,budget=2"


def told(house: House, *kinds: str) -> list[tuple[float, dict[str, Any]]]:
    return [(event.at_s - 1000.0, event.data) for event in house.store.events(kinds=kinds)]


async def burst(house: House) -> None:
    await house.submit(*[900.0] * 6)
    while not told(house, "selected", "not-selected"):
        await asyncio.sleep(0.01)
    await house.at(50.0)


def test_each_choice_is_an_event_and_outlives_a_restart(tmp_path: Path) -> None:
    async def after(house: House) -> None:
        assert house.controller.scheduler.selection.member == chosen["member"]
        assert house.controller.scheduler.engine.member == chosen["member"]

    async def before(house: House) -> None:
        await burst(house)
        found = await house.backend.portfolio(20)
        (one,) = found.selections
        assert found.member == one.member
        assert (one.waiting, one.in_force, one.before, one.finished) == (6, True, None, 0)
        assert one.scores[str(one.member)] == one.score

    house = play(tmp_path, POLICY, before, clouds(offered=BIG))
    (at_s, chosen), *_ = told(house, "selected")
    assert at_s == 0.0
    assert chosen["waiting"] == 6
    assert chosen["jobs"] == [[number, 1000.0] for number in range(1, 7)]
    assert set(chosen["scores"]) == {"odb/fifo/best", "oda/fifo/best"}
    assert chosen["score"] == max(chosen["scores"].values())
    assert chosen["member"] in chosen["scores"]
    assert not told(house, "not-selected")
    resume(house, after)

    async def later(house: House) -> None:
        await house.at(4000.0)
        first = (await house.backend.portfolio(100)).selections[-1]
        assert first.finished == 6
        assert first.slowdown is not None
        assert first.slowdown_since == pytest.approx(first.slowdown, rel=0.2)

    resume(house, later)


def test_the_service_goes_on_under_its_last_choice_where_a_selection_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def choose(*_: Any) -> None:
        raise ValueError("no idea")

    monkeypatch.setattr(Selector, "choose", choose)
    house = play(tmp_path, POLICY, burst, clouds(offered=BIG))
    assert told(house, "not-selected")[0][1]["problem"] == (
        "the selection has failed: ValueError: no idea; the first member stays in force"
    )
    assert len(told(house, "ordered")) > 0


def test_a_selection_that_takes_too_long_delays_nothing_and_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, goes_on = Selector.choose, threading.Event()

    def choose(self: Selector, *args: Any) -> Any:
        assert goes_on.wait(60.0)
        return plain(self, *args)

    async def test(house: House) -> None:
        await house.submit(*[900.0] * 6)
        await house.at(200.0)
        assert len(told(house, "started")) > 0
        goes_on.set()
        while len(told(house, "not-selected")) < 2:
            await asyncio.sleep(0.01)

    monkeypatch.setattr(Selector, "choose", choose)
    house = play(tmp_path, POLICY, test, clouds(offered=BIG))
    late, refused, *_ = told(house, "not-selected")
    assert late[0] == 60.0
    assert late[1]["problem"] == (
        "the selection that began 60 s ago is not finished; the first member stays in force"
    )
    assert refused[1]["problem"] == (
        "it has taken 200 s, and the next is due after 60 s; the first member stays in force"
    )


def test_a_choice_for_a_policy_that_is_not_in_force_any_more_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, goes_on = Selector.choose, threading.Event()

    def choose(self: Selector, *args: Any) -> Any:
        assert goes_on.wait(60.0)
        return plain(self, *args)

    async def test(house: House) -> None:
        await house.submit(900.0, 900.0)
        await house.controller.ask("policy", lambda scheduler: scheduler.policy.set_policy("oda", "ann"))
        goes_on.set()
        while not told(house, "not-selected"):
            await asyncio.sleep(0.01)

    monkeypatch.setattr(Selector, "choose", choose)
    house = play(tmp_path, POLICY, test, clouds(offered=BIG))
    ((_, data),) = told(house, "not-selected")
    assert "which is not in force any more" in data["problem"]
    assert not told(house, "selected")


def test_a_shadow_reports_and_changes_nothing(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        await burst(house)
        assert house.controller.scheduler.selection.member is None

    house = play(tmp_path, f"{POLICY},shadow=true", test, clouds(offered=BIG))
    assert told(house, "selected")[0][1]["shadow"]


WAITING = "portfolio:members=ajw+ajw-t/b=300,objective=cost:4,period=2"


async def two_jobs(house: House) -> None:
    """One that holds the only core of one's own up to 1,000 s, and one of 100 s that comes at 10 s."""
    await house.submit(1000.0, cpu=1.0)
    await selections(house, 1)
    await house.at(10.0)
    await house.submit(100.0, cpu=1.0)
    await house.at(40.0)
    await selections(house, 2)
    await house.at(50.0)


async def selections(house: House, count: int) -> None:
    """There have been so many."""
    while len(told(house, "selected")) < count:
        await asyncio.sleep(0.01)


def test_another_member_says_until_when_a_job_waits_and_that_outlives_a_restart(tmp_path: Path) -> None:
    """To wait for 990 s costs 1.10 USD; to rent ten minutes at 310 s 0.33 USD, and 0.40 USD of waiting until 370 s."""

    async def test(house: House) -> None:
        await two_jobs(house)
        assert house.controller.scheduler.engine.member == "ajw-t/b=300"
        reason = (await house.backend.job(2)).job.reason
        assert reason is not None
        assert reason.evidence["rents_at"] == 1310.0

    house = play(tmp_path, WAITING, test, clouds(offered=BIG))
    at_s, chosen = next(each for each in told(house, "selected") if each[1]["member"] == "ajw-t/b=300")
    assert at_s == 40.0
    assert chosen["waits_until_s"] == [[2, 310.0]]

    async def after(house: House) -> None:
        account = house.controller.scheduler.ledger.jobs[2].account
        assert account is not None
        assert account.waits_until_s == 310.0
        await house.at(2000.0)

    resume(house, after)
    assert [at_s for at_s, _ in told(house, "rents")] == [310.0]
    assert told(house, "finished")[0][0] == 470.0


def test_a_job_that_was_to_wait_is_rented_for_at_once(tmp_path: Path) -> None:
    house = play(tmp_path, "portfolio:members=ajw+njw,objective=cost:4", two_jobs, clouds(offered=BIG))
    assert [at_s for at_s, _ in told(house, "rents")] == [40.0]


def test_orders_take_turns_where_nothing_is_rented(tmp_path: Path) -> None:
    """After the long one the two short ones: that is shorter on the mean."""

    async def test(house: House) -> None:
        await house.submit(100.0, cpu=1.0)
        await selections(house, 1)
        await house.submit(500.0, 50.0, 60.0, cpu=1.0)
        await house.at(40.0)
        await selections(house, 2)
        await house.at(2000.0)

    house = play(tmp_path, "portfolio:members=fifo+sjf/backfill=easy,objective=jct:avg", test)
    finished = [event.job for event in house.store.events(kinds=["finished"])]
    assert finished == [1, 3, 4, 2]
    selected = [data for _, data in told(house, "selected")]
    assert {data["member"] for data in selected} == {"fifo", "sjf/backfill=easy"}
    assert all(data["smallest_wins"] for data in selected)
    assert [data["score"] for data in selected] == [min(data["scores"].values()) for data in selected]


def test_a_job_that_a_limit_keeps_waiting_leaves_no_member_out_for_ever(tmp_path: Path) -> None:
    policy = "portfolio:members=fifo+sjf/backfill=easy,period=3"

    async def limit(house: House, units: int | None) -> None:
        changes = UserChanges(limits=UserLimits(max_units=units))
        await house.controller.ask(
            "a limit", lambda scheduler: scheduler.users.change("bob", changes, "operator")
        )

    async def periods(house: House, first: int, last: int) -> None:
        for number in range(first, last):
            await house.at(60.0 * number)
            await asyncio.sleep(0.005)  # in which a selection may end

    async def test(house: House) -> None:
        await house.controller.ask("bob", lambda scheduler: scheduler.users.add(User(name="bob"), "operator"))
        await house.submit(1e6, cpu=1.0)
        await house.backend.submit([spec(10.0, cpu=0.5, min_units=2, max_units=2)], "bob")
        await limit(house, 1)
        await periods(house, 1, 100)
        problem = "under every member some of the jobs never start, with the nodes and the limits as they are"
        assert any(problem in data["problem"] for _, data in told(house, "not-selected"))
        before = len(told(house, "selected"))
        await limit(house, None)
        await periods(house, 101, 200)
        assert len(told(house, "selected")) > before

    play(tmp_path, policy, test)


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        ("portfolio:objective=jct", "write METRIC:MEASURE"),
        ("portfolio:members=fifo+easy,objective=cost", "no member rents machines"),
    ],
)
def test_what_cannot_be_aimed_at_is_refused(policy: str, said: str) -> None:
    with pytest.raises(PolicyError, match=said):
        check_live(policy, (BIG,))


def test_members_that_rent_need_offers() -> None:
    check_live("portfolio:members=fifo+easy", ())
    with pytest.raises(PolicyError, match="it rents machines, and none are offered"):
        check_live("portfolio:members=fifo+njw", ())
