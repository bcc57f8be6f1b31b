"""A portfolio of planners in the service: who is asked after a choice, what outlives a restart, and what is refused."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from betimes.core.planning import Decision, Snapshot
from betimes.errors import PolicyError, Refused
from betimes.foresight.portfolio.driver import Selector
from betimes.policies.packing import Consolidation
from betimes.service.engines import planner_rounds
from betimes.service.engines.named_policies import check_live, shared_offers
from betimes.service.scheduling.engine_factory import Settings
from betimes.service.scheduling.job_states import Status
from tests.service.reliability.cluster import spec
from tests.service.runtime.test_planner_thread import BIG, PERIOD_S, EachItsOwn, each_its_own, of_kind, until
from tests.service.runtime.test_rentals import House, clouds

POLICY = "portfolio:members=no-packing+eva/t=1,objective=cost,tick=300,period=4"


def play(folder: Path, policy: str, *tests: Callable[[House], Awaitable[None]], aside: bool = False) -> House:
    """The service under this policy, once for each test: it ends and starts again between two."""
    house = House(folder, policy, clouds(offered=BIG))
    house.settings = Settings(plans_aside=aside)

    async def main() -> None:
        for test in tests:
            async with house.open(), asyncio.timeout(60.0):
                await test(house)

    asyncio.run(main())
    return house


async def selected(house: House, count: int = 1) -> None:
    await until(lambda: len(of_kind(house, "selected")) >= count)
    await house.service.settle()


def test_the_chosen_planner_plans_from_the_next_round_on_and_after_a_restart(tmp_path: Path) -> None:
    """A machine for each of two jobs is what the member before has rented; four fit into these two."""

    async def before(house: House) -> None:
        await house.submit(3000.0, 3000.0)
        await selected(house)
        await house.at(1.0)
        assert len(of_kind(house, "ordered")) == 2
        assert (await house.backend.portfolio(20)).member == "eva/t=1"

    async def after(house: House) -> None:
        assert (await house.backend.portfolio(20)).member == "eva/t=1"
        await house.at(100.0)
        more = await house.submit(3000.0, 3000.0)
        await house.at(PERIOD_S + 200.0)
        assert [(await house.job(job))[0] for job in more] == [Status.RUNNING] * 2
        assert len(of_kind(house, "ordered")) == 2

    house = play(tmp_path, POLICY, before, after)
    (first, *_) = of_kind(house, "selected")
    assert (first.at_s, first.data["member"], first.data["before"]) == (1000.0, "eva/t=1", None)
    assert set(first.data["scores"]) == {"no-packing", "eva/t=1"}
    assert first.data["scores"]["eva/t=1"] < first.data["scores"]["no-packing"]
    assert not of_kind(house, "not-selected")


def test_a_member_that_raises_is_left_out_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def raises(*_: object) -> None:
        raise ValueError("no idea")

    monkeypatch.setattr(Consolidation, "plan", raises)

    async def test(house: House) -> None:
        (job,) = await house.submit(900.0)
        await selected(house)
        await house.at(PERIOD_S)
        assert (await house.job(job))[0] == Status.RUNNING
        (again,) = await house.submit(900.0)
        await house.at(1200.0)
        await house.submit(900.0)
        await house.at(1500.0)
        await selected(house, 2)
        assert (await house.job(again))[0] in (Status.RUNNING, Status.FINISHED)

    policy = "portfolio:members=no-packing+consolidation,objective=cost,period=4,tick=300"
    with caplog.at_level(logging.WARNING):
        house = play(tmp_path, policy, test)
    first, second, *_ = of_kind(house, "selected")
    assert first.data["scores"]["consolidation"] is None
    assert first.data["member"] == second.data["member"] == "no-packing"
    assert "consolidation" not in second.data["scores"]
    named = [text for text in caplog.messages if "left out" in text]
    assert named == [
        "portfolio: consolidation is left out from now on: in its simulation "
        f"policy {policy} at 0 s: ValueError: no idea"
    ]


def test_where_all_members_fail_the_one_in_force_stays_and_the_service_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def raises(*_: object) -> None:
        raise ValueError("no idea")

    monkeypatch.setattr(Consolidation, "plan", raises)

    async def test(house: House) -> None:
        await house.submit(900.0)
        await until(lambda: of_kind(house, "not-selected"))
        await house.at(PERIOD_S)

    house = play(tmp_path, "portfolio:members=consolidation,objective=cost,tick=300", test)
    assert "every member has failed; consolidation: " in of_kind(house, "not-selected")[0].data["problem"]
    failed, *_ = of_kind(house, "not-planned")
    assert ", member consolidation: it has failed: ValueError: no idea" in failed.data["problem"]


def test_the_late_answer_of_the_planner_before_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    planner = EachItsOwn()

    async def test(house: House) -> None:
        house.controller.scheduler.engine.rounds.planner = planner
        jobs = await house.submit(3000.0, 3000.0)
        await until(planner.began.is_set)
        await selected(house)  # while that is still at it
        planner.goes_on.set()
        await until(lambda: of_kind(house, "not-planned"))
        await house.service.settle()
        assert not of_kind(house, "ordered")
        await house.at(PERIOD_S)
        await until(lambda: of_kind(house, "ordered"))
        await house.at(PERIOD_S + 100.0)
        assert [(await house.job(job))[0] for job in jobs] == [Status.RUNNING] * 2

    house = play(tmp_path, POLICY, test, aside=True)
    (refused,) = of_kind(house, "not-planned")
    assert (refused.at_s, refused.data["from_at"]) == (1000.0, 1000.0)
    assert refused.data["problem"] == (
        f"planner {POLICY}, member no-packing: the policy or its engine is another since it was asked; the last plan "
        "stays in force"
    )
    (ordered,) = of_kind(house, "ordered")
    assert ordered.at_s == 1000.0 + PERIOD_S, "one for both, by the chosen one"


class Listens:
    """A planner that notes when it is asked, and what it is told of jobs that have ended; play-outs are left out.

    idle: it decides nothing.
    """

    period_s = PERIOD_S

    def __init__(self, told: list[tuple[float, list[int]]], *, every_round: bool, idle: bool) -> None:
        self.told, self.every_round, self.idle = told, every_round, idle

    def __deepcopy__(self, memo: Any) -> Listens:
        return self

    def plan(self, snapshot: Snapshot) -> Sequence[Decision]:
        if threading.current_thread().name == "planner":
            self.told.append((snapshot.now_s, [seq for seq, _ in snapshot.finished]))
            if self.idle:
                return []
        return each_its_own(snapshot)


def choosing(monkeypatch: pytest.MonkeyPatch, *members: int) -> threading.Event:
    """Selections choose these one after the other, once this is set."""
    plain, turn, goes_on = Selector.choose, iter(members), threading.Event()

    def choose(self: Selector, *args: Any) -> Any:
        assert goes_on.wait(60.0)
        choice, member = plain(self, *args), next(turn)
        return replace(choice, member=member, name=self.names[member])

    monkeypatch.setattr(Selector, "choose", choose)
    return goes_on


@pytest.mark.parametrize(("most", "missed"), [(100_000, [0, 1]), (1, [1])])
def test_a_planner_is_told_of_the_jobs_that_have_ended_since_it_was_asked_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, missed: list[int]
) -> None:
    """The second takes over, and then the first again, for which both jobs have ended since."""
    first, second = list[tuple[float, list[int]]](), list[tuple[float, list[int]]]()

    async def test(house: House) -> None:
        rounds = house.controller.scheduler.engine.rounds
        rounds.planner = Listens(first, every_round=True, idle=False)
        await house.submit(100.0, 30_000.0)
        await until(lambda: rounds.pending is None)
        goes_on.set()
        await selected(house)
        rounds.planner = Listens(second, every_round=True, idle=False)
        for at_s in (300.0, 600.0):
            await house.at(at_s)
            await until(lambda: rounds.pending is None)
        await house.controller.ask("cancel", lambda scheduler: scheduler.jobs.cancel(2, "ann"))
        await house.submit(30_000.0)
        await house.at(900.0)
        await until(lambda: rounds.pending is None)
        await selected(house, 2)
        await house.at(1200.0)
        await until(lambda: rounds.pending is None)

    goes_on = choosing(monkeypatch, 1, 0, 0)
    monkeypatch.setattr(planner_rounds, "MOST_TOLD", most)
    policy = "portfolio:members=no-packing/rounds=fixed+consolidation/rounds=fixed,objective=cost,tick=300,period=3"
    play(tmp_path, policy, test, aside=True)
    assert first == [(0.0, []), (1200.0, missed)]
    assert second == [(300.0, [0]), (600.0, []), (900.0, [1])]


def test_the_next_round_asks_the_chosen_planner_though_nothing_has_happened_since_it_was_asked_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = list[tuple[float, list[int]]](), list[tuple[float, list[int]]]()

    async def test(house: House) -> None:
        rounds = house.controller.scheduler.engine.rounds
        rounds.planner = Listens(first, every_round=False, idle=True)
        await house.submit(900.0)
        await until(lambda: rounds.pending is None)
        goes_on.set()
        await selected(house)
        rounds.planner = Listens(second, every_round=False, idle=True)
        for at_s, selections in ((300.0, 1), (600.0, 2), (900.0, 2)):
            await house.at(at_s)
            await until(lambda: rounds.pending is None)
            await selected(house, selections)

    goes_on = choosing(monkeypatch, 1, 0)
    policy = "portfolio:members=no-packing+consolidation,objective=cost,tick=300,period=2"
    play(tmp_path, policy, test, aside=True)
    assert [at_s for at_s, _ in first] == [0.0, 900.0]
    assert [at_s for at_s, _ in second] == [300.0]


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        ("portfolio:members=eva+no-packing,objective=jct", "write METRIC:MEASURE"),
        ("portfolio:members=eva+fifo", "plans in rounds of its own, and cannot take turns with"),
        ("portfolio:members=eva+odb", "plans in rounds of its own, and cannot take turns with"),
    ],
)
def test_what_cannot_be_selected_is_refused(policy: str, said: str) -> None:
    with pytest.raises(PolicyError, match=said):
        check_live(policy, (BIG,))


def test_planners_need_offers_and_rent_any_of_them() -> None:
    with pytest.raises(PolicyError, match="it rents machines, and none are offered"):
        check_live(POLICY, ())
    assert shared_offers(POLICY, (BIG, BIG)) == (BIG, BIG)


def test_a_job_that_requires_labels_is_refused_as_under_any_planner(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        with pytest.raises(Refused, match="does not choose nodes by their labels"):
            await house.backend.submit(
                [spec(900.0, cpu=2.0).model_copy(update={"require": {"zone": "a"}})], "ann"
            )

    play(tmp_path, POLICY, test)
