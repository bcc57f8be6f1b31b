"""`betimes service backup` and `betimes service restore`, on state directories without a service."""

from __future__ import annotations

from pathlib import Path

import pytest

from betimes.service.store import Store, default_url
from tests.cli.conftest import Call


def test_a_log_goes_into_a_file_and_comes_back(betimes: Call, tmp_path: Path) -> None:
    state, file = tmp_path / "state", tmp_path / "backup"
    Store.open(default_url(state), state).close()
    made = betimes("service", "backup", file, "--service", state, "--json").json()
    assert made == {"file": str(file), "bytes": file.stat().st_size, "last_event": 0, "jobs": 0}
    said = betimes("service", "restore", file, "--service", state)
    assert (said.code, said.err.count("\n")) == (2, 1)
    assert "holds a log" in said.err
    done = betimes("service", "restore", file, "--service", state, "--force", "--json").json()
    assert done["start"] == "betimes up --accept-loss"
    assert (Path(done["aside"]) / "betimes.db").exists()
    said = betimes("service", "restore", file, "--service", tmp_path / "other")
    assert f"backed up in {state} on" in said.out
    assert "`betimes up --as-copy`" in said.out


@pytest.mark.parametrize("verb", ["backup", "restore"])
def test_a_database_on_a_server_has_its_own_tools(betimes: Call, tmp_path: Path, verb: str) -> None:
    said = betimes(verb, tmp_path / "file", "--service", tmp_path, "--database", "postgresql://x@y/z")
    assert (said.code, said.err.count("\n")) == (2, 1)
    assert {"backup": "pg_dump", "restore": "pg_restore"}[verb] in said.err
