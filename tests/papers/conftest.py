"""Where the published data lie, for tests that need them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import betimes  # noqa: F401 (a fixture)

_DATA = Path(__file__).resolve().parents[3] / "shared" / "data"


@pytest.fixture(scope="session")
def published_data() -> Path:
    if not (_DATA / "gpu" / "philly_pcs").is_dir():
        pytest.skip(f"the published data are not at {_DATA}")
    return _DATA
