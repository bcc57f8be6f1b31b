"""What is too large is refused, however it is sent, and read no further."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from betimes.service.api import Limits
from tests.service.api.conftest import Serve
from tests.service.serving import Serving

SMALL = Limits(job_bytes=1000, batch_bytes=10_000)
JSON = {"Content-Type": "application/json"}


def job(size: int) -> bytes:
    """A job whose JSON has so many bytes."""
    empty = len(json.dumps({"command": [""]}))
    return json.dumps({"command": ["x" * (size - empty)]}).encode()


def chunked(it: Serving, body: bytes, path: str = "/api/v1/jobs", method: str = "POST") -> tuple[int, int]:
    """Send in chunks without a Content-Length: the status, and how many bytes were taken."""
    taken = 0

    async def chunks() -> AsyncIterator[bytes]:
        nonlocal taken
        for start in range(0, len(body), 100):
            taken += 100
            yield body[start : start + 100]

    return it.ask(method, path, content=chunks(), headers=JSON).status_code, taken


@pytest.mark.parametrize("path", ["/api/v1/jobs", "/api/v1/quote"])
def test_a_job_has_a_size(serve: Serve, path: str) -> None:
    it = serve(limits=SMALL)
    assert it.ask("POST", path, content=job(1000), headers=JSON).is_success
    for status in (
        it.ask("POST", path, content=job(1001), headers=JSON).status_code,
        chunked(it, job(1001), path)[0],
    ):
        assert status == 413


def test_so_has_a_batch_and_every_job_in_it(serve: Serve) -> None:
    it = serve(limits=SMALL)

    def batch(*sizes: int) -> Any:
        body = b'{"jobs": [' + b",".join(job(size) for size in sizes) + b"]}"
        return it.ask("POST", "/api/v1/jobs", content=body, headers=JSON)

    assert batch(*[900] * 10).status_code == 201
    assert batch(*[900] * 12).status_code == 413
    found = batch(900, 1200)
    assert found.status_code == 413
    assert found.json()["error"]["code"] == "too-large"
    assert "jobs[1]" in found.json()["error"]["message"]
    assert len(it.jobs()) == 10


def test_the_rest_of_what_is_far_too_large_is_not_read(serve: Serve) -> None:
    it = serve(limits=SMALL)
    for method, path in [
        ("PUT", "/api/v1/policy"),
        ("POST", "/api/v1/jobs/cancel"),
        ("POST", "/api/v1/nodes"),
    ]:
        status, taken = chunked(it, b" " * 1_000_000, path, method)
        assert status == 413
        assert taken <= 2 * SMALL.job_bytes + 200


def test_a_large_batch_leaves_others_their_turn(standing: Serving) -> None:
    body = {"jobs": [{"command": ["true"]}] * 9999 + [{"command": ["true"], "cpu": 64}]}
    turns = 0

    async def both(http: httpx.AsyncClient) -> None:
        nonlocal turns
        batch = asyncio.ensure_future(http.post("/api/v1/jobs", json=body))
        while not batch.done():
            await asyncio.sleep(0)
            turns += 1
        assert (await batch).json()["error"]["field"] == "jobs[9999].cpu"

    standing.run(both)
    assert turns >= 10_000 / 200


def test_a_url_and_headers_have_sizes(standing: Serving) -> None:
    it = standing
    assert it.ask("GET", "/api/v1/jobs", params={"name": "x" * 200}).is_success
    found = it.ask("GET", "/api/v1/jobs?name=" + "x" * 8192)
    assert (found.status_code, found.json()["error"]["code"]) == (414, "too-large")
    assert "the URL has at most 8192 bytes here" in found.json()["error"]["message"]
    found = it.ask("GET", "/api/v1/jobs", headers={f"X-{n}": "x" * 1000 for n in range(20)})
    assert (found.status_code, found.json()["error"]["code"]) == (431, "too-large")


def test_half_a_body_is_not_waited_for(serve: Serve) -> None:
    it = serve(limits=Limits(pause_s=0.1))

    async def chunks() -> AsyncIterator[bytes]:
        yield b'{"command": '
        await asyncio.sleep(60)

    found = it.ask("POST", "/api/v1/jobs", content=chunks(), headers=JSON)
    assert (found.status_code, found.json()["error"]["code"]) == (408, "too-slow")
