from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.service.executors.running import clear_up


@pytest.fixture
def at(tmp_path: Path) -> Iterator[Path]:
    """A folder for runs; what still runs in the end is killed."""
    yield tmp_path
    clear_up(tmp_path)
