"""Run times from what is known at submission."""

from __future__ import annotations

import numpy as np
import pytest

from betimes.errors import InputError
from betimes.foresight.waits.run_times import RUN_TIME_KINDS, predict_run_times
from betimes.workload import Workload


def jobs_of(*rows: tuple[float, int, float]) -> Workload:
    """(submit_s, user, run_s)"""
    submit_s, user, run_s = zip(*rows, strict=True)
    return Workload.from_columns(submit_s=submit_s, work_s=run_s, user=list(user))


def test_the_mean_of_a_users_last_two_jobs_and_of_all_for_a_new_user() -> None:
    earlier = jobs_of((0.0, 1, 100.0), (1.0, 1, 200.0), (2.0, 1, 400.0), (3.0, 2, 50.0))
    later = jobs_of((4.0, 1, 600.0), (5.0, 1, 1.0), (6.0, 2, 1.0), (7.0, 3, 1.0))
    assert predict_run_times("last-two", earlier, later).tolist() == [300.0, 500.0, 50.0, 1352.0 / 7.0]


@pytest.mark.parametrize("kind", RUN_TIME_KINDS[1:])
def test_models_find_what_a_limit_says(kind: str) -> None:
    rng = np.random.default_rng(1)
    limit_s = rng.uniform(1000.0, 10_000.0, 2000)
    jobs = Workload.from_columns(submit_s=np.arange(2000.0), work_s=limit_s / 2.0, estimate_s=limit_s)
    predicted = predict_run_times(kind, jobs.head(1500), jobs[np.arange(1500, 2000)])
    within = 0.3 if kind == "svr" else 0.1  # its kernel does not reach to times of day that it has not seen
    assert np.abs(predicted / (limit_s[1500:] / 2.0) - 1.0).mean() < within


def test_an_unknown_predictor_is_refused() -> None:
    with pytest.raises(InputError, match="choose last-two, linear, forest, boosting"):
        predict_run_times("oracle", jobs_of((0.0, 1, 1.0)), jobs_of((0.0, 1, 1.0)))
