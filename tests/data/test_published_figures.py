"""The figures of the PCS study, from whole traces, to every digit that is printed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from betimes import Result

Replay = Callable[..., Result]

# Study, figure 7: average completion time divided by that of AFS. Themis's stands apart (`test_themis_...`).
NORMALISED_JCT = {
    "2869ce": {"fifo": 4.857, "srsf": 1.428},
    "0e4a51": {"fifo": 9.301, "srsf": 1.064},
    "b436b2": {"fifo": 59.979, "srsf": 1.316},
    "6c71a0": {"fifo": 31.521, "srsf": 1.073},
}

# Same figure: average and 99th percentile of the prediction error, percent.
ERRORS = {
    ("2869ce", "fifo"): (0.0, 0.0),
    ("2869ce", "afs"): (9.027, 113.631),
    ("2869ce", "srsf"): (11.166, 241.127),
    ("0e4a51", "fifo"): (0.0, 0.0),
    ("0e4a51", "afs"): (25.632, 239.758),
    ("0e4a51", "srsf"): (26.619, 313.503),
}

# Traces of more than 5,000 jobs: the study predicted about 5,000 of them, drawn at random without a seed.
SAMPLED_ERRORS = {
    ("b436b2", "srsf"): 86.569,
    ("b436b2", "afs"): 83.816,
    ("6c71a0", "srsf"): 18.358,
    ("6c71a0", "afs"): 16.963,
}
SAMPLE = 5000


def jct(result: Result) -> np.ndarray:
    return result.jobs.finish_s - result.jobs.submit_s


def error_percent(result: Result) -> np.ndarray:
    promised = result.jobs.predicted_finish_s - result.jobs.submit_s
    return 100 * np.abs(promised - jct(result)) / promised


@pytest.mark.parametrize("name", NORMALISED_JCT)
def test_normalised_completion_times(name: str, replay: Replay) -> None:
    base = jct(replay(name, "afs")).mean()
    ours = {policy: round(jct(replay(name, policy)).mean() / base, 3) for policy in NORMALISED_JCT[name]}
    assert ours == NORMALISED_JCT[name]


@pytest.mark.parametrize(("name", "policy"), ERRORS)
def test_prediction_errors(name: str, policy: str, replay: Replay) -> None:
    errors = error_percent(replay(name, policy, predict=True))
    average, p99 = ERRORS[name, policy]
    assert not np.isnan(errors).any()
    if policy == "fifo":  # whoever comes later takes nothing away
        assert errors.max() == 0.0
    assert (round(errors.mean(), 3), round(float(np.percentile(errors, 99)), 3)) == (average, p99)


def test_predicting_changes_no_schedule(replay: Replay) -> None:
    for policy in ("fifo", "srsf", "afs"):
        plain, predicting = replay("2869ce", policy), replay("2869ce", policy, predict=True)
        np.testing.assert_array_equal(plain.jobs.finish_s, predicting.jobs.finish_s)


def test_ratio_of_fifo_to_srsf(replay: Replay) -> None:
    # The figure of 8.742 that is quoted is the quotient of the two printed numbers, 9.301 / 1.064.
    base = jct(replay("0e4a51", "afs")).mean()
    fifo, srsf = (round(jct(replay("0e4a51", policy)).mean() / base, 3) for policy in ("fifo", "srsf"))
    assert round(fifo / srsf, 3) == 8.742


def test_themis_with_the_lease_in_the_snapshot(replay: Replay) -> None:
    # The printed 33.82 % comes from play-outs that forget the lease; 13.858 % and 1.625 are the correct ones.
    result = replay("2869ce", "themis", predict=True)
    assert round(error_percent(result).mean(), 3) == 13.858
    assert round(jct(result).mean() / jct(replay("2869ce", "afs")).mean(), 3) == 1.625


@pytest.mark.parametrize(("name", "policy"), SAMPLED_ERRORS)
def test_errors_that_the_study_sampled(name: str, policy: str, replay: Replay) -> None:
    errors = error_percent(replay(name, policy, predict=True))
    share = SAMPLE / len(errors)
    error_of_the_mean = errors.std() / np.sqrt(SAMPLE) * np.sqrt(1 - share)
    assert error_of_the_mean < 0.05 * errors.mean()
    assert abs(errors.mean() - SAMPLED_ERRORS[name, policy]) < 3 * error_of_the_mean
