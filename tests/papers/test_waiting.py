"""The figures of waiting policies on few jobs: what is run, what is published beside it, and the picture."""

from __future__ import annotations

from dataclasses import replace

import pytest
from betimes_papers.experiment import Row, Workers
from betimes_papers.registry import data_directory
from betimes_papers.waiting import traces
from betimes_papers.waiting.figures import FIGURES, experiment, published, rows_of
from betimes_papers.waiting.runs import Runs

from betimes.workload.generators import year

FIGURE = {figure.name: figure for figure in FIGURES}


def test_what_was_published_belongs_to_a_point_of_a_curve() -> None:
    for figure in FIGURES:
        for case, metric in published(figure.name):
            curve, _, point = case.partition("/")
            assert curve in figure.curves
            assert point in figure.points
            assert metric in figure.metrics
    assert published("waiting-fig9")["ours/b=24h", "on_demand_increase"] == (4.0, "within")


def test_a_stretch_of_a_trace_needs_its_file() -> None:
    figure = experiment(FIGURE["waiting-fig4"], ("ricc-20k", "ricc", "month", "openb"))
    assert figure.needs == (traces.FILES["ricc"], traces.FILES["openb"])
    assert all(traces.files_of(name) for name in traces.TRACES if name not in traces.GENERATED)


def test_rows_name_trace_curve_and_point_with_what_was_published() -> None:
    found = {
        ("oracle", "b=24h"): {"wait": 1.0, "wait_increase": 0.0},
        ("none", "b=24h"): {"wait": 1.2, "wait_increase": 20.0},
    }
    rows = rows_of(FIGURE["waiting-fig8"], "ctc", found)
    assert rows[3] == Row("ctc/none/b=24h", "wait_increase", 14.0, 20.0, "%", "")
    assert rows[0].published is None


@pytest.fixture
def few_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A year and a month of few jobs."""
    monkeypatch.setitem(traces.GENERATED, "month", 5_000)
    monkeypatch.setitem(traces.GENERATED, "year", 6_000)
    monkeypatch.setattr(year, "JOBS", 60_000)


def by_case(name: str, trace: str) -> dict[tuple[str, str], float]:
    rows = experiment(FIGURE[name], (trace,)).run(None, lambda *_: None, Workers())
    return {(row.case, row.metric): row.ours for row in rows}


@pytest.mark.slow
@pytest.mark.usefixtures("few_jobs")
@pytest.mark.parametrize(
    ("name", "trace"), [("waiting-fig1", "month"), ("waiting-fig1", "year"), ("waiting-fig7", "year")]
)
def test_a_figure_on_few_jobs(name: str, trace: str) -> None:
    found = by_case(name, trace)
    if name == "waiting-fig1":
        waits = [found[f"{trace}/fifo/t={t}", "wait"] for t in ("1m", "15m", "4h")]
        assert waits[0] > waits[1] > waits[2]  # falls as t grows, at more cost
        assert found[f"{trace}/fifo/t=4h", "on_demand"] > found[f"{trace}/fifo/t=1m", "on_demand"]
    else:
        assert found[f"{trace}/oracle/b=24h", "on_demand_increase"] == 0.0


@pytest.mark.slow
@pytest.mark.usefixtures("few_jobs")
def test_a_month_that_is_streamed_is_the_same() -> None:
    """Also where run times are predicted, in one chunk after the other."""
    whole = traces.case("month", None)
    streamed = replace(whole, in_chunks=lambda: year.year_in_chunks(seed=2, jobs=5_000, chunk=999))
    policy = "ljw:t=15m,lengths=estimate"
    one, other = Runs(whole), Runs(streamed)
    assert one.figures("compound:t=15m,b=24h") == pytest.approx(other.figures("compound:t=15m,b=24h"))
    for kind in ("last-two", "10 % error"):
        assert one.figures(policy, run_times=kind) == pytest.approx(other.figures(policy, run_times=kind))


@pytest.mark.slow
def test_other_processes_find_the_same() -> None:
    data = data_directory(None)
    figure = experiment(FIGURE["waiting-fig7"], ("ricc-20k",))
    if data is None or not (data / figure.needs[0]).is_file():
        pytest.skip(f"{figure.needs[0]} is not there")
    here, others = (figure.run(data, lambda *_: None, workers) for workers in (Workers(), Workers(2)))
    assert here == others
    assert len(here) > 10


@pytest.mark.slow
@pytest.mark.usefixtures("few_jobs")
def test_waits_learned_and_simulated_on_few_jobs() -> None:
    found = by_case("waiting-learned", "month")
    curves = {case.split("/")[1] for case, _ in found}
    assert curves == set(FIGURE["waiting-learned"].curves) - {"simulated, estimates"}  # there are none
    assert found["month/oracle/b=24h", "wait_increase"] == 0.0
    assert found["month/none/b=24h", "wait"] >= found["month/oracle, speculating/b=24h", "wait"]
