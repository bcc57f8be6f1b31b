"""Tests that simulate on Ray."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

ON_RAY = (
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed (betimes[ray])"),
    pytest.mark.filterwarnings("ignore"),  # Ray's own
    pytest.mark.usefixtures("ray_cluster"),
)
