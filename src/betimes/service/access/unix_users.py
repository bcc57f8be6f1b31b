"""The Unix users of this machine, as whom the processes of jobs run."""

from __future__ import annotations

import getpass
import os
import pwd
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from betimes.errors import NotAllowed

LOGIN_PATH = "/usr/local/bin:/usr/bin:/bin"


class Account(NamedTuple):
    """A Unix user of this machine; `groups` has all of the user's groups."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str
    shell: str

    @property
    def variables(self) -> dict[str, str]:
        """The environment of a job of this user, before what the job and Betimes set."""
        return {
            "PATH": LOGIN_PATH,
            "HOME": self.home,
            "USER": self.name,
            "LOGNAME": self.name,
            "SHELL": self.shell or "/bin/sh",
        }


def account_of(name: str) -> Account:
    """The account of a user, looked up anew, which may take a while. Raises NotAllowed where there is none."""
    try:
        found = pwd.getpwnam(name)
    except KeyError:
        raise NotAllowed(
            f"this machine has no Unix user {name!r}, as whom the job would run: make the account, or let all jobs run "
            "as the service's user (betimes up --run-as-me)"
        ) from None
    groups = tuple(os.getgrouplist(name, found.pw_gid))
    return Account(name, found.pw_uid, found.pw_gid, groups, found.pw_dir, found.pw_shell)


def own_name() -> str:
    """The name of this process's user."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:  # a container's user without an account
        return getpass.getuser()


@dataclass(frozen=True)
class Owners:
    """As whom jobs run: each as its owner, or all as the service.

    own: the names of the service's own user, whose jobs run as the service in any case. refusal: why jobs of others
    are refused; empty: they are not. all_as_service: jobs of others run as the service, too. state: the service's state
    directory, in which jobs have folders.
    """

    state: Path
    own: frozenset[str] = frozenset()
    refusal: str = ""
    all_as_service: bool = False

    def unix_user(self, user: str) -> str | None:
        """The Unix user as whom a user's jobs run; null: the service's."""
        return None if self.all_as_service or user in self.own else user

    def run_as_root(self, user: str) -> bool:
        """Whether a user's jobs run as root; the look-up of an account may take a while."""
        if os.geteuid() != 0 or self.all_as_service:
            return False
        try:
            return user in self.own or pwd.getpwnam(user).pw_uid == 0
        except KeyError:
            return False

    def check(self, user: str) -> None:
        """Raise NotAllowed where a user's jobs cannot run; the look-up of an account may take a while."""
        if self.unix_user(user) is None:
            return
        if self.refusal:
            raise NotAllowed(f"a job of {user} cannot run: {self.refusal}")
        account_of(user)
        if folder := _closed_folder(self.state.resolve()):
            raise NotAllowed(
                f"jobs have folders in {self.state}, and other users than {own_name()} cannot enter {folder}: an "
                "operator starts the service with another state directory (--service /var/lib/betimes)"
            )


def owners_of_jobs(state: Path, operator: str, *, is_here: bool, all_as_service: bool) -> Owners:
    """As whom the jobs of a service with this process's rights run.

    operator: the user of the token in the state directory. is_here: all jobs run on this machine.
    """
    own = {own_name()}
    is_root = os.geteuid() == 0
    # A name in the service's environment is its own user's, unless root would run a real user's jobs by it.
    if not is_root or not _has_account(operator):
        own.add(operator)
    refusal = ""
    if not is_here:
        refusal = (
            "on the machines of a Ray cluster, and on rented ones, all jobs run as the service's user; "
            "`betimes up --run-as-me` allows that"
        )
    elif not is_root:
        refusal = (
            f"the service runs as {own_name()} and not as root, and so cannot start jobs as others; an operator starts "
            f"it as root, or lets all jobs run as {own_name()} (betimes up --run-as-me)"
        )
    return Owners(state, frozenset(own), refusal, all_as_service)


def why_others_cannot_run(program: str) -> str | None:
    """Why other users than this process's cannot run a Python, that of a service, and what to do; null: they can."""
    # Of a virtual environment each link counts: its own folder, and that of the Python from which it was made.
    path = Path(program)
    closed = _closed_folder(path)
    while closed is None and path.is_symlink():
        path = path.parent / path.readlink()
        closed = _closed_folder(path)
    if closed is None and not path.stat().st_mode & stat.S_IXOTH:
        closed = path
    if closed is None:
        return None
    return (
        f"other users than {own_name()} cannot run {program}, so its `betimes` is not for them: {closed} is closed to "
        f"them (mode {stat.S_IMODE(closed.stat().st_mode):o}). Their jobs run, and a `betimes` installed elsewhere "
        "reaches the service; install one from a Python that all can run (/usr/bin/python3 -m venv "
        "/usr/local/lib/betimes)"
    )


def _closed_folder(path: Path) -> Path | None:
    """The first folder above this path that others may not enter."""
    above = reversed(path.parent.resolve().joinpath("-").parents)
    return next((folder for folder in above if not folder.stat().st_mode & stat.S_IXOTH), None)


def _has_account(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True
