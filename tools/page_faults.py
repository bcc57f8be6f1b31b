"""Faults of a page that a browser can measure: text outside the window, cut, overlapping, too small or too pale."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

MEASURE = Path(__file__).with_suffix(".js")
LEAST_PIXELS = 24  # of what is clicked, or between the middles of two (WCAG 2.2, 2.5.8)
LEAST_CONTRAST = 4.5  # of text (WCAG 2.2, 1.4.3)


def faults(chrome: Chrome) -> list[str]:
    """Sentences about the page that is shown, in the window as it is; empty: none was found."""
    return list(dict.fromkeys(chrome.execute_script(MEASURE.read_text(), LEAST_PIXELS, LEAST_CONTRAST)))
