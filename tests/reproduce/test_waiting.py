"""The figures of waiting policies on few jobs: what is run, what is published beside it, and the picture."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from betimes.reproduce.experiment import Row
from betimes.reproduce.waiting import traces
from betimes.reproduce.waiting.figures import FIGURES, experiment, published, rows_of
from betimes.reproduce.waiting.traces import generated

FIGURE = {figure.name: figure for figure in FIGURES}


def test_what_was_published_belongs_to_a_point_of_a_curve() -> None:
    for figure in FIGURES:
        for case, metric in published(figure.name):
            curve, _, point = case.partition("/")
            assert curve in figure.curves
            assert point in figure.points
            assert metric in figure.metrics
    assert published("waiting-fig9")["ours/b=24h", "on_demand_increase"] == (4.0, "within")


def test_generated_jobs_have_the_published_characteristics() -> None:
    jobs = generated(100_000)
    run_s = jobs.work_s / jobs.max_units
    for below_s, share in ((180.0, 0.62), (900.0, 0.70), (3600.0, 0.95)):
        assert np.mean(run_s < below_s) == pytest.approx(share, abs=0.01)
    days = jobs.submit_s / 86_400.0
    assert days.max() == pytest.approx(365.0 * 100_000 / traces.YEAR_JOBS, rel=0.01)
    assert generated(1000).fingerprint() == generated(1000).fingerprint()


def test_rows_name_trace_curve_and_point_with_what_was_published() -> None:
    found = {
        ("oracle", "b=24h"): {"wait": 1.0, "wait_increase": 0.0},
        ("none", "b=24h"): {"wait": 1.2, "wait_increase": 20.0},
    }
    rows = rows_of(FIGURE["waiting-fig8"], "ctc", found)
    assert rows[3] == Row("ctc/none/b=24h", "wait_increase", 14.0, 20.0, "%", "")
    assert rows[0].published is None


@pytest.mark.slow
@pytest.mark.parametrize("name", ["waiting-fig1", "waiting-fig7"])
def test_a_figure_on_few_jobs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(traces.GENERATED, "month", 20_000)
    monkeypatch.setattr(traces, "YEAR_JOBS", 240_000)
    rows = experiment(FIGURE[name]).run(None, tmp_path, lambda *_: None)
    by_case = {(row.case, row.metric): row.ours for row in rows}
    assert (tmp_path / f"{name}.svg").stat().st_size > 1000
    if name == "waiting-fig1":
        waits = [by_case[f"month/fifo/t={t}", "wait"] for t in ("1m", "15m", "4h")]
        assert waits[0] > waits[1] > waits[2]  # falls as t grows, at more cost
        assert by_case["month/fifo/t=4h", "on_demand"] > by_case["month/fifo/t=1m", "on_demand"]
    else:
        assert by_case["month/oracle/b=24h", "on_demand_increase"] == 0.0
