"""The place of a service: its state directory, and the address and token that clients read there."""

from __future__ import annotations

import json
import os
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from betimes.errors import InputError, NotReachable
from betimes.files import write_private

if TYPE_CHECKING:
    from collections.abc import Mapping

ADDRESS_FILE = "address"
PORT_FILE = "port"  # where it listened last; unlike the address it stays when the service stops
LOCK_FILE = "lock"  # held by a service from its start to its end: `pid host started`
TOKEN_FILE = "token"  # the operator's, in clear, mode 0600
UNIX = "unix:"  # begins the URL of a Unix socket
MACHINE_SOCKET = Path("/run/betimes/socket")  # of the service that all users of a machine share


class Address(NamedTuple):
    """A service's URL and process."""

    url: str
    pid: int


class Found(NamedTuple):
    """A service's address and token; `token` is empty where none is known."""

    url: str
    token: str
    state: Path | None = None  # where it was found; None: the URL was given

    def __repr__(self) -> str:
        return f"Found(url={self.url!r}, state={self.state!r})"


def default_state(environ: Mapping[str, str] = os.environ) -> Path:
    """The state directory: BETIMES_STATE, or the user's for `betimes`, the same as that of `platformdirs`."""
    if environ.get("BETIMES_STATE"):
        return Path(environ["BETIMES_STATE"]).expanduser().absolute()
    usual = "Library/Application Support" if sys.platform == "darwin" else ".local/state"
    return Path(environ.get("XDG_STATE_HOME", "").strip() or Path.home() / usual) / "betimes"


def last_port(state: Path) -> int:
    """The port on which the last service of this state listened; 0: there was none, or it is unknown."""
    try:
        port = int((state / PORT_FILE).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 0
    return port if 0 < port < 1 << 16 else 0


def write_port(state: Path, port: int) -> None:
    """Remember where this process listens. Raises OSError."""
    write_private(state / PORT_FILE, f"{port}\n")


def write_address(state: Path, url: str) -> Address:
    """Write this process's address for clients. Raises OSError."""
    address = Address(url, os.getpid())
    write_private(state / ADDRESS_FILE, json.dumps({"url": address.url, "pid": address.pid}) + "\n")
    return address


def read_address(state: Path) -> Address | None:
    """The address in a state directory; None: no service has been started there, or it has stopped.

    Raises InputError if the file is not a service's.
    """
    path = state / ADDRESS_FILE
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return Address(str(found["url"]), int(found["pid"]))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, KeyError, TypeError):
        raise InputError(f"{path} holds no address; delete it and start the service again") from None


def remove_address(state: Path, address: Address) -> None:
    """Remove the address, unless another service has replaced it."""
    if read_address(state) == address:
        (state / ADDRESS_FILE).unlink(missing_ok=True)


def find_service(
    url: str | None = None,
    token: str | None = None,
    state: str | Path | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Found:
    """The service to call: `url`, else that of `state`, else BETIMES_URL, else BETIMES_STATE or the default
    directory, else the machine's socket, where no other directory is named or the one named is another user's.

    The token is `token`, else BETIMES_TOKEN, else the state directory's, which is sent to no address but the one there.
    Raises InputError for an invalid URL or token, NotReachable if no service has been started there.
    """
    folder = Path(state).expanduser().absolute() if state is not None else default_state(environ)
    given = check_url(url, "url") or (
        check_url(environ.get("BETIMES_URL"), "BETIMES_URL") if state is None else None
    )
    is_closed, address = False, None
    try:
        address = read_address(folder)
    except PermissionError:
        is_closed = True
    secret = _check_token(token, "token") or (
        _check_token(environ.get("BETIMES_TOKEN"), "BETIMES_TOKEN") if state is None else None
    )
    if not given and (pid := _starting(folder, address)) is not None:
        raise NotReachable(
            f"the service with its state in {folder} is starting or stopping (process {pid}); try again in a moment"
        )
    if not given and address is None:
        is_named = state is not None or bool(environ.get("BETIMES_STATE"))
        if (is_closed or not is_named) and MACHINE_SOCKET.is_socket():
            return Found(f"{UNIX}{MACHINE_SOCKET}", secret or "")
        if is_closed:
            raise NotReachable(
                f"{folder} is another user's, and no service listens at {MACHINE_SOCKET}; ask for its address, as in "
                "BETIMES_URL=unix:/run/betimes/socket, and for a token if it asks for one (BETIMES_TOKEN)"
            )
        raise NotReachable(f"no service runs with its state in {folder}; start one with `betimes up`")
    where = (given or (address.url if address else "")).rstrip("/")
    by_socket = environ.get("BETIMES_SOCKET") if url is state is None else None  # in a job of another user
    if not secret and address is None and by_socket:
        return Found(f"{UNIX}{by_socket}", "")
    if not secret and address is not None and where == address.url.rstrip("/"):
        secret = _token_of(folder)
    return Found(where, secret or "", None if given else folder)


def _starting(state: Path, address: Address | None) -> int | None:
    """The process that holds a state directory but does not listen yet; None: there is none on this machine."""
    try:
        number, host, *_ = (state / LOCK_FILE).read_text(encoding="utf-8").split()
        pid = int(number)
    except (OSError, ValueError):
        return None
    if host != socket.gethostname() or (address is not None and address.pid == pid):
        return None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:  # it is another user's
        pass
    return pid


def check_url(url: str | None, what: str) -> str | None:
    """The URL of a service, as given; raises InputError for another text, such as a state directory."""
    if url and not _is_url(url):
        raise InputError(
            f"{what} {url[:200]!r} is no URL: give http://HOST:PORT, unix:/PATH/OF/ITS/SOCKET, or a state directory as "
            "state=... (BETIMES_STATE)"
        )
    return url


def socket_of(url: str) -> str | None:
    """The path in the URL of a Unix socket, `unix:/run/betimes/socket`; null: another URL."""
    return url[len(UNIX) :] if url.startswith(f"{UNIX}/") else None


def _is_url(text: str) -> bool:
    if socket_of(text) is not None:
        return True
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname)


def _check_token(token: str | None, what: str) -> str | None:
    """A token as given, which no message shows; raises InputError for text that no request can carry."""
    if token and not (token.isascii() and token.isprintable()):
        raise InputError(
            f"{what} is no token: it has line breaks, or characters that are not ASCII; give one as in "
            f"STATE/{TOKEN_FILE}, without its line break"
        )
    return token


def _token_of(state: Path) -> str:
    path = state / TOKEN_FILE
    try:
        return path.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return ""
    except PermissionError:
        raise InputError(f"{path} belongs to another user; ask for a token and set BETIMES_TOKEN") from None
