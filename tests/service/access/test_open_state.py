"""What is open to others, or closed to those for whom the service is, is mentioned when it starts."""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from betimes.service.machines.machine import Machine
from betimes.service.startup.bootstrap import running
from betimes.service.startup.config import ServiceConfig


@pytest.mark.parametrize(
    ("mode", "mentioned"), [(0o755, True), (0o710, True), (0o711, os.geteuid() != 0), (0o700, False)]
)
def test_a_state_directory_that_is_open_to_others_is_mentioned(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, mode: int, mentioned: bool
) -> None:
    state = tmp_path / "state"
    state.mkdir()
    state.chmod(mode)

    async def start() -> None:
        async with running(
            ServiceConfig(state=state, machines=[Machine("n-0", "virtual", "n", 1.0, 1.0, 0.0)])
        ):
            pass

    asyncio.run(start())
    said = f"{state} is open to others (mode {mode:o})"
    advice = (
        f"chmod {'711' if os.geteuid() == 0 else '700'} {state}"  # jobs of others have to pass through it
    )
    told = [record.getMessage() for record in caplog.records]
    assert any(said in each and each.endswith(advice) for each in told) == mentioned


@pytest.mark.parametrize("shared", [False, True])
def test_a_service_for_all_users_mentions_a_python_that_they_cannot_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, shared: bool
) -> None:
    (tmp_path / "venv").mkdir(mode=0o700)
    (tmp_path / "venv" / "python").symlink_to(sys.executable)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "venv" / "python"))
    (tmp_path / "state").mkdir(mode=0o700)

    async def start() -> None:
        machines = [Machine("n-0", "virtual", "n", 1.0, 1.0, 0.0)]
        config = ServiceConfig(state=tmp_path / "state", machines=machines)
        if shared:
            config = replace(config, local_users="any", socket=tmp_path / "socket")
        async with running(config):
            pass

    asyncio.run(start())
    told = [record.getMessage() for record in caplog.records]
    assert any(f"cannot run {tmp_path}/venv/python" in each for each in told) == shared
