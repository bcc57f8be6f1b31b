"""Distributions of sizes: mean, shape by Kolmogorov-Smirnov, bad parameters; mixes."""

from __future__ import annotations

import gzip
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from betimes.errors import InputError, TraceError
from betimes.workload.generators.distributions import (
    BoundedPareto,
    Constant,
    EmpiricalCdf,
    Exponential,
    LogNormal,
    Mix,
    Sizes,
    TruncatedNormal,
)

N = 50_000
CONTINUOUS: list[tuple[Sizes, float]] = [  # the distribution and its mean, by hand or numerically
    (Exponential(500.0), 500.0),
    (LogNormal(500.0, 0.5), 500.0),
    (LogNormal(500.0, 3.0), 500.0),
    (BoundedPareto(1.5, 10.0, 1000.0), 27.0270270270270),
    (BoundedPareto(1.0, 1.0, math.e), math.e / (math.e - 1)),
    (BoundedPareto(0.6, 1.0, 100.0), 8.5007193),
    (TruncatedNormal(100.0, 30.0, 0.001, 1e9), 100.0457),
    (TruncatedNormal(0.0, 1.0, 0.5, 2.0), 1.0429933),
    (EmpiricalCdf.of([(30, 0.0), (1000, 0.8), (10000, 1.0)]), 0.8 * 515 + 0.2 * 5500),
]


@pytest.mark.parametrize(("sizes", "mean"), CONTINUOUS, ids=[str(s)[:40] for s, _ in CONTINUOUS])
def test_samples_follow_the_distribution(sizes: Sizes, mean: float) -> None:
    assert sizes.mean_s == pytest.approx(mean, rel=1e-5)
    drawn = np.sort(sizes.sample(np.random.default_rng(3), N))
    assert len(drawn) == N
    error = 4 * float(np.std(drawn)) / math.sqrt(N)
    assert drawn.mean() == pytest.approx(mean, abs=error)
    steps = np.arange(N + 1) / N
    cdf = sizes.cdf(drawn)
    distance = max(np.max(cdf - steps[:-1]), np.max(steps[1:] - cdf))
    assert distance < 1.63 / math.sqrt(N)  # Kolmogorov-Smirnov, 1%


@pytest.mark.parametrize("sizes", [s for s, _ in CONTINUOUS], ids=[str(s)[:40] for s, _ in CONTINUOUS])
def test_the_mean_is_that_of_the_cdf(sizes: Sizes) -> None:
    """The integral of 1 - F over [0, inf) is the mean."""
    top = 1e7 if isinstance(sizes, LogNormal) else 2e4
    grid = np.concatenate(([0.0], np.geomspace(1e-3, top, 400_000)))
    tail = 1 - sizes.cdf(grid)
    assert np.trapezoid(tail, grid) == pytest.approx(sizes.mean_s, rel=2e-4)


def test_lognormal_has_the_stated_variation() -> None:
    drawn = LogNormal(100.0, 0.7).sample(np.random.default_rng(1), 200_000)
    assert drawn.std() / drawn.mean() == pytest.approx(0.7, rel=0.02)


def test_bounds_hold() -> None:
    rng = np.random.default_rng(5)
    pareto = BoundedPareto(0.3, 2.0, 9.0).sample(rng, N)
    assert pareto.min() >= 2
    assert pareto.max() <= 9
    normal = TruncatedNormal(5.0, 10.0, 4.0, 6.0).sample(rng, N)
    assert normal.min() >= 4
    assert normal.max() <= 6


def test_constant() -> None:
    sizes = Constant(7.0)
    np.testing.assert_array_equal(sizes.sample(np.random.default_rng(1), 3), [7, 7, 7])
    assert sizes.mean_s == 7
    np.testing.assert_array_equal(sizes.cdf([6.9, 7.0, 8.0]), [0, 1, 1])


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Exponential(0.0), "mean_s: expected a finite number above 0"),
        (lambda: Exponential(math.nan), "mean_s"),
        (lambda: Constant(-1.0), "mean_s"),
        (lambda: LogNormal(10.0, 0.0), "cv"),
        (lambda: LogNormal(math.inf, 1.0), "mean_s"),
        (lambda: BoundedPareto(0.0, 1.0, 2.0), "shape"),
        (lambda: BoundedPareto(1.0, 2.0, 2.0), "min_s below max_s"),
        (lambda: BoundedPareto(1.0, 0.0, 2.0), "min_s"),
        (lambda: TruncatedNormal(1.0, 0.0, 1.0, 2.0), "std_s"),
        (lambda: TruncatedNormal(math.nan, 1.0, 1.0, 2.0), "mean_s"),
        (lambda: TruncatedNormal(0.0, 1.0, 50.0, 60.0), "under 0.1% of a normal"),
    ],
)
def test_bad_parameters_are_refused(make: Callable[[], Sizes], says: str) -> None:
    with pytest.raises(InputError, match=says):
        make()


