"""Jobs that cannot queue when they are submitted are promised an end all the same; held ones when they do."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from betimes.errors import Conflict, PolicyViolation, Unavailable
from betimes.service.runtime.service_backend import ServiceBackend
from tests.service.four_cores import RUN_S, on_four_cores, over, spec


def test_a_throttled_array_is_promised_an_end_as_a_whole(tmp_path: Path) -> None:
    async def ask(backend: ServiceBackend) -> None:
        with backend.controller.clock.hold():  # type: ignore[union-attr]
            (taken,) = await backend.submit([spec(array="1-6%2")], "ann")
            assert taken.quote is not None
            assert (taken.quote.elements, taken.quote.finish_at) == (None, 3 * RUN_S)
            assert taken.quote.start_at == 0.0  # its first start, and its last end
            shown = (await backend.job(taken.job_ids[-1])).job
            assert shown.estimate is not None  # as the page has it, though no forecast knows it yet
            assert shown.estimate.finish_at == 3 * RUN_S
            (whole,) = await backend.submit([spec(array="1-2%2")], "ann")
            assert whole.quote is not None
            assert whole.quote.elements is None
            asked = await backend.quote(spec(array="1-6%2"), "ann")
            assert (asked.elements, asked.start_at, asked.finish_at) == (None, RUN_S, 4 * RUN_S)
        await over(backend)
        stories = [await backend.job(number) for number in taken.job_ids]
        promised = [[quote.finish_at for quote in story.quotes] for story in stories]
        assert promised == [[story.job.finished_at] for story in stories]  # as nothing else has come
        assert [story.job.finished_at for story in stories] == [100.0, 100.0, 200.0, 200.0, 300.0, 300.0]

    on_four_cores(tmp_path, ask)


def test_one_that_follows_another_is_promised_an_end_at_once(tmp_path: Path) -> None:
    async def ask(backend: ServiceBackend) -> None:
        with backend.controller.clock.hold():  # type: ignore[union-attr]
            (first,) = await backend.submit([spec()], "ann")
            (second,) = await backend.submit([spec(after=[str(first.job_id)])], "ann")
            assert second.quote is not None
            assert second.quote.reason is not None
            assert second.quote.reason.text == "waits for job 1 to end"
            asked = await backend.quote(spec(after=[str(second.job_id)]), "ann")
            assert (asked.start_at, asked.finish_at) == (2 * RUN_S, 3 * RUN_S)
            assert asked.reason is not None
            assert asked.reason.text == "waits for job 2 to end"
        await over(backend)
        story = await backend.job(second.job_id)
        assert [(quote.made_at, quote.finish_at) for quote in story.quotes] == [(0.0, 200.0)]
        assert story.quote_error_s == 0.0

    on_four_cores(tmp_path, ask)


def test_a_hold_voids_a_promise_and_a_release_makes_a_new_one(tmp_path: Path) -> None:
    async def ask(backend: ServiceBackend) -> None:
        clock = backend.controller.clock
        with clock.hold():  # type: ignore[union-attr]
            (first,) = await backend.submit([spec(min_units=4, max_units=4)], "ann")
            (held,) = await backend.submit([spec()], "ann")
            (view,) = await backend.steer("hold", [held.job_id], "ann")
            assert view.promised_finish_at is None
        while not (await backend.job(first.job_id)).job.status.is_over:
            await asyncio.sleep(0.0)
        with clock.hold():  # type: ignore[union-attr]
            released_at = clock.now_s()
            await backend.steer("release", [held.job_id], "ann")
        await over(backend)
        story = await backend.job(held.job_id)
        assert [quote.finish_at for quote in story.quotes] == [2 * RUN_S, released_at + RUN_S]
        assert story.job.promised_finish_at == released_at + RUN_S
        assert story.quote_error_s == 0.0

    on_four_cores(tmp_path, ask)


@pytest.mark.parametrize("error", [Conflict, PolicyViolation, Unavailable])
def test_a_job_is_taken_even_where_nothing_can_be_promised(
    tmp_path: Path, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing(*_: object) -> None:
        raise error("not now")

    async def ask(backend: ServiceBackend) -> None:
        for name in ("make", "options"):
            monkeypatch.setattr(backend.promises, name, nothing)
        with backend.controller.clock.hold():
            await backend.submit([spec(min_units=4, max_units=4)], "ann")  # which starts at once
            (taken,) = await backend.submit([spec()], "ann")
        assert taken.quote is None
        await over(backend)
        assert (
            await backend.job(taken.job_id)
        ).job.finished_at == RUN_S / 4 + RUN_S  # on four units, then on one

    on_four_cores(tmp_path, ask)


def test_a_promise_without_an_end_is_of_no_part_of_an_array(tmp_path: Path) -> None:
    async def ask(backend: ServiceBackend) -> None:
        await backend.drain("n", "ann")
        taken = await backend.submit([spec(), spec(array="1-3")], "ann")
        assert [one.quote and (one.quote.finish_at, one.quote.elements) for one in taken] == 2 * [
            (None, None)
        ]

    on_four_cores(tmp_path, ask)


def test_the_answer_says_what_a_job_waits_for_that_is_promised_nothing_yet(tmp_path: Path) -> None:
    async def ask(backend: ServiceBackend) -> None:
        with backend.controller.clock.hold():
            (first,) = await backend.submit([spec()], "ann")
            waiting = [spec(after=[str(first.job_id)]), spec(hold=True)]
            taken = await backend.submit(waiting, "ann", key="a")
            assert [one.quote is None for one in taken] == [False, True]
            assert taken[1].reason is not None
            assert taken[1].reason.text == "held by ann; `betimes release` lets it start"
            assert await backend.submit(waiting, "ann", key="a") == taken

    on_four_cores(tmp_path, ask)


@pytest.mark.parametrize("policy", ["fifo", "nodes:fifo"])
def test_a_quote_says_why_the_job_would_wait_as_the_job_itself_does(tmp_path: Path, policy: str) -> None:
    async def ask(backend: ServiceBackend) -> None:
        with backend.controller.clock.hold():
            await backend.set_policy(policy, "ann")
            assert (await backend.quote(spec(), "ann")).reason is None  # it would start at once
            await backend.submit([spec(min_units=4, max_units=4)], "ann")
            quote = await backend.quote(spec(), "ann")
            (taken,) = await backend.submit([spec()], "ann")
            waiting = (await backend.job(taken.job_id)).job.reason
            assert quote.reason is not None
            assert quote.reason == waiting
            assert quote.reason.text.startswith("needs 1 ")

    on_four_cores(tmp_path, ask)
