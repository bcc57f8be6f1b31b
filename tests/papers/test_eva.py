"""Eva's tables and figures: what is published stands next to its own, and the shares are of No-Packing's cost."""

from __future__ import annotations

from pathlib import Path

import pytest
from betimes_papers import find
from betimes_papers.eva import compositions, improvements
from betimes_papers.eva.compositions import jobs_of_four_tasks, several_gpus, several_tasks
from betimes_papers.eva.planning import drawn
from betimes_papers.eva.runs import machines, published, rows, simulated
from betimes_papers.experiment import Pace

from betimes.policies import parse_nodes_policy
from betimes.workload import Workload


def test_costs_are_shares_of_no_packing_and_published_ones_belong_to_the_whole_trace() -> None:
    found = {"No-Packing": {"usd": 50.0, "jct": 2.0}, "Eva": {"usd": 30.0, "jct": 2.5}}
    whole = rows("eva-table14", "", found, ("cost", "jct"), True)
    assert [(row.case, row.metric, row.published, row.ours) for row in whole] == [
        ("No-Packing", "cost", 100.0, 100.0),
        ("No-Packing", "jct", 16.81, 2.0),
        ("Eva", "cost", 58.0, 60.0),
        ("Eva", "jct", 19.42, 2.5),
    ]
    part = rows("eva-table14", "200", found, ("cost",), False)
    assert [(row.case, row.published) for row in part] == [("200/No-Packing", None), ("200/Eva", None)]


def test_a_uniform_table_has_one_throughput_for_every_pair() -> None:
    table = machines(0.8).interference
    assert table is not None
    assert {table.pair(one, other) for one in table.workloads for other in table.workloads} == {0.8}


def test_the_tasks_of_table_4_are_those_of_the_specification() -> None:
    """No-Packing of seed 0: 1,013.8824 USD an hour."""
    from betimes.policies.packing import NoPacking, Round

    tasks = drawn(200, 0)
    plan = NoPacking().plan(Round(0.0, tasks))
    assert plan.usd_per_h(tasks.catalogue) == pytest.approx(1013.8824)


def test_sizes_are_parts_of_an_experiment() -> None:
    assert find("eva-table14").parts == ("200", "1000", "6274")
    assert find("eva-table14:6274").name == "eva-table14:6274"
    assert published("eva-table5", "8000", "planning") == 22.06


def a_trace(jobs: int) -> Workload:
    """Jobs of one GPU, of none, and one of 4."""
    gpus = [1] * (jobs - 3) + [0, 0, 4]
    width = [max(1, each) for each in gpus]
    return Workload.from_columns(
        submit_s=[60.0 * n for n in range(jobs)],
        work_s=[3600.0 * each for each in width],
        min_units=width,
        max_units=width,
        gpu=[min(1, each) for each in gpus],
        cpu=[6.0] * jobs,
        memory_gib=[20.0] * jobs,
        machine_units=1,
        extra={"workload_variant": ["sage[0]"] * (jobs - 3) + ["gcn[0]", "gcn[0]", "vit[0]"]},
    )


def test_a_share_of_the_jobs_needs_several_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    before = a_trace(20)
    monkeypatch.setattr(compositions, "trace", lambda *_: before)
    after = several_gpus(Path(), 20, 0.5)
    gpus = (after.gpu * after.max_units).tolist()
    assert sum(each > 1 for each in gpus) == 10
    assert sum(each == 0 for each in gpus) == 2
    assert after.work_s / after.max_units == pytest.approx(3600.0)  # as long as before
    grown = [n for n in range(20) if after.max_units[n] != before.max_units[n]]
    kinds = after.extra["workload_variant"].tolist()
    assert {kinds[n] for n in grown} <= {"sage[2000]", "sage[4000]", "sage[8000]"}
    assert several_gpus(Path(), 20, 0.0).max_units.tolist() == before.max_units.tolist()


def test_a_share_of_the_jobs_has_several_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    before = a_trace(20)
    monkeypatch.setattr(compositions, "trace", lambda *_: before)
    after = several_tasks(Path(), 20, 0.5)
    tasks = after.max_units // after.units_per_task
    assert sorted(set(tasks.tolist())) == [1, 2, 4]
    assert sum(each > 1 for each in tasks.tolist()) == 10
    assert after.units_per_task.tolist() == before.max_units.tolist()
    assert after.work_s / after.max_units == pytest.approx(3600.0)


def test_jobs_of_four_tasks_last_half_an_hour_to_16_hours() -> None:
    jobs = jobs_of_four_tasks(50, seed=10)
    assert (jobs.max_units // jobs.units_per_task).tolist() == [4] * 50
    hours = jobs.work_s / jobs.max_units / 3600.0
    assert hours.min() > 0.5
    assert hours.max() < 16.7
    assert jobs_of_four_tasks(50, seed=10).submit_s.tolist() == jobs.submit_s.tolist()
    assert jobs_of_four_tasks(50, seed=11).submit_s.tolist() != jobs.submit_s.tolist()


def test_a_gain_is_paired_by_seed_and_stands_next_to_its_noise() -> None:
    """Of 200 and 100 USD a switch saves 4 and 6: 2 and 6 points, 4 on average, with a standard error of 2."""
    runs = [
        ({"usd": 120.0, "migrations": 2.0}, {"usd": 124.0, "migrations": 3.0}),
        ({"usd": 60.0, "migrations": 2.0}, {"usd": 66.0, "migrations": 3.0}),
    ]
    saved, moved = improvements.gains({"a switch": runs}, [200.0, 100.0])
    assert (saved.ours, saved.note) == (pytest.approx(4.0), "noise 2.00: not measured; each seed 2.00, 6.00")
    assert (moved.ours, moved.note) == (1.0, "noise 0.00: measured; each seed 1.00, 1.00")


def test_every_switch_is_measured_against_all_others_on() -> None:
    """Each pair of policies differs in one switch, and both are policies that there are."""
    for with_, without in improvements.SWITCHES.values():
        one, other = (parse_nodes_policy(each).values for each in (with_, without))
        assert len([name for name in one if one[name] != other[name]]) == 1


def test_a_job_is_idle_until_its_machine_is_there() -> None:
    """It comes at 60 s, the round of 300 s rents a p3.2xlarge, and that takes 22 + 51 + 100 s."""
    one = Workload.from_columns(
        submit_s=[60.0],
        work_s=[3600.0],
        min_units=[1],
        max_units=[1],
        gpu=[1],
        cpu=[4],
        memory_gib=[10],
        machine_units=1,
        extra={"workload_variant": ["sage[0]"]},
    )
    found = simulated(one, "no-packing", machines(), Pace(lambda *_: None, 1), "")
    assert found["idle"] * 3600.0 == pytest.approx(413.0)
