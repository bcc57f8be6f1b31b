"""What is believed of a job that outruns its estimate."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from betimes import Workload, simulate
from betimes.core.work import doubled as doubled_kernel
from betimes.kernels import entry

doubled = entry(doubled_kernel)

SIZES = st.floats(1e-3, 1e9)


@given(size=SIZES, done=st.floats(0.0, 1e12))
def test_doubled_is_the_least_doubling_that_exceeds_what_is_done(size: float, done: float) -> None:
    now = doubled(size, done)
    assert now > done
    assert now == size or now / 2.0 <= done
    doublings = np.log2(now / size)
    assert doublings == round(doublings)


def test_a_job_that_outruns_its_estimate_does_not_stay_the_shortest() -> None:
    # The first is believed to need 2 s and needs 100; the second needs 8 and says so. At 2 s the first is
    # believed to need 2 more, at 4 s 4 more, at 8 s 8 more: then both need as much, and at 8 s the first keeps
    # its turn by seniority until 16 s, when it is believed to need 16 more.
    jobs = Workload.from_columns(submit_s=[0.0, 0.0], work_s=[100.0, 8.0], estimate_s=[2.0, 8.0])
    result = simulate(jobs, "srtf", units=1, sizes="estimate")
    assert result.jobs.finish_s.tolist() == [108.0, 24.0]
    stubborn = simulate(jobs, "srtf", units=1, sizes="true")
    assert stubborn.jobs.finish_s.tolist() == [108.0, 8.0]


def test_the_belief_is_what_is_promised() -> None:
    # Alone, from 0: believed 3 s, so that is promised; the second arrives when 3 became 6, of which 2 are left.
    jobs = Workload.from_columns(submit_s=[0.0, 4.0], work_s=[10.0, 1.0], estimate_s=[3.0, 1.0])
    result = simulate(jobs, "fifo", units=1, sizes="estimate", predict=True)
    assert result.jobs.predicted_finish_s.tolist() == [3.0, 7.0]
    assert result.jobs.finish_s.tolist() == [10.0, 11.0]
