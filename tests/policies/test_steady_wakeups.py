"""A policy that announces wake-ups at which it would decide the same, and lets nobody run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

POLICY = """
from betimes.policies import allocation


@allocation(summary="Never lets anybody run.")
def never(view, now, grants, again):
    again[0].at_s = now + 1.0
    again[0].period_s = 1.0
    return 0
"""
PROGRAM = """
import sys
import betimes
from betimes.workload import Workload

jobs = Workload.from_columns(submit_s=[1, 2], work_s=[3, 3])
print(betimes.simulate(jobs, sys.argv[1], units=2).jobs.state.tolist())
"""


def test_it_ends(tmp_path: Path) -> None:
    """In a process of its own: the loop cannot be interrupted."""
    (tmp_path / "mine.py").write_text(POLICY)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, f"{tmp_path / 'mine.py'}:never"],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout.strip() == "[1, 1]"
