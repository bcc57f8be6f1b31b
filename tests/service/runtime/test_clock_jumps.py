"""The machine's clock is set while jobs wait, run and are tried again."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from betimes.service.executors.virtual import EXIT_CODE, WORK, VirtualWorld
from betimes.service.machines.machine import Machine
from betimes.service.runtime.clock import Clock
from betimes.service.scheduling.events import Report
from betimes.service.scheduling.fold import recovered
from betimes.service.spec.job_spec import JobSpec
from betimes.service.startup.in_memory import Assembly, assembled
from betimes.units import S_PER_DAY
from tests.service.reliability.cluster import Cluster, spec

DAYS_S = 3 * S_PER_DAY


class Wall:
    """A wall clock that a test sets."""

    def __init__(self) -> None:
        self.ahead_s = 0.0
        self.suspended_s = 0.0

    def suspended(self) -> float:
        return self.suspended_s

    def __call__(self) -> float:
        return time.time() + self.ahead_s


class Endless(VirtualWorld):
    """Runs end when they are stopped, whatever the clock says, as real ones do not end with a jump of it."""

    def next_at(self) -> float:
        return math.inf

    def advance(self, now_at: float) -> list[Report]:
        return []


def play(
    folder: Path, act: Callable[[Assembly, Wall], Awaitable[None]], world_of: Any = VirtualWorld
) -> None:
    async def serve() -> None:
        wall = Wall()
        machine = Machine("n", "virtual", "n", 2.0, 8.0, 0.0)
        async with assembled(
            [machine], "fifo", folder, clock=Clock(wall=wall, suspended=wall.suspended), world_of=world_of
        ) as service:
            await act(service, wall)

    asyncio.run(serve())


def job(run_s: float, **asked: Any) -> JobSpec:
    env = {WORK: str(run_s), EXIT_CODE: str(asked.pop("code", 0))}
    return JobSpec(command=["x"], workdir="/", estimate_s=run_s, env=env, **asked)


def test_a_clock_put_forward_ends_no_delay_of_a_retry() -> None:
    cluster = Cluster()
    named_at = cluster.now_at + 3600.0
    fails, begins = cluster.submit(spec(1.0, code=1, retries=3, backoff_s=60.0), spec(1.0, begin_at=named_at))
    cluster.go_on(2.0)
    waited_until_at = cluster.job(fails).not_before_at
    cluster.scheduler.clock_set(DAYS_S, DAYS_S)
    cluster.arrive(cluster.now_at + DAYS_S)
    cluster.turn()
    assert cluster.job(fails).not_before_at == waited_until_at + DAYS_S
    assert cluster.status(fails) == "blocked"
    assert cluster.status(begins) == "running"  # its user has named an instant
    cluster.go_on(65.0)
    assert cluster.story(fails).count("launched") == 2
    cluster.go_on()
    assert cluster.status(fails) == "failed"
    assert recovered(None, cluster.log).over[fails] == "failed"


def test_no_end_is_shown_in_the_past_after_a_clock_was_put_forward(tmp_path: Path) -> None:
    async def act(service: Assembly, wall: Wall) -> None:
        taken = await service.backend.submit([job(3600.0, max_units=2), job(3600.0, max_units=2)], "ann")
        wall.ahead_s = DAYS_S
        (later,) = await service.backend.submit([job(3600.0)], "ann")
        await service.settle()
        for one in (*taken, later):
            story = await service.backend.job(one.job_id)
            assert story.job.promised_finish_at is not None
            assert story.job.promised_finish_at > wall()
        assert (await service.backend.job(later.job_id)).job.submitted_at == pytest.approx(wall(), abs=60.0)
        (said,) = service.store.events(kinds=["clock-set"])
        assert said.data["wall_s"] == pytest.approx(DAYS_S, abs=60.0)

    play(tmp_path, act, Endless)


def test_no_request_is_recorded_as_of_what_was_due_before_the_clock_was_put_forward(tmp_path: Path) -> None:
    async def act(service: Assembly, wall: Wall) -> None:
        await service.backend.submit([job(10.0)], "ann")
        wall.ahead_s = DAYS_S
        (later,) = await service.backend.submit([job(10.0)], "ann")
        assert (await service.backend.job(later.job_id)).job.submitted_at == pytest.approx(wall(), abs=60.0)

    play(tmp_path, act)


def test_the_log_says_that_a_clock_was_put_back(tmp_path: Path) -> None:
    async def act(service: Assembly, wall: Wall) -> None:
        (first,) = await service.backend.submit([job(3600.0)], "ann")
        wall.ahead_s = -7200.0
        await service.backend.submit([job(10.0)], "ann")
        (said,) = service.store.events(kinds=["clock-set"])
        assert said.data["wall_s"] == pytest.approx(-7200.0, abs=60.0)
        assert said.data["stepped_s"] == 0.0
        quotes = (await service.backend.job(first.job_id)).quotes
        assert len(quotes) == 1  # nothing has changed for it

    play(tmp_path, act)


@pytest.mark.parametrize("sleeps", [False, True])
def test_what_goes_on_began_by_the_corrected_clock(tmp_path: Path, sleeps: bool) -> None:
    async def act(service: Assembly, wall: Wall) -> None:
        began_at = wall()
        runs, waits = (
            one.job_id for one in await service.backend.submit([job(10 * DAYS_S, max_units=2)] * 2, "ann")
        )
        await service.settle()
        wall.suspended_s = DAYS_S if sleeps else 0.0
        wall.ahead_s = DAYS_S
        await service.backend.submit([job(10.0)], "ann")
        began_at += 0.0 if sleeps else DAYS_S
        for number in (runs, waits):
            story = await service.backend.job(number)
            assert story.job.submitted_at == pytest.approx(began_at, abs=60.0)
        assert story.job.started_at is None
        (run,) = (story := await service.backend.job(runs)).runs
        assert story.job.started_at == run.started_at == pytest.approx(began_at, abs=60.0)
        # Its node is another machine, which went on while this one slept.
        assert run.ran_s == pytest.approx(DAYS_S if sleeps else 0.0, abs=60.0)

    play(tmp_path, act)


def test_a_run_keeps_its_identity_when_the_clock_is_corrected() -> None:
    cluster = Cluster()
    (number,) = cluster.submit(spec(10 * DAYS_S))
    cluster.go_on(2.0)
    submitted_at = cluster.job(number).submitted_at
    cluster.scheduler.clock_set(DAYS_S, DAYS_S, DAYS_S)
    cluster.arrive(cluster.now_at + DAYS_S)
    cluster.turn()
    for found in (cluster.job(number), recovered(None, cluster.log).jobs[number]):
        assert (found.submitted_at, found.logged_at) == (submitted_at + DAYS_S, submitted_at)
        assert found.has_run_s(cluster.now_at) == pytest.approx(2.0)
