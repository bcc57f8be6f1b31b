"""Speed-up curves: formulas, measured tables, interpolation, caps."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes.errors import CurveError, did_you_mean
from betimes.workload.speedup import (
    SpeedupTable,
    amdahl_row,
    bind,
    cap_first_violation,
    cap_largest,
    efficiency,
    linear_row,
    power_row,
    rate,
    unknown_curves_warning,
)

SHARED = Path(__file__).parents[3] / "shared" / "data"
MEASURED = SHARED / "scaling" / "afs_pcs_speedup.csv.gz"
needs_measured = pytest.mark.skipif(not MEASURED.exists(), reason="the measured DNN curves are not here")


def row(*speedups: float) -> np.ndarray:
    return np.array([0.0, *speedups])


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


# --- the published table (spec/pcs.md, 1.2) ------------------------------------------------------

PUBLISHED = [  # model, max g, sp[2], sp[4], sp[8], sp[max], zeta(max), places where zeta rises
    ("VggnetModel256", 8, 1.820, 3.477, 6.614, 6.614, 0.827, 3),
    ("GooglenetModel128", 20, 1.854, 3.268, 5.603, 8.455, 0.423, 2),
    ("Inception4Model256", 52, 1.952, 3.973, 7.793, 31.859, 0.613, 13),
    ("Resnet50Model128", 28, 1.982, 3.621, 5.946, 10.684, 0.382, 3),
    ("DcganModel256", 20, 1.813, 3.160, 4.691, 6.340, 0.317, 1),
    ("VideopredictionModel64", 28, 1.797, 2.957, 3.811, 5.139, 0.184, 0),
    ("ChatbotModel256", 4, 1.429, 1.726, None, 1.726, 0.432, 0),
    ("DeepspeechModel64", 20, 1.491, 1.740, 1.826, 2.005, 0.100, 0),
    ("TransformerModel256", 44, 1.893, 3.434, 6.529, 14.204, 0.323, 4),
]


@needs_measured
@pytest.mark.parametrize("facts", PUBLISHED, ids=[facts[0] for facts in PUBLISHED])
def test_measured_dnn_curves_have_the_published_values(facts: tuple) -> None:
    model, widest, at_2, at_4, at_8, at_max, zeta_max, rises = facts
    table = SpeedupTable.read_csv(MEASURED)
    curve = table.row(model)
    assert table.last[table.names.index(model)] == widest
    assert curve[2] == pytest.approx(at_2, abs=5e-4)
    assert curve[4] == pytest.approx(at_4, abs=5e-4)
    if at_8 is not None:
        assert curve[8] == pytest.approx(at_8, abs=5e-4)
    assert curve[widest] == pytest.approx(at_max, abs=5e-4)
    assert efficiency(curve, widest) == pytest.approx(zeta_max, abs=5e-4)
    zeta = curve[1 : widest + 1] / np.arange(1, widest + 1)
    assert int(np.count_nonzero(np.diff(zeta) > 0)) == rises


@needs_measured
def test_measured_curves_are_ratios_of_times_unrounded_and_flat_beyond_their_end() -> None:
    table = SpeedupTable.read_csv(MEASURED)
    assert len(table.names) == 13
    assert table.speedup.flags.c_contiguous
    assert np.all(table.speedup[:, 0] == 0)
    assert np.all(table.speedup[:, 1] == 1)
    assert np.all(np.diff(table.speedup, axis=1) >= 0)
    assert table.row("VggnetModel256")[2] == 3020532 / 1659208  # the file's column: 1.820466
    chatbot = table.row("ChatbotModel256")
    assert np.all(chatbot[4:] == chatbot[4])


@needs_measured
@pytest.mark.parametrize("trace", ["2869ce", "51b7ef", "e13805"])
def test_philly_jobs_run_whole_seconds_at_their_requested_size(trace: str) -> None:
    """Spec 1.3: service = recorded whole seconds * speed-up; so the traces' model names are the table's."""
    path = SHARED / "gpu" / "philly_pcs" / f"trace_{trace}.csv.gz"
    if not path.exists():
        pytest.skip("the Philly traces are not here")
    table = SpeedupTable.read_csv(MEASURED)
    with gzip.open(path, "rt", encoding="utf-8") as file:
        cells = [line.rstrip("\n").split(",") for line in file][1:]
    seconds = np.array([float(c[2]) / table.row(c[5])[int(c[3])] for c in cells])
    assert np.max(np.abs(seconds - np.round(seconds)) / seconds) < 1e-12


# --- caps (spec/pcs.md, section 5: T3, T4) -------------------------------------------------------

T3_A = row(1, 1.8, 2.4, 2.8, 3.0, 3.1)
T4_N = row(1, 1.9, 2.1, 3.6)
P = row(*(np.array([1, 0.991, 0.854, 0.905, 0.803, 0.750, 0.732, 0.743]) * np.arange(1, 9)))
Q = row(*(np.array([1, 0.910, 0.797, 0.869]) * np.arange(1, 5)))
R = row(*(np.array([1, 0.745, 0.535, 0.435, 0.352, 0.297, 0.258, 0.228]) * np.arange(1, 9)))


@pytest.mark.parametrize(
    ("curve", "demand", "zeta", "first", "largest"),
    [
        (T3_A, 6, 0.75, 3, 3),
        (T3_A, 6, 0.8, 2, 2),  # 2.4 / 3 < 0.8 in binary floating point
        (T4_N, 4, 0.8, 2, 4),  # the efficiency dips at 3 and recovers at 4
        (T4_N, 3, 0.8, 2, 2),
        (T4_N, 4, 0.7, 4, 4),
        (P, 8, 0.9, 2, 4),
        (P, 8, 0.8, 5, 5),
        (P, 8, 0.7, 8, 8),
        (Q, 4, 0.9, 2, 2),
        (Q, 4, 0.8, 2, 4),
        (Q, 4, 0.7, 4, 4),
        (R, 8, 0.9, 1, 1),
        (linear_row(6), 6, 1.0, 6, 6),
        (linear_row(6), 6, 1.5, 0, 1),  # no efficiency is that high
        (T3_A, 6, 0.0, 6, 6),
    ],
)
def test_caps(curve: np.ndarray, demand: int, zeta: float, first: int, largest: int) -> None:
    assert cap_first_violation(curve, demand, zeta) == first
    assert cap_largest(curve, demand, zeta) == largest


def one_class(units: int, jobs: list[tuple[np.ndarray, int]], zeta: float, delta: float) -> list[int]:
    """The inner pass of WFQ with one class, written from spec 1.5."""
    while True:
        left, given_units = units, []
        for curve, demand in jobs:
            given_units.append(min(left, cap_first_violation(curve, demand, zeta)))
            left -= given_units[-1]
        if left == 0 or all(g == d for g, (_, d) in zip(given_units, jobs, strict=True)):
            return given_units
        zeta -= delta


@pytest.mark.parametrize(
    ("units", "expected"), [(4, [2, 2]), (5, [2, 3]), (6, [2, 4]), (7, [4, 3]), (8, [4, 4])]
)
def test_t4a_relaxing_the_cap_of_a_curve_that_recovers(units: int, expected: list[int]) -> None:
    assert one_class(units, [(T4_N, 4), (linear_row(4), 4)], 0.8, 0.2) == expected


@pytest.mark.parametrize(
    ("units", "expected"),
    [(4, [2, 2, 0]), (7, [5, 2, 0]), (8, [5, 2, 1]), (10, [8, 2, 0]), (12, [8, 4, 0]), (16, [8, 4, 4])],
)
def test_t4b_relaxing_may_take_units_away(units: int, expected: list[int]) -> None:
    assert one_class(units, [(P, 8), (Q, 4), (R, 8)], 0.9, 0.1) == expected


@given(
    steps=st.lists(st.floats(0, 2), min_size=1, max_size=20),
    zeta=st.floats(0, 1.2),
    demand=st.integers(1, 20),
)
def test_the_largest_cap_is_never_below_the_first_violation(
    steps: list[float], zeta: float, demand: int
) -> None:
    curve = row(*np.cumsum([1.0, *steps]))
    demand = min(demand, len(curve) - 1)
    first, largest = cap_first_violation(curve, demand, zeta), cap_largest(curve, demand, zeta)
    assert first <= largest <= demand
    if largest > 1:
        assert efficiency(curve, largest) >= zeta
    assert all(efficiency(curve, g) < zeta for g in range(largest + 1, demand + 1))
    assert all(efficiency(curve, g) >= zeta for g in range(1, first + 1))


# --- rate ----------------------------------------------------------------------------------------


def test_rate_interpolates_and_stops_at_the_demand() -> None:
    assert rate(T3_A, 6, 0.5) == 0.5
    assert rate(T3_A, 6, 0.0) == 0.0
    assert rate(T3_A, 6, 2.0) == 1.8
    assert rate(T3_A, 6, 2.25) == pytest.approx(1.8 + 0.25 * 0.6, abs=1e-15)
    assert rate(T3_A, 3, 7.5) == 2.4
    assert rate(T3_A, 6, 6.0) == 3.1


@given(a=st.floats(0, 8), b=st.floats(0, 8))
def test_rate_never_falls_with_more_units(a: float, b: float) -> None:
    low, high = sorted((a, b))
    assert rate(P, 8, low) <= rate(P, 8, high) + 1e-12


# --- formulas ------------------------------------------------------------------------------------


def test_formulas() -> None:
    np.testing.assert_array_equal(linear_row(5), [0, 1, 2, 3, 4, 5])
    np.testing.assert_allclose(amdahl_row(0.05, 20)[[1, 2, 10, 20]], [1, 2 / 1.05, 10 / 1.45, 20 / 1.95])
    np.testing.assert_allclose(power_row(0.8, 32)[[1, 2, 32]], [1, 2**0.8, 16])
    np.testing.assert_allclose(amdahl_row(0.0, 9), linear_row(9))
    np.testing.assert_array_equal(amdahl_row(1.0, 3), [0, 1, 1, 1])
    np.testing.assert_array_equal(power_row(0.0, 3), [0, 1, 1, 1])


@given(kind=st.sampled_from(["amdahl", "power"]), value=st.floats(0, 1), widest=st.integers(1, 300))
def test_a_formula_is_a_legal_row(kind: str, value: float, widest: int) -> None:
    table, unknown = bind([f"{kind}:{value!r}"], widest)
    curve = table.speedup[0]
    assert unknown == ()
    assert len(curve) == widest + 1
    assert curve[0] == 0
    assert curve[1] == 1
    assert np.all(np.isfinite(curve))
    assert np.all(np.diff(curve) >= 0)
    assert np.all(curve <= np.arange(widest + 1) * (1 + 1e-12))


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("amdahl:1.5", "fraction F"),
        ("amdahl:-0.1", "fraction F"),
        ("amdahl", "fraction F"),
        ("amdahl:", "fraction F"),
        ("power:nan", "exponent A"),
        ("power:2", "exponent A"),
        ("power:x", "exponent A"),
        ("linear:2", "no parameter"),
        ("amdal:0.1", "did you mean 'amdahl:0.1'"),
        ("Power:0.5", "did you mean 'power:0.5'"),
    ],
)
def test_a_bad_formula_is_refused(name: str, says: str) -> None:
    with pytest.raises(CurveError, match=says):
        bind([name], 8)


# --- bind ----------------------------------------------------------------------------------------


def test_bind_takes_measured_curves_formulas_and_names_the_unknown(tmp_path: Path) -> None:
    measured = SpeedupTable.read_csv(
        write(
            tmp_path / "c.csv",
            "model,units,speedup\nResNet,1,1\nResNet,2,1.5\nResNet,3,1.6\nBig,1,1\nBig,9,8\n",
        )
    )
    table, unknown = bind(["power:0.5", "ResNet", "ResNett", "linear", "Big"], 5, measured)
    assert unknown == ("ResNett",)
    assert table.names == ("power:0.5", "ResNet", "ResNett", "linear", "Big")
    assert table.widest == 5
    assert table.speedup.flags.c_contiguous
    np.testing.assert_array_equal(table.speedup[1], [0, 1, 1.5, 1.6, 1.6, 1.6])
    np.testing.assert_array_equal(table.speedup[2], linear_row(5))
    np.testing.assert_array_equal(table.speedup[3], linear_row(5))
    np.testing.assert_allclose(table.speedup[4], [0, 1, 1.875, 2.75, 3.625, 4.5])
    np.testing.assert_array_equal(table.last, [5, 3, 5, 5, 5])
    assert "did you mean 'ResNet'" in unknown_curves_warning(unknown, measured)
    np.testing.assert_array_equal(table.at(np.array([1, 3, 1]), np.array([2, 5, 900])), [1.5, 5, 1.6])


def test_bind_needs_a_unit() -> None:
    with pytest.raises(CurveError, match="at least one unit"):
        bind(["linear"], 0)


def test_bind_of_one_unit_and_of_no_curve() -> None:
    np.testing.assert_array_equal(bind(["linear", "power:0.5"], 1)[0].speedup, [[0, 1], [0, 1]])
    assert bind([], 4)[0].speedup.shape == (0, 5)


def test_an_unknown_curve_is_named_with_its_neighbour() -> None:
    assert did_you_mean("resnet50model", ("Resnet50Model128", "Vgg")) == " (did you mean 'Resnet50Model128'?)"
    assert not did_you_mean("zzz", ("Resnet50Model128",))
    with pytest.raises(CurveError, match=r"no speed-up curve 'linea'.*'linear'"):
        bind(["linear"], 2)[0].row("linea")
    many = unknown_curves_warning(("a1", "b2", "c3", "d4", "e5"), None)
    assert "and 2 more" in many
    assert "\n" not in many


def test_a_table_checks_its_shapes() -> None:
    with pytest.raises(ValueError, match="speed-ups"):
        SpeedupTable(("a",), np.zeros((2, 3)), np.ones(2, dtype=np.int64))


# --- files ---------------------------------------------------------------------------------------


def test_times_in_seconds_gaps_comments_order_and_bom(tmp_path: Path) -> None:
    text = "\ufeff# measured on Monday\nUnits, Model ,time_per_iteration_s\n\n5,m,2\n1,m,8\n3,m,4\n"
    table = SpeedupTable.read_csv(write(tmp_path / "c.csv", text))
    np.testing.assert_array_equal(table.row("m"), [0, 1, 1.5, 2, 3, 4])  # 2 and 4 lie between


def test_time_counts_where_a_speedup_stands_too(tmp_path: Path) -> None:
    text = "model,num_gpus,speedup_vs_1gpu,time_per_iteration_us\nm,1,1,30\nm,2,1.4,20\n"
    assert SpeedupTable.read_csv(write(tmp_path / "c.csv", text)).row("m")[2] == 1.5


def test_a_model_without_times_has_its_speedups_read(tmp_path: Path) -> None:
    text = "model,units,time_per_iteration_s,speedup\na,1,9,1\na,2,6,1.4\nb,1,,1\nb,2,,1.9\n"
    table = SpeedupTable.read_csv(write(tmp_path / "c.csv", text))
    np.testing.assert_array_equal(table.speedup, [[0, 1, 1.5], [0, 1, 1.9]])


def test_gzip_is_told_by_content(tmp_path: Path) -> None:
    path = tmp_path / "curves.csv"
    path.write_bytes(gzip.compress(b"model,units,speedup\nm,1,1\nm,2,2\n"))
    np.testing.assert_array_equal(SpeedupTable.read_csv(path).row("m"), [0, 1, 2])


def test_super_linear_and_rising_efficiency_are_allowed(tmp_path: Path) -> None:
    text = "model,units,speedup\nm,1,1\nm,2,1.2\nm,3,3.5\n"
    np.testing.assert_array_equal(
        SpeedupTable.read_csv(write(tmp_path / "c.csv", text)).row("m"), [0, 1, 1.2, 3.5]
    )


HEAD = "model,units,speedup\n"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "empty"),
        ("# only a comment\n", "empty"),
        (HEAD, "no row"),
        ("model,units\nm,1\n", "time_per_iteration_us or speedup"),
        ("units,speedup\n1,1\n", "no column model"),
        ("model,speedup\nm,1\n", "no column num_gpus or units"),
        ("model,units,num_gpus,speedup\nm,1,1,1\n", "keep one"),
        ("model,units,speedup,speedup_vs_1gpu\nm,1,1,1\n", "keep one"),
        ("model,model,units,speedup\nm,m,1,1\n", "twice"),
        (HEAD + "m,1\n", "line 2.*expected 3 columns"),
        (HEAD + ",1,1\n", "line 2, field model"),
        (HEAD + "linear,1,1\n", "names a formula"),
        (HEAD + "power:0.5,1,1\n", "names a formula"),
        (HEAD + "m,1.5,1\n", "line 2, field units.*whole number"),
        (HEAD + "m,0,1\n", "line 2, field units.*whole number"),
        (HEAD + "m,2000000,1\n", "line 2, field units.*whole number"),
        (HEAD + "m,two,1\n", "line 2, field units.*'two'"),
        (HEAD + "m,1,nan\n", "line 2, field speedup.*finite"),
        (HEAD + "m,1,1\nm,2,0\n", "line 3, field speedup.*above 0"),
        (HEAD + "m,1,1\nm,2,-3\n", "line 3, field speedup.*above 0"),
        (HEAD + "m,1,1\nm,2,\n", "line 3, field speedup.*number"),
        (HEAD + "m,1,1\nm,1,1\n", "line 3.*line 2 already"),
        (HEAD + "k,1,1\nm,2,1.5\n", "line 3.*m has no row for 1 unit"),
        (HEAD + "m,1,1.2\nm,2,1.5\n", "line 2, field speedup.*1 by definition"),
        (HEAD + "m,1,1\nm,2,1.9\nm,4,1.8\n", "line 4.*m: speed-up falls from 1.9 on 2 units to 1.8 on 4"),
        (
            "model,units,time_per_iteration_s,speedup\nm,1,2,1\nm,2,,1.9\n",
            "line 3, field time_per_iteration_s",
        ),
        (HEAD + 'm,1,"1\n', "line 2.*not a CSV line"),
        ("model,units,time_per_iteration_us\nm,1,0\n", "line 2, field time_per_iteration_us.*above 0"),
        ("model,units,time_per_iteration_us\nm,1,inf\n", "line 2, field time_per_iteration_us.*finite"),
    ],
)
def test_a_bad_file_is_refused_with_its_line(tmp_path: Path, text: str, says: str) -> None:
    path = write(tmp_path / "curves.csv", text)
    with pytest.raises(CurveError, match=says) as caught:
        SpeedupTable.read_csv(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(CurveError, match="cannot be read"):
        SpeedupTable.read_csv(tmp_path / "missing.csv")
    with pytest.raises(CurveError, match="cannot be read"):
        SpeedupTable.read_csv(tmp_path)
    packed = tmp_path / "cut.csv.gz"
    packed.write_bytes(gzip.compress(b"model,units,speedup\nm,1,1\n" * 50)[:-12])
    with pytest.raises(CurveError, match="truncated"):
        SpeedupTable.read_csv(packed)
    broken = tmp_path / "broken.csv.gz"
    broken.write_bytes(b"\x1f\x8bnot really")
    with pytest.raises(CurveError, match="cannot be read"):
        SpeedupTable.read_csv(broken)
    binary = tmp_path / "latin.csv"
    binary.write_bytes(b"model,units,speedup\nm\xe9,1,1\n")
    with pytest.raises(CurveError, match="line 2: not UTF-8"):
        SpeedupTable.read_csv(binary)


def test_a_gzip_bomb_is_refused(tmp_path: Path) -> None:
    bomb = tmp_path / "bomb.csv.gz"
    bomb.write_bytes(gzip.compress(b"\n" * (64 * 2**20 + 1), 1))
    with pytest.raises(CurveError, match="larger than 64 MiB"):
        SpeedupTable.read_csv(bomb)
