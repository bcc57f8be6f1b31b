"""What no order can change: the work done by every instant, Little's law, and the count of who was there."""

from __future__ import annotations

import numpy as np
import pytest

from betimes import Result, Workload, simulate
from tests.theory.queues import Floats, bounded_pareto, exponential, poisson_workload

UNITS = 8
POLICIES = (
    "fifo",
    "srsf",
    "srtf",
    "las:quantum=0.1",
    "themis:lease=0.1",
    "afs",
    "max-min",
    "wfq:thresholds=1+4,weights=3/5+1/5+1/5,zeta_min=0",
)


def run(policy: str, *, fractional: bool, seed: int = 31, jobs: int = 3000) -> Result:
    workload = poisson_workload(jobs, 0.8, bounded_pareto(), seed, units=UNITS, max_units=UNITS)
    return simulate(workload, policy, units=UNITS, fractional=fractional, timeline=True)


def held_by(result: Result, at: Floats) -> Floats:
    """Unit-seconds handed out up to each of the sorted instants, from the recorded segments."""
    segments = result.segments
    assert segments is not None
    instants = np.unique(np.concatenate([segments.start_s, segments.end_s, at]))
    change = np.zeros(len(instants))
    np.add.at(change, np.searchsorted(instants, segments.start_s), segments.units)
    np.add.at(change, np.searchsorted(instants, segments.end_s), -segments.units)
    busy = np.cumsum(change)[:-1]
    total = np.concatenate([[0.0], np.cumsum(busy * np.diff(instants))])
    return total[np.searchsorted(instants, at)]


@pytest.mark.parametrize("fractional", [True, False], ids=["fractional", "whole"])
@pytest.mark.parametrize("policy", POLICIES[1:])
def test_all_policies_have_done_the_same_work_at_every_instant(policy: str, fractional: bool) -> None:
    # Every job can use every unit and speeds up linearly: whoever holds units, the backlog is the same.
    first, other = run("fifo", fractional=fractional), run(policy, fractional=fractional)
    at = np.sort(np.concatenate([first.jobs.submit_s, first.jobs.finish_s, other.jobs.finish_s]))
    np.testing.assert_allclose(held_by(other, at), held_by(first, at), rtol=1e-9)
    assert other.jobs.finish_s.max() == pytest.approx(first.jobs.finish_s.max(), rel=1e-12)
    assert not np.array_equal(first.jobs.finish_s, other.jobs.finish_s)


@pytest.mark.parametrize("policy", POLICIES)
def test_segments_are_the_work_of_their_jobs(policy: str) -> None:
    result = run(policy, fractional=True)
    segments = result.segments
    assert segments is not None
    given = np.bincount(segments.row, segments.units * (segments.end_s - segments.start_s), len(result.jobs))
    np.testing.assert_allclose(given, result.jobs.work_s, rtol=1e-9)
    np.testing.assert_allclose(given, result.jobs.units_s, rtol=1e-9)


@pytest.mark.parametrize("policy", POLICIES)
def test_littles_law(policy: str) -> None:
    # Jobs in service by their segments, waiting by start and preemption gaps: together they are all who are there.
    result = run(policy, fractional=False)
    segments, jobs = result.segments, result.jobs
    assert segments is not None
    instants = np.unique(np.concatenate([jobs.submit_s, jobs.finish_s]))
    present = np.searchsorted(jobs.submit_s, instants, "right") - np.searchsorted(
        np.sort(jobs.finish_s), instants, "right"
    )
    span = instants[-1] - instants[0]
    number = np.sum(present[:-1] * np.diff(instants)) / span
    response = np.mean(jobs.finish_s - jobs.submit_s)
    assert number == pytest.approx(len(jobs) / span * response, rel=1e-10)
    served_s = np.bincount(segments.row, segments.end_s - segments.start_s, len(jobs))
    waited_s = _gaps(result)
    np.testing.assert_allclose(served_s + waited_s, jobs.finish_s - jobs.submit_s, rtol=1e-9, atol=1e-9)


def _gaps(result: Result) -> Floats:
    """Seconds that each job spends between submission and finish without a segment."""
    segments, jobs = result.segments, result.jobs
    assert segments is not None
    order = np.lexsort((segments.start_s, segments.row))
    row, start, end = segments.row[order], segments.start_s[order], segments.end_s[order]
    first = np.concatenate([[True], row[1:] != row[:-1]])
    before = np.where(first, jobs.submit_s[row], np.concatenate([[0.0], end[:-1]]))
    gap = start - before
    assert gap.min() >= 0.0, "two segments of a job overlap, or one starts before its submission"
    last = np.concatenate([first[1:], [True]])
    np.testing.assert_array_equal(end[last], jobs.finish_s[row[last]])
    return np.bincount(row, gap, len(jobs)).astype(np.float64)


@pytest.mark.parametrize("policy", ["fifo", "srsf", "afs", "max-min"])
def test_contention_counts_who_is_there_at_every_event(policy: str) -> None:
    # Without wake-ups the events are the submissions and the finishes; sizes are continuous, so none coincide.
    result = run(policy, fractional=True, jobs=400)
    submit, finish = result.jobs.submit_s, result.jobs.finish_s
    events = np.sort(np.concatenate([submit, finish]))
    before = np.array([np.sum((submit < t) & (finish >= t)) for t in events])
    for row in range(len(submit)):
        # At its own arrival a job counts itself.
        later = (events > submit[row]) & (events <= finish[row])
        own = np.sum((submit <= submit[row]) & (finish > submit[row]))
        seen = (own + before[later].sum()) / (1 + later.sum())
        assert result.jobs.contention_mean[row] == pytest.approx(seen, rel=1e-12)


@pytest.mark.parametrize("policy", POLICIES)
def test_busy_units_are_the_offered_load(policy: str) -> None:
    # Rigid jobs as wide as the machine lets one at a time run; the work is what was offered, by any order.
    workload = poisson_workload(2000, 0.6, exponential(), 32, units=4)
    rigid = Workload.from_columns(
        submit_s=workload.submit_s,
        work_s=workload.work_s,
        min_units=1 + np.arange(2000) % 4,
        max_units=1 + np.arange(2000) % 4,
    )
    result = simulate(rigid, policy, units=4, timeline=True)
    end = np.array([result.jobs.finish_s.max()])
    assert held_by(result, end)[0] == pytest.approx(workload.work_s.sum(), rel=1e-9)
