"""EC2's metadata service, as machines of it ask it about themselves: the address of each has its name behind it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Metadata:
    """The service. taken_away_at: machines that have notice, seconds since 1970."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.taken_away_at: dict[str, float] = {}

    def address_of(self, machine: str) -> str:
        """What a machine has in place of the address that all have."""
        return f"http://127.0.0.1:{self.port}/{machine}"

    def answer(self, machine: str) -> str | None:
        """The market's action; null: there is none."""
        if machine not in self.taken_away_at:
            return None
        at = datetime.fromtimestamp(self.taken_away_at[machine], UTC)
        return json.dumps({"action": "terminate", "time": f"{at:%Y-%m-%dT%H:%M:%SZ}"})


@contextmanager
def metadata_service() -> Iterator[Metadata]:
    """The service, while this is entered."""

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            self._say(200 if self.headers["X-aws-ec2-metadata-token-ttl-seconds"] else 400, "token")

        def do_GET(self) -> None:
            action = metadata.answer(self.path.split("/")[1])
            if self.headers["X-aws-ec2-metadata-token"] != "token":
                self._say(401, "")
            else:
                self._say(404 if action is None else 200, action or "")

        def _say(self, status: int, text: str) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    metadata = Metadata(server.server_address[1])
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield metadata
    server.shutdown()
    server.server_close()
