"""Shortest remaining time first against every schedule there is, on tiny cases."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes import Workload, simulate

Case = list[tuple[int, int]]  # (submit_s, work_s) of each job

CASES = st.lists(st.tuples(st.integers(0, 8), st.integers(1, 5)), min_size=1, max_size=5).map(sorted)


def least_total_response(jobs: Case) -> int:
    """The least sum of response times on one unit over all preemptive schedules on the grid of whole seconds."""

    @cache
    def rest(now: int, left: tuple[int, ...]) -> int:
        ready = [j for j, (submit, _) in enumerate(jobs) if submit <= now and left[j] > 0]
        if not ready:
            later = [submit for (submit, _), work in zip(jobs, left, strict=True) if work > 0]
            return rest(min(later), left) if later else 0
        options = []
        for job in ready:
            work = left[job] - 1
            response = now + 1 - jobs[job][0] if work == 0 else 0
            options.append(response + rest(now + 1, (*left[:job], work, *left[job + 1 :])))
        return min(options)

    return rest(0, tuple(work for _, work in jobs))


def total_response(jobs: Case, policy: str, *, fractional: bool = False) -> float:
    workload = Workload.from_columns(
        submit_s=[float(submit) for submit, _ in jobs], work_s=[float(work) for _, work in jobs]
    )
    result = simulate(workload, policy, units=1, fractional=fractional)
    return float(np.sum(result.jobs.finish_s - result.jobs.submit_s))


@given(jobs=CASES)
def test_shortest_remaining_first_is_the_best_schedule_of_all(jobs: Case) -> None:
    least = least_total_response(jobs)
    assert total_response(jobs, "srtf") == least
    assert total_response(jobs, "srsf") == least
    # On one unit the next unit counts most for the job that is nearest to its end.
    assert total_response(jobs, "afs") == least


@pytest.mark.parametrize("policy", ["fifo", "las:quantum=1", "themis:lease=1", "max-min"])
@given(jobs=CASES)
def test_no_policy_beats_it(policy: str, jobs: Case) -> None:
    assert total_response(jobs, policy, fractional=True) >= least_total_response(jobs) - 1e-9


def test_the_search_finds_what_is_known() -> None:
    # The shortest job first: 1, 1 + 2, 1 + 2 + 3; a long job is preempted for a short one and resumes.
    assert least_total_response([(0, 3), (0, 2), (0, 1)]) == 10
    assert least_total_response([(0, 5), (1, 1)]) == 6 + 1
