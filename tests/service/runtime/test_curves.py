"""The use of a run over its time, as the service answers: of a real run, and of files in which a job has written."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from betimes.client import AsyncClient
from betimes.service.executors.supervision.curve import MOST
from betimes.service.startup.bootstrap import running
from betimes.service.startup.config import ServiceConfig
from betimes.service.views.models import CurvesView
from tests.service.compiling.by_hand import before_listening
from tests.service.serving import PATIENCE_S, Serving

WORKS = """
import time
held = bytearray(80 << 20)
held[::4096] = bytes([1]) * len(held[::4096])
while True:
    time.process_time()
"""


@pytest.fixture
def it(tmp_path: Path) -> Iterator[Serving]:
    """A service with job 1, which began a while ago, and of which nothing is measured yet."""
    with closing(Serving(tmp_path, pages=True)) as served:
        served.start()
        served.ask(
            "POST",
            "/api/v1/jobs",
            json={"command": ["x"], "cpu": 2, "memory_gib": 4, "estimate_s": 7200},
        ).raise_for_status()
        served.pass_time(10.0)
        yield served


def curves(it: Serving, query: str = "") -> CurvesView:
    return CurvesView.model_validate_json(it.ask("GET", f"/api/v1/jobs/1/curves{query}").content)


def put(it: Serving, points: Any) -> Path:
    file = it.log(1).with_name("curve.json")
    file.write_text(points if isinstance(points, str) else json.dumps({"points": points}))
    return file


def page_of(it: Serving) -> str:
    """The page of job 1."""

    async def asked(http: httpx.AsyncClient) -> httpx.Response:
        await http.post("/sign-in", data={"token": it.token})
        return await http.get("/job/1")

    answer = it.run(asked)
    assert answer.status_code == 200
    return answer.text


def test_use_is_shown_per_stretch_beside_what_the_run_has(it: Serving) -> None:
    assert (curves(it).points, curves(it).not_measured) == (
        [],
        "it is measured from 2 s after its start on, on a real node with Linux",
    )
    put(it, [[2.0, 1.0, 2**30], [4.0, 5.0, 3 * 2**30], [8.0, 5.0, 2**29]])
    found = curves(it, "?attempt=1&rank=0")
    assert [(point.at, point.cores, point.memory_gib) for point in found.points] == [
        (2.0, 0.5, 1.0),
        (4.0, 2.0, 3.0),
        (8.0, 0.0, 0.5),
    ]
    assert (found.job_id, found.run, found.started_at, found.not_measured) == (1, 1, 0.0, None)
    assert (found.cores_asked, found.memory_asked_gib) == (2.0, 4.0)
    assert (found.cores_mean, found.memory_most_gib) == (5.0 / 8.0, 3.0)


def test_use_of_gpus_is_shown_where_it_was_measured(it: Serving) -> None:
    points = [[2.0, 1.0, 1], [4.0, 1.0, 1, 1.0, 2**30], [6.0, 1.0, 1], [8.0, 1.0, 1, 4.0, 3 * 2**30]]
    put(it, json.dumps({"points": points, "gpu_memory_bytes": 80 * 2**30}))
    found = curves(it)
    assert [(point.gpus, point.gpu_memory_gib) for point in found.points] == [
        (None, None),
        (0.5, 1.0),
        (None, None),
        (1.5, 3.0),
    ]
    assert (found.gpus_mean, found.gpu_memory_most_gib, found.gpu_memory_has_gib) == (1.0, 3.0, 80.0)
    page = page_of(it)
    assert page.count('class="curve"') == 4
    assert "3 GiB at most, of 80 GiB" in page
    assert "whole boards" in page


def test_nothing_is_said_of_gpus_where_they_were_not_measured(it: Serving) -> None:
    put(it, [[2.0, 1.0, 1]])
    assert (curves(it).gpus_mean, curves(it).gpu_memory_has_gib) == (None, None)
    assert page_of(it).count('class="curve"') == 2
    assert "GPU" not in page_of(it)  # it has asked for none


def test_what_there_is_no_use_of(it: Serving) -> None:
    it.ask("POST", "/api/v1/jobs", json={"command": ["x"], "hold": True}).raise_for_status()
    for path, why in (
        ("1/curves?attempt=2", "has had 1 attempts, and there is no attempt 2"),
        ("1/curves?rank=1", "no rank 1"),
        ("2/curves", "has not started yet"),
        ("7/curves", "there is no job 7"),
    ):
        answer = it.ask("GET", f"/api/v1/jobs/{path}")
        assert (answer.status_code, why in answer.json()["error"]["message"]) == (404, True), answer.text
    for query in ("attempt=0", "rank=-1", "rank=x", "tail=3"):
        assert it.ask("GET", f"/api/v1/jobs/1/curves?{query}").status_code == 422


def test_what_was_removed_with_the_output_is_not_an_error(it: Serving) -> None:
    folder = put(it, [[2.0, 1.0, 2**30]]).parent
    it.end_run(1)
    assert len(curves(it).points) == 1
    shutil.rmtree(folder)
    it.pass_time(30 * 86_400.0)
    assert it.ask("GET", "/api/v1/jobs/1/log").status_code == 404
    assert "its output was removed" in (curves(it).not_measured or "")


def to_a_link(file: Path) -> None:
    file.symlink_to("/dev/zero")


def to_another_file(file: Path) -> None:
    other = file.with_name("other")
    other.write_text(json.dumps({"points": [[2.0, 1.0, 5]]}))
    file.symlink_to(other)


FORGED = [
    "", "{", "[]", "null", '{"points": null}', '{"points": "abc"}', '{"points": {}}', "[" * 60_000, "\0", "\xff",
    [1], [[1, 2]], [[1, 2, 3, 4]], [[1, 2, None]], [["a", "b", "c"]], [[2.0, 1.0, [1]]],
    [[2.0, float("nan"), 1]], [[float("inf"), 1.0, 1]], [[2.0, 1e300, 1]], [[1e300, 1.0, 1]], [[2.0, 1.0, 10**400]],
    [[2.0, 1.0, 1, float("nan"), 1]], [[2.0, 1.0, 1, 1.0, -1]], [[2.0, 1.0, 1, 1.0, None]],
    '{"points": [[2, 1, 1, 1, 1]], "gpu_memory_bytes": -1}', '{"points": [[2, 1, 1]], "gpu_memory_bytes": []}',
    [[2.0, -1.0, 1]], [[2.0, 1.0, -1]], [[-2.0, 1.0, 1]], [[0.0, 1.0, 1]], [[5e-324, 1.0, 1]],
    [[4.0, 1.0, 1], [2.0, 1.0, 1]], [[2.0, 1.0, 1], [2.0, 1.0, 1]], [[2.0, 1.0, 1]] * 2**17,
    Path.mkdir, os.mkfifo, to_a_link, to_another_file,
]  # fmt: skip


@pytest.mark.parametrize("forged", FORGED, ids=range(len(FORGED)))
def test_whatever_a_job_puts_in_its_place_is_no_use(it: Serving, forged: Any) -> None:
    if callable(forged):
        file = put(it, "")
        file.unlink()
        forged(file)
    else:
        put(it, forged)
    assert (curves(it).points, curves(it).cores_mean) == ([], None)
    assert it.ask("GET", "/api/v1/jobs/1").status_code == 200


def test_what_a_job_makes_up_is_of_bounded_size_and_can_be_drawn(it: Serving) -> None:
    put(it, [[0.02 * (n + 1) + 5e8 * (n == MOST - 1), 1e14 * (n % 2), 10**14] for n in range(1000)])
    assert len(curves(it).points) == MOST

    assert page_of(it).count('class="curve"') == 2


def test_a_run_is_measured_while_the_service_is_away_too(tmp_path: Path) -> None:
    options = ServiceConfig(state=tmp_path / "state", kernels=before_listening())

    async def measured(client: AsyncClient, since_s: float) -> CurvesView:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                found = await client.curves(1)
                if found.points and found.points[-1].at - found.started_at > since_s:
                    return found
                await asyncio.sleep(0.1)

    async def first() -> CurvesView:
        async with running(options) as service, AsyncClient(service.url, service.token) as client:
            await client.submit(command=[sys.executable, "-c", WORKS], memory_gib=0.5, time_limit_s=600.0)
            return await measured(client, 0.0)

    async def again(before: CurvesView) -> CurvesView:
        async with running(options) as service, AsyncClient(service.url, service.token) as client:
            found = await measured(client, before.points[-1].at - before.started_at)
            await client.cancel(1)
            await client.wait(1, PATIENCE_S)
            after = await client.curves(1, attempt=1)
            assert (after.points[: len(found.points)], after.not_measured) == (found.points, None)
            return found

    before = asyncio.run(first())
    found = asyncio.run(again(before))
    assert found.points[: len(before.points)] == before.points
    assert (found.cores_asked, found.memory_asked_gib) == (1.0, 0.5)
    assert 0.05 < (found.cores_mean or 0.0) < 1.2  # of one thread, on a machine that may be busy
    assert 80 / 1024 < (found.memory_most_gib or 0.0) < 0.3
