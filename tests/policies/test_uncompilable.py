"""A user's policy that Numba cannot compile."""

from __future__ import annotations

from pathlib import Path

import pytest

from betimes import simulate
from betimes.errors import PolicyError
from tests.policies.test_violations import three_jobs


def test_a_policy_that_does_not_compile(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from betimes.policies import priority\n"
        "@priority(summary='')\n"
        "def objects(view, now, chosen, key):\n"
        "    key[0] = {}['no such thing']\n"
    )
    with pytest.raises(PolicyError, match="objects"):
        simulate(three_jobs(), f"{file}:objects", units=6)
