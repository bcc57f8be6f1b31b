"""A node that is not heard of any more is lost within its lease; its jobs go on elsewhere, the attempt counted."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from betimes.service.machines.machine import Machine
from betimes.service.runtime.clock import Clock, VirtualClock
from betimes.service.runtime.controller import Controller
from betimes.service.scheduling.job import Job, Places
from betimes.service.scheduling.job_states import Status
from betimes.service.scheduling.jobs import Jobs
from betimes.service.spec.job_spec import JobSpec
from betimes.service.startup.in_memory import Assembly, assembled
from betimes.service.store.store import Store
from betimes.service.tuning.recent import submissions
from tests.service.reliability.cluster import spec
from tests.service.reliability.test_set_aside import poison

LEASE_S = 30.0


def with_controller(
    folder: Path, clock: Any, test: Callable[[Assembly], Awaitable[None]], policy: str = "nodes:fifo"
) -> Store:
    """Two virtual nodes of one core under a controller while `test` runs."""
    store = Store.in_memory(folder)
    machines = [Machine(f"n-{number}", "virtual", "n", 1.0, 8.0, 0.0) for number in range(2)]

    async def main() -> None:
        async with assembled(machines, policy, folder, clock=clock, store=store, lease_s=LEASE_S) as service:
            await test(service)

    asyncio.run(main())
    return store


def places_of(job: Job) -> Places:
    """Where it runs."""
    assert job.run is not None
    return job.run.places


async def submit(controller: Controller, one: JobSpec) -> list[int]:
    return await controller.ask("job", lambda scheduler: scheduler.admission.submit(one, "ann"))


@pytest.mark.parametrize("policy", ["nodes:fifo", "fifo"])
def test_jobs_of_a_silent_node_go_on_elsewhere_within_its_lease(tmp_path: Path, policy: str) -> None:
    clock = VirtualClock(0.0, 0.0)

    async def test(service: Assembly) -> None:
        controller = service.controller
        (first,), (second,) = await asyncio.gather(
            submit(controller, spec(100.0)), submit(controller, spec(35.0))
        )
        await service.advance_to(1.0)
        jobs = controller.scheduler.ledger.jobs
        assert [places_of(jobs[first])[0][0], places_of(jobs[second])[0][0]] == ["n-0", "n-1"]
        for at in (0.0, 10.0, 20.0):  # then it falls silent
            await service.advance_to(at)
            await controller.beat("n-0")
        await service.advance_to(49.9)
        assert (jobs[first].status, jobs[first].attempt) == (Status.RUNNING, 1)
        assert controller.next_due_at() == 50.0
        await service.advance_to(50.0)
        assert controller.scheduler.ledger.nodes["n-0"].status == "lost"
        assert (jobs[first].status, jobs[first].attempt) == (Status.RUNNING, 2)
        assert places_of(jobs[first]) == [("n-1", 1)]
        await controller.beat("n-0")
        await service.advance_to(51.0)
        assert controller.scheduler.ledger.nodes["n-0"].status == "up"
        await service.advance_to(1000.0)
        assert not jobs

    store = with_controller(tmp_path, clock, test, policy)
    assert [run["outcome"] for run in store.runs(1)] == ["node-lost", "exited"]
    kinds = [event.kind for event in store.events(job=1)]
    assert kinds.index("ended") < kinds.index("requeued") < len(kinds) - 1
    took_s = [one.spec.estimate_s for one in submissions(store, 0.0, 10)]
    assert took_s == [50.0, 35.0], "submitted again, a job takes as long as the run that was not lost"


def test_a_node_is_lost_though_the_loss_of_a_run_there_cannot_be_handled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    poison(monkeypatch, Jobs, "interrupted", lambda job, _: job.job_id == 1)

    async def test(service: Assembly) -> None:
        controller = service.controller
        await asyncio.gather(*(submit(controller, spec(100.0, cpu=0.5)) for _ in range(4)))
        await controller.beat("n-0")
        await service.advance_to(40.0)
        jobs = controller.scheduler.ledger.jobs
        assert controller.scheduler.ledger.nodes["n-0"].status == "lost"
        assert 1 not in jobs, "it has failed"
        assert [jobs[number].status for number in (2, 3, 4)] == [
            Status.QUEUED,
            Status.RUNNING,
            Status.RUNNING,
        ]

    store = with_controller(tmp_path, VirtualClock(0.0, 0.0), test)
    row = store.job(1)
    assert row is not None
    assert (row["status"], row["reason"]["code"]) == ("failed", "lost")
    (event,) = store.events(kinds=["set-aside"])
    assert (event.job, event.data["what"]) == (1, "the loss of the run of job 1 with its node")


def test_a_node_that_never_beats_is_never_lost(tmp_path: Path) -> None:
    clock = VirtualClock(0.0, math.inf)

    async def test(service: Assembly) -> None:
        controller = service.controller
        (job,) = await submit(controller, spec(10_000.0))
        while job in controller.scheduler.ledger.jobs:
            await asyncio.sleep(0.005)
        assert controller.scheduler.ledger.nodes["n-0"].status == "up"

    store = with_controller(tmp_path, clock, test)
    assert [run["outcome"] for run in store.runs(1)] == ["exited"]


class Times:
    """A wall clock and a steady one, set by hand."""

    wall_s, steady_s = 1_000_000.0, 50.0

    def pass_by(self, seconds: float, jump_s: float = 0.0) -> None:
        self.wall_s += seconds + jump_s
        self.steady_s += seconds


@pytest.mark.parametrize("jump_s", [86_400.0, -86_400.0])
def test_a_clock_that_jumps_is_survived(tmp_path: Path, jump_s: float) -> None:
    times = Times()
    clock = Clock(wall=lambda: times.wall_s, steady=lambda: times.steady_s)

    async def test(service: Assembly) -> None:
        controller = service.controller
        await submit(controller, spec(1e9))
        await asyncio.sleep(0.05)  # until it has started
        await controller.beat("n-0")
        times.pass_by(5.0, jump_s)
        await submit(controller, spec(1e9))
        await controller.ask("nothing", lambda _: None)
        assert controller.scheduler.ledger.nodes["n-0"].status == "up"  # nobody could have heard it
        times.pass_by(LEASE_S + 1.0)
        await submit(controller, spec(1e9))
        await controller.ask("nothing", lambda _: None)
        assert controller.scheduler.ledger.nodes["n-0"].status == "lost"

    store = with_controller(tmp_path, clock, test)
    events = store.events(limit=1000)
    assert all(a.at_s <= b.at_s for a, b in pairwise(events))
    taken = [event.at_s for event in events if event.kind == "submitted"]
    assert taken[1] - taken[0] == pytest.approx(5.0 + max(0.0, jump_s), abs=1.0)


def test_a_service_whose_clock_was_put_back_while_it_was_away_goes_on_where_it_was(tmp_path: Path) -> None:
    clock = Clock(2_000_000.0, wall=lambda: 1_000_000.0, steady=lambda: 0.0)
    store = with_controller(tmp_path, clock, _submit_one)
    assert all(event.at_s >= 2_000_000.0 for event in store.events())


async def _submit_one(service: Assembly) -> None:
    await submit(service.controller, spec(1.0))
