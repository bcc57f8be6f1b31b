"""What holds of every configuration of weighted fair queueing, on random workloads."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes import Result, Workload, simulate
from betimes.foresight.tuning import Evaluator, HeuristicSpace, Problem, parse_objectives
from betimes.outcome.levels import units_in_use
from betimes.twin.options import SimulationOptions

JOBS = 25


def crowd(seed: int, widest: int) -> Workload:
    draw = np.random.default_rng(seed)
    return Workload.from_columns(
        submit_s=np.cumsum(draw.exponential(2.0, JOBS) * draw.integers(0, 2, JOBS)),
        work_s=draw.choice([1.0, 2.0, 30.0], JOBS) + draw.permutation(JOBS) / 1024,  # no two the same
        max_units=draw.integers(1, widest + 1, JOBS),
        curve=["linear", "amdahl:0.2", "power:0.7"][seed % 3],
        name="crowd",
    )


pools = given(
    seed=st.integers(0, 10_000),
    units=st.integers(1, 12),
    widest=st.integers(1, 8),
    fractional=st.booleans(),
)


@pools
def test_one_class_without_a_cap_is_first_come_first_served(
    seed: int, units: int, widest: int, fractional: bool
) -> None:
    jobs = crowd(seed, widest)
    problem = Problem(
        jobs,
        parse_objectives(["jct:avg", "pred_err:max"]),
        SimulationOptions(units=units, fractional=fractional),
    )
    evaluator = Evaluator(problem)
    space = HeuristicSpace(evaluator.sizes())
    config = space.config(np.array([space.high[0], 1.0, 0.0, 0.1]))
    assert config is not None
    assert config.thresholds == ()
    ours, fifo = evaluator.result(config.policy), evaluator.result("fifo")
    np.testing.assert_array_equal(ours.jobs.finish_s, fifo.jobs.finish_s)
    np.testing.assert_array_equal(ours.jobs.predicted_finish_s, fifo.jobs.predicted_finish_s)
    values = evaluator.values(config.policy)
    assert values is not None
    assert values[1] == 0.0


@given(seed=st.integers(0, 10_000), units=st.integers(1, 12), widest=st.integers(1, 8))
def test_a_job_a_class_at_equal_weights_is_max_min(seed: int, units: int, widest: int) -> None:
    jobs = crowd(seed, widest)
    assert len(set(jobs.work_s)) == JOBS
    ends = "+".join(repr(float(size)) for size in np.sort(jobs.work_s)[:-1])
    weights = "+".join(["1"] * JOBS)
    run = simulate(jobs, f"wfq:thresholds={ends},weights={weights},zeta_min=0", units=units, fractional=True)
    shares = simulate(jobs, "max-min", units=units, fractional=True)
    np.testing.assert_allclose(run.jobs.finish_s, shares.jobs.finish_s, rtol=1e-9)


def held_at(run: Result, at: float) -> np.ndarray:
    """(jobs,) units that each job holds just after a time."""
    assert run.segments is not None
    held = np.zeros(len(run.jobs))
    now = (run.segments.start_s <= at) & (at < run.segments.end_s)
    held[run.segments.row[now]] = run.segments.units[now]
    return held


@given(
    seed=st.integers(0, 10_000),
    units=st.integers(2, 12),
    widest=st.integers(1, 8),
    most=st.floats(0.2, 3.0),
    decay=st.floats(-1.0, 1.5),
    zeta_min=st.floats(0.0, 1.0),
    delta=st.floats(0.05, 0.9),
)
def test_classes_get_their_share_and_nothing_is_idle(
    seed: int, units: int, widest: int, most: float, decay: float, zeta_min: float, delta: float
) -> None:
    jobs = crowd(seed, widest)
    config = HeuristicSpace(np.array(jobs.work_s)).config(np.array([most, decay, zeta_min, delta]))
    if config is None:
        return
    run = simulate(jobs, config.policy, units=units, fractional=True, timeline=True)
    assert run.segments is not None
    group = np.searchsorted(config.thresholds, jobs.work_s)
    times, _ = units_in_use(run.segments.start_s, run.segments.end_s, run.segments.units)
    ends = np.append(times[1:], np.inf)
    for start, end in zip(times[:-1], ends[:-1], strict=True):
        at = (start + end) / 2
        active = (jobs.submit_s <= at) & (run.jobs.finish_s > at)
        held = held_at(run, at)
        assert held.sum() == pytest.approx(min(units, jobs.max_units[active].sum()))
        for number, weight in enumerate(config.weights):
            demand = jobs.max_units[active & (group == number)].sum()
            due = min(float(weight) * units, demand)
            assert held[group == number].sum() >= due - 1e-6 * units
