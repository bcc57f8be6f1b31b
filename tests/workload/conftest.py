"""Where the public traces lie, and writing one file for a test."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

_DATA = Path(__file__).resolve().parents[3] / "shared" / "data"


@pytest.fixture(scope="session")
def public_data() -> Path:
    if not (_DATA / "README.md").is_file():
        pytest.skip(f"the public traces are not at {_DATA}")
    return _DATA


@pytest.fixture
def put(tmp_path: Path) -> Callable[[bytes, str], Path]:
    def write(content: bytes, name: str = "trace") -> Path:
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return write
