"""Intervals over seeds: by hand, and covering the truth as often as they claim."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from betimes.outcome import Interval, interval, over_seeds, summarise, to_json
from tests.outcome.cases import columns, four_jobs, result


def test_five_values_by_hand() -> None:
    # sd 1.5811, t(4 degrees of freedom, 97.5 %) 2.7764: 2.7764 * 1.5811 / sqrt(5)
    found = interval([1.0, 2.0, 3.0, 4.0, 5.0])
    assert (found.mean, found.n) == (3.0, 5)
    assert found.half_width == pytest.approx(1.963243, abs=1e-6)


def test_one_value_says_nothing_about_the_spread() -> None:
    found = interval([4.0])
    assert (found.mean, found.n) == (4.0, 1)
    assert math.isnan(found.half_width)
    assert math.isnan(interval([]).mean)


def test_ninety_five_percent_means_it() -> None:
    random = np.random.default_rng(7)
    samples = random.normal(10.0, 3.0, (2000, 4)).tolist()
    found = [interval(sample) for sample in samples]
    covered = sum(abs(one.mean - 10.0) <= one.half_width for one in found) / len(found)
    assert covered == pytest.approx(0.95, abs=0.015)  # three standard errors


def test_every_figure_becomes_an_interval() -> None:
    runs = [
        summarise(result(columns(1, finish_s=[finish]), seed=seed)) for seed, finish in enumerate((2.0, 4.0))
    ]
    found = over_seeds(runs)
    assert found["policy"] == "fifo"
    assert "timing" not in found
    assert found["jobs"] == Interval(1.0, 0.0, 2)
    assert found["jct_mean_s"].mean == 3.0
    assert found["jct_mean_s"].half_width == pytest.approx(
        12.7062, abs=1e-4
    )  # t(1) = 12.7062, sd / sqrt(2) = 1


def test_unknown_figures_are_left_out_of_their_mean() -> None:
    found = over_seeds(
        [{"policy": "a", "x": 1.0}, {"policy": "a", "x": None}, {"policy": "a", "x": 3.0, "y": 5.0}]
    )
    assert (found["x"].mean, found["x"].n) == (2.0, 2)
    assert (found["y"].mean, found["y"].n) == (5.0, 1)


def test_intervals_are_valid_json() -> None:
    found = json.loads(to_json(over_seeds([{"policy": "a", "x": 1.0}])))
    assert found == {"policy": "a", "x": {"mean": 1.0, "half_width": None, "n": 1}}


def test_policies_do_not_mix() -> None:
    with pytest.raises(ValueError, match="one policy"):
        over_seeds([summarise(four_jobs("fifo")), summarise(four_jobs("srsf"))])
    with pytest.raises(ValueError, match="one policy"):
        over_seeds([])
