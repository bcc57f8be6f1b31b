"""A policy that announces wake-ups at which it would decide the same, and lets nobody run."""

from __future__ import annotations

from pathlib import Path

from betimes import Workload, simulate

POLICY = """
from betimes.policies import allocation


@allocation(summary="Never lets anybody run.")
def never(view, now, grants, again):
    again[0].at_s = now + 1.0
    again[0].period_s = 1.0
    return 0
"""


def test_it_ends(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(POLICY)
    jobs = Workload.from_columns(submit_s=[1, 2], work_s=[3, 3])
    assert simulate(jobs, f"{tmp_path / 'mine.py'}:never", units=2).jobs.state.tolist() == [1, 1]
