"""Planners in the service answer in a thread: nothing waits for them, and what is out of date is refused and logged."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from betimes.core.planning import (
    Bind,
    Decision,
    JobPhase,
    MachinePhase,
    Migrate,
    Place,
    Preempt,
    Release,
    Rent,
    Snapshot,
    Start,
    new,
)
from betimes.errors import Conflict
from betimes.service.engines.messages import Inputs
from betimes.service.machines.fake_cloud import Reclaim, Slow
from betimes.service.scheduling.engine_factory import Settings
from betimes.service.scheduling.job_states import Status
from betimes.service.views.models import WhatIfSpec
from betimes.twin.nodes.planner_rounds import answer
from tests.service.machines.kinds import kind
from tests.service.reliability.cluster import spec
from tests.service.runtime.test_rentals import House, clouds

PERIOD_S = 300.0
BIG = replace(kind("big", 4, 16, usd_per_h=2.0, capacity=3, boot_s=60.0, notice_s=20.0), bill_step_s=600.0)


@dataclass
class EachItsOwn:
    """Rents a machine for each job that waits, and releases it once that has ended; it answers when it is let."""

    period_s: float = PERIOD_S
    every_round: bool = True
    goes_on: threading.Event = field(default_factory=threading.Event)
    began: threading.Event = field(default_factory=threading.Event)
    plan_of: Callable[[Snapshot], Sequence[Decision]] | None = None
    fails_in_play_outs: bool = False

    def __deepcopy__(self, memo: Any) -> EachItsOwn:
        return self

    def plan(self, snapshot: Snapshot) -> Sequence[Decision]:
        if threading.current_thread().name == "planner":  # a play-out asks, too
            self.began.set()
            assert self.goes_on.wait(60.0)
        elif not self.fails_in_play_outs:
            return each_its_own(snapshot)
        return (self.plan_of or each_its_own)(snapshot)


def idle_released(snapshot: Snapshot) -> list[Decision]:
    return [
        Release(one.machine)
        for one in snapshot.machines
        if one.offer >= 0 and one.phase == MachinePhase.UP and one.free == one.capacity
    ]


def each_its_own(snapshot: Snapshot) -> list[Decision]:
    found = idle_released(snapshot)
    for job in snapshot.jobs:
        if job.phase == JobPhase.WAITS:
            found += [Rent(0), Bind(job.job, (Place(new(len(found))),))]
    return found


def play(
    folder: Path, planner: EachItsOwn, *tests: Callable[[House], Awaitable[None]], script: Sequence[Any] = ()
) -> House:
    """The service under this planner, once for each test: it ends and starts again between two."""
    house = House(folder, "no-packing:rounds=fixed", clouds(*script, offered=BIG))
    house.settings = Settings(plans_aside=True)

    async def main() -> None:
        for test in tests:
            async with house.open():
                rounds = house.controller.scheduler.engine.rounds
                rounds.planner = planner
                await test(house)

    asyncio.run(main())
    return house


async def until(found: Callable[[], Any]) -> None:
    while not found():
        await asyncio.sleep(0.01)


def of_kind(house: House, kind: str) -> list[Any]:
    return list(house.store.events(kinds=[kind]))


async def answered(house: House, planner: EachItsOwn) -> None:
    """The planner answers, and that is decided upon."""
    rounds = house.controller.scheduler.engine.rounds
    planner.goes_on.set()
    await until(lambda: rounds.pending is None)
    await house.service.settle()


async def all_end_beside_another(house: House) -> None:
    """No job that waits under a planner ends "never" in the answer to a what-if."""
    answer = await house.backend.what_if(WhatIfSpec(submit=[spec(60.0, cpu=1.0)]), "ann")
    assert all(None not in (one.finish_at, one.is_new or one.finish_before_at) for one in answer.jobs), answer


def test_what_if_counts_on_machines_that_the_cloud_has_not_answered_about(tmp_path: Path) -> None:
    planner = EachItsOwn()

    async def test(house: House) -> None:
        (first,) = await house.submit(900.0)
        await answered(house, planner)
        assert of_kind(house, "ordered")
        assert not of_kind(house, "node-added")[1:]  # but for the owned one
        await all_end_beside_another(house)
        await house.at(400.0)
        assert (await house.job(first))[0] == Status.RUNNING

    play(tmp_path, planner, test, script=[Slow(1000.0, 1100.0, 50.0)])


def test_a_submission_is_taken_while_the_planner_is_at_it(tmp_path: Path) -> None:
    planner = EachItsOwn()

    async def test(house: House) -> None:
        (first,) = await house.submit(900.0)
        await until(planner.began.is_set)
        (second,) = await house.submit(900.0)  # would never return if its turn waited for the planner
        assert not planner.goes_on.is_set()
        assert (await house.job(second))[0] == Status.QUEUED
        assert not of_kind(house, "ordered")
        await all_end_beside_another(house)
        await answered(house, planner)
        await all_end_beside_another(house)
        assert len(of_kind(house, "ordered")) == 1
        await house.at(100.0)
        assert (await house.job(first))[0] == Status.RUNNING
        await house.at(PERIOD_S)
        await until(lambda: len(of_kind(house, "ordered")) == 2)
        await house.at(PERIOD_S + 100.0)
        assert (await house.job(second))[0] == Status.RUNNING

    house = play(tmp_path, planner, test)
    assert not of_kind(house, "not-planned")
    assert not of_kind(house, "instruction-refused")


def test_an_instruction_for_a_job_that_has_ended_is_refused_and_logged(tmp_path: Path) -> None:
    planner = EachItsOwn()

    async def test(house: House) -> None:
        first, second = await house.submit(900.0, 900.0)
        await until(planner.began.is_set)
        await house.controller.ask("cancel", lambda scheduler: scheduler.jobs.cancel(first, "ann"))
        await house.at(40.0)
        await answered(house, planner)
        await house.at(140.0)
        assert (await house.job(second))[0] == Status.RUNNING

    house = play(tmp_path, planner, test)
    rented, refused = of_kind(house, "instruction-refused")
    assert (refused.job, refused.at_s) == (1, 1040.0)
    assert refused.data == {
        "planner": "no-packing:rounds=fixed",
        "instruction": "bind",
        "problem": "bind: there is no such job any more",
        "from_at": 1000.0,
    }
    assert (rented.job, rented.data["problem"]) == (None, "rent: the jobs that the machine is for have ended")
    assert len(of_kind(house, "ordered")) == 1, "none is rented for the first"


def test_a_job_that_ends_as_an_answer_comes_is_not_moved_for_ever(tmp_path: Path) -> None:
    """The end and the answer are inputs of one turn; the job's grace period would go on after its end."""

    def moves(snapshot: Snapshot) -> list[Decision]:
        return [Rent(0), *(Migrate(job.job, (Place(new(0)),)) for job in snapshot.jobs)]

    planner = EachItsOwn(fails_in_play_outs=True)
    planner.goes_on.set()

    async def test(house: House) -> None:
        (job,) = await house.submit(900.0)
        await until(lambda: of_kind(house, "ordered"))
        await house.at(100.0)
        assert (await house.job(job))[0] == Status.RUNNING
        planner.plan_of = moves
        live = house.controller.scheduler.engine
        _, question = live.rounds.next_question(live.driver)
        live.happen(100.0, Inputs(done=[job], plan=answer(planner, question)))
        assert (live.state.pool[0].active, live.state.cluster[0].timers) == (0, 1), "but for the next round"
        *_, plan = live.rounds.take_carried_out()
        assert [type(one.decision) for one in plan.refused] == [Rent, Migrate]

    play(tmp_path, planner, test)


