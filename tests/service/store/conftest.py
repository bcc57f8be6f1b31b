"""The databases that the tests run on: SQLite in a folder, and a PostgreSQL started for the session."""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from betimes.service.store import Store, default_url

_UNPRIVILEGED = ("postgres", "nobody")  # a server refuses to run as root


def _binaries() -> Path | None:
    found = shutil.which("initdb")
    places = [Path(found).resolve().parent] if found else []
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next(
        (place for place in places if (place / "initdb").exists() and (place / "pg_ctl").exists()), None
    )


def _another_user() -> tuple[list[str], int] | None:
    """The start of a command that runs as somebody but root, and that user's number."""
    if os.geteuid() != 0:
        return [], os.geteuid()
    for name in _UNPRIVILEGED:
        try:
            user = pwd.getpwnam(name)
        except KeyError:
            continue
        if shutil.which("setpriv"):
            ids = [f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
            return ["setpriv", *ids, "--"], user.pw_uid
        if shutil.which("runuser"):
            return ["runuser", "-u", name, "--"], user.pw_uid
    return None


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The address of a private PostgreSQL on a socket in a temporary folder, its database's name left out."""
    binaries, user = _binaries(), _another_user()
    if binaries is None:
        pytest.skip("no PostgreSQL binaries here (initdb, pg_ctl): install postgresql")
    if user is None:
        pytest.skip("PostgreSQL does not run as root, and there is no setpriv or runuser to be somebody else")
    prefix, number = user
    folder = Path(
        tempfile.mkdtemp(prefix="betimes-pg-", dir="/tmp")
    )  # short: a socket's path is at most 107 bytes
    if os.geteuid() == 0:
        os.chown(folder, number, -1)
    data = folder / "data"

    def call(*command: object) -> None:
        done = subprocess.run(
            [*prefix, *map(str, command)], cwd=folder, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr

    try:
        call(
            binaries / "initdb", "-D", data, "-U", "betimes", "-A", "trust", "-E", "UTF8", "--locale=C", "-N"
        )
        settings = (
            f"-k {folder} -c listen_addresses= -c fsync=off -c max_connections=60 -c shared_buffers=32MB"
        )
        call(binaries / "pg_ctl", "-D", data, "-l", folder / "log", "-w", "-o", settings, "start")
        try:
            yield f"postgresql://betimes@/{{name}}?host={folder}"
        finally:
            call(binaries / "pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def restart_postgres(postgres_server: str) -> list[str]:
    """A command that restarts the server, however many are connected."""
    binaries, user = _binaries(), _another_user()
    assert binaries is not None
    assert user is not None
    folder = Path(postgres_server.partition("host=")[2])
    pg_ctl = [binaries / "pg_ctl", "-D", folder / "data", "-l", folder / "log", "-m", "fast", "-w", "restart"]
    return [*user[0], *map(str, pg_ctl)]


_numbers = itertools.count(1)


@contextmanager
def database(postgres_server: str, options: str = "") -> Iterator[str]:
    """The address of an empty database of the server, made with these options of CREATE DATABASE."""
    name = f"test_{os.getpid()}_{next(_numbers)}"
    engine = create_engine(
        postgres_server.format(name="postgres").replace("postgresql:", "postgresql+psycopg:"),
        isolation_level="AUTOCOMMIT",
        pool_pre_ping=True,  # the server may have been restarted
    )
    try:
        with engine.connect() as connection:
            connection.execute(text(f"CREATE DATABASE {name} {options}"))
        yield postgres_server.format(name=name)
        with engine.connect() as connection:
            connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
    finally:
        engine.dispose()


@pytest.fixture
def postgres_url(postgres_server: str) -> Iterator[str]:
    """The address of an empty database."""
    with database(postgres_server) as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, folder: Path) -> str:
    """The address of an empty database, of either kind."""
    if request.param == "sqlite":
        return default_url(folder)
    return request.getfixturevalue("postgres_url")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A state directory."""
    return tmp_path / "state"


Opening = Callable[[], Store]


@pytest.fixture
def opened(url: str, folder: Path) -> Iterator[Opening]:
    """Open the store; once more: close it first, as a restart does."""
    stores: list[Store] = []

    def again() -> Store:
        for store in stores:
            store.close()
        stores.append(Store.open(url, folder, busy_s=0.2))
        return stores[-1]

    yield again
    for store in stores:
        store.close()


@pytest.fixture
def store(opened: Opening) -> Store:
    """An empty store."""
    return opened()
