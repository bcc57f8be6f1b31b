"""Users of a service and their tokens."""

from __future__ import annotations

from pathlib import Path

import pytest

from betimes.service.access.auth import Caller, Tokens
from betimes.service.access.unix_users import Owners
from betimes.service.runtime.retention import keep_snapshot
from betimes.service.scheduling.fold import recovered
from betimes.service.spec.users import User, UserLimits
from betimes.service.views.models import UserView
from tests.service.api.sharing import Shared, share

pytestmark = pytest.mark.usefixtures("no_fits")


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
        assert users["ada"] == User(name="ada", role="operator", weight=2.0, limits=limits)
        assert UserView(**changed).limits == limits
        assert users["bob"] == User(name="bob", role="viewer", disabled=True)
        listed = (await service.done("GET", "/users"))["users"]
        assert [{name: one[name] for name in User.model_fields} for one in listed] == [
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
        assert recovered(None, store.each_event()).users == users
        keep_snapshot(store, store.last_event_id(), 60.0)
        snapshot = store.latest_snapshot()
        assert snapshot is not None
        assert recovered(snapshot.body, []).users == users
        assert recovered(snapshot.body, []).copied().users == users

    share(talk, tmp_path)


def test_who_has_no_account_where_jobs_run_as_unix_users_is_known_at_once(tmp_path: Path) -> None:
    async def talk(service: Shared) -> None:
        launches = service.backend.controller.launches
        launches.owners = Owners(tmp_path)
        added = await service.done("POST", "/users", json={"name": "no-such-account"})
        assert added["note"].startswith("this machine has no Unix user 'no-such-account', as whom")
        token = await service.done("POST", "/tokens", json={"user": "no-such-account"})
        assert token["note"] == added["note"]
        watches = await service.done("POST", "/users", json={"name": "no-such-viewer", "role": "viewer"})
        assert watches["note"] is None
        launches.owners = Owners(tmp_path, all_as_service=True)
        assert (await service.done("POST", "/users", json={"name": "nor-this"}))["note"] is None

    share(talk, tmp_path)


BAD = [
    ("POST", "", {"name": "ada"}, 409, "`betimes users set ada` changes it"),
    ("POST", "", {"name": "eve", "weight": 0}, 422, "weight: 0 is too small; give 0.001 or more"),
    ("POST", "", {"name": "operator"}, 422, "name: 'operator' is no name here"),
    ("POST", "", {"name": "a b"}, 422, "name: 'a b' is no name here"),
    ("POST", "", {"name": "eve", "role": "root"}, 422, "role: 'root' is not known"),
    (
        "POST",
        "",
        {"name": "eve", "limits": {"max_jobs": 1}},
        422,
        "unknown field 'max_jobs' (did you mean 'max_",
    ),
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


def test_tokens_of_users_end_and_are_revoked(tmp_path: Path) -> None:
    async def talk(service: Shared) -> None:
        now_at = 1000.0
        service.tokens.now = lambda: now_at
        assert (await service.ask("POST", "/tokens", json={"user": "ada"})).status_code == 404
        await service.done("POST", "/users", json={"name": "ada", "role": "user"})
        made = await service.done(
            "POST", "/tokens", json={"user": "ada", "name": "laptop", "expires_s": 50.0}
        )
        token = made["token"]
        assert made["kept"] == {
            "user": "ada", "name": "laptop", "made_at": 1000.0, "expires_at": 1050.0, "used_at": None,
            "revoked_at": None,
        }  # fmt: skip
        assert service.tokens.caller(token) == Caller("ada", "user")
        again = await service.ask("POST", "/tokens", json={"user": "ada", "name": "laptop"})
        assert (again.status_code, "revoke it first" in again.text) == (409, True)
        now_at = 1030.0
        assert (await service.ask("GET", "/jobs", token)).status_code == 200
        kept = await service.done("GET", "/tokens", params={"user": "ada"})
        assert (kept["tokens"][0]["used_at"], token in str(kept)) == (1030.0, False)
        now_at = 1050.0
        assert (await service.ask("GET", "/jobs", token)).status_code == 401
        token = (await service.done("POST", "/tokens", json={"user": "ada", "name": "laptop"}))["token"]
        # What holds of the user holds at once.
        for changes, caller in (
            ({"disabled": True}, None),
            ({"disabled": False, "role": "operator"}, Caller("ada", "operator")),
            ({"role": "viewer"}, Caller("ada", "viewer")),
        ):
            await service.done("PATCH", "/users/ada", json=changes)
            assert service.tokens.caller(token) == caller
        await service.done("DELETE", "/tokens/ada/laptop")
        assert service.tokens.caller(token) is None
        assert Tokens(service.assembly.store, service.backend.role_of).caller(token) is None
        assert (await service.ask("DELETE", "/tokens/ada/laptop")).status_code == 404
        events = (await service.done("GET", "/events", params={"kind": ["token-made", "token-revoked"]}))[
            "items"
        ]
        assert [(event["kind"], event["cause"], event["data"]["name"]) for event in events] == [
            (kind, "user:root", "laptop") for kind in ("token-made", "token-made", "token-revoked")
        ]

    share(talk, tmp_path)


def test_who_asks_is_said_by_the_service(tmp_path: Path) -> None:
    async def talk(service: Shared) -> None:
        told = await service.done("GET", "/me", token=service.tokens.new("ada"))
        assert told == {"user": "ada", "role": "operator"}
        assert (await service.ask("GET", "/me", token="unknown")).status_code == 401

    share(talk, tmp_path)
