"""What the agent on a rented machine does for it: it renews its lease, and reads its notice."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from betimes.errors import Unavailable
from betimes.service.executors.ray.agent import LEASE, METADATA, NodeAgent
from tests.service.executors.ray.metadata import metadata_service


def notice() -> float | None:
    return asyncio.run(NodeAgent(0).taken_away_at())


def test_a_spot_machine_reads_its_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    with metadata_service() as metadata:
        monkeypatch.setenv(METADATA, metadata.address_of("i-1"))
        metadata.taken_away_at["i-2"] = 1795683000.0
        assert notice() is None
        metadata.taken_away_at["i-1"] = 1795683600.0
        assert notice() == 1795683600.0


def test_a_machine_without_metadata_has_no_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(METADATA, "http://127.0.0.1:9")
    assert notice() is None


def test_a_service_that_asks_for_reports_renews_the_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = tmp_path / "lease"
    lease.touch()
    os.utime(lease, (0, 0))
    monkeypatch.setenv(LEASE, str(lease))

    async def ask() -> None:
        agent = NodeAgent(0)
        await agent.attach("a", 1.0)
        with pytest.raises(Unavailable):
            await agent.reports("of another service", 0)
        assert lease.stat().st_mtime == 0
        asking = asyncio.ensure_future(agent.reports("a", 0))
        while lease.stat().st_mtime == 0:
            await asyncio.sleep(0.01)
        asking.cancel()
        await agent.close()

    asyncio.run(ask())
