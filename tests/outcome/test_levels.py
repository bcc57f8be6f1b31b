"""Step functions against the same counts made by asking at every instant."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes.outcome import Result
from betimes.outcome.levels import averages, held_from, jobs_waiting, levels, thinned, units_in_use
from tests.outcome.cases import four_jobs, random_results


def at(level: tuple[np.ndarray, np.ndarray], time_s: float) -> float:
    time, value = level
    i = int(np.searchsorted(time, time_s, side="right")) - 1
    return float(value[i]) if i >= 0 else 0.0


def test_changes_at_one_instant_count_together() -> None:
    time_s, value = levels(np.array([2.0, 0.0, 2.0, 5.0]), np.array([-1, 3, 4, -6]))
    assert (time_s.tolist(), value.tolist()) == ([0.0, 2.0, 5.0], [3, 6, 0])
    assert len(levels(np.empty(0), np.empty(0))[0]) == 0


def test_four_jobs_wait_for_one_unit() -> None:
    case = four_jobs("themis")
    assert case.segments is not None
    jobs, segments = case.jobs, case.segments
    held = (segments.start_s, segments.end_s, segments.units)
    assert units_in_use(*held)[1][:-1].tolist() == [1.0] * 15
    waiting = jobs_waiting(jobs.submit_s, jobs.finish_s, *held)
    expected = {0.5: 1, 1.5: 2, 2.5: 2, 3.5: 1, 9.5: 1, 10.5: 2, 15.5: 2, 16.5: 1, 18.5: 1, 19.5: 0, 28.0: 0}
    assert {time: at(waiting, time) for time in expected} == expected


@given(random_results())
def test_counts_agree_with_asking_every_job(case: Result) -> None:
    if case.segments is None or not len(case.segments):
        return
    jobs, held = case.jobs, case.segments
    done = jobs.take(~np.isnan(jobs.finish_s))
    in_use = units_in_use(held.start_s, held.end_s, held.units)
    waiting = jobs_waiting(done.submit_s, done.finish_s, held.start_s, held.end_s, held.units)
    for time_s in np.linspace(0.0, float(held.end_s.max()) + 1.0, 37).tolist():
        running = (held.start_s <= time_s) & (time_s < held.end_s)
        assert at(in_use, time_s) == pytest.approx(float(held.units[running].sum()), abs=1e-9)
        queued = (done.submit_s <= time_s) & (time_s < done.start_s)
        assert at(waiting, time_s) == queued.sum()


@given(st.integers(2, 400), st.integers(1, 60), st.integers(0, 2**32 - 1))
def test_thinning_keeps_the_area(n: int, most: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    time_s, value = np.cumsum(random.uniform(0.1, 3.0, n)), random.uniform(0.0, 9.0, n)
    end_s = float(time_s[-1]) + 1.0
    fewer, averages = thinned(time_s, value, end_s, most)
    assert len(fewer) <= max(most, min(n, most))
    area = float((value * np.diff(np.append(time_s, end_s))).sum())
    assert float((averages * np.diff(np.append(fewer, end_s))).sum()) == pytest.approx(area)
    assert averages.max() <= value.max() + 1e-9


def test_averages_between_edges_are_exact() -> None:
    level = np.array([1.0, 3.0]), np.array([2.0, 4.0])  # 0 until 1 s, 2 until 3 s, then 4
    assert averages(*level, np.array([0.0, 2.0, 4.0, 6.0])).tolist() == [1.0, 3.0, 4.0]


def test_a_placement_holds_from_the_next_stretch_of_its_job() -> None:
    row, start_s = np.array([1, 0, 1, 0]), np.array([0.0, 5.0, 6.0, 9.0])  # segments, in no order of jobs
    found = held_from(np.array([0, 0, 1, 1, 2, 1]), np.array([0.0, 6.0, 0.0, 7.0, 0.0, 6.0]), row, start_s)
    assert found.tolist() == [1, 3, 0, -1, -1, 2]
