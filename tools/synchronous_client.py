"""Make the synchronous client from the asynchronous one: ``python -m tools.synchronous_client`` (``make client``)."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import unasync

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "betimes" / "client" / "asynchronous.py"
MADE = SOURCE.with_name("synchronous.py")
NOTICE = "# Made from asynchronous.py by `make client`; a change made here is lost."
NAMES = {
    "AsyncBaseTransport": "BaseTransport",
    "AsyncClient": "Client",
    "AsyncHTTPTransport": "HTTPTransport",
    "aclose": "close",
    "aiter_bytes": "iter_bytes",
    "anext": "next",
    "aread": "read",
    "asyncio": "time",  # whose `sleep` is imported
    "in_thread": "at_once",
}
"""Names that differ where nothing is awaited, beside those that unasync knows."""


def main() -> None:
    """Write the synchronous client."""
    MADE.write_text(made(), encoding="utf-8")


def made() -> str:
    """The text of the synchronous client, in style."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, SOURCE.name)
        copy.write_bytes(SOURCE.read_bytes())
        unasync.unasync_files([str(copy)], [unasync.Rule(SOURCE.name, MADE.name, NAMES)])
        text = f"{NOTICE}\n{copy.with_name(MADE.name).read_text(encoding='utf-8')}"
    for command in (["check", "--fix-only", "--quiet", "--select", "I"], ["format", "--quiet"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(MADE), "-"]
        text = subprocess.run(ruff, input=text, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    return text


if __name__ == "__main__":
    main()
