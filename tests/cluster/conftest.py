"""Where the public node lists lie, and writing one file for a test."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

_DATA = Path(__file__).resolve().parents[3] / "shared" / "data"


@pytest.fixture(scope="session")
def node_lists() -> Path:
    folder = _DATA / "gpu" / "alibaba_openb"
    if not (folder / "openb_node_list_all_node.csv.gz").is_file():
        pytest.skip(f"the public node lists are not at {folder}")
    return folder


@pytest.fixture
def put(tmp_path: Path) -> Callable[[bytes | str], Path]:
    def write(content: bytes | str) -> Path:
        path = tmp_path / "racks.toml"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write
