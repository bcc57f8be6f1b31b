"""A trace through the service's controller: a store in memory, virtual nodes, a virtual clock as fast as it goes."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from betimes import Workload
from betimes.cluster import Cluster
from betimes.outcome import JobColumns
from betimes.service.engines.named_policies import kind_of
from betimes.service.executors.virtual import VirtualWorld
from betimes.service.machines.cloud_file import cloud_of
from betimes.service.runtime.clock import VirtualClock
from betimes.service.runtime.controller import Controller
from betimes.service.runtime.replay import Arrivals, machines_for
from betimes.service.runtime.service_backend import ServiceBackend
from betimes.service.scheduling.engine_factory import Settings
from betimes.service.spec.job_spec import JobSpec
from betimes.service.spec.users import User, UserLimits
from betimes.service.startup.in_memory import assembled
from betimes.service.store.store import Store
from betimes.twin.users import Entitled, FairUsers

Disturb = Callable[[ServiceBackend, VirtualWorld], Awaitable[None]]


@dataclass
class Served:
    """What came of every job, in the order of submission."""

    start_s: np.ndarray
    finish_s: np.ndarray
    preemptions: np.ndarray
    resizes: np.ndarray
    store: Store
    controller: Controller

    def promises(self) -> dict[int, tuple[float, float]]:
        """By job, the instant and the end of its first promise."""
        found: dict[int, tuple[float, float]] = {}
        for event in self.store.each_event():
            if event.kind == "quoted" and event.job is not None:
                found.setdefault(event.job, (event.at_s, event.data["finish_at"]))
        return found


def of_users(workload: Workload) -> Workload:
    """The jobs as those of three users, one of whom has most of them, with priorities."""
    rng = np.random.default_rng(5)
    user = rng.choice(3, len(workload), p=(0.7, 0.2, 0.1))
    priority = rng.integers(0, 3, len(workload))
    return replace(workload, user=user, user_names=("ann", "bob", "cem"), priority=priority)


def of_three(specs: list[JobSpec], jobs: Workload) -> tuple[list[JobSpec], Workload]:
    """The same specifications and jobs, `of_users`."""
    jobs = of_users(jobs)
    pairs = zip(specs, jobs.priority.tolist(), strict=True)
    return [spec.model_copy(update={"priority": priority}) for spec, priority in pairs], jobs


def assert_promised_as(twin: JobColumns, served: Served, but: int = 0) -> None:
    """What was promised at submission is what the twin promises with beliefs that are true.

    Jobs are of different commands: else the service learns from those that have ended. but: promises that may differ.
    """
    submitted_s = twin.submit_s.tolist()
    made = {
        job - 1: end_s for job, (at_s, end_s) in served.promises().items() if at_s == submitted_s[job - 1]
    }
    assert len(made) >= len(submitted_s) / 4
    theirs = twin.predicted_finish_s.tolist()
    others = [row for row in made if made[row] != pytest.approx(theirs[row], abs=1e-3, rel=0)]
    assert len(others) <= but, {row: (made[row], theirs[row]) for row in others}


def serve_trace(
    workload: Workload,
    cluster: Cluster,
    policy: str,
    folder: Path,
    *,
    restart_s: float = 0.0,
    seed: int = 0,
    disturb: Disturb | None = None,
    submissions: Iterable[tuple[float, JobSpec]] | None = None,
    promise_every: int = 1,
    world_of: Callable[[float, bool, float], VirtualWorld] = VirtualWorld,
    shares: FairUsers | None = None,
) -> Served:
    """`submissions`: instead of the jobs that replaying the trace would submit, in the same order.

    shares: of the trace's users, whose weights and limits are set in the first instants.
    """
    half_life_s = None if shares is None else shares.half_life_s
    users = None if shares is None else [workload.user_names[user] for user in workload.user.tolist()]
    given = Arrivals(workload, cluster, policy) if submissions is None else submissions
    return asyncio.run(
        _serve(
            given,
            cluster,
            policy,
            folder,
            Settings(restart_s=restart_s, seed=seed, half_life_s=half_life_s),
            disturb,
            promise_every,
            world_of,
            users,
            {} if shares is None else shares.entitled,
        )
    )


def _user(name: str, entitled: Entitled) -> User:
    limits = {
        "max_running_jobs": entitled.most_running,
        "max_units": entitled.most_units,
        "max_memory_gib": entitled.most_memory / 1024.0,
    }
    given = {what: most for what, most in limits.items() if most < math.inf}
    return User(name=name, weight=entitled.weight, limits=UserLimits.model_validate(given))


async def _serve(
    submissions: Iterable[tuple[float, JobSpec]],
    cluster: Cluster,
    policy: str,
    folder: Path,
    settings: Settings,
    disturb: Disturb | None,
    promise_every: int,
    world_of: Callable[[float, bool, float], VirtualWorld],
    users: list[str] | None,
    entitled: dict[str, Entitled],
) -> Served:
    store = Store.in_memory(folder)
    async with assembled(
        machines_for(cluster) if cluster.groups else (),
        policy,
        folder,
        clock=VirtualClock(0.0, math.inf),
        store=store,
        settings=settings,
        cloud=cloud_of(cluster) if cluster.offers else None,
        at_once=kind_of(policy)[0] == "pool",
        arrivals=submissions,
        users=users,
        promise_every=promise_every,
        world_of=world_of,
    ) as service:
        controller, deciding = service.controller, service.deciding
        with controller.clock.hold():
            for name, each in entitled.items():
                await service.backend.add_user(_user(name, each), "cem")
        disturbing = (
            asyncio.ensure_future(disturb(service.backend, service.world)) if disturb is not None else None
        )
        source = controller.source
        assert source is not None
        ledger = controller.scheduler.ledger
        while (
            source.next_at() < math.inf
            or ledger.jobs
            or any(node.by_policy for node in ledger.nodes.values())  # until their paid time is over
        ):
            await asyncio.sleep(0.01)
            if deciding.done():
                break
        if disturbing is not None:
            disturbing.cancel()
            await asyncio.gather(disturbing, return_exceptions=True)
    jobs = controller.scheduler.ledger.next_job - 1
    found = Served(
        np.full(jobs, np.nan), np.full(jobs, np.nan), np.zeros(jobs), np.zeros(jobs), store, controller
    )
    for number in range(1, jobs + 1):
        row = store.job(number)
        if row is not None:
            found.start_s[number - 1] = row["started_at"] if row["started_at"] is not None else math.nan
            found.finish_s[number - 1] = row["finished_at"] if row["finished_at"] is not None else math.nan
            found.preemptions[number - 1] = row["preemptions"]
            found.resizes[number - 1] = row["resizes"]
    return found
