"""A service that cannot start jobs as others refuses them, unless it is told to run all as itself."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from betimes.errors import Conflict, NotAllowed
from betimes.service.machines.machine import Machine
from betimes.service.runtime.service_backend import ServiceBackend
from betimes.service.spec.job_spec import JobSpec
from betimes.service.startup.bootstrap import running
from betimes.service.startup.config import ServiceConfig
from tests.service.compiling.by_hand import ByHand

HELD = [JobSpec(command=["true"], hold=True)]


@pytest.fixture(autouse=True)
def somebody(monkeypatch: pytest.MonkeyPatch) -> None:
    """The service is that of a user who is not root."""
    monkeypatch.setattr(os, "geteuid", lambda: 54321)
    monkeypatch.setenv("LOGNAME", "somebody")


def serve(
    state: Path, act: Callable[[ServiceBackend], Awaitable[Any]], kind: Any = "local", **more: Any
) -> None:
    """Start a service, act on it, and stop it."""

    async def scenario() -> None:
        machines = [Machine("here", kind, "here", 1.0, 1.0, 0.0)]
        config = ServiceConfig(state=state, machines=machines, kernels=ByHand().kernels(), **more)
        async with running(config) as service:
            await act(service.backend)

    asyncio.run(scenario())


def test_it_runs_its_own_jobs_and_refuses_those_of_others(tmp_path: Path) -> None:
    async def act(backend: ServiceBackend) -> None:
        await backend.submit(HELD, "somebody")
        for ask in (backend.submit(HELD, "daemon"), backend.quote(HELD[0], "daemon")):
            with pytest.raises(
                NotAllowed, match=r"a job of daemon cannot run: .* \(betimes up --run-as-me\)"
            ):
                await ask

    serve(tmp_path, act)


def test_told_to_it_runs_those_of_others_and_never_stops_doing_so_unasked(tmp_path: Path) -> None:
    async def submit(backend: ServiceBackend) -> None:
        await backend.submit(HELD, "daemon")

    async def nothing(backend: ServiceBackend) -> None:
        pass

    serve(tmp_path, submit, run_as_me=True)
    serve(tmp_path, nothing, run_as_me=True)
    with pytest.raises(Conflict, match=r"has jobs of daemon that are not over: the service runs as somebody"):
        serve(tmp_path, nothing)


def test_where_jobs_only_take_time_they_may_be_anybodys(tmp_path: Path) -> None:
    async def submit(backend: ServiceBackend) -> None:
        await backend.submit(HELD, "daemon")

    serve(tmp_path, submit, kind="virtual")
    serve(tmp_path, submit, kind="virtual")
