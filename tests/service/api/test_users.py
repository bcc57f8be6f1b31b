"""A service that people share: who they are."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from betimes.service.access.auth import Tokens
from betimes.service.api import create_app
from betimes.service.machines.machine import Machine
from betimes.service.runtime.clock import VirtualClock
from betimes.service.runtime.retention import keep_snapshot
from betimes.service.scheduling.ledger import Ledger
from betimes.service.spec.users import User, UserLimits
from betimes.service.startup.in_memory import Assembly, assembled

pytestmark = pytest.mark.usefixtures("no_fits")


class Shared:
    """A service in memory on four cores, and a client for the holder of each token."""

    def __init__(self, assembly: Assembly) -> None:
        self.assembly, self.tokens = assembly, Tokens(assembly.store)
        self.backend = assembly.backend
        self.app = create_app(self.backend, self.tokens)
        self.operator = self.tokens.new("root")

    async def ask(self, method: str, path: str, token: str = "", **options: Any) -> httpx.Response:
        """The answer to a request; by default the operator's."""
        headers = {"Authorization": f"Bearer {token or self.operator}"}
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
            return await http.request(method, f"/api/v1{path}", headers=headers, **options)

    async def done(self, method: str, path: str, token: str = "", **options: Any) -> Any:
        """The answer to a request that is carried out."""
        response = await self.ask(method, path, token, **options)
        assert response.is_success, response.text
        return response.json()


def share(conversation: Callable[[Shared], Awaitable[None]], folder: Path) -> None:
    """Carry out a conversation with a service."""

    @asynccontextmanager
    async def shared() -> AsyncIterator[Shared]:
        machine = Machine("here", "virtual", "here", 4.0, 16.0, 0.0)
        async with assembled([machine], "fifo", folder, clock=VirtualClock(0.0, 0.0)) as assembly:
            await assembly.settle()
            yield Shared(assembly)

    async def run() -> None:
        async with shared() as service:
            await conversation(service)

    asyncio.run(run())


def test_users_are_added_and_changed_by_events(tmp_path: Path) -> None:
    async def talk(service: Shared) -> None:
        assert await service.done("GET", "/users") == {"users": []}
        ada = {"name": "ada", "weight": 2.0, "limits": {"max_units": 8, "max_memory_gib": 64.0}}
        await service.done("POST", "/users", json=ada)
        await service.done("POST", "/users", json={"name": "bob", "role": "viewer"})
        changes = {"role": "operator", "limits": {"max_units": None, "max_queued_jobs": 5}}
        changed = await service.done("PATCH", "/users/ada", json=changes)
        await service.done("PATCH", "/users/ada", json={"weight": 2.0})  # as it is: no event
        await service.done("PATCH", "/users/bob", json={"disabled": True})
        users = service.backend.scheduler.ledger.users
        limits = UserLimits(max_queued_jobs=5, max_memory_gib=64.0)
        assert users["ada"] == User(name="ada", role="operator", weight=2.0, limits=limits) == User(**changed)
        assert users["bob"] == User(name="bob", role="viewer", disabled=True)
        assert (await service.done("GET", "/users"))["users"] == [
            user.model_dump(mode="json") for user in (users["ada"], users["bob"])
        ]
        events = (await service.done("GET", "/events", params={"kind": "user-set"}))["items"]
        assert [(event["cause"], event["data"]["user"]) for event in events] == [
            ("user:root", name) for name in ("ada", "bob", "ada", "bob")
        ]
        assert events[-1]["data"] == {
            "user": "bob", "role": "viewer", "weight": 1.0, "limits": {}, "disabled": True,
        }  # fmt: skip
        # The log and a snapshot bring them back.
        store = service.assembly.store
        assert Ledger.recovered(None, store.each_event()).users == users
        keep_snapshot(store, store.last_event_id(), 60.0)
        snapshot = store.latest_snapshot()
        assert snapshot is not None
        assert Ledger.recovered(snapshot.body, []).users == users
        assert Ledger.recovered(snapshot.body, []).copied().users == users

    share(talk, tmp_path)


BAD = [
    ("POST", "", {"name": "ada"}, 409, "`betimes users set ada` changes it"),
    ("POST", "", {"name": "eve", "weight": 0}, 422, "weight: 0 is too small; give 0.001 or more"),
    ("POST", "", {"name": "operator"}, 422, "name: 'operator' is no name of a user"),
    ("POST", "", {"name": "a b"}, 422, "name: 'a b' is no name of a user"),
    ("POST", "", {"name": "eve", "role": "root"}, 422, "role: 'root' is not known"),
    ("POST", "", {"name": "eve", "limits": {"max_jobs": 1}}, 422, "limits.max_jobs: unknown field"),
    ("PATCH", "/eve", {"weight": 2}, 404, "there is no user 'eve'"),
    ("PATCH", "/ada", {"limits": {"max_units": 2}}, 422, "2 is less than the 3 units that ada has now"),
    ("PATCH", "/ada", {"limits": {"max_running_jobs": 1}}, 422, "less than the 2 running jobs"),
    ("PATCH", "/ada", {"limits": {"max_memory_gib": 2.5}}, 422, "less than the 3 GiB of memory"),
]


def test_bad_users_are_refused_and_change_nothing(tmp_path: Path) -> None:
    async def talk(service: Shared) -> None:
        await service.done("POST", "/users", json={"name": "ada"})
        for user, units in (("ada", 1), ("ada", 2), ("bob", 1), ("ada", 1)):  # the last one waits
            asked = {"command": ["x"], "memory_gib": 1.0, "min_units": units, "max_units": units}
            await service.done("POST", "/jobs", token=service.tokens.new(user), json=asked)
        before = service.assembly.store.last_event_id()
        for method, path, asked, status, text in BAD:
            response = await service.ask(method, f"/users{path}", json=asked)
            message = response.json()["error"]["message"]
            assert (response.status_code, text in message) == (status, True), message
        assert service.assembly.store.last_event_id() == before
        at_once = {"max_units": 3, "max_running_jobs": 2, "max_memory_gib": 3.0}
        await service.done("PATCH", "/users/ada", json={"limits": at_once})

    share(talk, tmp_path)
