"""The compiled kernels and the same sources run by Python give the same bits, and so do two runs."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.twin.driving import Setup
from tests.twin.replaying import Outcome, replay
from tests.twin.workloads import POLICIES, SIZES, binary_jobs, fitting, mixed_jobs

ROOT = Path(__file__).resolve().parents[2]


def drawn(strategy: st.SearchStrategy[Setup], count: int) -> list[Setup]:
    """Examples of a strategy, the same ones every time."""
    found: list[Setup] = []

    @settings(
        max_examples=count,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    )
    @given(strategy)
    def note(setup: Setup) -> None:
        found.append(setup)

    note()
    return found


def batch(count: int, most_jobs: int) -> list[Setup]:
    setups: list[Setup] = []
    for policy in POLICIES:
        any_setup = st.builds(
            fitting,
            jobs=mixed_jobs(most_jobs) | binary_jobs(most_jobs),
            units=st.integers(1, 9),
            policy=st.just(policy),
            fractional=st.booleans(),
            restart_s=st.sampled_from([0.0, 0.75]),
            sizes=st.sampled_from(SIZES),
            predict=st.booleans(),
        )
        setups += drawn(any_setup, count)
    return setups


def replay_interpreted(setups: list[Setup], folder: Path) -> list[Outcome]:
    source, target = folder / "setups", folder / "outcomes"
    source.write_bytes(pickle.dumps(setups))
    subprocess.run(
        [sys.executable, "-m", "tests.twin.replaying", str(source), str(target)],
        cwd=ROOT,
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
        check=True,
    )
    interpreted, outcomes = pickle.loads(target.read_bytes())
    assert interpreted
    return outcomes


def check_same(setups: list[Setup], folder: Path) -> None:
    compiled = replay(setups)
    assert replay(setups) == compiled
    for setup, ours, theirs in zip(setups, compiled, replay_interpreted(setups, folder), strict=True):
        differing = [name for name in ours if ours[name] != theirs[name]]
        assert not differing, (setup, differing)


def test_same_bits(tmp_path: Path) -> None:
    check_same(batch(20, 12), tmp_path)


@pytest.mark.slow
def test_same_bits_at_length(tmp_path: Path) -> None:
    check_same(batch(120, 20), tmp_path)
