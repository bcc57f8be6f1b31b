"""A promise that is quick to make is made in the turn that takes the job, and stored with it."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from betimes.service.runtime.service_backend import ServiceBackend
from betimes.service.store.batch import Batch
from tests.service.four_cores import on_four_cores, spec


@pytest.mark.parametrize(("usual_s", "commits"), [(0.0, 1), (math.inf, 2)])
def test_job_and_promise_are_one_commit_where_play_outs_are_short(
    tmp_path: Path, usual_s: float, commits: int
) -> None:
    stored: list[list[str]] = []

    async def ask(backend: ServiceBackend) -> None:
        commit = backend.controller.store.commit

        def counted(batch: Batch) -> None:
            kinds = [event.kind for event in batch.events if event.kind in ("submitted", "quoted")]
            stored.extend([kinds] if kinds else [])  # a turn may end with nothing of these to store
            commit(batch)

        backend.controller.store.commit = counted
        with backend.controller.clock.hold():  # the jobs do not end meanwhile
            backend.promises.usual_s = usual_s
            [first] = await backend.submit([spec()], "ann", key="a")
            backend.promises.usual_s = usual_s
            whole = spec(min_units=4, max_units=4)
            [second, third] = await backend.submit([whole, whole], "ann")
            assert [one.quote and one.quote.start_at for one in (first, second, third)] == [0.0, 100.0, 200.0]
            assert third.quote is not None
            assert third.quote.reason is not None
            assert (await backend.job(2)).job.promised_finish_at == 200.0
            assert len(stored) == 2 * commits
            kinds = [kind for each in stored for kind in each]
            assert kinds == ["submitted", "quoted", *2 * ["submitted"], *2 * ["quoted"]]
            [again] = await backend.submit([spec()], "ann", key="a")
            assert again == first

    on_four_cores(tmp_path, ask)