def test_an_instruction_for_a_machine_that_is_gone_is_refused_and_logged(tmp_path: Path) -> None:
    def rent_then_start(snapshot: Snapshot) -> list[Decision]:
        rented = [one for one in snapshot.machines if one.offer >= 0]
        if not rented:
            return [Rent(0) for _ in snapshot.jobs]
        return [Start(job.job, (Place(rented[0].machine),)) for job in snapshot.jobs] + idle_released(
            snapshot
        )

    planner = EachItsOwn(plan_of=rent_then_start)

    async def test(house: House) -> None:
        planner.goes_on.set()
        (job,) = await house.submit(900.0)
        await until(lambda: of_kind(house, "ordered"))
        planner.goes_on.clear()
        planner.began.clear()
        await house.at(PERIOD_S)
        await until(planner.began.is_set)
        await house.at(PERIOD_S + 60.0)  # the cloud has taken the machine
        assert of_kind(house, "node-gone")
        await answered(house, planner)
        assert (await house.job(job))[0] == Status.QUEUED

    house = play(tmp_path, planner, test, script=[Reclaim(1310.0, "big")])
    start, release = of_kind(house, "instruction-refused")
    assert (start.job, start.node, start.at_s) == (1, "big-0", 1360.0)
    assert start.data["problem"] == "start: there is no such machine any more"
    assert (release.job, release.node) == (None, "big-0")


