"""The Unix socket for the other users of this machine, and who is at its other end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pwd
import socket
import stat
import struct
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from betimes.errors import InputError, NotAllowed, ServiceError
from betimes.service.access.address import MACHINE_SOCKET
from betimes.service.access.auth import Caller
from betimes.service.access.unix_users import own_name

PEER = "peer_uid"  # in the state of a request over the Unix socket: the user at its other end, by number
_PATH_BYTES = 107  # of a Unix socket's name
_KNOWN_S = 60.0  # for which the name of a user is not looked up again


def check_local(path: Path | None) -> Path:
    """The place of the Unix socket for this machine's users. Raises InputError where there can be none."""
    if sys.platform != "linux":
        raise InputError(
            "--local-users: only on Linux does a service learn the user at the other end of a socket; give each a token"
        )
    if path is None and os.geteuid() != 0:
        raise InputError(
            "--local-users: say where the socket is to be (--socket FILE), in a folder that the others can enter, as "
            f"--socket /tmp/betimes-{os.geteuid()}/socket; /run/betimes is root's"
        )
    path = MACHINE_SOCKET if path is None else path
    if len(os.fsencode(path)) > _PATH_BYTES:
        raise InputError(
            f"--socket {path}: the name of a Unix socket has at most {_PATH_BYTES} bytes; give another"
        )
    return path


@contextmanager
def local_socket(path: Path) -> Iterator[socket.socket]:
    """A Unix socket at this path to which all users can connect, in place of one left by a killed service.

    Its folder is made if need be. Raises InputError for a path that holds something else, or in a folder that others
    may write, ServiceError where another service listens, and where the socket cannot be made.
    """
    made = socket.socket(socket.AF_UNIX)
    with made:
        try:
            if not path.parent.exists():
                path.parent.mkdir()
                path.parent.chmod(0o755)
            _check_folders(path)
            if _is_left(path):
                path.unlink()
            made.bind(str(path))
            path.chmod(0o666)
            at = path.stat()
        except OSError as error:
            raise ServiceError(
                f"cannot listen at {path}: {error.strerror}; name another place (--socket FILE)"
            ) from None
        made.listen()
        try:
            yield made
        finally:
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(path.stat(), at):  # else another service's, by now
                    path.unlink()


def _check_folders(path: Path) -> None:
    """Raise InputError where others can put another socket there, and be taken for this service; OSError."""
    folder = path.parent.resolve()
    for each in (folder, *folder.parents):
        found = each.stat()
        # In one like /tmp others cannot replace a folder, but could put their socket there while no service listens.
        is_guarded = each != folder and found.st_mode & stat.S_ISVTX
        is_others = each == folder and found.st_uid not in (0, os.geteuid())
        if is_others or (found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not is_guarded):
            raise InputError(
                f"--socket {path}: others may write the folder {each}, and could put a socket of theirs there; name a "
                f"file in a folder that only you may write, as {folder / f'betimes-{os.geteuid()}' / 'socket'}"
            )


def _is_left(path: Path) -> bool:
    """Whether a socket without a service is there. Raises InputError, ServiceError, OSError."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return False
    if not stat.S_ISSOCK(mode):
        raise InputError(f"--socket {path}: that is no socket; remove it, or name another place")
    with socket.socket(socket.AF_UNIX) as asking:
        try:
            asking.connect(str(path))
        except ConnectionRefusedError:
            return True
    raise ServiceError(f"another service listens at {path}; stop it, or name another place (--socket FILE)")


def peer_of(connected: socket.socket) -> int:
    """The number of the user at the other end, as of when it connected, by the kernel: no request can claim another."""
    _, uid, _ = struct.unpack(
        "3i", connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    )
    return uid


@dataclass
class Peers:
    """Callers over the Unix socket. The service's own user and root are operators; others are users of the service.

    operator: the name of the service's own user. standing: the role of a user of the service, and whether it is
    disabled; null: there is no such user. admits_any: any user of this machine is let in, as a user.
    """

    operator: str
    standing: Callable[[str], tuple[str, bool] | None]
    admits_any: bool
    _known: dict[int, tuple[float, str]] = field(default_factory=dict[int, tuple[float, str]], repr=False)

    async def caller(self, uid: int) -> Caller:
        """The user of this number, as one of the service. Raises NotAllowed."""
        if uid == os.geteuid():
            return Caller(self.operator, "operator")
        name = await self._name(uid)
        if uid == 0:
            return Caller(name, "operator")
        if name == self.operator:  # by which the service's own jobs go: these would be this user's, too
            raise NotAllowed(
                f"the service takes {name} for the name of its own user, who is another; an operator starts it with "
                f"LOGNAME={own_name()} and without its token file"
            )
        role, is_disabled = self._standing(name)
        if is_disabled:
            raise NotAllowed(
                f"user {name} is disabled here; an operator lets {name} in (betimes users set --enable)"
            )
        if not role:
            raise NotAllowed(
                f"{name} is no user of this service; an operator can add {name} (betimes users add {name})"
            )
        return Caller(name, role, is_peer=True)

    def still_holds(self, caller: Caller) -> bool:
        """Whether a caller with a role by its name still has it, for answers that go on."""
        return self._standing(caller.user) == (caller.role, False)

    def _standing(self, name: str) -> tuple[str, bool]:
        return self.standing(name) or ("user" if self.admits_any else "", False)

    async def _name(self, uid: int) -> str:
        found_at, name = self._known.get(uid, (-_KNOWN_S, ""))
        if time.monotonic() - found_at >= _KNOWN_S:
            try:
                name = (await asyncio.to_thread(pwd.getpwuid, uid)).pw_name
            except KeyError:
                raise NotAllowed(f"the Unix user {uid} has no account on this machine") from None
            self._known[uid] = (time.monotonic(), name)
        return name
