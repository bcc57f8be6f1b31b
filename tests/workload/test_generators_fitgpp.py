"""FitGpp's workload: moments, bounds, rounding, streams, refusals."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from betimes.errors import InputError
from betimes.workload import Workload, read_trace
from betimes.workload.generators import generate

N = 60_000


@pytest.fixture(scope="module")
def made() -> Workload:
    return generate(f"fitgpp:jobs={N}", units=84, seed=4)


def cut_normal(mean: float, sigma: float, low: float, high: float) -> Any:
    """The normal distribution of which only what lies between two bounds is kept."""
    from scipy.stats import truncnorm  # a second of each process that collects tests

    return truncnorm((low - mean) / sigma, (high - mean) / sigma, mean, sigma)


def drawn(mean: float, sigma: float, low: float, high: float) -> tuple[float, float]:
    """Mean and standard deviation after the cut."""
    cut = cut_normal(mean, sigma, low, high)
    return float(cut.mean()), float(cut.std())


TIMES = [
    ("work_s", 1, (300, 300, 60, 1800)),
    ("work_s", 0, (1800, 1800, 60, 86_400)),
    ("grace_s", 1, (180, 180, 0, 1200)),
    ("grace_s", 0, (180, 180, 0, 1200)),
]
DEMANDS = [("cpu", (8, 8, 1, 32)), ("memory_gib", (32, 32, 1, 256)), ("gpu", (2, 2, 0, 8))]


@pytest.mark.parametrize(("column", "qos", "law"), TIMES)
def test_times_follow_the_cut_normal(
    made: Workload, column: str, qos: int, law: tuple[float, float, float, float]
) -> None:
    values = getattr(made, column)[made.qos == qos]
    mean, deviation = drawn(*law)
    assert values.mean() == pytest.approx(mean, abs=4 * deviation / math.sqrt(len(values)))
    assert values.std() == pytest.approx(deviation, rel=0.03)
    assert law[2] <= values.min()
    assert values.max() <= law[3]


@pytest.mark.parametrize(("column", "law"), DEMANDS)
@pytest.mark.parametrize("qos", [0, 1])
def test_demands_are_cut_normals_in_whole_numbers(
    made: Workload, column: str, qos: int, law: tuple[float, float, float, float]
) -> None:
    values = getattr(made, column)[made.qos == qos]
    np.testing.assert_array_equal(values, np.rint(values))
    mean, sigma, low, high = law
    cut = cut_normal(mean, sigma, low, high)
    for number in (low, low + 1, mean, high):  # the outer two stand for half a step only
        share = float(cut.cdf(number + 0.5) - cut.cdf(number - 0.5))
        error = 4 * math.sqrt(share * (1 - share) / len(values))
        assert np.mean(values == number) == pytest.approx(share, abs=error)
    assert values.min() == low
    assert values.max() <= high


def test_the_shape_of_the_workload(made: Workload) -> None:
    assert made.qos.mean() == pytest.approx(0.3, abs=4 * math.sqrt(0.21 / N))
    assert (made.submit_s == 0).all()
    assert (made.min_units == 1).all()
    assert (made.max_units == 1).all()
    assert np.isnan(made.estimate_s).all()
    assert made.notes.header == {
        "generator": f"fitgpp:jobs={N}",
        "units": "84",
        "seed": "4",
        "closed_loop_load": "2",
        "closed_loop_nodes": "84",
        "closed_loop_node_gpu": "8",
        "closed_loop_node_cpu": "32",
        "closed_loop_node_memory_gib": "256",
    }


def test_the_machine_to_keep_the_load_on_is_noted(tmp_path: Path) -> None:
    made = generate("fitgpp:jobs=5,load=1.5,nodes=10,node_gpu=4,node_cpu=24.5", units=10, seed=1)
    made.to_csv(tmp_path / "a.csv")
    header = read_trace(tmp_path / "a.csv").notes.header
    wanted = {"load": "1.5", "nodes": "10", "node_gpu": "4", "node_cpu": "24.5", "node_memory_gib": "256"}
    assert {key: header[f"closed_loop_{key}"] for key in wanted} == wanted


def test_trials_small_beside_the_others() -> None:
    spec = f"fitgpp:jobs={N},te_memory_gib=64,be_cpu=16,be_memory_gib=96,be_gpu=4"
    made = generate(spec, units=84, seed=1)
    trial = made.qos == 1
    for column, te, be in (
        ("cpu", (8, 8, 1, 32), (16, 16, 1, 32)),
        ("memory_gib", (64, 64, 1, 256), (96, 96, 1, 256)),
        ("gpu", (2, 2, 0, 8), (4, 4, 0, 8)),
    ):
        values = getattr(made, column)
        assert values[trial].mean() == pytest.approx(drawn(*te)[0], rel=0.03)
        assert values[~trial].mean() == pytest.approx(drawn(*be)[0], rel=0.03)


def test_the_same_seed_gives_the_same_workload() -> None:
    first, again, other = (generate("fitgpp:jobs=300", units=8, seed=seed) for seed in (5, 5, 6))
    assert first.fingerprint() == again.fingerprint()
    assert first.fingerprint() != other.fingerprint()


def test_the_variables_have_their_own_streams() -> None:
    """Another law of one variable of one class leaves everything else as it was."""
    plain = generate("fitgpp:jobs=500", units=8, seed=2)
    other = generate("fitgpp:jobs=500,te_gpu=4+1+0+8", units=8, seed=2)
    trial = plain.qos == 1
    for column in ("qos", "work_s", "grace_s", "cpu", "memory_gib"):
        np.testing.assert_array_equal(getattr(other, column), getattr(plain, column))
    np.testing.assert_array_equal(other.gpu[~trial], plain.gpu[~trial])
    assert other.gpu[trial].mean() > plain.gpu[trial].mean() + 0.5


def test_short_forms_and_constants() -> None:
    made = generate(
        "fitgpp:jobs=400,te_share=0.5,grace_s=0,te_run_s=120+0,be_gpu=3+1+0+0,te_gpu=5+0.1", units=8
    )
    trial = made.qos == 1
    assert set(made.grace_s) == {0.0}
    assert set(made.work_s[trial]) == {120.0}
    assert set(made.gpu[~trial]) == {0.0}
    assert set(made.gpu[trial]) == {5.0}
    for share in (0, 1):
        assert set(generate(f"fitgpp:jobs=50,te_share={share}", units=8).qos) == {share}


def test_the_resolution() -> None:
    made = generate("fitgpp:jobs=500,resolution_s=60,te_run_s=5+5+1+20", units=8, seed=3)
    for times in (made.work_s, made.grace_s):
        np.testing.assert_array_equal(times, np.round(times / 60) * 60)
    assert made.work_s.min() == 60
    assert made.grace_s.min() == 0


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        (
            "be_cpu=many",
            "generator fitgpp, parameter be_cpu: expected MEAN, MEAN.SIGMA or MEAN.SIGMA.LOW.HIGH",
        ),
        ("be_cpu=1+2+3", "parameter be_cpu: expected MEAN"),
        ("te_run_s=1+2+3+4+5", "parameter te_run_s: expected MEAN"),
        ("grace_s=-1", "parameter grace_s: expected MEAN"),
        ("grace_s=nan", "parameter grace_s: expected MEAN"),
        ("te_gpu=1+1+5+3", "parameter te_gpu: under 0.1% of a normal with mean 1 and sigma 1 lies in 5..3"),
        ("te_gpu=1+1+50+60", "parameter te_gpu: under 0.1%"),
        ("te_gpu=9+0", "parameter te_gpu: under 0.1% of a normal with mean 9 and sigma 0 lies in 0..8"),
        ("te_share=1.5", "parameter te_share: expected a number from 0 to 1"),
        ("nodes=0", "parameter nodes: expected a whole number from 1"),
        ("te_run_s=0+0+0+0", "field work_s: expected a finite number of seconds above 0"),
        (
            "te_share=0,be_cpu=0+0+0+0,be_gpu=0+0+0+0,be_memory_gib=0+0+0+0",
            "job 0, field gpu: expected some demand of gpu, cpu or memory_gib",
        ),
    ],
)
def test_bad_parameters_are_refused_on_one_line(spec: str, says: str) -> None:
    with pytest.raises(InputError, match=says) as caught:
        generate(f"fitgpp:jobs=20,{spec}", units=8)
    assert "\n" not in str(caught.value)
