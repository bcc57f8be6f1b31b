"""The cheat sheet fits a screen; that its commands can be typed is looked at in `test_blocks.py`."""

from __future__ import annotations

from tests.docs.pages import blocks


def test_it_fits_a_screen() -> None:
    (block,) = blocks("docs/cheat-sheet.md")
    lines = block["body"].splitlines()
    assert len([line for line in lines if line.startswith("betimes ")]) > 30
    assert len(lines) <= 50
