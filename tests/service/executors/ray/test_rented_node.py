"""What the agent on a rented machine does for it: it renews its lease, and reads its notice."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from betimes.errors import Unavailable
from betimes.service.executors.ray.agent import LEASE, METADATA, NodeAgent


class Metadata(BaseHTTPRequestHandler):
    """The metadata service of a machine, which asks for a token; action: of the market, when there is one."""

    action: str | None = None

    def do_PUT(self) -> None:
        self._say(200, "token" if self.headers["X-aws-ec2-metadata-token-ttl-seconds"] else "")

    def do_GET(self) -> None:
        if self.headers["X-aws-ec2-metadata-token"] != "token":
            self._say(401, "")
        else:
            self._say(200 if self.action else 404, self.action or "")

    def _say(self, status: int, text: str) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@pytest.fixture
def metadata(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Metadata]]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Metadata)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv(METADATA, f"http://127.0.0.1:{server.server_address[1]}/")
    monkeypatch.setattr(Metadata, "action", None)
    yield Metadata
    server.shutdown()
    server.server_close()


def notice() -> float | None:
    return asyncio.run(NodeAgent(0).taken_away_at())


def test_a_spot_machine_reads_its_notice(metadata: type[Metadata], monkeypatch: pytest.MonkeyPatch) -> None:
    assert notice() is None
    action = json.dumps({"action": "terminate", "time": "2026-11-26T09:00:00Z"})
    monkeypatch.setattr(metadata, "action", action)
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
