"""The public traces against the counts, loads and quirks that their documentation states."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from betimes.errors import TraceError
from betimes.workload import Workload, read_trace

# File, MaxProcs, jobs, usable, days, utilisation, jobs longer than requested (None: not stated, no requests).
LOGS = [
    ("KTH-SP2-1996-2", 100, 28_489, 28_481, 339.9, 0.69, 475),
    ("SDSC-SP2-1998-4.2-cln", 128, 59_715, 54_034, 729.4, 0.83, 4_134),
    ("DAS2-fs1-2003-1", 64, 40_315, 38_294, 359.7, 0.12, 1_316),
    ("LCG-2005-1", 24_515, 188_041, 187_520, 11.0, 0.06, 0),
    ("CTC-SP2-1996-derived", 338, 77_199, 77_199, 339.1, 0.84, 0),
    ("NASA-iPSC-1993-3.1-cln", 128, 18_239, 18_066, 92.0, 0.47, None),
    ("LLNL-Atlas-2006-2.1-cln", 9_216, 43_778, 36_600, 193.0, 0.70, 3_351),
    ("RICC-2010-2", 8_192, 447_794, 447_784, 153.0, 0.87, 7_092),
    ("CEA-Curie-2011-2.1-cln", 93_312, 312_826, 295_540, 253.7, 0.63, 5_416),
    ("CERIT-SC-2013-wagap", 2_176, 17_900, 17_898, 89.0, 0.58, 702),
    ("HPC2N-2002-first3170", 240, 3_170, 3_145, 57.3, 0.42, 320),
    ("ALCF-Theta-2022", 4_360, 23_911, 23_911, 363.7, 0.76, 6_264),
    ("lublin_256-synthetic", 256, 10_000, 10_000, 89.2, None, None),
]

PHILLY = {
    "0e4a51": (85.3, 58.9, {1: 1562, 2: 257, 4: 567, 8: 79}),
    "103959": (91.6, 18.0, {1: 1791, 2: 43, 4: 843}),
    "11cb48": (119.4, 21.2, {1: 16843, 2: 1538, 4: 481, 8: 75, 16: 96, 24: 5, 32: 10}),
    "2869ce": (94.6, 30.9, {1: 133, 2: 22, 4: 34, 8: 662, 16: 3, 32: 102}),
    "51b7ef": (35.0, 0.6, {1: 30, 2: 1, 4: 10, 8: 22}),
    "6c71a0": (96.1, 73.0, {1: 13345, 2: 61, 4: 541, 6: 1, 8: 809, 16: 23, 32: 1, 48: 2}),
    "7f04ca": (125.2, 88.1, {1: 531, 2: 5, 4: 419, 8: 448, 16: 36, 32: 22}),
    "b436b2": (94.0, 140.7, {1: 7795, 2: 32, 4: 297, 8: 675, 16: 226, 24: 5, 32: 1}),
    "e13805": (98.2, 30.4, {1: 346, 2: 9, 4: 192, 8: 352, 12: 12, 16: 17, 24: 7, 32: 3}),
    "ed69ec": (82.8, 12.1, {1: 1400}),
}

OPENB = {
    "default": 8_152,
    "cpu0": 7_064,
    "cpu037": 7_336,
    "cpu050": 7_439,
    "cpu072": 7_608,
    "cpu100": 7_853,
    "gpushare20": 8_152,
    "gpushare40": 8_152,
    "gpushare60": 8_152,
    "gpuspec05": 8_152,
    "gpuspec10": 8_152,
    "gpuspec20": 8_152,
}


def read(path: Path) -> Workload:
    if not path.is_file():
        pytest.skip(f"the public trace {path.name} is not at {path.parent}")
    return read_trace(path)


def days(workload: Workload) -> float:
    return float(workload.submit_s[-1] - workload.submit_s[0]) / 86_400


@pytest.mark.parametrize(("name", "machine", "jobs", "usable", "span", "utilisation", "over"), LOGS)
def test_batch_logs(
    name: str,
    machine: int,
    jobs: int,
    usable: int,
    span: float,
    utilisation: float | None,
    over: int | None,
    public_data: Path,
) -> None:
    w = read(public_data / "swf" / f"{name}.swf.gz")
    assert (len(w), len(w) + sum(w.notes.skipped.values())) == (usable, jobs)
    assert w.machine_units == machine
    assert days(w) == pytest.approx(span, abs=0.06)
    if utilisation is not None:
        assert w.offered_load(machine) == pytest.approx(utilisation, abs=0.0051)
    if over is None:
        assert np.isnan(w.estimate_s).all()
    else:
        assert int((w.work_s / w.max_units > w.estimate_s).sum()) == over
    assert w.notes.warnings == ()
    assert (w.min_units == w.max_units).all()


def test_quirks_of_batch_logs(public_data: Path) -> None:
    logs = public_data / "swf"
    sdsc = read(logs / "SDSC-SP2-1998-4.2-cln.swf.gz")
    assert sdsc.submit_s[0] == 566_129
    assert dict(sdsc.notes.skipped) == {"cancelled before start": 5_681}
    assert "this copyright notice is preserved in all copies" in sdsc.notes.header["Copyright"]
    das2 = read(logs / "DAS2-fs1-2003-1.swf.gz")
    assert das2.notes.header["MaxNodes"] == "32 (dual CPU)"
    assert np.median(das2.work_s / das2.max_units) == pytest.approx(55, abs=3)
    lcg = read(logs / "LCG-2005-1.swf.gz")
    assert (lcg.max_units == 1).all()
    assert (lcg.status == -1).all()
    site = lcg[lcg.extra["partition"] == 40]
    assert len(site) == pytest.approx(30_966, abs=150)
    assert site.work_s.sum() / 3600 == pytest.approx(95_676, abs=1)
    assert np.isnan(lcg.extra["recorded_wait_s"]).all()
    ricc = read(logs / "RICC-2010-2.swf.gz")
    assert np.bincount(np.unique(ricc.submit_s, return_inverse=True)[1]).max() >= 1_024
    assert dict(read(logs / "CERIT-SC-2013-wagap.swf.gz").notes.skipped) == {"no run time": 2}


@pytest.mark.parametrize("name", PHILLY)
def test_philly_traces_of_pcs(name: str, public_data: Path) -> None:
    span, offered, demands = PHILLY[name]
    w = read(public_data / "gpu" / "philly_pcs" / f"trace_{name}.csv.gz")
    assert Counter(w.max_units.tolist()) == demands
    assert days(w) == pytest.approx(span, abs=0.051)
    assert w.offered_load(1) == pytest.approx(offered, abs=0.051)
    assert (w.machine_units, w.notes.format) == (64, "philly-pcs")
    np.testing.assert_allclose(w.submit_s, w.extra["recorded_submit_s"])
    assert (w.job_id == np.arange(len(w))).all()


def test_largest_philly_job(public_data: Path) -> None:
    w = read(public_data / "gpu" / "philly_pcs" / "trace_7f04ca.csv.gz")
    assert w.work_s.max() / 86_400 == pytest.approx(417, abs=0.5)


def test_philly_job_list(public_data: Path) -> None:
    w = read(public_data / "gpu" / "philly_jobs_2017_without_heldout.csv.gz")
    assert len(w) == 39_510
    assert Counter(w.max_units.tolist())[8] == 1_032
    assert len(set(w.extra["cluster"].tolist())) == 13
    np.testing.assert_allclose(w.extra["gpu_time_s"], w.work_s)
    assert days(w) == pytest.approx(108.9, abs=0.06)


@pytest.mark.parametrize("variant", OPENB)
def test_openb_lists(variant: str, public_data: Path) -> None:
    w = read(public_data / "gpu" / "alibaba_openb" / f"openb_pod_list_{variant}.csv.gz")
    assert len(w) + w.notes.skipped["never scheduled"] == OPENB[variant]
    assert set(w.notes.skipped) == {"never scheduled"}


def test_quirks_of_openb(public_data: Path) -> None:
    folder = public_data / "gpu" / "alibaba_openb"
    w = read(folder / "openb_pod_list_default.csv.gz")
    assert dict(w.notes.skipped) == {"never scheduled": 897}
    assert int((w.status == 0).sum()) == 1_870
    assert int((w.submit_s < 90 * 86_400).sum()) <= 14
    assert set(w.max_units.tolist()) <= {1, 2, 4, 8}
    assert ((w.gpu >= 0) & (w.gpu <= 1)).all()
    for variant in ("multigpu20", "multigpu30"):
        with pytest.raises(TraceError, match="field creation_time: this openb variant has no times"):
            read(folder / f"openb_pod_list_{variant}.csv.gz")


def test_eva_trace(public_data: Path) -> None:
    w = read(public_data / "eva" / "eva_pai_200_trace.csv.gz")
    assert len(w) == 200
    assert (w.submit_s[0], w.submit_s[-1]) == (960, 229_743)
    run_s = w.work_s / w.max_units
    assert (run_s.min(), run_s.max()) == (1_909, 587_679)
    assert np.sort(run_s)[100] == 15_916
    assert {"workload_variant", "kill_delay_s", "full_throughput_iter_per_s"} <= w.extra.keys()
