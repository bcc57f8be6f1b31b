"""Conservative backfilling: with estimates that are never too short, nobody starts later than promised."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from betimes import Workload
from betimes.cluster import Cluster
from betimes.foresight.nodes.simulate import simulate_nodes
from tests.theory.nodes.test_reservations import kth_sp2

ROUNDING_S = 1e-6

Row = tuple[int, int, int, int]  # gap since the last, units, run time, how much longer the estimate is


def latest_excuse_s(workload: Workload, cluster: Cluster) -> float:
    """How much later than promised at its submission the unluckiest job starts."""
    result = simulate_nodes(workload, "conservative", cluster=cluster, sizes="estimate", predict=True)
    promised_s = result.jobs.predicted_finish_s - workload.estimate_s
    return float((result.jobs.start_s - promised_s).max())


def test_time_gained_by_one_is_not_taken_from_another() -> None:
    """The first job ends early: the wide one would move up into the place of the one reserved before it."""
    units = np.array([2, 2, 4, 2])
    workload = Workload.from_columns(
        submit_s=[0.0, 0.0, 1.0, 2.0],
        work_s=np.array([30.0, 60.0, 50.0, 40.0]) * units,
        min_units=units,
        max_units=units,
        estimate_s=[100.0, 60.0, 50.0, 40.0],
    )
    result = simulate_nodes(workload, "conservative", cluster=Cluster.pool(4), predict=True)
    assert (result.jobs.predicted_finish_s - workload.estimate_s).tolist() == [0, 0, 100, 60]
    assert result.jobs.start_s.tolist() == [0, 0, 70, 30]


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 4), st.integers(1, 4), st.integers(1, 12), st.integers(0, 12)),
        min_size=1,
        max_size=25,
    ),
    st.integers(1, 4),
)
def test_nobody_starts_later_than_promised(rows: list[Row], nodes: int) -> None:
    gaps, units, run, more = np.array(rows).T
    workload = Workload.from_columns(
        submit_s=np.cumsum(gaps).astype(float),
        work_s=(run * units).astype(float),
        min_units=units,
        max_units=units,
        estimate_s=(run + more).astype(float),
    )
    cluster = Cluster.pool(4) if nodes == 1 else Cluster.uniform(nodes, cpu=2)
    kept = workload[workload.max_units <= 2 * nodes] if nodes > 1 else workload
    if len(kept):
        assert latest_excuse_s(kept, cluster) <= ROUNDING_S


@pytest.mark.slow
def test_nobody_starts_later_than_promised_on_a_real_log() -> None:
    assert latest_excuse_s(kth_sp2().head(4000), Cluster.pool(100)) <= ROUNDING_S
