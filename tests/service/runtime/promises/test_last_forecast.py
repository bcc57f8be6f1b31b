"""One job and the list of jobs show the same forecast, also while a new one takes longer than they wait for it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from betimes.service.runtime.service_backend import ServiceBackend
from betimes.service.views.models import JobFilter
from tests.service.four_cores import on_four_cores, spec


def test_the_last_one_is_shown_while_another_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def ask(backend: ServiceBackend) -> None:
        async def never() -> None:
            await asyncio.Event().wait()

        with backend.controller.clock.hold():
            await backend.submit([spec(min_units=4, max_units=4), spec()], "ann")
            known = await backend.promises.forecast()
            monkeypatch.setattr(backend.promises, "forecast", never)
            await backend.submit([spec(hold=True)], "ann")
            waiting = (await backend.job(2)).job
            listed = next(job for job in (await backend.jobs(JobFilter())).items if job.job_id == 2)
            assert waiting.estimate is not None
            assert waiting.estimate == listed.estimate
            assert waiting.estimate.as_of_at == known.as_of_at
            assert waiting.reason == listed.reason

    on_four_cores(tmp_path, ask)
