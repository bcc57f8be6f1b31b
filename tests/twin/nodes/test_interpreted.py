"""The compiled kernels and the same sources run by Python give the same bits on nodes, and so do two runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import strategies as st

from betimes.foresight.nodes.predict import predicting
from betimes.outcome import Result
from tests.reference.nodes.cases import (
    BACKFILLINGS,
    PREEMPTIONS,
    Case,
    cases,
    crowded_cases,
    is_refused,
    preempting_policies,
    queueing_policies,
)
from tests.twin.nodes.driving import simulation_of
from tests.twin.pool.replaying import check_same, drawn

SIZES = ("true", "estimate", "last-two", "noise:0.5")


@dataclass(frozen=True)
class Setup:
    """One simulation: promise every job a finish, or no job."""

    case: Case
    sizes: str
    predict: bool


def run_nodes(setup: Setup) -> Result:
    run = simulation_of(setup.case, setup.sizes, timeline=True)
    wanted = np.ones(len(run.jobs), dtype=np.int64)
    run.run(predicting(run, wanted) if setup.predict else None)
    return run.result()


def batch(count: int, most_jobs: int) -> list[Setup]:
    """`count` cases of every way to fill gaps (under all orders), and of every way to make room."""
    kinds = [
        cases(
            queueing_policies().filter(lambda policy, gaps=gaps: policy.backfilling == gaps),
            most_jobs=most_jobs,
        )
        for gaps in BACKFILLINGS
    ]
    kinds += [crowded_cases(preempting_policies((preemption,))) for preemption in PREEMPTIONS]
    setups: list[Setup] = []
    for kind in kinds:
        possible = kind.filter(
            lambda case: not all(is_refused(job, case.nodes, case.policy) for job in case.jobs)
        )
        setups += drawn(st.builds(Setup, possible, st.sampled_from(SIZES), st.booleans()), count)
    return setups


def test_same_bits(tmp_path: Path) -> None:
    check_same(run_nodes, batch(2, 6), tmp_path)


@pytest.mark.slow
def test_same_bits_at_length(tmp_path: Path) -> None:
    check_same(run_nodes, batch(10, 20), tmp_path)
