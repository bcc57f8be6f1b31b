"""How well promises held: worked cases."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from betimes.errors import InputError
from betimes.outcome.accuracy import LEAST_RATIOS, Promises, accuracy, constant_ratio, horizon
from betimes.outcome.accuracy_plot import plot_accuracy

NAN = math.nan


def promises(*rows: tuple[float, ...]) -> Promises:
    """Rows of made, predicted, finished, low, high; the level is 0.8."""
    made_s, predicted_s, finished_s, low_s, high_s = np.array(rows, dtype=np.float64).reshape(-1, 5).T
    return Promises(made_s, predicted_s, finished_s, low_s, high_s, np.where(np.isnan(low_s), NAN, 0.8))


def test_promises_are_kept_early_or_late() -> None:
    found = accuracy(
        promises(
            (0, 100, 100, 90, 120),  # as promised
            (0, 100, 120, 90, 120),  # at the end of the interval
            (0, 100, 80, 90, 120),
            (0, 100, 200, 90, 120),
            (0, 100, 150, NAN, NAN),  # no interval
        )
    )
    assert [found[name] for name in ("promises", "kept", "early", "late")] == [5, 2, 1, 1]
    assert (found["cover_frac"], found["level"], found["width_p50_frac"]) == (
        0.5,
        0.8,
        pytest.approx(30 / 101),
    )
    # Errors: 0, 0.2, -0.2, 1, 0.5.
    assert found["err_mean_frac"] == pytest.approx(0.38)
    assert (found["err_p50_frac"], found["bias_mean_frac"]) == (pytest.approx(0.2), pytest.approx(0.3))
    assert (found["err_p50_s"], found["bias_mean_s"]) == (pytest.approx(20.0), pytest.approx(30.0))
    assert (found["within_1min_frac"], found["within_10min_frac"]) == (0.8, 1.0)
    assert found["off_twice_frac"] == 0.0  # (200 + 1) / (100 + 1) is less than 2


def test_promises_that_users_feel_are_off_by_more_than_five_times_and_an_hour() -> None:
    found = accuracy(
        promises(
            (0, 999, 5001, NAN, NAN),  # 5.002 times 1,000 s
            (0, 999, 4999, NAN, NAN),  # 5 times
            (0, 99, 3600, NAN, NAN),  # 36 times, but by less than an hour
            (0, 35_999, 7198, NAN, NAN),  # less than a fifth
            (0, 4499, 800, NAN, NAN),  # more than an hour earlier, and more than a fifth ...
            (0, 4499, 898, NAN, NAN),  # ... and less than that
            (0, 3600, 1, NAN, NAN),  # less than an hour earlier
            (0, 7200, 7200, NAN, NAN),
        )
    )
    assert (found["far_late_frac"], found["far_early_frac"]) == (1 / 8, 3 / 8)


def test_the_score_is_the_width_in_logarithms_and_ten_times_what_is_missed() -> None:
    width = math.log(121 / 91)
    inside, late = promises((0, 100, 100, 90, 120)), promises((0, 100, 200, 90, 120))
    assert accuracy(inside)["score"] == pytest.approx(width)
    assert accuracy(late)["score"] == pytest.approx(width + 10.0 * math.log(201 / 121))


def test_nothing_is_known_of_no_promise_and_of_one_for_now() -> None:
    nothing, at_once = accuracy(promises()), accuracy(promises((5, 5, 6, NAN, NAN)))
    assert nothing["promises"] == 0
    assert all(
        math.isnan(nothing[name]) for name in ("cover_frac", "err_p50_frac", "score", "off_twice_frac")
    )
    assert math.isnan(at_once["err_mean_frac"])


def test_horizons_are_classes_of_the_promised_time() -> None:
    ends = (10, 599, 600, 3599, 3600, 21_599, 21_600, 1e9)
    classes = horizon(promises(*((0, end, 1, NAN, NAN) for end in ends))).tolist()
    assert classes == ["< 10 min"] * 2 + ["< 1 h"] * 2 + ["< 6 h"] * 2 + [">= 6 h"] * 2


def test_a_constant_ratio_knows_only_what_had_come_true() -> None:
    """Each of these takes twice as long as played out; the truth of a job counts once it has ended."""
    rows = [(1000.0 * at, 1000.0 * at + 99, 1000.0 * at + 199, NAN, NAN) for at in range(40)]
    told = promises(*rows)
    found = constant_ratio(told, 0.8, told.predicted_s)
    assert np.isnan(found.predicted_s[:LEAST_RATIOS]).all()
    assert found.predicted_s[LEAST_RATIOS:] == pytest.approx(told.finished_s[LEAST_RATIOS:])
    assert accuracy(found.take(np.arange(LEAST_RATIOS, 40)))["cover_frac"] == 1.0
    later = told.finished_s.copy()
    later[30:] *= 5.0
    changed = constant_ratio(
        Promises(told.made_s, told.predicted_s, later, told.low_s, told.high_s, told.level),
        0.8,
        told.predicted_s,
    )
    np.testing.assert_array_equal(changed.predicted_s[:31], found.predicted_s[:31])


@pytest.mark.parametrize("suffix", ["svg", "png"])
def test_it_is_drawn(tmp_path: Path, suffix: str) -> None:
    draw = np.random.default_rng(1)
    made_s = np.arange(200.0) * 100.0
    truth_s = made_s + draw.lognormal(6.0, 1.0, 200)
    told = Promises(made_s, made_s + 400.0, truth_s, made_s + 100.0, made_s + 1500.0, np.full(200, 0.8))
    plot_accuracy(told, tmp_path / f"a.{suffix}")
    assert (tmp_path / f"a.{suffix}").stat().st_size > 1000
    with pytest.raises(InputError, match="nothing to draw"):
        plot_accuracy(promises(), tmp_path / "b.svg")
