"""What has left the range that was tuned on is told, and what has not is not."""

from __future__ import annotations

import numpy as np
import pytest

from betimes.service.tuning.drift import LEARNT_FROM, ErrorChart, Range, distance, drifted

DRAW = np.random.default_rng


def jobs(many: int, seed: int, *, scale: float = 1.0, gap_s: float = 50.0, units: int = 4) -> Range:
    """Sizes of a mean of 100 s and Poisson arrivals: a load of a half on four units."""
    draw = DRAW(seed)
    sizes = (draw.lognormal(0.0, 1.0, many) * 100.0 / np.exp(0.5) * scale).tolist()
    submit = np.cumsum(draw.exponential(gap_s, many)).tolist()
    return Range(size_s=sizes, wanted_unit_s=sizes, submit_s=submit, units=units)


@pytest.mark.parametrize("seed", range(5))
def test_the_distance_is_that_of_kolmogorov_and_smirnov(seed: int) -> None:
    draw = DRAW(seed)
    first, second = draw.integers(0, 20, 50).astype(float), draw.integers(3, 25, 80).astype(float)
    at_each = [abs(float((first <= at).mean()) - float((second <= at).mean())) for at in range(30)]
    assert distance(first, second) == pytest.approx(max(at_each))


def test_jobs_like_those_tuned_on_are_no_drift() -> None:
    tuned = jobs(2000, 1)
    assert tuned.looks_at == 200
    assert [drifted(tuned, jobs(200, seed)) for seed in range(2, 52)].count(None) >= 49


@pytest.mark.parametrize("seed", range(3))
def test_other_sizes_are_told_first(seed: int) -> None:
    found = drifted(jobs(2000, 1), jobs(200, seed, scale=2.0))
    assert found is not None
    assert (found.code, found.evidence["jobs"]) == ("sizes", 200)
    assert found.evidence["statistic"] > found.evidence["limit"]
    assert "the last 200 jobs are distributed otherwise" in found.text


@pytest.mark.parametrize("change", [{"gap_s": 12.0}, {"gap_s": 250.0}, {"units": 1}, {"units": 30}])
def test_another_load_is_told_also_where_the_cluster_has_changed(change: dict[str, float]) -> None:
    found = drifted(jobs(2000, 1), jobs(200, 7, **change))  # type: ignore[arg-type]
    assert found is not None
    assert found.code == "load"
    assert not found.evidence["low"] <= found.evidence["load"] <= found.evidence["high"]


def test_jobs_submitted_at_one_time_offer_no_load_that_could_be_compared() -> None:
    tuned = jobs(100, 1)
    assert drifted(tuned, tuned.model_copy(update={"submit_s": (5.0,) * 100})) is None


@pytest.mark.parametrize(("many", "looks_at"), [(4, 20), (100, 25), (2000, 200), (100_000, 200)])
def test_so_many_are_looked_at_that_there_are_several_stretches_of_them(many: int, looks_at: int) -> None:
    assert jobs(many, 1).looks_at == looks_at


def test_errors_in_control_give_few_alarms_and_worse_ones_are_told_soon() -> None:
    draw, chart = DRAW(3), ErrorChart()
    in_control = [chart.take(float(draw.exponential(0.1))) for _ in range(LEARNT_FROM + 300)]
    assert in_control == [None] * len(in_control)
    later = [chart.take(float(draw.exponential(0.4))) for _ in range(50)]
    first = next(reason for reason in later if reason is not None)
    assert first.code == "errors"
    assert first.evidence["average_frac"] > first.evidence["limit_frac"]
    assert later.index(first) < 30


def test_better_promises_and_tiny_errors_are_no_alarm() -> None:
    chart = ErrorChart()
    assert all(chart.take(0.3) is None for _ in range(120))
    assert all(chart.take(0.0) is None for _ in range(200))
    chart = ErrorChart()
    assert all(chart.take(0.0) is None for _ in range(LEARNT_FROM))
    assert all(chart.take(0.001) is None for _ in range(100))
    assert any(chart.take(0.5) is not None for _ in range(5))
