"""What the scheduler is told of sizes, and jobs that outrun it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from betimes import Workload, simulate
from betimes.errors import InputError
from betimes.twin.sizes import parse_sizes
from tests.reference import Job
from tests.twin.pool.comparing import differences
from tests.twin.pool.crowds import EVERY_POLICY, crowd
from tests.twin.pool.driving import Setup, run_engine
from tests.twin.pool.replaying import outcome_of
from tests.twin.pool.workloads import oracle


def one_after_the_other(user: list[int], estimate_s: list[float]) -> Workload:
    """Jobs that have the only unit to themselves: what is promised is what is believed."""
    work_s = [4.0, 8.0, 6.0, 6.0, 2.0]
    return Workload.from_columns(
        submit_s=[0.0, 10.0, 30.0, 50.0, 70.0], work_s=work_s, user=user, estimate_s=estimate_s
    )


def believed_s(jobs: Workload, sizes: str) -> list[float]:
    result = simulate(jobs, "srsf", units=1, predict=True, sizes=sizes)
    return (result.jobs.predicted_finish_s - jobs.submit_s).tolist()


def test_the_users_last_two_jobs() -> None:
    """Nothing to go by, one job, two, two but the user's own limit is lower; a user that nobody knows."""
    jobs = one_after_the_other([5, 5, 5, 5, -1], [100.0, 100.0, 100.0, 5.0, 9.0])
    assert believed_s(jobs, "last-two") == [100.0, 4.0, 6.0, 5.0, 9.0]


def test_each_user_has_a_history_of_its_own() -> None:
    jobs = one_after_the_other([5, 70, 5, 70, 5], [100.0] * 5)
    assert believed_s(jobs, "last-two") == [100.0, 100.0, 4.0, 8.0, 5.0]


def test_jobs_without_an_estimate_have_the_median() -> None:
    told: list[str] = []
    jobs = one_after_the_other([1] * 5, [7.0, math.nan, 3.0, 0.25, math.nan])
    assert believed_s(jobs, "estimate") == [7.0, 3.0, 3.0, 1.0, 3.0]
    simulate(jobs, "fifo", units=1, sizes="estimate", warn=told.append)
    assert len(told) == 1
    assert told[0].startswith("2 jobs")
    assert "estimate" in told[0]


def test_no_job_has_an_estimate() -> None:
    with pytest.raises(InputError, match=r"no job of .* has an estimate"):
        believed_s(one_after_the_other([1] * 5, [math.nan] * 5), "estimate")


def test_history_needs_no_estimates() -> None:
    """An hour is believed of a user's first job, and then what the last two have shown."""
    jobs = one_after_the_other([1] * 5, [math.nan] * 5)
    assert believed_s(jobs, "last-two") == [3600.0, 4.0, 6.0, 7.0, 6.0]


@pytest.mark.parametrize(
    "text", ["", "truth", "true:1", "noise", "noise:", "noise:1", "noise:-0.1", "noise:x"]
)
def test_a_choice_that_is_none(text: str) -> None:
    with pytest.raises(InputError, match="--sizes"):
        parse_sizes(text)


def test_noise_is_drawn_by_the_seed_within_its_bounds() -> None:
    jobs = crowd(1, 400)
    lone = replace(jobs, submit_s=np.arange(400) * 1e5, min_units=np.ones(400, dtype=np.int64))

    def error(seed: int, noise: str) -> np.ndarray:
        result = simulate(lone, "fifo", units=8, predict=True, sizes=noise, seed=seed)
        promised = result.jobs.predicted_finish_s - lone.submit_s
        return promised / (result.jobs.finish_s - lone.submit_s) - 1.0

    errors = error(1, "noise:0.2")
    assert (np.abs(errors) <= 0.2 + 1e-6).all()
    assert errors.min() < -0.18
    assert errors.max() > 0.18
    assert abs(errors.mean()) < 0.03
    assert error(1, "noise:0.2").tobytes() == errors.tobytes()
    assert (error(2, "noise:0.2") != errors).any()


@EVERY_POLICY
def test_no_noise_is_the_truth(policy: str) -> None:
    def outcome(sizes: str) -> dict[str, bytes]:
        return outcome_of(simulate(crowd(2, 60), policy, units=9, sizes=sizes, timeline=True))

    assert outcome("noise:0") == outcome("true")


def test_outrun_at_the_instant_at_which_another_end_takes_the_units_away() -> None:
    """The first job reaches its estimate at 6, when the second ends and the other two take over.

    It has outrun its estimate at 6, not when it is next given units.
    """
    jobs = (Job(0, 5, estimate=4), Job(0, 4), Job(0, 3), Job(0, 3))
    setup = Setup(jobs, 2, "las:quantum=2", sizes="estimate")
    assert differences(run_engine(setup), oracle(setup, exact=True)) == []
