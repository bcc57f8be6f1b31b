"""Too many requests of one token are refused, and clients wait; an operator on this machine notices nothing."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from betimes.client import Client
from betimes.client.plain import PlainClient
from betimes.service.access import pace
from betimes.service.access.pace import Buckets, Pace
from tests.service.api.conftest import Serve
from tests.service.serving import Background, Serving


def test_a_bucket_fills_again_and_is_each_tokens_own(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 100.0
    buckets = Buckets(Pace(2.0, 3.0), lambda: now_s)
    assert [buckets.take("a") for _ in range(4)] == [0.0, 0.0, 0.0, 0.5]
    assert buckets.take("b") == 0.0
    now_s += 0.25  # half a request is there again; those that were refused have taken nothing
    assert buckets.take("a") == 0.25
    now_s += 0.25
    assert [buckets.take("a"), buckets.take("a")] == [0.0, 0.5]
    now_s += 1e6
    assert [buckets.take("a") for _ in range(4)] == [0.0, 0.0, 0.0, 0.5]
    monkeypatch.setattr(pace, "MOST_BUCKETS", 2)
    buckets.take("c")
    assert buckets.take("a") == 0.5, "whoever asked longest ago is forgotten, which is b"


def asked(it: Serving, host: str, times: int) -> list[httpx.Response]:
    async def main(_: httpx.AsyncClient) -> list[httpx.Response]:
        transport = httpx.ASGITransport(it.app, client=(host, 1))
        async with httpx.AsyncClient(
            transport=transport, base_url="http://127.0.0.1", headers=it.headers
        ) as http:
            return [await http.get("/api/v1/nodes") for _ in range(times)]

    return it.run(main)


def test_only_others_and_other_machines_are_limited(serve: Serve) -> None:
    it = serve(pace=Pace(0.001, 3.0))
    assert [answer.status_code for answer in asked(it, "127.0.0.1", 10)] == [200] * 10
    answers = asked(it, "10.0.0.7", 5)
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429, 429]
    assert answers[-1].json()["error"]["code"] == "too-many"
    assert 990 <= int(answers[-1].headers["retry-after"]) <= 1000
    assert asked(serve(), "10.0.0.7", 10)[-1].status_code == 200


def test_clients_wait_and_try_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("betimes.service.api.context.is_loopback", lambda _: False)
    it = Serving(tmp_path / "service", pace=Pace(10.0, 2.0))
    with Background(it, tmp_path)():
        for client, submitted in ((Client, 4), (PlainClient, 8)):
            with client(state=tmp_path) as service:
                jobs = [service.submit(command=["true"]).job_id for _ in range(4)]
                assert len({*jobs}) == 4
                assert service.nodes()
                assert len(service.jobs().items) == submitted, (
                    "what was refused was not done, and then was, once"
                )
