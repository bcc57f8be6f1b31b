"""A search in a process of its own is the search that it would be here, and is gone when nobody waits for it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import numpy as np
import psutil
import pytest

from betimes import Workload
from betimes.cluster import Cluster
from betimes.errors import InputError
from betimes.foresight.tuning import SOLVERS, Front
from betimes.service.tuning.process import Order, search_in_process
from betimes.service.tuning.recent import Recent
from betimes.service.views.models import TuneSpec

DRAW = np.random.default_rng(1)
SIZES = np.round(DRAW.lognormal(4.0, 1.0, 40), 3)
JOBS = Workload.from_columns(
    submit_s=np.arange(40) * 20.0, work_s=SIZES, max_units=2, estimate_s=SIZES / 2.0, job_id=np.arange(1, 41)
)
SPEC = TuneSpec(objectives=["jct:avg", "wait:max"], evaluations=12, jobs=20, solver="random")
ORDER = Order(SPEC, Recent(JOBS, None), Cluster.uniform(2, cpu=2.0), 0.0, 0.0, False, ("fifo", "srsf"))
ENDLESS = replace(ORDER, spec=SPEC.model_copy(update={"evaluations": 1_000_000}))


def children() -> set[psutil.Process]:
    return set(psutil.Process().children(recursive=True))


def test_an_endless_search_is_stopped_with_the_front_so_far() -> None:
    before = children()
    told: list[dict[str, Any]] = []

    async def search() -> Front:
        stop = asyncio.Event()

        def hear(progress: dict[str, Any]) -> None:
            told.append(progress)
            if progress["done"] >= 100:
                stop.set()

        return await search_in_process(ENDLESS, hear, stop)

    front = asyncio.run(search())
    assert front.ended == "interrupted"
    assert 100 <= front.evaluations < 1_000_000
    assert [each.policy for each in front.baselines] == ["fifo", "srsf"]
    assert (front.jobs, front.train.jobs, front.pool_units, front.sizes) == (40, 20, 4, "estimate")
    assert told[0]["doing"] == "searching"
    assert told[-1]["doing"] == "judging"
    assert told[0]["hypervolume"] is None
    assert told[-1]["hypervolume"] > 0.0
    assert children() <= before


def test_a_search_that_is_given_up_leaves_no_process() -> None:
    before = children()
    seen: list[int] = []

    async def search() -> None:
        begun = asyncio.Event()
        going = asyncio.ensure_future(search_in_process(ENDLESS, lambda _: begun.set(), asyncio.Event()))
        await begun.wait()
        seen.extend(child.nice() for child in children() - before)
        going.cancel()
        await asyncio.gather(going, return_exceptions=True)

    asyncio.run(search())
    assert len(seen) == 1
    assert seen[0] > psutil.Process().nice()
    assert children() <= before


@pytest.mark.slow
def test_it_is_the_search_that_it_would_be_here_and_refuses_the_same() -> None:
    there = asyncio.run(search_in_process(ORDER, lambda _: None, asyncio.Event()))
    here = ORDER.carry_out(lambda: False, lambda _: None)
    assert (there.points, there.baselines, there.hypervolume) == (
        here.points,
        here.baselines,
        here.hypervolume,
    )
    short = replace(ORDER, spec=SPEC.model_copy(update={"budget_s": 1e-6}))
    with pytest.raises(InputError, match="too short for one evaluation"):
        asyncio.run(search_in_process(short, lambda _: None, asyncio.Event()))


def test_the_solvers_are_those_of_the_search() -> None:
    assert TuneSpec.model_json_schema()["properties"]["solver"]["enum"] == list(SOLVERS)