# --- tables --------------------------------------------------------------------------------------


def test_an_empirical_distribution_with_atoms() -> None:
    table = EmpiricalCdf.of([(1, 0.25), (1, 0.5), (2, 0.5), (4, 1.0)])
    np.testing.assert_allclose(table.cdf([0.5, 1, 1.5, 2, 3, 4, 9]), [0, 0.5, 0.5, 0.5, 0.75, 1, 1])
    assert table.mean_s == 0.5 * 1 + 0.5 * 3
    drawn = table.sample(np.random.default_rng(2), N)
    assert np.mean(drawn == 1) == pytest.approx(0.5, abs=0.01)
    assert np.mean((drawn > 1) & (drawn < 2)) < 1e-3
    assert drawn.mean() == pytest.approx(table.mean_s, abs=0.03)


def test_whole_numbers_keep_the_probabilities_of_the_table() -> None:
    table = EmpiricalCdf.of([(1, 0.0), (1, 0.75), (2, 0.98), (3, 1.0)])  # PCS's widths for themis1
    drawn = table.sample_whole(np.random.default_rng(2), N)
    for value, probability in ((1, 0.75), (2, 0.23), (3, 0.02)):
        assert np.mean(drawn == value) == pytest.approx(probability, abs=0.008)


def test_a_table_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "sizes.csv"
    path.write_text("cdf,value\n0,10\n1,20\n")
    assert EmpiricalCdf.read_csv(path).points == [(10, 0), (20, 1)]
    many = tmp_path / "many.csv.gz"
    many.write_bytes(gzip.compress(b"kind,workload,value,cdf\na,x,1,0\na,x,2,1\na,y,3,0\na,y,4,1\nb,x,5,1\n"))
    assert EmpiricalCdf.read_csv(many, "a", "y").points == [(3, 0), (4, 1)]
    for kind, workload, says in (
        (None, None, "say which kind"),
        ("a", None, "say which workload"),
        ("c", "x", "no kind 'c'"),
        ("b", "y", "no workload 'y'"),
    ):
        with pytest.raises(TraceError, match=says):
            EmpiricalCdf.read_csv(many, kind, workload)
    with pytest.raises(TraceError, match="no column kind"):
        EmpiricalCdf.read_csv(path, "a", "x")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("value\n1\n", "no column cdf"),
        ("value,cdf\n1,0\n2,0.9\n", "line 3: the last cumulative probability must be 1, got 0.9"),
        ("value,cdf\n1,0\n2,1.01\n", "line 3: expected a cumulative probability from 0 to 1"),
        ("value,cdf\n5,0\n2,1\n", "line 3: .*must not fall"),
        ("value,cdf\n1,0.5\n2,0.4\n3,1\n", "line 3: .*must not fall"),
        ("value,cdf\n-1,0\n2,1\n", "line 2: expected a finite value from 0"),
        ("value,cdf\n1,x\n", "line 2, field cdf: expected a number"),
    ],
)
def test_a_bad_table_is_refused_with_its_line(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "sizes.csv"
    path.write_text(text)
    with pytest.raises(TraceError, match=says):
        EmpiricalCdf.read_csv(path)


def test_bad_points_are_named() -> None:
    with pytest.raises(InputError, match=r"point 2: .*must not fall"):
        EmpiricalCdf.of([(3, 0.0), (1, 1.0)])
    with pytest.raises(InputError, match="point 1: the last"):
        EmpiricalCdf.of([])


# --- mixes ---------------------------------------------------------------------------------------


def test_mix_weights_are_normalised_and_drawn() -> None:
    mix = Mix.parse("1@2+4@1 + 8@1")
    assert mix.choices == ("1", "4", "8")
    assert mix.weights == (0.5, 0.25, 0.25)
    drawn = mix.whole_numbers()[mix.sample(np.random.default_rng(1), N)]
    assert {int(v): round(float(np.mean(drawn == v)), 1) for v in (1, 4, 8)} == {1: 0.5, 4: 0.2, 8: 0.3}
    assert Mix.parse("linear+amdahl:0.05").formulas() == ("linear", "amdahl:0.05")
    assert Mix.parse("3").weights == (1.0,)


@pytest.mark.parametrize("text", ["", "1@", "1@x", "1@-1", "@1", "1@0", "1@nan", "1+1", "1++2"])
def test_bad_mixes_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="expected"):
        Mix.parse(text)


@pytest.mark.parametrize("text", ["0", "1.5", "two", "-1", "2000000"])
def test_bad_widths_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="numbers of units"):
        Mix.parse(text).whole_numbers()


def test_bad_curves_are_refused() -> None:
    with pytest.raises(InputError, match=r"expected speed-up curves.*'ResNet'"):
        Mix.parse("linear+ResNet").formulas()
    with pytest.raises(InputError, match="fraction F"):
        Mix.parse("amdahl:3").formulas()
