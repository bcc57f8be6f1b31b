"""FitGpp's experiments: the bands of its specification (B.8) hold, and the sweeps go the way they must."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from betimes_papers import EXPERIMENTS, Row, reproduce
from betimes_papers.experiment import Pace
from betimes_papers.fitgpp.experiments import READINGS
from betimes_papers.fitgpp.runs import (
    fifo,
    figures_of,
    fitgpp,
    loaded,
    lrtp,
    machine,
    rand,
    row,
    runs,
    simulated,
    with_changes,
)

from betimes.cluster import Cluster
from betimes.foresight.nodes.simulate import simulate_nodes
from betimes.workload import Workload

SEEDS = (1, 2, 3)
JOBS = 8192
MINUTE_S = 60.0


def test_the_bands_hold():
    """Trial jobs gain at least what they say and most under FitGpp; best-effort jobs pay less than under the others."""
    planned = (fifo(), lrtp(), rand(), fitgpp())
    base, *others = simulated(JOBS, planned, Pace(lambda *_: None, 0), seeds=SEEDS)
    found = {
        each.name: with_changes(figures, base) for each, figures in zip(planned[1:], others, strict=True)
    }
    for fifos, ours, *theirs in zip(base, found["FitGpp"], found["LRTP"], found["RAND"], strict=True):
        assert fifos["te_p95"] > 20
        assert ours["te_p95_change"] <= -92.0
        for other in theirs:
            assert ours["te_p95_change"] <= other["te_p95_change"]
            for key in ("be_p50_change", "be_p95_change"):
                assert ours[key] < other[key]
                assert other[key] > 15.0
            for key in ("told_p50", "preemptions", "preempted"):
                assert 0.0 < ours[key] < 0.5 * other[key]


def test_figures_of_a_case_worked_by_hand():
    """Specification, B.9, case B2: told to leave at 10, gone at 13, back at 18, done at 68; minutes."""
    jobs = Workload.from_columns(
        submit_s=[0.0, 10 * MINUTE_S, 20 * MINUTE_S],
        work_s=[60 * MINUTE_S, 5 * MINUTE_S, 5 * MINUTE_S],
        qos=[0, 1, 1],
        grace_s=[3 * MINUTE_S, 0.0, 0.0],
        cpu=1.0,
        memory_gib=1.0,
        gpu=[8.0, 4.0, 4.0],
    )
    cluster = Cluster.uniform(1, gpu=8.0, cpu=32.0, memory_gib=256.0, name="one node")
    figures = figures_of(simulate_nodes(jobs, fitgpp().policy, cluster=cluster))
    assert figures["be_p50"] == pytest.approx(1 + 8 / 60)
    assert figures["te_p50"] == pytest.approx((1.6 + 10.6) / 2)
    assert (figures["told_p50"], figures["left_p95"]) == pytest.approx((8.0, 5.0))
    assert (figures["preemptions"], figures["preempted"]) == pytest.approx((100 / 3, 100 / 3))
    assert "told_p50" not in figures_of(simulate_nodes(jobs, "fifo", cluster=cluster))


def test_the_machine_is_kept_twice_loaded_under_fifo():
    jobs = loaded(2048, seed=1)
    result = simulate_nodes(jobs, "fifo", cluster=machine())
    last = jobs.submit_s[-1]
    for at in (0.25 * last, 0.5 * last, 0.75 * last):
        there = (jobs.submit_s <= at) & (result.jobs.finish_s > at)
        loads = [jobs.cpu[there].sum() / (84 * 32), jobs.gpu[there].sum() / (84 * 8)]
        assert max(loads) == pytest.approx(2.0, abs=0.02)


@pytest.mark.parametrize("policy", ["lrtp:trim=false", "fitgpp:trim=false"])
def test_the_load_is_kept_under_a_policy_that_preempts(policy: str):
    jobs = loaded(2048, 1, policy=policy)
    result = simulate_nodes(jobs, policy, cluster=machine())
    assert result.jobs.preemptions.sum() > 50
    for share in (0.25, 0.5, 0.75):
        at = share * jobs.submit_s[-1]
        there = (jobs.submit_s <= at) & (result.jobs.finish_s > at)
        loads = [jobs.cpu[there].sum() / (84 * 32), jobs.gpu[there].sum() / (84 * 8)]
        assert max(loads) == pytest.approx(2.0, abs=0.02)


def test_with_the_load_kept_under_each_best_effort_jobs_pay_as_the_paper_says():
    small = ("te_memory_gib=64", "be_cpu=16", "be_memory_gib=96", "be_gpu=4")
    base, ours = simulated(
        32768, (fifo(), fitgpp()), Pace(lambda *_: None, 0), small, seeds=(1, 2), kept=True
    )
    for changes in with_changes(ours, base):
        assert changes["te_p95_change"] == pytest.approx(-96.6, abs=1.0)
        assert changes["be_p50_change"] == pytest.approx(18.0, abs=4.0)
        assert changes["be_p95_change"] == pytest.approx(23.9, abs=4.0)


def test_rows_have_the_mean_the_least_and_the_greatest():
    assert row("case", "metric", [1.0, 4.0], "min", 3.0) == Row(
        "case", "metric", 3.0, 2.5, "min", "1 to 4 over 2 seeds"
    )
    assert runs((fifo(), rand()), seeds=(1, 2)) == 2 * (1 + 4)


@pytest.mark.parametrize("name", ["fitgpp-fig1", pytest.param("fitgpp-intervals", marks=pytest.mark.slow)])
def test_rows_and_picture_are_written_and_steps_told(name: str, tmp_path: Path):
    told: list[tuple[str, int, int]] = []
    rows = reproduce(f"{name}:8192", out=tmp_path, progress=lambda *step: told.append(step))
    ET.parse(tmp_path / f"{name}.svg")
    assert len(json.loads((tmp_path / "rows.json").read_text())["rows"]) == len(rows)
    steps = [step for _, step, _ in told]
    assert steps == sorted(steps)
    assert steps[-1] == told[-1][2] == 3 * JOBS * (14 if name == "fitgpp-fig1" else 6)
    assert all(each.case.startswith("8192/") for each in rows)
    published = {(each.case, each.metric): each.published for each in rows if each.published is not None}
    if name == "fitgpp-fig1":
        assert {case.split("/")[1] for case, _ in published} == {reading.label for reading in READINGS}
        of_the_text = {
            metric: value for (case, metric), value in published.items() if READINGS[0].label in case
        }
        assert of_the_text == {
            "te_slowdown_p95_change": -96.6,
            "be_slowdown_p50_change": 18.0,
            "be_slowdown_p95_change": 23.9,
            "preempted_over_LRTP": 0.07,
            "preempted_over_RAND": 0.07,
        }
    else:
        assert published["8192/FitGpp", "told_to_resumed_p95_over_LRTP"] == 0.8
        assert len(published) == 6


def test_every_experiment_runs_at_every_size():
    for name in ("fig1", "intervals", "s", "P", "grace", "mixtures", "sigma", "load"):
        assert EXPERIMENTS[f"fitgpp-{name}"].parts == ("8192", "32768", "131072", "524288")


def by_setting(rows: list[Row], metric: str, policy: str = "FitGpp") -> list[float]:
    return [each.ours for each in rows if each.metric == metric and each.case.endswith(f"/{policy}")]


@pytest.mark.slow
def test_the_weight_of_grace_periods_shortens_waits_up_to_a_point(tmp_path: Path):
    rows = reproduce("fitgpp-s:8192", out=tmp_path)
    ET.parse(tmp_path / "fitgpp-s.svg")
    absent, waited = by_setting(rows, "told_to_resumed_p50"), by_setting(rows, "te_slowdown_p95")
    assert len(absent) == len(waited) == 7
    assert waited[0] > waited[1] > waited[2] > waited[3]  # s = 0, 0.5, 1, 2
    assert absent[0] > 3 * absent[4]
    assert max(waited[4:]) - min(waited[4:]) < 0.05  # s = 4, 8, 16


@pytest.mark.slow
def test_the_other_sweeps_go_the_way_they_must(tmp_path: Path):
    limits = reproduce("fitgpp-P:8192", out=tmp_path)
    assert by_setting(limits, "te_slowdown_p95")[0] > by_setting(limits, "te_slowdown_p95")[-1]
    assert (
        by_setting(limits, "preempted")[0] == by_setting(limits, "preemptions")[0]
    )  # P = 1: each at most once
    assert by_setting(limits, "preempted")[-1] < by_setting(limits, "preemptions")[-1]
    grace = reproduce("fitgpp-grace:8192", out=tmp_path)
    for policy in ("LRTP", "RAND", "FitGpp"):
        waited = by_setting(grace, "te_slowdown_p95", policy)
        assert waited[0] == pytest.approx(1.0, abs=0.01)
        assert waited == sorted(waited)
    mixtures = reproduce("fitgpp-mixtures:8192", out=tmp_path)
    for ours, longest, drawn in zip(
        *(by_setting(mixtures, "te_slowdown_p95_change", name) for name in ("FitGpp", "LRTP", "RAND")),
        strict=True,
    ):
        assert ours < min(longest, drawn)
    sigmas = by_setting(reproduce("fitgpp-sigma:8192", out=tmp_path), "te_slowdown_p95_change")
    assert len(sigmas) == 6
    assert sigmas[1] > sigmas[2] > sigmas[0]  # narrower demands: fewer victims that fit
    assert max(sigmas) < -92.0
    reproduce("fitgpp-load:8192", out=tmp_path)
    for name in ("P", "grace", "mixtures", "sigma", "load"):
        ET.parse(tmp_path / f"fitgpp-{name}.svg")
