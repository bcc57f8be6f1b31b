"""A state directory that others may look into is mentioned when the service starts."""

from __future__ import annotations

import asyncio
import os
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
