"""Who is cancelled while jobs are listed is cancelled, at whatever moment the forecast is ready."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from betimes.service.machines.machine import Machine
from betimes.service.scheduling.promises import Forecast
from betimes.service.spec.job_spec import JobSpec
from betimes.service.startup.bootstrap import running
from betimes.service.startup.config import ServiceConfig
from betimes.service.views.models import JobFilter
from tests.service.compiling.by_hand import before_listening
from tests.service.serving import until

MACHINE = Machine("n-0", "virtual", "n", 4.0, 8.0, 0.0)


def test_a_forecast_that_is_ready_at_that_moment_loses_no_cancellation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with running(
            ServiceConfig(state=tmp_path, machines=[MACHINE], kernels=before_listening())
        ) as service:
            backend = service.backend
            await backend.submit([JobSpec(command=["x"], env={"VIRTUAL_WORK_S": "1000"})], "ada")
            found = await backend.promises.forecast()
            for turns in range(12):  # of the event loop, between the forecast and the cancellation
                asked, ready = asyncio.Event(), asyncio.Event()

                async def forecast(asked: asyncio.Event = asked, ready: asyncio.Event = ready) -> Forecast:
                    asked.set()
                    await ready.wait()
                    return found

                with monkeypatch.context() as patch:
                    patch.setattr(backend.promises, "forecast", forecast)
                    patch.setattr("betimes.service.runtime.service_backend.PATIENCE_S", 60.0)
                    listing = asyncio.ensure_future(backend.jobs(JobFilter()))
                    await until(asked.is_set)
                    ready.set()
                    for _ in range(turns):
                        await asyncio.sleep(0)
                    heard = listing.cancel()
                    await asyncio.wait((listing,))
                    assert listing.cancelled() == heard, turns

    asyncio.run(main())
