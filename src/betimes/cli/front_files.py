"""A Pareto front as files: JSON, a page, and pictures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from betimes.foresight.tuning import Front


def write(front: Front, folder: Path) -> None:
    """Write the front as JSON, as a page and as pictures."""
    from betimes.foresight.tuning import page, picture

    front.write(folder)
    page.write(front, folder / page.FILE)
    for name in picture.FILES:
        picture.draw(front, folder / name)
