"""As whom a user's jobs run, and who is at the other end of the Unix socket."""

from __future__ import annotations

import asyncio
import os
import pwd
import socket
import stat
from pathlib import Path
from typing import Any, cast

import pytest

from betimes.client import AsyncClient, Client
from betimes.client.plain import PlainClient
from betimes.errors import InputError, NotAllowed, ServiceError
from betimes.service.access.auth import Tokens
from betimes.service.access.peers import Peers, check_local, local_socket
from betimes.service.access.unix_users import own_name, owners_of_jobs, why_others_cannot_run
from betimes.service.api import create_app
from betimes.service.startup.config import ServiceConfig
from tests.service.serving import MemoryTokens, Serving, served

STATE = Path("/var/lib/betimes")


@pytest.fixture(params=[0, 54321])
def uid(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Of the service: root, and a user without an account."""
    monkeypatch.setattr(os, "geteuid", lambda: request.param)
    monkeypatch.setenv("LOGNAME", "somebody")
    return request.param


def test_the_services_own_jobs_run_as_the_service_and_those_of_others_as_they_or_not_at_all(uid: int) -> None:
    owners = owners_of_jobs(STATE, "somebody", is_here=True, all_as_service=False)

    assert owners.unix_user(own_name()) is owners.unix_user("somebody") is None
    owners.check("somebody")
    assert owners.unix_user("daemon") == "daemon"
    assert [owners.run_as_root(user) for user in ("root", "daemon", "ghost")] == [uid == 0, False, False]
    if uid == 0:
        owners.check("daemon")
        with pytest.raises(NotAllowed, match=r"no Unix user 'ghost', .* \(betimes up --run-as-me\)"):
            owners.check("ghost")
    else:
        with pytest.raises(
            NotAllowed, match=r"a job of daemon cannot run: the service runs as somebody and not as root"
        ):
            owners.check("daemon")


def test_root_runs_no_job_as_itself_because_its_environment_has_a_users_name(uid: int) -> None:
    owners = owners_of_jobs(STATE, "daemon", is_here=True, all_as_service=False)

    assert owners.unix_user("daemon") == ("daemon" if uid == 0 else None)


def test_who_is_told_to_runs_all_jobs(uid: int) -> None:
    owners = owners_of_jobs(STATE, "somebody", is_here=False, all_as_service=True)

    assert owners.unix_user("daemon") is None
    owners.check("ghost")


def test_on_other_machines_jobs_of_others_are_refused(uid: int) -> None:
    owners = owners_of_jobs(STATE, "somebody", is_here=False, all_as_service=False)

    with pytest.raises(NotAllowed, match="on the machines of a Ray cluster, and on rented ones"):
        owners.check("daemon")


def test_a_state_directory_that_others_cannot_pass_to_is_no_place_for_their_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    tmp_path.chmod(0o700)
    owners = owners_of_jobs(tmp_path / "state", "somebody", is_here=True, all_as_service=False)

    with pytest.raises(
        NotAllowed, match=r"other users than root cannot enter /.*\(--service /var/lib/betimes\)"
    ):
        owners.check("daemon")


def test_a_python_behind_a_closed_folder_is_not_for_other_users(tmp_path: Path) -> None:
    assert why_others_cannot_run("/bin/sh") is None

    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    for program in (closed / "python", tmp_path / "python"):  # in the folder, and a link to what is in it
        program.symlink_to("/bin/sh" if program.parent == closed else closed / "python")
        why = why_others_cannot_run(str(program))
        assert why is not None
        assert f"cannot run {program}" in why
        assert "is closed to them (mode 700)" in why


@pytest.mark.parametrize("admits_any", [False, True])
def test_a_peer_is_whom_the_service_knows(admits_any: bool) -> None:
    users = {"daemon": ("viewer", False), "bin": ("user", True)}
    peers = Peers("ada", users.get, admits_any)

    def role(name: str) -> str:
        return asyncio.run(peers.caller(pwd.getpwnam(name).pw_uid)).role

    assert asyncio.run(peers.caller(os.geteuid())).user == "ada"
    assert role("root") == "operator"
    assert role("daemon") == "viewer"
    with pytest.raises(NotAllowed, match=r"user bin is disabled here"):
        role("bin")
    if admits_any:
        assert role("nobody") == "user"
    else:
        with pytest.raises(
            NotAllowed, match=r"nobody is no user of this service; .*\(betimes users add nobody\)"
        ):
            role("nobody")
    with pytest.raises(NotAllowed, match="the Unix user 54321 has no account"):
        asyncio.run(peers.caller(54321))


@pytest.mark.parametrize("admits_any", [False, True])
def test_a_peer_holds_on_until_its_role_changes_and_root_does_in_any_case(admits_any: bool) -> None:
    users = {"daemon": ("user", False), "root": ("viewer", True)}
    peers = Peers("ada", users.get, admits_any)
    context = create_app(cast(Any, None), Tokens(MemoryTokens()), peers=peers).state.context
    root, daemon = (asyncio.run(peers.caller(pwd.getpwnam(name).pw_uid)) for name in ("root", "daemon"))
    assert context.still_holds(daemon)
    for standing in (("viewer", False), ("user", True)):
        users["daemon"] = standing
        assert not context.still_holds(daemon)
    assert context.still_holds(root)


def test_a_peer_with_the_name_under_which_the_services_own_jobs_go_is_not_taken_for_that() -> None:
    peers = Peers("daemon", lambda _: None, admits_any=True)

    assert asyncio.run(peers.caller(os.geteuid())).user == "daemon"
    with pytest.raises(NotAllowed, match="takes daemon for the name of its own user, who is another"):
        asyncio.run(peers.caller(pwd.getpwnam("daemon").pw_uid))


def test_a_client_needs_no_token_at_the_socket_and_a_token_counts_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BETIMES_TOKEN", raising=False)
    it, url = Serving(tmp_path, peers=Peers("ada", lambda _: None, False)), f"unix:{tmp_path}/socket"

    def ask() -> None:
        with Client(url) as client:
            assert client.submit(command=["true"]).job_id == 1
        with PlainClient() as client:
            assert client.job(1).job.user == "ada"
        with Client(url, "none that is known") as client, pytest.raises(NotAllowed, match="unknown"):
            client.job(1)

    async def scenario() -> None:
        async with served(it, tmp_path, local=tmp_path / "socket") as tcp:
            monkeypatch.setenv("BETIMES_URL", url)
            await asyncio.to_thread(ask)
            async with AsyncClient() as client:
                assert (await client.job(1)).job.user == "ada"
            async with AsyncClient(tcp) as client:
                with pytest.raises(NotAllowed, match="a token is needed"):
                    await client.job(1)

    asyncio.run(scenario())
    assert not (tmp_path / "socket").exists()


def test_a_socket_left_by_a_killed_service_is_replaced_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "made" / "socket"
    with local_socket(path):
        assert path.stat().st_mode & 0o777 == 0o666
        with pytest.raises(ServiceError, match=f"another service listens at {path}"), local_socket(path):
            pass
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    with local_socket(path):
        pass
    path.write_text("a file")
    with pytest.raises(InputError, match="that is no socket"), local_socket(path):
        pass
    assert path.read_text() == "a file"


@pytest.mark.parametrize("mode", [0o1777, 0o777, 0o775, 0o757])
def test_a_socket_is_where_no_other_can_replace_it(tmp_path: Path, mode: int) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(mode)
    why, path = f"others may write the folder {tmp_path}/open, and", tmp_path / "open" / "socket"
    with pytest.raises(InputError, match=why), local_socket(path):
        pass
    assert not (tmp_path / "open" / "socket").exists()
    (tmp_path / "open").chmod(mode | stat.S_ISVTX)  # others cannot rename what is in it
    with local_socket(tmp_path / "open" / "mine" / "socket"):
        pass


def test_a_socket_must_be_where_others_can_reach_it(uid: int) -> None:
    if uid == 0:
        assert check_local(None) == Path("/run/betimes/socket")
    else:
        with pytest.raises(InputError, match=r"say where the socket is to be \(--socket FILE\)"):
            check_local(None)
    with pytest.raises(InputError, match="has at most 107 bytes"):
        check_local(Path("/tmp", "x" * 104))
    with pytest.raises(InputError, match=r"say who may use it \(--local-users known, or any\)"):
        ServiceConfig(socket=Path("/tmp/x"))
