"""`betimes up` where it cannot start."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from betimes.service.startup import bootstrap
from tests.cli.conftest import Call


def test_a_start_on_a_full_disk_is_one_line(
    betimes: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> str:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(tmp_path / "token"))

    monkeypatch.setattr(bootstrap, "operator_token", full)
    said = betimes("up", "--service", tmp_path)
    assert (said.code, said.out) == (1, "")
    why = "no room is left (No space left on device), so the service did not start"
    assert said.err == f"betimes: {tmp_path}/token: {why}; free some (df -h {tmp_path})\n"
