"""A service that runs jobs, with Slurm's commands for it."""

from __future__ import annotations

import asyncio
import getpass
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from betimes.cli.slurm import slurm_commands
from betimes.service.startup.bootstrap import running
from betimes.service.startup.config import ServiceConfig
from tests.cli.conftest import betimes
from tests.service.serving import PATIENCE_S

__all__ = ["betimes"]


@dataclass(frozen=True)
class Served:
    """The environment in which Slurm's commands are those of the service."""

    env: dict[str, str]


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One service for all tests here."""
    folder = tmp_path_factory.mktemp("slurm")
    slurm_commands(str(folder / "bin"))
    up, stop = threading.Event(), threading.Event()

    async def story() -> None:
        async with running(ServiceConfig(state=folder / "state")):
            up.set()
            await asyncio.to_thread(stop.wait)

    thread = threading.Thread(target=asyncio.run, args=(story(),))
    thread.start()
    try:
        assert up.wait(PATIENCE_S)
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith(("BETIMES_", "SLURM_"))
        }
        path = f"{folder / 'bin'}:{os.environ['PATH']}"
        yield Served(
            inherited | {"PATH": path, "BETIMES_STATE": str(folder / "state"), "USER": getpass.getuser()}
        )
    finally:
        stop.set()
        thread.join(PATIENCE_S)
