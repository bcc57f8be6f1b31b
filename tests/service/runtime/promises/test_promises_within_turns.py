"""A promise that is quick to make is made in the turn that takes the job, and stored with it."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path

import pytest

from betimes.errors import StoreFull, Unavailable
from betimes.service.engines.messages import Foreseen, Play
from betimes.service.runtime.promises import MOST_A_TURN, MOST_WITHIN_TURN_S
from betimes.service.runtime.service_backend import ServiceBackend
from betimes.service.store.batch import Batch
from tests.service.four_cores import RUN_S, on_four_cores, over, spec


@pytest.mark.parametrize(("usual_s", "commits"), [(0.0, 1), (MOST_WITHIN_TURN_S, 1), (math.inf, 2)])
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
        whole = spec(min_units=4, max_units=4)
        with backend.controller.clock.hold():  # the jobs do not end meanwhile
            await backend.submit([whole], "ann")
            stored.clear()
            backend.promises.usual_s = usual_s
            [first] = await backend.submit([whole], "ann", key="a")
            backend.promises.usual_s = usual_s
            [second, third] = await backend.submit([whole, whole], "ann")
            assert [one.quote and one.quote.start_at for one in (first, second, third)] == [
                100.0,
                200.0,
                300.0,
            ]
            assert third.quote is not None
            assert third.quote.reason is not None
            assert (await backend.job(3)).job.promised_finish_at == 300.0
            assert len(stored) == 2 * commits
            kinds = [kind for each in stored for kind in each]
            assert kinds == ["submitted", "quoted", *2 * ["submitted"], *2 * ["quoted"]]
            [again] = await backend.submit([whole], "ann", key="a")
            assert again == first

    on_four_cores(tmp_path, ask)


@pytest.mark.parametrize("usual_s", [0.0, MOST_WITHIN_TURN_S])
def test_submissions_that_wait_when_a_turn_begins_share_its_play_out_and_its_commit(
    tmp_path: Path, usual_s: float
) -> None:
    stored: list[int] = []
    plays: list[float] = []

    async def ask(backend: ServiceBackend) -> None:
        commit, timed = backend.controller.store.commit, backend.promises._timed

        def counted(batch: Batch) -> None:
            quoted = sum(event.kind == "quoted" for event in batch.events)
            stored.extend([quoted] if quoted else [])  # a turn may end with nothing of these to store
            commit(batch)

        def played(play: Play) -> Foreseen:
            foreseen = timed(play)
            plays.append(backend.promises.usual_s)
            return foreseen

        whole = spec(min_units=4, max_units=4)
        with backend.controller.clock.hold():
            await backend.submit([whole], "ann")
            backend.controller.store.commit = counted
            backend.promises._timed = played
            backend.promises.usual_s = usual_s
            each = [backend.submit([whole], "ann", key=key) for key in (None, "a", "b", None)]
            answers = [answer for [answer] in await asyncio.gather(*each)]
        assert [one.quote and one.quote.start_at for one in answers] == [100.0, 200.0, 300.0, 400.0]
        assert stored == [4]
        assert len(plays) == 1

    on_four_cores(tmp_path, ask)


def test_nothing_is_promised_of_a_submission_that_was_not_stored(tmp_path: Path) -> None:
    async def ask(backend: ServiceBackend) -> None:
        commit, refusals = backend.controller.store.commit, [StoreFull("the disk is full; make room")]

        def failing(batch: Batch) -> None:
            if refusals and any(event.kind == "quoted" for event in batch.events):
                raise refusals.pop()
            commit(batch)

        with backend.controller.clock.hold():
            await backend.submit([spec()], "ann")
            backend.controller.store.commit = failing
            backend.promises.usual_s = 0.0
            refused = await asyncio.gather(
                *(backend.submit([spec()], "ann", key=key) for key in ("a", "b")), return_exceptions=True
            )
            assert [type(one) for one in refused] == 2 * [Unavailable]
            async with asyncio.timeout(60):
                while backend.controller.problem is not None:  # the state is being read back
                    await asyncio.sleep(0.001)
            [again] = await backend.submit([spec()], "ann", key="a")
            assert (again.job_id, again.quote and again.quote.start_at) == (2, 0.0)

    on_four_cores(tmp_path, ask)


def test_a_job_that_keeps_what_it_takes_at_once_is_promised_its_end_without_a_play_out(
    tmp_path: Path,
) -> None:
    async def ask(backend: ServiceBackend) -> None:
        async def no_play_out() -> None:
            raise AssertionError("a play-out was made")

        with backend.controller.clock.hold(), pytest.MonkeyPatch.context() as patch:
            patch.setattr(backend.promises, "_of_turn", no_play_out)
            [first, second] = await backend.submit([spec(), spec(min_units=3, max_units=3)], "ann")
            assert [one.quote and one.quote.finish_at for one in (first, second)] == [RUN_S, RUN_S]
            patch.undo()
            [third] = await backend.submit([spec()], "ann")
            assert third.quote is not None
            assert (third.quote.start_at, third.quote.finish_at) == (RUN_S, 2 * RUN_S)

    on_four_cores(tmp_path, ask)


def test_the_promises_of_a_large_array_are_made_in_slices(tmp_path: Path) -> None:
    async def ask(backend: ServiceBackend) -> None:
        store, most = backend.controller.store, list[int]()
        commit = store.commit

        def counted(batch: Batch) -> None:
            most.append(len(batch.quotes))
            commit(batch)

        store.commit = counted  # type: ignore[method-assign]
        with backend.controller.clock.hold():  # type: ignore[union-attr]
            (taken,) = await backend.submit([spec(array="1-1200")], "ann")
            assert taken.quote is not None
            assert sorted(most)[-3:] == [MOST_A_TURN] * 3
            await backend.steer("cancel", taken.job_ids, "ann")
        await over(backend)

    on_four_cores(tmp_path, ask)
