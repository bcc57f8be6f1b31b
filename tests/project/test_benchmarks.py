"""Benchmarks run: each that is done in seconds with --quick."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SOURCES = Path(__file__).resolve().parents[2]


QUICK = ("active_jobs", "engine", "machines", "nodes", "overloaded", "portfolio", "progress", "tune", "year")


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
def test_it_runs(name: str) -> None:
    folder = SOURCES / "benchmarks"
    said = subprocess.run(
        [sys.executable, f"bench_{name}.py", "--quick"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(SOURCES / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout.count("\n") > 3
