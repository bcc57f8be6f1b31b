"""What holds for every policy on every workload, read off the recorded segments alone."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from betimes import Workload, simulate
from betimes.outcome import Result
from betimes.workload.speedup import SpeedupTable, bind
from tests.twin.pool.crowds import EVERY_POLICY, MODES, crowd

NEARLY_NOTHING = 1e-8  # of a unit


def at_every_instant(jobs: Workload, result: Result, units: int, fractional: bool) -> None:
    """No more than all units are held, and none is idle that a job in the pool could use."""
    assert result.segments is not None
    s, finish_s = result.segments, result.jobs.finish_s
    instants = np.unique(np.concatenate([s.start_s, s.end_s, jobs.submit_s]))
    for now, later in pairwise(instants):
        if later - now < 1e-9 * later:  # two events that would be one without rounding
            continue
        held = np.zeros(len(jobs))
        during = (s.start_s <= now) & (s.end_s >= later)
        np.add.at(held, s.row[during], s.units[during])
        left = units - held.sum()
        assert left >= -NEARLY_NOTHING
        present = (jobs.submit_s <= now) & (finish_s >= later)
        assert not held[~present].any()
        running = present & (held > 0)
        if left > NEARLY_NOTHING:
            assert (held[running] >= jobs.max_units[running] - NEARLY_NOTHING).all()
            least = np.where((jobs.min_units == 1) & fractional, 0, jobs.min_units)
            assert (least[present & ~running] > left + NEARLY_NOTHING).all()
        assert (held[running] <= jobs.max_units[running]).all()
        if not fractional:
            assert (held == np.floor(held)).all()
        narrowest = np.where((jobs.min_units == 1) & fractional, 0, jobs.min_units)
        assert (held[running] >= narrowest[running]).all()


def from_submission_to_finish(jobs: Workload, result: Result, table: SpeedupTable, restart_s: float) -> None:
    """The work done in a job's segments, less what restarts cost, is the job's work."""
    assert result.segments is not None
    s = result.segments
    for row in range(len(jobs)):
        done = lost = attained = 0.0
        before_end, before_units, stall = -1.0, 0.0, 0.0
        mine = s.row == row
        for start, end, units in zip(s.start_s[mine], s.end_s[mine], s.units[mine], strict=True):
            assert jobs.submit_s[row] <= start < end
            if (before_end, before_units) != (start, units):
                stall = restart_s if before_end >= 0.0 else 0.0
            stalled = min(stall, end - start)
            stall -= stalled
            lost += stalled
            below = int(units)
            speeds = table.speedup[jobs.curve[row]]
            speed = speeds[below]
            if units > below:
                speed += (speeds[below + 1] - speeds[below]) * (units - below)
            done += (end - start - stalled) * speed
            attained += (end - start) * units
            before_end, before_units = end, units
        assert before_end == result.jobs.finish_s[row]
        assert done == pytest.approx(jobs.work_s[row], rel=1e-9)
        assert lost == pytest.approx(result.jobs.restart_s[row], abs=1e-6)
        assert attained == pytest.approx(result.jobs.units_s[row], rel=1e-9)
        assert result.jobs.start_s[row] == s.start_s[mine][0]


def check(jobs: Workload, policy: str, units: int, fractional: bool, sizes: str, restart_s: float) -> None:
    result = simulate(
        jobs, policy, units=units, fractional=fractional, sizes=sizes, restart_s=restart_s, timeline=True
    )
    assert result.jobs.finished.all()
    at_every_instant(jobs, result, units, fractional)
    table, unknown = bind(jobs.curve_names, int(jobs.max_units.max()))
    assert not unknown
    from_submission_to_finish(jobs, result, table, restart_s)


CHOICES = given(
    seed=st.integers(0, 2**32 - 1),
    units=st.integers(8, 24),
    whole_times=st.booleans(),
    sizes=st.sampled_from(["true", "estimate", "last-two", "noise:0.3"]),
    restart_s=st.sampled_from([0.0, 3.0]),
)


@EVERY_POLICY
@MODES
@CHOICES
@settings(max_examples=6)
def test_units_and_work_are_conserved(
    policy: str, fractional: bool, seed: int, units: int, whole_times: bool, sizes: str, restart_s: float
) -> None:
    check(crowd(seed, 40, whole_times=whole_times), policy, units, fractional, sizes, restart_s)


@pytest.mark.slow
@EVERY_POLICY
@MODES
@CHOICES
@settings(max_examples=25)
def test_units_and_work_are_conserved_at_length(
    policy: str, fractional: bool, seed: int, units: int, whole_times: bool, sizes: str, restart_s: float
) -> None:
    check(crowd(seed, 120, whole_times=whole_times), policy, units, fractional, sizes, restart_s)