def test_an_instruction_without_room_is_refused_and_logged_once(tmp_path: Path) -> None:
    def on_the_small_one(snapshot: Snapshot) -> list[Decision]:
        (own,) = (one for one in snapshot.machines if one.offer < 0)
        return [Start(job.job, (Place(own.machine),)) for job in snapshot.jobs]

    planner = EachItsOwn(plan_of=on_the_small_one)
    planner.goes_on.set()

    async def test(house: House) -> None:
        rounds = house.controller.scheduler.engine.rounds
        await house.submit(900.0)
        await answered(house, planner)
        planner.began.clear()
        await house.at(PERIOD_S)
        await until(lambda: planner.began.is_set() and rounds.pending is None)
        await house.service.settle()

    (refused,) = of_kind(play(tmp_path, planner, test), "instruction-refused")
    assert (refused.job, refused.node) == (1, "own-0")
    assert refused.data["problem"] == "start: the machine has no room for the tasks"


def test_a_planner_that_raises_leaves_the_last_plan_in_force(tmp_path: Path) -> None:
    planner = EachItsOwn()
    planner.goes_on.set()

    def raises(_: Snapshot) -> list[Decision]:
        raise ValueError("no idea")

    async def test(house: House) -> None:
        (first,) = await house.submit(900.0)
        await until(lambda: of_kind(house, "ordered"))
        planner.plan_of, planner.fails_in_play_outs = raises, True
        (second,) = await house.submit(900.0)
        await house.at(PERIOD_S)
        await until(lambda: of_kind(house, "not-planned"))
        assert (await house.job(first))[0] == Status.RUNNING
        assert (await house.job(second))[0] == Status.QUEUED
        (third,) = await house.submit(900.0)  # whose end nothing foresees
        assert (await house.job(third))[0] == Status.QUEUED
        planner.plan_of = None
        await house.at(2 * PERIOD_S)
        await until(lambda: len(of_kind(house, "ordered")) == 3)

    house = play(tmp_path, planner, test)
    (failed,) = of_kind(house, "not-planned")
    assert failed.at_s == 1300.0
    assert failed.data["planner"] == "no-packing:rounds=fixed"
    assert failed.data["problem"] == (
        "planner no-packing:rounds=fixed: it has failed: ValueError: no idea; the last plan stays in force"
    )


def test_a_planner_that_has_failed_once_is_followed_in_forecasts_as_before(tmp_path: Path) -> None:
    """The fourth machine can be rented once the first three are given back: four rounds later."""
    planner = EachItsOwn()
    planner.goes_on.set()

    def raises(_: Snapshot) -> list[Decision]:
        raise ValueError("no idea")

    async def test(house: House) -> None:
        await house.submit(900.0, 900.0, 900.0)
        await until(lambda: len(of_kind(house, "ordered")) == 3)
        planner.plan_of = raises
        await house.at(PERIOD_S)
        await until(lambda: of_kind(house, "not-planned"))
        quote = await house.backend.quote(spec(900.0, cpu=2.0), "ann")
        assert quote.start_at == 1000.0 + 5 * PERIOD_S + 60.0

    play(tmp_path, planner, test)


def test_a_job_is_promised_an_end_while_its_plan_is_made(tmp_path: Path) -> None:
    """As if the planner answered in the next round, though nothing happens until then."""
    planner = EachItsOwn(every_round=False)

    async def test(house: House) -> None:
        (job,) = await house.submit(900.0)
        await until(planner.began.is_set)
        await house.service.settle()
        planner.goes_on.set()
        await house.at(PERIOD_S)
        assert (await house.backend.job(job)).job.promised_finish_at == 1000.0 + PERIOD_S + 60.0 + 900.0

    play(tmp_path, planner, test)


