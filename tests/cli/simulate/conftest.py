"""What tests of simulations from the command line share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures are files, and empty: to draw them takes far longer than all else that is tested here."""

    def save(_: Figure, path: Path, **__: Any) -> None:
        path.write_text("<svg/>")

    monkeypatch.setattr(Figure, "savefig", save)
