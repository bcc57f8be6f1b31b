"""Two Unix users of this machine for tests that root runs, and a folder that they can enter."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from betimes.service.access.unix_users import LOGIN_PATH, Account, account_of

PYTHON = shutil.which("python3", path=LOGIN_PATH) or ""  # that of the tests may be root's alone
CANNOT = (
    "only root can make Unix users and start processes as them"
    if os.geteuid()
    else "Unix users are made with useradd, which is not here"
    if shutil.which("useradd") is None
    else "processes are known by /proc, which Linux has"
    if sys.platform != "linux"
    else ""
    if PYTHON
    else "users have no Python here"
)
as_root = pytest.mark.skipif(bool(CANNOT), reason=CANNOT or "as root")


def change(*command: str, check: bool = True) -> None:
    """Change the users of the machine, while no other test does: these commands do not wait for each other."""
    subprocess.run(["flock", "/tmp/bt-users.lock", *command], check=check, capture_output=True)


@contextmanager
def two_users() -> Iterator[tuple[Account, Account]]:
    """Two users with homes, a group of their own each, and a common one; they are removed again."""
    names = [f"bt{os.getpid()}{letter}" for letter in "ab"]
    lab = f"bt{os.getpid()}lab"
    try:
        change("groupadd", lab)
        for name in names:
            change("useradd", "--create-home", "--user-group", "--groups", lab, name)
        yield account_of(names[0]), account_of(names[1])
    finally:
        for name in names:
            change("userdel", "--remove", "--force", name, check=False)
        change("groupdel", lab, check=False)


@contextmanager
def open_folder() -> Iterator[Path]:
    """A folder that all users can pass through; pytest's are root's alone."""
    folder = Path(tempfile.mkdtemp(prefix="bt-", dir="/tmp"))
    folder.chmod(0o711)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)
