"""A turn that cannot be stored has not happened, and nothing that was foreseen of it is told later."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from betimes.errors import StoreFull, Unavailable
from betimes.service.runtime.service_backend import ServiceBackend
from betimes.service.store.batch import Batch
from tests.service.four_cores import RUN_S, on_four_cores, over, spec


def test_promises_made_after_it_are_of_the_state_as_it_is(tmp_path: Path) -> None:
    async def ask(backend: ServiceBackend) -> None:
        store = backend.controller.store
        commit = store.commit

        def full(_: Batch) -> None:
            store.commit = commit  # type: ignore[method-assign]
            raise StoreFull("no space left; make some")

        with backend.controller.clock.hold():  # type: ignore[union-attr]
            for _ in range(20):
                (one,) = await backend.submit([spec(min_units=4, max_units=4)], "ann")
                await backend.steer("cancel", [one.job_id], "ann")
            (first,) = await backend.submit([spec(min_units=4, max_units=4)], "ann")
            store.commit = full  # type: ignore[method-assign]
            with pytest.raises(Unavailable):
                await backend.submit([spec(min_units=4, max_units=4)], "ann")
            async with asyncio.timeout(60):
                while backend.controller.problem is not None:
                    await asyncio.sleep(0.005)
            (taken,) = await backend.submit([spec(min_units=4, max_units=4)], "ann")
            assert taken.job_id == first.job_id + 1
            assert taken.quote is not None
            assert taken.quote.finish_at == 2 * RUN_S
        await over(backend)

    on_four_cores(tmp_path, ask)