def test_instructions_for_what_never_was_are_refused_one_by_one(tmp_path: Path) -> None:
    def wild(snapshot: Snapshot) -> list[Decision]:
        (job,) = (one.job for one in snapshot.jobs)
        return [Rent(9), Migrate(job, (Place(77),)), Bind(job, (Place(new(0)),)), Preempt(4_000), Rent(0)]

    planner = EachItsOwn(plan_of=wild)
    planner.goes_on.set()

    async def test(house: House) -> None:
        await house.submit(900.0)
        await until(lambda: of_kind(house, "ordered"))

    refused = of_kind(play(tmp_path, planner, test), "instruction-refused")
    assert [(one.job, one.data["instruction"]) for one in refused] == [
        (None, "rent"),
        (1, "migrate"),
        (1, "bind"),
        (None, "preempt"),
    ]


@pytest.mark.parametrize("answer", [None, 7, ["rent"], [Start(0, ((0, "one"),))]])  # type: ignore[list-item]
def test_an_answer_that_is_no_list_of_decisions_is_a_failure_of_the_planner(
    tmp_path: Path, answer: Any
) -> None:
    planner = EachItsOwn(plan_of=lambda _: answer)
    planner.goes_on.set()

    async def test(house: House) -> None:
        await house.submit(900.0)
        await until(lambda: of_kind(house, "not-planned"))

    (failed,) = of_kind(play(tmp_path, planner, test), "not-planned")
    assert "it has failed: " in failed.data["problem"]


def test_an_answer_that_comes_too_late_is_refused_and_the_planner_is_asked_anew(tmp_path: Path) -> None:
    planner = EachItsOwn()

    async def test(house: House) -> None:
        (job,) = await house.submit(900.0)
        await until(planner.began.is_set)
        await house.at(PERIOD_S)
        assert len(of_kind(house, "not-planned")) == 1
        await house.at(PERIOD_S + 10.0)
        await answered(house, planner)
        assert not of_kind(house, "ordered")
        await house.at(2 * PERIOD_S)
        await until(lambda: of_kind(house, "ordered"))
        await house.at(2 * PERIOD_S + 100.0)
        assert (await house.job(job))[0] == Status.RUNNING

    overdue, late = of_kind(play(tmp_path, planner, test), "not-planned")
    assert "it was asked 300 s ago, and still plans" in overdue.data["problem"]
    assert "it has taken 310 s, and is asked every 300 s; give it a longer period" in late.data["problem"]


def test_an_answer_for_a_policy_that_is_not_in_force_any_more_is_refused(tmp_path: Path) -> None:
    planner = EachItsOwn()

    async def test(house: House) -> None:
        await house.submit(900.0)
        await until(planner.began.is_set)
        await house.controller.ask(
            "policy", lambda scheduler: scheduler.policy.set_policy("nodes:fifo", "ann")
        )
        planner.goes_on.set()
        await until(lambda: of_kind(house, "not-planned"))

    house = play(tmp_path, planner, test)
    assert "the policy or its engine is another since" in of_kind(house, "not-planned")[0].data["problem"]
    assert not of_kind(house, "ordered")


def test_a_service_that_ends_while_a_plan_is_out_asks_again_when_it_starts(tmp_path: Path) -> None:
    planner = EachItsOwn()

    async def before(house: House) -> None:
        await house.submit(900.0)
        await until(planner.began.is_set)  # and the service ends without waiting for the planner

    async def after(house: House) -> None:
        assert not of_kind(house, "ordered")
        planner.goes_on.set()
        await house.at(PERIOD_S)
        await until(lambda: of_kind(house, "ordered"))
        await house.at(PERIOD_S + 100.0)
        assert await house.job(1) == (Status.RUNNING, 1)

    house = play(tmp_path, planner, before, after)
    assert len(of_kind(house, "ordered")) == 1


def test_a_planner_that_fails_when_its_plan_is_asked_for(tmp_path: Path) -> None:
    def fails(_: Snapshot) -> list[Decision]:
        raise ValueError("no idea")

    planner = EachItsOwn(plan_of=fails, fails_in_play_outs=True)

    async def test(house: House) -> None:
        with pytest.raises(
            Conflict, match="no-packing:rounds=fixed: its planner has failed: ValueError: no idea"
        ):
            await house.backend.fleet_plan()

    play(tmp_path, planner, test)
