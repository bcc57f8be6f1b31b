"""A service is found by its state directory, and its token is shown to nobody else."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from betimes.client import Client
from betimes.errors import InputError, NotReachable
from betimes.files import write_private
from betimes.service.access import address
from betimes.service.access.address import (
    Address,
    Found,
    default_state,
    find_service,
    read_address,
    remove_address,
    write_address,
)
from betimes.service.access.host_names import is_loopback


@pytest.fixture
def state(tmp_path: Path) -> Path:
    write_address(tmp_path / "state", "http://127.0.0.1:8123")
    write_private(tmp_path / "state" / "token", "secret\n")
    return tmp_path / "state"


@pytest.mark.parametrize("text", ["/some/state", "state", "127.0.0.1:8123"])
def test_what_is_no_url_is_refused(text: str) -> None:
    with pytest.raises(
        InputError, match=r"url .* is no URL: give http://HOST:PORT, unix:/PATH/OF/ITS/SOCKET, or a state"
    ):
        find_service(text)
    with pytest.raises(InputError, match=r"BETIMES_URL .* is no URL"):
        find_service(environ={"BETIMES_URL": text})
    with pytest.raises(InputError, match="is no URL"):
        Client(text)


@pytest.mark.parametrize("text", ["http://", "http://[", "https:///x"])
def test_a_url_without_a_host_is_none(text: str) -> None:
    with pytest.raises(InputError, match="is no URL"):
        find_service(text)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of the machine's shared service, which is there, in a home without a service."""
    monkeypatch.setattr(address, "MACHINE_SOCKET", tmp_path / "machine")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    with socket.socket(socket.AF_UNIX) as there:
        there.bind(str(tmp_path / "machine"))
        yield f"unix:{tmp_path / 'machine'}"


def test_the_machines_service_is_that_of_who_has_none_and_names_none(
    machine: str, state: Path, tmp_path: Path
) -> None:
    assert find_service(environ={}) == Found(machine, "")
    assert find_service(environ={"BETIMES_TOKEN": "mine"}) == Found(machine, "mine")
    assert find_service(environ={"BETIMES_STATE": str(state)}) == Found(
        "http://127.0.0.1:8123", "secret", state
    )
    assert find_service(environ={"BETIMES_URL": "unix:/elsewhere"}) == Found("unix:/elsewhere", "")
    with pytest.raises(NotReachable, match="no service runs with its state in"):
        find_service(environ={"BETIMES_STATE": str(tmp_path / "stopped")})


