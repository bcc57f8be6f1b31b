"""The service's own recent workload is what its jobs were and what they took."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest

from betimes.errors import Conflict
from betimes.service.spec.job_spec import Curve
from betimes.service.tuning.recent import Recent, recent
from tests.service.tuning.living import House, spec

CURVE = Curve(speedup={2: 1.5, 4: 2.0})


def test_sizes_are_what_jobs_took_and_else_what_is_believed(tmp_path: Path) -> None:
    house = House(tmp_path)

    async def live() -> Recent:
        arrivals = [
            (0.0, spec(60.0, estimate_s=500.0)),  # believed to take longer than it did
            (5.0, spec(30.0, min_units=1, max_units=4, curve=CURVE, estimate_s=10.0, name="elastic")),
            (7.0, spec(80.0, max_units=2, curve="amdahl:0.5")),
            (9.0, spec(90.0, min_units=2, max_units=2, gpu=0.0, cpu=1.0, memory_gib=0.5, qos="trial")),
        ]
        async with house.open(arrivals):
            await house.all_over()
            with house.clock.hold():
                gone, waits = await house.submit(70.0, 40.0, hold=True)
                await house.backend.steer("cancel", [gone], "ann")
                working = {}
                assert house.controller.scheduler.ledger.jobs[waits].account is None
                return await asyncio.to_thread(recent, house.store, 10, working)

    found = asyncio.run(live())
    jobs = found.workload
    assert jobs.job_id.tolist() == [1, 2, 3, 4, 6]  # 5 took nothing
    assert jobs.submit_s[:4].tolist() == [0.0, 5.0, 7.0, 9.0]
    # What a virtual job has to do is work on one unit, but its speed is its width where it says nothing else.
    np.testing.assert_allclose(jobs.work_s[[0, 4]], [60.0, 40.0])
    assert jobs.estimate_s.tolist() == [500.0, 10.0, 80.0, 90.0, 40.0]
    assert jobs.max_units.tolist() == [1, 4, 2, 2, 1]
    assert jobs.min_units.tolist() == [1, 1, 1, 2, 1]
    assert jobs.qos.tolist() == [0, 0, 0, 1, 0]
    assert jobs.memory_gib[3] == 0.5
    assert found.curves is not None
    assert found.curves.row("measured-1")[:5].tolist() == [0.0, 1.0, 1.5, 1.75, 2.0]
    assert jobs.curve_names[jobs.curve[1]] == "measured-1"
    assert jobs.curve_names[jobs.curve[2]] == "amdahl:0.5"
    np.testing.assert_allclose(found.wanted_unit_s[3], jobs.work_s[3])


def test_only_the_last_ones_count_and_work_that_is_believed_now(tmp_path: Path) -> None:
    house = House(tmp_path)

    async def live() -> Recent:
        async with house.open([(float(at), spec(10.0 + at)) for at in range(30)]):
            await house.all_over()
            with house.clock.hold():
                (waits,) = await house.submit(40.0, hold=True)
                return await asyncio.to_thread(recent, house.store, 4, {waits: 77.0})

    jobs = asyncio.run(live()).workload
    assert jobs.job_id.tolist() == [28, 29, 30, 31]
    np.testing.assert_allclose(jobs.work_s, [37.0, 38.0, 39.0, 77.0])
    assert jobs.submit_s[0] == 0.0


def test_jobs_that_were_cancelled_since_and_trials_take_no_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("betimes.service.tuning.recent.A_PAGE", 7)
    house = House(tmp_path)

    async def live() -> Recent:
        async with house.open([(float(at), spec(10.0 + at)) for at in range(10)]):
            await house.all_over()
            with house.clock.hold():
                gone = await house.submit(*(50.0 for _ in range(30)), hold=True)
                await house.backend.steer("cancel", gone, "ann")
                asked = spec(5.0, hold=True, array="1-20", as_one=True)
                ((whole,),) = [[one.job_id] for one in await house.backend.submit([asked], "ann")]
                assert whole == 41
                return await asyncio.to_thread(recent, house.store, 5, {})

    assert asyncio.run(live()).workload.job_id.tolist() == [7, 8, 9, 10, 41]


@pytest.mark.parametrize("jobs", [0, 1])
def test_fewer_than_two_jobs_are_refused(tmp_path: Path, jobs: int) -> None:
    house = House(tmp_path)

    async def live() -> None:
        async with house.open():
            if jobs:
                await house.submit(10.0)
            await asyncio.to_thread(recent, house.store, 10, {})

    with pytest.raises(Conflict, match="needs at least two; submit some and ask again"):
        asyncio.run(live())
