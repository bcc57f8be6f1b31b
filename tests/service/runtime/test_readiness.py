"""Whether work can be taken is tried out, whatever was or was not asked of the store before."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
from sqlalchemy import make_url

from betimes.client import AsyncClient
from betimes.errors import StoreFull
from betimes.service.machines.machine import Machine
from betimes.service.runtime.health import Readiness
from betimes.service.startup.bootstrap import Service, running
from betimes.service.startup.config import ServiceConfig
from betimes.service.store.batch import Batch
from betimes.service.store.writing import Writer
from tests.service.store.conftest import postgres_server, postgres_url
from tests.service.store.relay import Relay
from tests.service.store.sessions import end_sessions

__all__ = ["postgres_server", "postgres_url"]

MACHINE = Machine("n-0", "virtual", "n", 4.0, 8.0, 0.0)


class Trying:
    """Counts how often a store is tried, and does not answer before it may."""

    def __init__(self) -> None:
        self.tried = 0
        self.fails: Exception | None = None
        self.may_answer = threading.Event()
        self.may_answer.set()

    def probe(self) -> None:
        self.tried += 1
        self.may_answer.wait()
        if self.fails is not None:
            raise self.fails


def test_a_store_that_takes_nothing_is_found_out_by_itself() -> None:
    async def main() -> None:
        store = Trying()
        assert await Readiness(store.probe).problem() is None
        store.fails = StoreFull("the disk is full")
        assert await Readiness(store.probe).problem() == "the disk is full"

    asyncio.run(main())


def test_whoever_asks_again_and_again_costs_one_try(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        store = Trying()
        readiness = Readiness(store.probe)
        await asyncio.gather(*(readiness.problem() for _ in range(20)))
        assert await readiness.problem() is None
        assert store.tried == 1
        monkeypatch.setattr("betimes.service.runtime.health.FRESH_S", 0.0)
        store.fails = StoreFull("the disk is full")
        assert await readiness.problem() == "the disk is full"

    asyncio.run(main())


def test_a_store_that_does_not_answer_is_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        monkeypatch.setattr("betimes.service.runtime.health.PATIENCE_S", 0.01)
        store = Trying()
        store.may_answer.clear()
        readiness = Readiness(store.probe)
        try:
            assert await readiness.problem() == "the store has not answered for 0.01 s"
            assert await readiness.problem() == "the store has not answered for 0.01 s"
            assert store.tried == 1
        finally:
            store.may_answer.set()

    asyncio.run(main())


async def at_rest(service: Service) -> None:
    """Return when nothing is being written: a session that ends in the middle of a write is noticed."""
    while True:
        resting = asyncio.ensure_future(service.controller.at_rest.wait())
        await asyncio.wait((resting, service.failed), return_when=asyncio.FIRST_COMPLETED)
        resting.cancel()
        assert not service.failed.done()
        if not service.backend.promises.late:
            return
        await asyncio.sleep(0.001)


def test_a_server_that_was_restarted_is_not_noticed(postgres_url: str, tmp_path: Path) -> None:
    async def main() -> None:
        options = ServiceConfig(state=tmp_path, database=postgres_url, machines=[MACHINE])
        async with running(options) as service, AsyncClient(service.url, service.token) as client:
            await at_rest(service)
            await asyncio.to_thread(end_sessions, postgres_url)
            taken = await client.submit(command=["x"], env={"VIRTUAL_WORK_S": "1000"})
            assert taken.job_id == 1
            await at_rest(service)
            await asyncio.to_thread(end_sessions, postgres_url)
            assert (await client.health()).ready
            assert (await client.submit(command=["x"])).job_id == 2

    asyncio.run(main())


def test_a_server_that_is_restarted_during_the_first_write_gets_it_again(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, is_first = Writer.write, True

    def write_late(self: Writer, batch: Batch) -> None:
        nonlocal is_first
        if batch.events and is_first:
            is_first = False
            end_sessions(postgres_url)
        write(self, batch)

    async def main() -> None:
        options = ServiceConfig(state=tmp_path, database=postgres_url, machines=[MACHINE])
        async with running(options) as service, AsyncClient(service.url, service.token) as client:
            await at_rest(service)
            assert (await client.submit(command=["x"])).job_id == 1
            assert [node.name for node in await client.nodes()] == [MACHINE.name]

    monkeypatch.setattr(Writer, "write", write_late)
    asyncio.run(main())
    assert not is_first


def test_a_server_that_is_away_is_noticed_before_a_request_fails(postgres_url: str, tmp_path: Path) -> None:
    async def main(relay: Relay) -> None:
        url = make_url(postgres_url).update_query_dict({"host": str(relay.folder)})
        options = ServiceConfig(
            state=tmp_path, database=url.render_as_string(hide_password=False), machines=[MACHINE]
        )
        async with running(options) as service, AsyncClient(service.url, service.token) as client:
            assert (await client.health()).ready
            relay.shut_out()
            async with asyncio.timeout(60):
                while (health := await client.health()).ready:
                    await asyncio.sleep(0.05)
            assert "no connection" in health.problems[0]
            relay.let_in()
            async with asyncio.timeout(60):
                while not (await client.health()).ready:
                    await asyncio.sleep(0.05)
            assert (await client.submit(command=["x"])).job_id == 1

    with Relay(tmp_path, make_url(postgres_url).query["host"]) as relay:
        asyncio.run(main(relay))
