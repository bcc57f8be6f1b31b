"""The how-to's own examples: they load, run compiled, and do what the text says."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import betimes

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "own-policy.md"


@pytest.fixture
def policy_file(tmp_path: Path) -> Path:
    """All Python blocks of the page in one file, as a reader would collect them."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    assert len(blocks) == 2
    assert all(len(block.splitlines()) < 50 for block in blocks)
    file = tmp_path / "mine.py"
    file.write_text("\n\n".join(blocks), encoding="utf-8")
    return file


def test_the_order_beats_first_come_first_served(policy_file: Path) -> None:
    workload = betimes.generate("demo:jobs=300", units=64, seed=1)
    mine = betimes.simulate(workload, f"{policy_file}:shortest_first:nearly=0.3", units=64, predict=True)
    fifo = betimes.simulate(workload, "fifo", units=64)
    assert mine.policy == f"{policy_file}:shortest_first:nearly=0.3"
    assert betimes.summarise(mine)["jct_mean_s"] < 0.8 * betimes.summarise(fifo)["jct_mean_s"]
    assert np.isfinite(mine.jobs.predicted_finish_s).all()


def test_the_allocation_keeps_to_half_of_the_pool(policy_file: Path) -> None:
    workload = betimes.generate("demo:jobs=300", units=16, seed=1)
    result = betimes.simulate(workload, f"{policy_file}:half_each", units=16, timeline=True)
    assert result.segments is not None
    assert result.segments.units.max() == 8
    assert result.jobs.finished.all()
