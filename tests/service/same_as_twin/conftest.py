"""No decision rests on the intervals of promises: nothing is fitted for them here."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def without_fits(no_fits: None) -> None:
    """For every test of this folder."""
