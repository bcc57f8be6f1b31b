"""What cannot be carried out is set aside, and the service goes on: a fault in each kind of input."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from betimes.errors import ServiceError
from betimes.service.engines.pool import LivePool
from betimes.service.executors.virtual import EXIT_CODE, WORK
from betimes.service.machines.machine import Machine
from betimes.service.runtime.clock import VirtualClock
from betimes.service.runtime.health import Readiness
from betimes.service.runtime.launches import Launches
from betimes.service.scheduling.events import Ended, RunId
from betimes.service.scheduling.jobs import Jobs
from betimes.service.scheduling.renting import JobRentals
from betimes.service.scheduling.reports import ReportHandling
from betimes.service.scheduling.state import Occupancy
from betimes.service.scheduling.user_budgets import UserBudgets
from betimes.service.spec.job_spec import JobSpec
from betimes.service.startup.in_memory import Assembly, assembled
from betimes.service.store import Store

POISONED = 2
RUN_S = 10.0
Play = Callable[[Assembly], Awaitable[None]]


def spec(**asked: Any) -> JobSpec:
    env = {WORK: str(RUN_S), EXIT_CODE: str(asked.pop("code", 0))}
    return JobSpec(command=["x"], workdir="/", estimate_s=RUN_S, env=env, **asked)


def play(folder: Path, *plays: Play, policy: str = "fifo") -> list[Any]:
    """One service after the other on one store; returns the events that say what was set aside."""

    async def serve() -> list[Any]:
        store, clock = Store.in_memory(folder), VirtualClock(0.0, 0.0)
        for each in plays:
            machine = Machine("n", "virtual", "n", 4.0, 8.0, 0.0)
            async with assembled([machine], policy, folder, clock=clock, store=store) as service:
                await each(service)
        return store.events(kinds=["set-aside"])

    return asyncio.run(serve())


async def status(service: Assembly, number: int) -> str:
    return (await service.backend.job(number)).job.status.value


async def notes(service: Assembly) -> list[str]:
    readiness = Readiness(service.store.probe)
    service.backend.readiness = readiness
    health = await service.backend.health()
    assert health.ready
    return health.notes


def poison(patch: pytest.MonkeyPatch, of: type, name: str, is_meant: Callable[..., bool]) -> None:
    """Let a method raise an error for what is meant."""
    good = getattr(of, name)

    def fails(self: Any, *arguments: Any, **named: Any) -> Any:
        if is_meant(*arguments):
            raise RuntimeError("poisoned")
        return good(self, *arguments, **named)

    patch.setattr(of, name, fails)


async def submit(service: Assembly, count: int = 1, **asked: Any) -> list[int]:
    return [one.job_id for one in await service.backend.submit([spec(**asked) for _ in range(count)], "ann")]


def test_a_report_that_cannot_be_carried_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    poison(monkeypatch, ReportHandling, "ended", lambda report: report.run.job == POISONED)

    async def goes_on(service: Assembly) -> None:
        first = await submit(service, 3)
        await service.advance_to(15.0)
        assert [await status(service, number) for number in first] == ["finished", "failed", "finished"]
        later = await submit(service, 4)
        await service.advance_to(16.0)
        assert [await status(service, number) for number in later] == [
            "running"
        ] * 4  # nothing holds its core
        await service.advance_to(30.0)
        reason = (await service.backend.job(POISONED)).job.reason
        assert reason is not None
        assert "could not handle the end of its run (RuntimeError)" in reason.text
        (note,) = await notes(service)
        assert "report ended of run 2.1 could not be carried out (RuntimeError" in note

    async def is_still_shown(service: Assembly) -> None:
        assert len(await notes(service)) == 1
        assert await status(service, POISONED) == "failed"
        (later,) = await submit(service)
        await service.advance_to(80.0)
        assert await status(service, later) == "finished"

    (found,) = play(tmp_path, goes_on, is_still_shown)
    assert found.job == POISONED
    assert "RuntimeError: poisoned" in found.data["traceback"]


def test_a_cancelled_job_whose_end_cannot_be_handled_is_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    poison(monkeypatch, ReportHandling, "ended", lambda report: report.run.job == POISONED)

    async def goes_on(service: Assembly) -> None:
        await submit(service, 3)
        await service.settle()
        await service.backend.steer("cancel", [POISONED], "ann")
        await service.advance_to(60.0)
        assert await status(service, POISONED) == "cancelled"

    play(tmp_path, goes_on)


def test_a_run_that_cannot_even_be_given_up_holds_its_nodes_until_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    poison(monkeypatch, ReportHandling, "ended", lambda report: report.run.job == POISONED)
    poison(monkeypatch, ReportHandling, "give_up", lambda run, _: run.job == POISONED)

    async def goes_on(service: Assembly) -> None:
        await submit(service, 3)
        await service.advance_to(30.0)
        assert await status(service, POISONED) == "running"
        (later,) = await submit(service)
        await service.advance_to(60.0)
        assert await status(service, later) == "finished"

    async def is_mended(service: Assembly) -> None:
        monkeypatch.undo()
        await service.advance_to(120.0)
        assert await status(service, POISONED) == "finished"

    ended, given_up = play(tmp_path, goes_on, is_mended)
    assert ended.data["what"] == "report ended of run 2.1"
    assert (given_up.job, given_up.data["what"]) == (POISONED, "end of run 2.1 without its report")


def test_a_report_that_the_store_refuses(tmp_path: Path) -> None:
    """Nothing names it: of the inputs of that turn each is taken alone."""

    async def goes_on(service: Assembly) -> None:
        first = await submit(service, 3)
        await service.settle()
        now_at = service.clock.now_s()
        for number in first:
            message = "no \0 room" if number == POISONED else None
            service.world.forget(RunId(number, 1), now_at)
            service.controller.inbox.hear(Ended(RunId(number, 1), now_at, 1, message=message))
        others, _ = await asyncio.gather(submit(service), service.settle())
        assert [await status(service, number) for number in first] == ["failed"] * 3
        reason = (await service.backend.job(POISONED)).job.reason
        assert reason is not None
        assert reason.code == "lost"
        await service.advance_to(30.0)
        assert await status(service, others[0]) == "finished"

    (found,) = play(tmp_path, goes_on)
    assert (found.job, found.data["error"]) == (POISONED, "StoreRefused")


def test_a_request_that_cannot_be_carried_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    poison(monkeypatch, Jobs, "cancel", lambda number, _: number == POISONED)

    async def goes_on(service: Assembly) -> None:
        await submit(service, 3)
        asked = (service.backend.steer("cancel", [number], "ann") for number in (1, POISONED, 3))
        one, poisoned, other, taken = await asyncio.gather(*asked, submit(service), return_exceptions=True)
        assert isinstance(poisoned, ServiceError)
        assert "could not be carried out" in str(poisoned)
        assert not isinstance(one, BaseException)
        assert not isinstance(other, BaseException)
        assert taken == [4]
        await service.advance_to(30.0)
        assert [await status(service, number) for number in (1, 2, 3, 4)] == [
            *("cancelled", "finished", "cancelled", "finished")
        ]

    (found,) = play(tmp_path, goes_on)
    assert found.data["what"] == "request cancel of ann"


def test_a_delay_that_cannot_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    poison(monkeypatch, Jobs, "_admit", lambda job: job.job_id == POISONED and job.failures > 0)

    async def goes_on(service: Assembly) -> None:
        await submit(service, 3, code=1, retries=1, backoff_s=5.0)
        await service.advance_to(20.0)
        await service.advance_to(60.0)
        assert [await status(service, number) for number in (1, 2, 3)] == ["failed", "blocked", "failed"]

    async def starts_again(service: Assembly) -> None:
        assert await status(service, POISONED) == "blocked"
        (later,) = await submit(service)
        await service.advance_to(90.0)
        assert await status(service, later) == "finished"

    found = play(tmp_path, goes_on, starts_again)
    assert {(event.job, event.data["what"]) for event in found} == {(2, "whether job 2 may queue")}


@pytest.mark.parametrize(
    ("part", "step", "what"),
    [
        (UserBudgets, "before_decision", "what is due by itself: budgets"),
        (JobRentals, "after_decision", "what follows a decision: machines of jobs"),
    ],
)
def test_a_step_of_a_part_that_cannot_be_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: type, step: str, what: str
) -> None:
    async def goes_on(service: Assembly) -> None:
        await service.settle()
        poison(monkeypatch, part, step, lambda: True)
        await submit(service, 2)
        await service.advance_to(30.0)
        assert await status(service, 2) == "finished"

    (found,) = play(tmp_path, goes_on)
    assert found.data["what"] == what


def test_a_grant_that_cannot_be_carried_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    poison(monkeypatch, Occupancy, "reserve", lambda run, _: run.job == POISONED)

    async def goes_on(service: Assembly) -> None:
        await submit(service, 3)
        await service.advance_to(30.0)
        assert [await status(service, number) for number in (1, 2, 3)] == ["finished", "queued", "finished"]

    (found,) = play(tmp_path, goes_on)
    assert (found.job, found.data["what"]) == (POISONED, "the start of the run of job 2")


def test_a_run_that_cannot_be_handed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    poison(monkeypatch, Launches, "of", lambda job, *_: job.job_id == POISONED)

    async def goes_on(service: Assembly) -> None:
        await submit(service, 3)
        await service.advance_to(30.0)
        assert [await status(service, number) for number in (1, 2, 3)] == ["finished", "failed", "finished"]

    (found,) = play(tmp_path, goes_on)
    assert found.data["what"] == "effect StartRun of run 2.1"


def test_a_policy_that_cannot_decide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    is_poisoned = [False]
    poison(monkeypatch, LivePool, "happen", lambda *_: is_poisoned[0])

    async def goes_on(service: Assembly) -> None:
        await submit(service, 3)
        await service.settle()
        change = service.controller.scheduler.policy.__class__.set_policy

        def mended(self: Any, policy: str, cause: str, *more: Any) -> Any:
            is_poisoned[0] = False
            return change(self, policy, cause, *more)

        monkeypatch.setattr(service.controller.scheduler.policy.__class__, "set_policy", mended)
        is_poisoned[0] = True
        await service.advance_to(30.0)
        assert service.controller.scheduler.ledger.policy == "fifo"
        assert [await status(service, number) for number in (1, 2, 3)] == ["finished"] * 3

    (found,) = play(tmp_path, goes_on, policy="srsf")
    assert found.data["what"] == "a decision of policy srsf"
