"""The experiments of portfolio scheduling, on a few jobs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from betimes_papers import Row, find
from betimes_papers.experiment import Pace, Workers
from betimes_papers.picture import draw
from betimes_papers.portfolio.experiments import FULL, JOBS, Setting, Simulate, shares, swept
from betimes_papers.portfolio.runs import LOGS, Run, simulates, stretch

from betimes.workload import Workload
from tests.foresight.portfolio.clusters import bursts


def on(workload: Workload, workers: Workers | None = None) -> Simulate:
    def simulate(runs: Sequence[Run]) -> list[Any]:
        names = [run.label for run in runs]
        return (workers or Workers()).made(simulates, (workload,), runs, Pace(lambda *_: None, 0), names)

    return simulate


def test_a_sweep_measures_each_setting_with_its_own_exponents() -> None:
    settings = (Setting("1", "members=oda/fifo/first"), Setting("0", "members=oda/fifo/first", beta=0.0))
    found = {(case, metric): value for case, metric, value, _ in swept(settings, on(bursts(1)))}
    assert found["0", "charged cost"] == found["1", "charged cost"]
    product = found["1", "utility"] * found["1", "bounded slowdown"]
    assert product == pytest.approx(found["0", "utility"])


@pytest.mark.slow
def test_other_workers_find_the_same() -> None:
    settings = [Setting(str(most), f"members=od*/fifo/first,budget={most}") for most in (2, 3, 5)]
    here = list(swept(tuple(settings), on(bursts(1))))
    assert list(swept(tuple(settings), on(bursts(1), Workers(2)))) == here


def test_shares_add_up() -> None:
    found = list(shares(on(bursts(1))))
    for kind in ("provisioning", "order", "placement"):
        whole = [
            value for case, metric, value, _ in found if metric.endswith(kind) and case.startswith("paper")
        ]
        assert abs(sum(whole) - 100.0) < 1e-9


def test_parts_choose_logs_and_whole_logs() -> None:
    assert find("portfolio-traces").needs == tuple(log.file for log in LOGS.values())
    one = find(f"portfolio-traces:das2-fs1+{FULL}")
    assert one.needs == (LOGS["das2-fs1"].file,)


def test_a_stretch_has_no_wide_jobs_and_begins_at_0(published_data: Path) -> None:
    found = stretch(LOGS["das2-fs1"], published_data, JOBS)
    assert len(found) == JOBS
    assert found.max_units.max() <= 64
    assert found.submit_s[0] == 0.0


def test_rows_become_a_picture(tmp_path: Path) -> None:
    rows = [Row("a/x", "utility", 3.0, 2.0, ""), Row("b/x", "utility", None, 1.0, "")]
    draw("some", rows, tmp_path / "some.svg")
    assert "<svg" in (tmp_path / "some.svg").read_text(encoding="utf-8")
