"""Objectives are what the columns of a run say, in seconds, fractions and ratios; unknown ones are refused."""

from __future__ import annotations

import numpy as np
import pytest

from betimes import Result, Workload, simulate
from betimes.errors import InputError
from betimes.foresight.tuning import MEASURES, METRICS, Objective, parse_objective, parse_objectives

# Three jobs on one unit, first come first served: they end at 4, 6 and 12 s, and the pool rests from 6 to 10 s.
JOBS = Workload.from_columns(submit_s=[0.0, 1.0, 10.0], work_s=[4.0, 2.0, 2.0], name="three")


@pytest.fixture(scope="module")
def run() -> Result:
    return simulate(JOBS, "fifo", units=1, predict=True, timeline=True)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("jct:avg", (4 + 5 + 2) / 3),
        ("jct:p50", 4.0),
        ("jct:max", 5.0),
        ("wait:avg", 1.0),
        ("wait:max", 3.0),
        ("slowdown:max", 2.5),
        ("pred_err:avg", 0.0),
        ("pred_err:p99", 0.0),
        ("makespan:avg", 12.0),
        ("makespan:p90", 12.0),
        ("utilisation:avg", 8 / 12),
        ("utilisation:p50", 1.0),
        ("utilisation:p90", 1.0),
    ],
)
def test_values(text: str, value: float, run: Result) -> None:
    assert parse_objective(text).value(run) == pytest.approx(value)


def test_utilisation_over_time_counts_the_time_before_the_first_start() -> None:
    late = simulate(
        Workload.from_columns(submit_s=[0.0, 0.0], work_s=[1.0, 3.0], max_units=[1, 1]),
        "fifo",
        units=2,
        timeline=True,
    )
    values = {p: Objective("utilisation", p).value(late) for p in ("p50", "p90")}
    assert values == {"p50": 0.5, "p90": 1.0}  # both units for 1 s, one for 2 s


def test_errors_count_without_their_sign() -> None:
    jobs = Workload.from_columns(submit_s=[0.0, 0.0, 1.0, 10.0], work_s=[10.0, 8.0, 1.0, 8.0])
    run = simulate(jobs, "srsf", units=1, predict=True)  # PCS, figure 1: 170, 12.5, 0, 0 %
    assert Objective("pred_err", "avg").value(run) == pytest.approx(0.45625)
    assert Objective("pred_err", "max").value(run) == pytest.approx(1.7)


def test_only_utilisation_is_made_large() -> None:
    assert [name for name in METRICS if Objective(name, "avg").cost(1.0) < 0] == ["utilisation"]


@pytest.mark.parametrize(
    ("texts", "parts"),
    [
        (["speed:avg"], ["metric 'speed'", "slowdown"]),
        (["jct:p42"], ["measure 'p42'", *MEASURES]),
        (["jct"], ["METRIC:MEASURE"]),
        (["jct:avg", "jct:avg"], ["jct:avg", "2 times"]),
        ([], ["no objective"]),
    ],
)
def test_what_is_no_objective_is_refused(texts: list[str], parts: list[str]) -> None:
    with pytest.raises(InputError) as refused:
        parse_objectives(texts)
    assert all(part in str(refused.value) for part in parts)


def test_a_metric_may_be_asked_for_by_several_measures() -> None:
    found = parse_objectives(["jct:avg", "jct:p99", "pred_err:avg"])
    assert list(map(str, found)) == ["jct:avg", "jct:p99", "pred_err:avg"]
    assert not np.isnan([each.value(simulate(JOBS, "fifo", units=1, predict=True)) for each in found]).any()
