"""Policies that are one and the same under the right parameters."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from betimes import Result, Workload, simulate

UNITS = 6
CURVES = ("linear", "amdahl:0.1", "power:0.7")
ONE_CLASS = "wfq:T=1e9,zeta_min=0"


@st.composite
def workloads(draw: st.DrawFn, jobs: int = 25, minimums: bool = True) -> Workload:
    n = draw(st.integers(1, jobs))

    def column(values: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(values, min_size=n, max_size=n))

    least = column(st.integers(1, UNITS)) if minimums else [1] * n
    return Workload.from_columns(
        submit_s=np.cumsum(column(st.sampled_from([0.0, 0.0, 1.0, 3.7, 20.0]))),
        work_s=column(st.one_of(st.integers(1, 60).map(float), st.floats(0.5, 100.0))),
        min_units=least,
        max_units=[m + extra for m, extra in zip(least, column(st.integers(0, 2 * UNITS)), strict=True)],
        curve=column(st.sampled_from(CURVES)),
    )


def assert_bitwise_equal(a: Result, b: Result) -> None:
    assert a.jobs == b.jobs
    assert a.segments == b.segments


@pytest.mark.parametrize("fractional", [True, False], ids=["fractional", "whole"])
@pytest.mark.parametrize("restart_s", [0.0, 2.5])
@given(workload=workloads())
def test_wfq_with_one_class_and_no_cap_is_fifo(
    workload: Workload, fractional: bool, restart_s: float
) -> None:
    fifo, wfq = (
        simulate(
            workload,
            policy,
            units=UNITS,
            fractional=fractional,
            restart_s=restart_s,
            predict=True,
            timeline=True,
        )
        for policy in ("fifo", ONE_CLASS)
    )
    assert_bitwise_equal(fifo, wfq)


@given(workload=workloads(jobs=7, minimums=False), extra=st.integers(0, 2))
def test_wfq_with_a_class_for_every_job_is_max_min(workload: Workload, extra: int) -> None:
    # One threshold a size; jobs of equal size would share a class, so sizes are made distinct.
    sizes = np.unique(workload.work_s + np.arange(len(workload)))
    workload = Workload.from_columns(
        submit_s=workload.submit_s,
        work_s=workload.work_s + np.arange(len(workload)),
        max_units=workload.max_units,
        curve=[workload.curve_names[c] for c in workload.curve],
    )
    assume(len(sizes) == len(workload))
    ends = [Fraction(float(size)) for size in sizes] + [Fraction(10_000 + k) for k in range(extra)]
    policy = (
        f"wfq:thresholds={'+'.join(map(str, ends))},weights={'+'.join(['1'] * (len(ends) + 1))},zeta_min=0"
    )
    fair, wfq = (
        simulate(workload, p, units=UNITS, fractional=True, predict=True) for p in ("max-min", policy)
    )
    np.testing.assert_allclose(wfq.jobs.finish_s, fair.jobs.finish_s, rtol=1e-9)
    np.testing.assert_allclose(wfq.jobs.predicted_finish_s, fair.jobs.predicted_finish_s, rtol=1e-9)


@pytest.mark.parametrize("fractional", [True, False], ids=["fractional", "whole"])
@pytest.mark.parametrize("restart_s", [0.0, 2.5])
@given(workload=workloads())
def test_fifo_keeps_its_promises_to_the_last_bit(
    workload: Workload, fractional: bool, restart_s: float
) -> None:
    result = simulate(workload, "fifo", units=UNITS, fractional=fractional, restart_s=restart_s, predict=True)
    np.testing.assert_array_equal(result.jobs.predicted_finish_s, result.jobs.finish_s)