def test_a_state_directory_of_another_user_leads_to_the_machines_service(
    machine: str, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def closed(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(address, "read_address", closed)
    assert find_service(environ={"BETIMES_STATE": str(state)}) == Found(machine, "")
    in_job = {"BETIMES_URL": "http://127.0.0.1:8123", "BETIMES_STATE": str(state), "BETIMES_SOCKET": "/lab"}
    assert find_service(environ=in_job) == Found("unix:/lab", "")
    assert find_service(environ={**in_job, "BETIMES_TOKEN": "mine"}).url == "http://127.0.0.1:8123"
    Path(machine.removeprefix("unix:")).unlink()
    with pytest.raises(NotReachable, match=f"{state} is another user's, and no service listens at"):
        find_service(environ={"BETIMES_STATE": str(state)})


@pytest.mark.parametrize("secret", ["a\nb", "schl\u00fcssel"])
def test_a_token_that_no_request_can_carry_is_refused_and_not_shown(secret: str) -> None:
    for refused in (
        lambda: find_service("http://127.0.0.1:1", token=secret),
        lambda: find_service("http://127.0.0.1:1", environ={"BETIMES_TOKEN": secret}),
    ):
        with pytest.raises(InputError, match="is no token") as error:
            refused()
        assert secret not in str(error.value)


def test_a_service_that_does_not_listen_yet_is_said_to_be_starting(state: Path) -> None:
    def lock(pid: int, host: str = socket.gethostname()) -> None:
        (state / "lock").write_text(f"{pid} {host} 2026-01-01T00:00:00+00:00\n")

    lock(os.getppid())  # the address is that of the one before, which was killed
    with pytest.raises(NotReachable, match=rf"is starting or stopping \(process {os.getppid()}\); try again"):
        find_service(state=state, environ={})
    assert find_service("http://127.0.0.1:1", state=state, environ={}).url == "http://127.0.0.1:1"
    for pid, host in ((os.getpid(), socket.gethostname()), (os.getppid(), "another-host"), (2**22 + 1, "")):
        lock(pid, host or socket.gethostname())
        assert find_service(state=state, environ={}).url == "http://127.0.0.1:8123"
    (state / "address").unlink()
    with pytest.raises(NotReachable, match="no service runs with its state in"):
        find_service(state=state, environ={})
    lock(os.getpid())
    with pytest.raises(NotReachable, match="is starting"):
        find_service(state=state, environ={})


def test_an_address_is_written_read_and_removed(tmp_path: Path) -> None:
    assert read_address(tmp_path) is None
    address = write_address(tmp_path, "http://127.0.0.1:1")
    assert read_address(tmp_path) == address == Address("http://127.0.0.1:1", os.getpid())
    remove_address(tmp_path, Address(address.url, address.pid + 1))
    assert read_address(tmp_path) == address
    remove_address(tmp_path, address)
    assert list(tmp_path.iterdir()) == []
    remove_address(tmp_path, address)


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", '{"url": "x"}', '{"url": "x", "pid": "y"}', "\0"])
def test_a_broken_address_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "address").write_text(text)
    with pytest.raises(InputError, match="holds no address"):
        read_address(tmp_path)


def test_the_state_directory_is_that_of_the_environment_or_the_users(tmp_path: Path) -> None:
    assert default_state({"BETIMES_STATE": str(tmp_path)}) == tmp_path
    assert default_state({"BETIMES_STATE": "~/x"}) == Path("~/x").expanduser()
    assert default_state({}).name == "betimes"
    assert default_state({"BETIMES_STATE": ""}) == default_state({})


def test_a_service_is_found_by_its_state(state: Path, tmp_path: Path) -> None:
    for found in (
        find_service(state=state, environ={"BETIMES_URL": "http://elsewhere", "BETIMES_TOKEN": "other"}),
        find_service(environ={"BETIMES_STATE": str(state)}),
    ):
        assert (found.url, found.token) == ("http://127.0.0.1:8123", "secret")
        assert "secret" not in repr(found)
    with pytest.raises(NotReachable, match="betimes up"):
        find_service(state=tmp_path / "none", environ={})
    with pytest.raises(NotReachable, match="betimes up"):
        find_service(environ={"BETIMES_STATE": str(state / "token")})


def test_what_is_said_outright_comes_first(state: Path) -> None:
    environ = {"BETIMES_STATE": str(state), "BETIMES_URL": "http://a", "BETIMES_TOKEN": "t"}
    assert (find_service(environ=environ).url, find_service(environ=environ).token) == ("http://a", "t")
    found = find_service("http://b/", "mine", environ=environ)
    assert (found.url, found.token) == ("http://b", "mine")


def test_the_token_of_a_state_directory_is_for_its_own_address(state: Path) -> None:
    environ = {"BETIMES_STATE": str(state)}
    assert find_service("http://127.0.0.1:8123", environ=environ).token == "secret"
    assert find_service("http://127.0.0.1:8123/", environ=environ).token == "secret"
    assert find_service("http://127.0.0.1:8124", environ=environ).token == ""
    assert find_service("https://elsewhere.example", environ=environ).token == ""


def test_hosts_of_this_machine() -> None:
    for host in ("localhost", "LocalHost.", "127.0.0.1", "127.1.2.3", "::1", "[::1]"):
        assert is_loopback(host)
    for host in ("", "0.0.0.0", "::", "10.0.0.1", "localhost.example", "127.0.0.1.example", "127.1"):
        assert not is_loopback(host)
