"""The workloads of the PCS study (spec/pcs.md, 1.3): published draws to the number, tables, Philly traces."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from betimes_papers.workloads.pcs import GAVEL_SIZES, workload_2_of

from betimes.errors import InputError, TraceError
from betimes.workload import Workload, read_trace
from betimes.workload.generators import generate
from betimes.workload.generators.distributions import EmpiricalCdf
from betimes.workload.speedup import SpeedupTable

SHARED = Path(__file__).parents[3] / "shared" / "data"
CDFS = SHARED / "pcs" / "pcs_workload_cdfs.csv.gz"
CURVES = SHARED / "scaling" / "afs_pcs_speedup.csv.gz"
PHILLY = SHARED / "gpu" / "philly_pcs"
needs_cdfs = pytest.mark.skipif(not CDFS.exists(), reason="the tables of PCS's distributions are not here")
needs_philly = pytest.mark.skipif(not PHILLY.exists(), reason="the Philly traces are not here")


# --- specifications ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ("workload3", "no generator 'workload3' .did you mean 'workload-3'.*there are demo"),
        ("workload-1", "needs cdf=PATH"),
        ("workload-1:cdf=nowhere.csv", "nowhere.csv: cannot be read"),
        ("workload-2", "needs trace=PATH"),
        ("workload-3:published=true,sizes=gavel", "sizes: it has a meaning only with published=false"),
    ],
)
def test_bad_specs_are_refused(spec: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        generate(spec, units=64, seed=1)


def test_the_published_draws_leave_the_global_random_state_alone() -> None:
    before = np.random.get_state(legacy=False)["state"]["key"].copy()  # noqa: NPY002 - it is what is guarded
    generate("workload-3:jobs=20,published=true", units=16, seed=5)
    np.testing.assert_array_equal(before, np.random.get_state(legacy=False)["state"]["key"])  # noqa: NPY002


# --- workload 3 ----------------------------------------------------------------------------------


def test_the_published_draws_of_workload_3() -> None:
    """3000 apps, seed 4567, load 1.2 on 64 units realise 1.2635 and never draw 8 GPUs."""
    made = generate("workload-3:jobs=3000,load=1.2,published=true,unit_s=1", units=64, seed=4567)
    assert Counter(made.max_units.tolist()) == {1: 2662, 2: 121, 3: 104, 5: 29, 6: 24, 7: 60}
    assert made.offered_load(64) == pytest.approx(1.2635, abs=5e-5)
    assert np.all(made.work_s == np.floor(made.work_s))
    assert np.all(np.diff(made.submit_s) == np.floor(np.diff(made.submit_s)))
    assert made.submit_s[0] == 0
    assert 30 <= made.work_s.min() < made.work_s.max() < 10000


def test_the_unit_of_workload_3_only_stretches_time() -> None:
    units, minutes = (
        generate(f"workload-3:jobs=50,published=true{more}", units=64, seed=4567)
        for more in (",unit_s=1", "")
    )
    np.testing.assert_array_equal(minutes.work_s, units.work_s * 60)
    np.testing.assert_array_equal(minutes.submit_s, units.submit_s * 60)


def test_workload_3_without_the_truncation() -> None:
    made = generate("workload-3:jobs=30000,load=0.8", units=64, seed=2)
    minutes = made.work_s / 60
    ordered = np.sort(minutes)
    distance = np.max(np.abs(EmpiricalCdf.of(GAVEL_SIZES).cdf(ordered) - np.arange(1, 30001) / 30000))
    assert distance < 1.63 / np.sqrt(30000)
    assert made.offered_load(64) == pytest.approx(0.8, rel=0.02)
    shares = {width: float(np.mean(made.max_units == width)) for width in (1, 2, 4, 8)}
    assert shares == pytest.approx({1: 0.7, 2: 0.1, 4: 0.15, 8: 0.05}, abs=0.01)
    assert set(made.curve_names) == {"linear"}


def test_workload_3_with_gavels_own_sizes() -> None:
    minutes = generate("workload-3:jobs=30000,sizes=gavel", units=64, seed=1).work_s / 60
    assert minutes.min() >= 10**1.5
    assert minutes.max() <= 10**4
    assert np.mean(minutes < 1000) == pytest.approx(0.8, abs=0.01)
    assert np.median(minutes[minutes < 1000]) == pytest.approx(10**2.25, rel=0.03)
    assert np.median(minutes[minutes > 1000]) == pytest.approx(10**3.5, rel=0.03)


def test_wide_jobs_are_cut_to_the_machine_unless_told_not_to() -> None:
    assert generate("workload-3:jobs=500", units=4, seed=1).max_units.max() == 4
    assert generate("workload-3:jobs=500,clip=false", units=4, seed=1).max_units.max() == 8
    wide = generate("workload-3:jobs=500,widths=3@0.5+6@0.5", units=64, seed=1)
    assert set(wide.max_units) == {3, 6}


def test_the_published_seed_has_32_bits() -> None:
    with pytest.raises(InputError, match="seed from 0 to 4294967295"):
        generate("workload-3:jobs=5,published=true", units=64, seed=2**32)


@needs_cdfs
def test_the_closed_form_is_that_of_the_published_table() -> None:
    assert EmpiricalCdf.read_csv(CDFS, "app-service-times", "gavel").points == GAVEL_SIZES


@needs_cdfs
def test_an_unsorted_published_table_is_refused_by_its_line() -> None:
    with pytest.raises(TraceError, match=r"line \d+: .*must not fall"):
        EmpiricalCdf.read_csv(CDFS, "app-service-times", "workload_0e4a51")


# --- workload 1 ----------------------------------------------------------------------------------

TABLES = """kind,workload,value,cdf
app-service-times,w,1000,0
app-service-times,w,5000,1
num-jobs-per-app,w,1,0
num-jobs-per-app,w,3,1
max-gpus-per-job,w,1,0
max-gpus-per-job,w,1,0.5
max-gpus-per-job,w,2,1
min-gpus-per-job,w,1,0
min-gpus-per-job,w,1,1
"""


def tables(tmp_path: Path, text: str = TABLES) -> Path:
    file = tmp_path / "tables.csv"
    file.write_text(text)
    return file


def test_workload_1_adds_up_the_trials_of_an_app(tmp_path: Path) -> None:
    made = generate(f"workload-1:cdf={tables(tmp_path)},table=w,jobs=20000,load=0.6", units=64, seed=1)
    assert made.work_s.mean() == pytest.approx(3000, rel=0.01)
    # 2 or 3 trials with equal chance, each on 1 or 2 units with equal chance
    expected = {2: 1 / 8, 3: 1 / 4 + 1 / 16, 4: 1 / 8 + 3 / 16, 5: 3 / 16, 6: 1 / 16}
    shares = {width: float(np.mean(made.max_units == width)) for width in expected}
    assert shares == pytest.approx(expected, abs=0.012)
    assert made.offered_load(64) == pytest.approx(0.6, rel=0.03)


def test_workload_1_published_truncates(tmp_path: Path) -> None:
    spec = f"workload-1:cdf={tables(tmp_path)},table=w,jobs=2000,published=true"
    made = generate(spec, units=64, seed=4567)
    # int(U(1, 3)) is 1 or 2 trials; int(U(1, 2)) is always 1 GPU
    assert set(made.max_units) == {1, 2}
    work = made.work_s
    assert np.all(work == np.floor(work))
    assert np.all(work[made.max_units == 2] % 2 == 0)
    assert made.fingerprint() == generate(spec, units=64, seed=4567).fingerprint()


def test_workload_1_published_refuses_tables_that_draw_nothing(tmp_path: Path) -> None:
    file = tables(tmp_path, TABLES.replace("num-jobs-per-app,w,1,0", "num-jobs-per-app,w,0,0"))
    with pytest.raises(InputError, match="without a job"):
        generate(f"workload-1:cdf={file},table=w,published=true", units=64, seed=1)


def test_workload_1_names_a_missing_table(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"tables.csv, field workload: no workload 'ww' \(did you mean 'w'"):
        generate(f"workload-1:cdf={tables(tmp_path)},table=ww", units=64, seed=1)


@needs_cdfs
def test_workload_1_of_the_paper() -> None:
    made = generate(f"workload-1:cdf={CDFS},jobs=5000,load=0.8,clip=no", units=64, seed=2)
    service = EmpiricalCdf.read_csv(CDFS, "app-service-times", "themis1")
    trials = EmpiricalCdf.read_csv(CDFS, "num-jobs-per-app", "themis1")
    assert made.work_s.mean() == pytest.approx(service.mean_s, rel=0.03)
    distance = np.max(np.abs(service.cdf(np.sort(made.work_s)) - np.arange(1, 5001) / 5000))
    assert distance < 1.63 / np.sqrt(5000)
    assert made.max_units.mean() == pytest.approx((trials.mean_s + 0.5) * 1.27, rel=0.03)
    assert made.max_units.max() > 64
    assert generate(f"workload-1:cdf={CDFS},jobs=500", units=64, seed=1).max_units.max() == 64


# --- workload 2 ----------------------------------------------------------------------------------


def small_trace() -> Workload:
    return Workload.from_columns(
        submit_s=[100, 110, 130, 160, 200],
        work_s=[50, 60, 70, 80, 90],
        max_units=[1, 2, 4, 2, 1],
        curve=["a", "b", "b", "a", "a"],
    )


def test_workload_2_takes_the_first_or_a_sample_from_time_0() -> None:
    first = workload_2_of(small_trace(), units=8, jobs=3)
    np.testing.assert_array_equal(first.submit_s, [0, 10, 30])
    np.testing.assert_array_equal(first.work_s, [50, 60, 70])
    drawn = workload_2_of(small_trace(), units=8, jobs=3, pick="sample", seed=3)
    assert len(drawn) == 3
    assert drawn.submit_s[0] == 0
    assert set(drawn.work_s) <= {50, 60, 70, 80, 90}
    assert drawn == workload_2_of(small_trace(), units=8, jobs=3, pick="sample", seed=3)
    assert len(workload_2_of(small_trace(), units=8)) == 5


def test_workload_2_stretches_to_a_load_at_full_width(tmp_path: Path) -> None:
    file = tmp_path / "curves.csv"
    file.write_text("model,units,speedup\na,1,1\na,2,1.6\nb,1,1\nb,2,1.5\nb,4,2\n")
    measured = SpeedupTable.read_csv(file)
    made = workload_2_of(small_trace(), units=8, load_frac=0.5, measured=measured)
    wanted = 50 + 60 / 1.5 * 2 + 70 / 2 * 4 + 80 / 1.6 * 2 + 90
    assert made.submit_s[-1] == pytest.approx(wanted / (0.5 * 8))
    linear = workload_2_of(small_trace(), units=8, load_frac=0.5)
    assert linear.submit_s[-1] == pytest.approx(350 / (0.5 * 8))


def test_workload_2_by_its_specification(tmp_path: Path) -> None:
    file = tmp_path / "trace.csv"
    small_trace().to_csv(file)
    made = generate(f"workload-2:trace={file},jobs=4,load=0.9", units=8, seed=1)
    assert made.offered_load(8) == pytest.approx(0.9)
    assert made.notes.header["generator"].startswith("workload-2")
    with pytest.raises(InputError, match="missing"):
        generate(f"workload-2:trace={tmp_path / 'missing.csv'}", units=8, seed=1)


@needs_philly
@pytest.mark.parametrize(
    ("trace", "whole", "first_501"), [("0e4a51", 1.12, 1.41), ("6c71a0", 1.28, 1.59), ("2869ce", 0.73, 0.95)]
)
def test_philly_traces_offer_the_published_load(trace: str, whole: float, first_501: float) -> None:
    """Spec 1.3: the load of GPU-seconds at the requested size on 64 GPUs."""
    path = PHILLY / f"trace_{trace}.csv.gz"
    measured = SpeedupTable.read_csv(CURVES)
    for jobs, load in ((0, whole), (501, first_501)):
        made = workload_2_of(read_trace(path), units=64, jobs=jobs)
        speedup = np.array(
            [measured.row(made.curve_names[c])[u] for c, u in zip(made.curve, made.max_units, strict=True)]
        )
        assert made.offered_load(64, speedup) == pytest.approx(load, abs=0.0051)
    made = generate(f"workload-2:trace={path},curves={CURVES},load=0.5,jobs=501", units=64, seed=0)
    speedup = np.array(
        [measured.row(made.curve_names[c])[u] for c, u in zip(made.curve, made.max_units, strict=True)]
    )
    assert made.offered_load(64, speedup) == pytest.approx(0.5)
