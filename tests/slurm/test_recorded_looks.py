"""Promises beside Slurm, judged offline: a small recording, made up with a simulation, driven through the source."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from betimes.service.scheduling.fold import recovered
from tests.slurm.recorded_looks import RecordedSlurm, read_recording, watching

RECORDING = Path(__file__).parent / "recorded/looks.jsonl.gz"


def test_promises_hold_and_are_closer_than_those_of_slurm(tmp_path: Path) -> None:
    """160 jobs of six users on eight nodes in three days, nothing known before; limits are up to five times too long.

    The figures are those of when this was written: a change of promises changes them, and is looked at here.
    """
    slurm = RecordedSlurm(read_recording(RECORDING), 8)

    async def story() -> None:
        async with watching(slurm, tmp_path) as watched:
            for _ in slurm.follow():
                await watched.look()
            service = watched.service
            statuses = {number: service.store.job(int(number)) for number in slurm.truth}
            for number, row in statuses.items():
                truth, found = slurm.truth[number], row or {}
                expected = "finished" if truth["state"] == "COMPLETED" else "failed"
                assert (found["status"], found["started_at"]) == (expected, truth["start"]), number
                assert found["finished_at"] == pytest.approx(truth["end"], abs=1.0)
            events = list(service.store.each_event(0))
            account = await service.backend.accuracy(None, 0.0, "user", False)
            every, waited = account.beside_slurm
            assert every.slurm is not None
            assert (every.figures.promises, waited.figures.promises) == (156, 140)
            assert every.slurm.slurm.promises == 139
            assert every.figures.kept + every.figures.early + every.figures.late == 156
            # Models are fitted beside the looks, sooner or later: one job more or less.
            assert every.figures.kept == pytest.approx(121, abs=4)
            figures = (every.slurm.promises, every.slurm.slurm, every.slurm.limit)
            off_s = [each.err_p50_s for each in figures]
            assert off_s == pytest.approx([5970.0, 60_926.0, 7707.0], rel=0.05)
            kept = service.controller.scheduler.ledger.promise_errors.to_json()
            assert recovered(None, events).promise_errors.to_json() == kept
            assert any("believed_at" in event.data for event in events)

    asyncio.run(story())
