"""Figures 3, 6, 8, 10 and 11 of PCS: what is published is complete, and what could be reproduced is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from betimes_papers import Row, reproduce
from betimes_papers.experiment import Pace, Workers
from betimes_papers.pcs import fig6 as pcs_fig6
from betimes_papers.pcs import fig8 as pcs_fig8
from betimes_papers.pcs import published
from betimes_papers.pcs.fig3 import TRACES
from betimes_papers.pcs.fig11 import Seen, rows
from betimes_papers.pcs.runs import TABLES, Outcome, Planned, problem_of
from betimes_papers.pcs.study import study

from betimes.foresight.tuning import Problem
from betimes.workload import Workload


def value(found: list[Row], case: str, metric: str) -> float:
    return next(row.ours for row in found if (row.case, row.metric) == (case, metric))


def simulated(policy: str, *problems: Problem) -> list[Outcome]:
    named = {str(number): problem for number, problem in enumerate(problems)}
    with study(named, Workers(), Pace(lambda *_: None, 0)) as of_problems:
        return of_problems.outcomes([(name, Planned(policy, policy)) for name in named])


def test_published_values_are_complete():
    assert {run.name for run in pcs_fig8.RUNS} == set(published.figure_8())
    both = set(published.testbed_front()) | set(published.unfairness())
    assert both <= {run.name for run in pcs_fig6.RUNS}
    assert all(tuple(by_units) == (128, 256, 512, 1024) for by_units in published.costs().values())
    assert all(tuple(after) == (128, 256, 512, 1024) for after in published.found_after().values())
    assert all(tuple(each) == (0, 5, 10, 20, 30, 40) for each in published.error_mean().values())
    assert published.jct_mean_s()["afs"][0] == 451424.0
    assert len(TRACES) == 6


def test_an_outcome_has_errors_and_unfairness_of_every_job():
    jobs = Workload.from_columns(submit_s=[0.0, 0.0, 1.0], work_s=[10.0, 8.0, 1.0])
    [outcome] = simulated("srsf", problem_of(jobs, units=1))
    # The first was promised 10 before the second was there; the third makes both late by 1 more.
    assert outcome.jct_s.tolist() == pytest.approx([19.0, 9.0, 1.0])
    assert outcome.errors.tolist() == pytest.approx([90.0, 12.5, 0.0])
    assert outcome.error() == pytest.approx(102.5 / 3)
    assert len(outcome.unfairness) == outcome.jobs == 3
    [restarted] = simulated("srsf", problem_of(jobs, units=1, fractional=False, restart_s=5.0))
    assert restarted.jct_mean_s > outcome.jct_mean_s


def test_rows_of_figure_11_split_jobs_at_the_median():
    seen = Seen(
        np.array([1.0, 2.0, 3.0, 4.0]), np.array([5.0, 10.0, 70.0, 20.0]), np.array([1.0, 1.0, 2.0, 4.0])
    )
    found = rows("W", [seen, seen])
    assert value(found, "W/Tiresias/small", "pred_err_max") == 10.0
    assert value(found, "W/Tiresias/long", "pred_err_max") == 70.0
    assert value(found, "W/Tiresias", "rank_correlation_size_error") == pytest.approx(0.8)
    assert value(found, "W/max-min", "contention_max_over_mean") == 2.0


@pytest.mark.slow
def test_stored_points_of_a_released_front_come_out_to_the_last_digit(published_data: Path, tmp_path: Path):
    found = reproduce("pcs-fig3:2869ce", data=published_data, out=tmp_path)
    stored = [row for row in found if "/stored-" in row.case]
    assert len(stored) == 4
    for row in stored:
        assert row.ours == pytest.approx(row.published, rel=1e-7), row
    # FIFO ends every front, and the fastest point is as fast as the released search's.
    for metric, within in (("most_jct_mean", 1e-5), ("least_jct_mean", 0.05)):
        row = next(row for row in found if row.metric == metric)
        assert row.ours == pytest.approx(row.published, rel=within)
    assert (tmp_path / "pcs-fig3.svg").is_file()
    of = {(row.case.removeprefix("2869ce/"), row.metric): row.ours for row in found}
    assert of["fifo", "pred_err_p99"] == pytest.approx(0.0, abs=1e-9)
    jct = [of[name, "jct_mean_over_best"] for name in ("PCS-JCT", "PCS-bal", "PCS-pred", "fifo")]
    assert jct == sorted(jct)  # where they were found
    errors = [of[name, "pred_err_mean"] for name in ("srsf", "PCS-JCT", "PCS-bal", "PCS-pred")]
    assert errors == sorted(errors, reverse=True)
    assert of["srsf", "pred_err_p99"] > 2 * of["PCS-bal", "pred_err_p99"]


@pytest.mark.slow
def test_workload_3_gives_the_published_figure_8():
    def over_seeds(policy: str) -> list[float]:
        found = simulated(policy, *(problem_of(pcs_fig8.workload(seed)) for seed in pcs_fig8.SEEDS))
        columns = [(each.jct_mean_s, each.error(), each.error(99.0)) for each in found]
        return np.mean(columns, axis=0).tolist()

    fifo, srsf = over_seeds("fifo"), over_seeds("srsf")
    assert fifo[0] / srsf[0] == pytest.approx(published.figure_8()["fifo"].jct_over_srsf, rel=0.05)
    assert srsf[1] == pytest.approx(published.figure_8()["srsf"].error_mean, rel=0.05)
    assert srsf[2] == pytest.approx(published.figure_8()["srsf"].error_p99, rel=0.05)


@pytest.mark.slow
def test_with_restarts_workload_1_is_as_unfair_as_on_the_testbed(published_data: Path, tmp_path: Path):
    if not (published_data / TABLES).is_file():
        pytest.skip(f"the published distributions are not at {published_data / TABLES}")
    found = reproduce("pcs-fig6", data=published_data, out=tmp_path)
    mean = {name: value(found, f"real/{name}", "unfairness_mean") for name in ("srsf", "themis", "PCS-JCT")}
    assert mean["PCS-JCT"] < mean["themis"] < mean["srsf"]
    for name in ("PCS-JCT", "PCS-bal", "PCS-pred"):
        errors = [value(found, f"real/{each}", "pred_err_mean") for each in (name, "srsf", "afs", "themis")]
        assert errors[0] < min(errors[1:])
    assert (tmp_path / "pcs-fig6.svg").is_file()
