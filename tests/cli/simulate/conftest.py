"""What tests of simulations from the command line share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures are files, and empty: to draw them takes far longer than all else that is tested here."""

    def save(_: Any, path: Path, **__: Any) -> None:
        path.write_text("<svg/>")

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", save)
