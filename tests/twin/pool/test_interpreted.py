"""The compiled kernels and the same sources run by Python give the same bits, and so do two runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import strategies as st

from tests.twin.pool.driving import Setup, run_engine
from tests.twin.pool.replaying import check_same, drawn
from tests.twin.pool.workloads import POLICIES, SIZES, binary_jobs, fitting, mixed_jobs


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


def test_same_bits(tmp_path: Path) -> None:
    check_same(run_engine, batch(3, 12), tmp_path)


@pytest.mark.slow
def test_same_bits_at_length(tmp_path: Path) -> None:
    check_same(run_engine, batch(20, 20), tmp_path)
