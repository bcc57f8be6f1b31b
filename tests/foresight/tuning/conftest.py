"""Small workloads to tune on, and a cache that each test has for itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from betimes import Workload, generate
from betimes.foresight.tuning import evaluation

UNITS = 16


@pytest.fixture(scope="session")
def workload() -> Workload:
    """Jobs of several sizes and widths that keep a small pool busy."""
    return generate("demo:jobs=120", units=UNITS, seed=1)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where evaluations are kept in this test."""
    monkeypatch.setattr(evaluation, "cache_root", lambda: tmp_path / "cache")
    return tmp_path / "cache" / evaluation.FOLDER
