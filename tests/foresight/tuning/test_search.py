"""A search gives the same front wherever it runs, repeats nothing, and ends when told to with what it has."""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from betimes import Workload
from betimes.errors import Conflict, InputError, PolicyError
from betimes.foresight.tuning import Front, Progress, Search, Tuner, parts, tune
from betimes.foresight.tuning.search import Box, front_of
from tests.foresight.tuning.conftest import UNITS

WANTED = ("jct:avg", "pred_err:avg")
QUICK = Search(evaluations=60, jobs=60, baselines=("fifo",))


def found(workload: Workload, how: Search = QUICK, **more: Any) -> Front:
    return tune(workload, WANTED, units=UNITS, how=how, **more)


def same(one: Front, other: Front) -> None:
    for name in ("points", "baselines", "hypervolume", "reference", "evaluations", "impossible"):
        assert getattr(one, name) == getattr(other, name)


@pytest.mark.slow
def test_the_same_front_with_several_workers(workload: Workload) -> None:
    how = replace(QUICK, cached=False)
    same(found(workload, how), found(workload, replace(how, processes=3)))


@pytest.mark.parametrize("solver", ["spea2", "nsga2", "random"])
def test_a_solver_gives_points_that_nobody_beats(workload: Workload, solver: str) -> None:
    front = found(workload, replace(QUICK, solver=solver))
    values = np.array([[point.train[name] for name in WANTED] for point in front])
    assert len(front_of(values)) == len(front)
    assert np.all(np.diff(values[:, 0]) > 0)
    assert front.evaluations == 60
    assert front.ended == "evaluations"
    assert front.solver == solver


def test_another_seed_searches_elsewhere(workload: Workload) -> None:
    one, other = found(workload), found(workload, replace(QUICK, seed=5))
    assert [point.policy for point in one] != [point.policy for point in other]


def test_nothing_is_evaluated_twice(workload: Workload, cache: Path) -> None:
    how = replace(QUICK, evaluations=150)
    half = found(workload, how, stopped=after(50))
    assert half.ended == "interrupted"
    assert 50 <= half.evaluations < 150  # impossible ones cost nothing, and nobody asks before them
    whole = found(workload, how)
    assert whole.simulations <= 150 - half.evaluations + len(whole)
    again = found(workload, how)
    assert again.simulations == 0
    same(whole, again)
    same(whole, found(workload, replace(how, cached=False)))
    assert len(list(cache.iterdir())) == 2  # a file a part


def test_a_damaged_cache_costs_only_time(workload: Workload, cache: Path) -> None:
    front = found(workload)
    for file in cache.iterdir():
        kept = file.read_text()
        file.write_text("gibberish\n" + kept[: 2 * len(kept) // 3] + '\n{"policy": 3}\n')
    same(front, found(workload))


def test_what_is_asked_is_part_of_the_key(workload: Workload) -> None:
    front = found(workload)
    assert front.simulations > 0
    assert found(workload, fractional=True).simulations > 0
    assert found(workload, restart_s=5.0).simulations > 0
    assert found(workload, sizes="noise:0.2").simulations > 0


def test_a_sample_of_promises_is_searched_on_and_all_are_reported_on(workload: Workload) -> None:
    sampled = found(workload, predict_sample=30)
    assert sampled.predict_sample == 30
    everything = found(workload, predict_sample=60)  # as many as there are
    by_policy = {point.policy: point for point in (*everything, *everything.baselines)}
    common = [point for point in (*sampled, *sampled.baselines) if point.policy in by_policy]
    assert {point.policy for point in common} >= {"fifo"}
    assert all(point.test == by_policy[point.policy].test for point in common)
    assert any(point.train != by_policy[point.policy].train for point in common)
    first = sampled[-1]
    where = {"units": UNITS, "how": replace(QUICK, evaluations=1, baselines=(first.policy,))}
    assert tune(workload, WANTED, **where).baselines[0].test == first.test


def test_a_sample_of_promises_means_nothing_without_an_objective_about_them(workload: Workload) -> None:
    with pytest.raises(InputError, match="--predict-sample 30: no objective is about promises"):
        tune(workload, ("jct:avg",), units=UNITS, how=QUICK, predict_sample=30)


def after(evaluations: int) -> Callable[[], bool]:
    """True once it has been asked so often: here it is asked before each evaluation."""
    asked = iter(range(evaluations))
    return lambda: next(asked, None) is None


def test_ctrl_c_gives_the_front_so_far(workload: Workload) -> None:
    def told(progress: Progress) -> None:
        if progress.doing == "searching" and progress.done == 30:
            os.kill(os.getpid(), signal.SIGINT)

    front = found(workload, progress=told)
    assert front.ended == "interrupted"
    assert 30 <= front.evaluations <= 31
    assert all(point.test is not None for point in front)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_before_there_is_anything(workload: Workload) -> None:
    with pytest.raises(KeyboardInterrupt):
        found(workload, stopped=lambda: True)


def test_a_budget_is_kept(workload: Workload) -> None:
    front = found(workload, replace(QUICK, evaluations=1_000_000, budget_s=1.0))
    assert front.ended == "budget"
    assert 1 <= len(front) <= front.evaluations < 1_000_000


def test_progress_counts_up_to_the_end(workload: Workload) -> None:
    told: list[Progress] = []
    front = found(workload, progress=told.append)
    searching = [each for each in told if each.doing == "searching"]
    assert [each.done for each in searching] == sorted(each.done for each in searching)
    assert searching[-1].of == 60
    assert searching[-1].front == len(front)
    assert searching[-1].hypervolume == pytest.approx(front.hypervolume)
    volumes = [each.hypervolume for each in searching if not math.isnan(each.hypervolume)]
    assert volumes == sorted(volumes)
    assert told[-1].doing == "judging"
    assert told[-1].done == told[-1].of == len(front) + 2


def test_parts_follow_each_other(workload: Workload) -> None:
    train, test = parts(workload, 40, seed=3)
    assert test is not None
    assert (len(train), len(test)) == (40, 40)
    rows = np.searchsorted(workload.job_id, train.job_id)
    np.testing.assert_array_equal(rows, np.arange(rows[0], rows[0] + 40))
    np.testing.assert_array_equal(test.job_id, workload.job_id[rows[-1] + 1 : rows[-1] + 41])
    assert parts(workload, 40, seed=3)[0].fingerprint() == train.fingerprint()
    assert [len(part) for part in parts(workload, None, seed=0) if part is not None] == [60, 60]
    assert [len(part) for part in parts(workload, 1000, seed=0) if part is not None] == [60, 60]


def test_a_part_to_report_on_of_ones_own(workload: Workload) -> None:
    front = tune(workload[:50], WANTED, units=UNITS, how=QUICK, test=workload[50:80])
    assert front.test is not None
    assert (front.train.jobs, front.test.jobs) == (50, 30)


def test_three_jobs_have_no_second_part(workload: Workload) -> None:
    front = found(workload[:3])
    assert front.test is None
    assert all(point.test is None for point in front)


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"evaluations": 0}, "--evaluations 0"),
        ({"budget_s": 0.0}, "--budget 0s"),
        ({"solver": "oracle"}, "spea2, nsga2, random"),
        ({"space": "outer"}, "heuristic or free"),
        ({"space": "free", "published": True}, "published"),
        ({"processes": 0}, "--processes 0"),
        ({"jobs": 1}, "--jobs 1"),
        ({"seed": -1}, "--seed -1"),
        ({"budget_s": 1e-9}, "too short for one evaluation"),
    ],
)
def test_bad_searches_are_refused(workload: Workload, change: dict[str, Any], part: str) -> None:
    with pytest.raises(InputError) as refused:
        found(workload, replace(QUICK, **change))
    assert part in str(refused.value)


def test_bad_workloads_are_refused(workload: Workload) -> None:
    with pytest.raises(InputError, match="needs at least two jobs"):
        found(workload[:1])
    alike = Workload.from_columns(submit_s=range(8), work_s=5.0)
    with pytest.raises(InputError, match="same size"):
        found(alike)
    with pytest.raises(PolicyError, match="unknown policy"):
        found(workload, Search(baselines=("fifi",)))


def test_the_preference_interface(workload: Workload) -> None:
    applied: list[str] = []
    tuner = Tuner(workload, units=UNITS, apply=applied.append)
    with pytest.raises(Conflict, match="set_preference"):
        tuner.pareto_front()
    tuner.set_preference(*WANTED)
    front = tuner.pareto_front(evaluations=40, jobs=60, baselines=())
    assert tuner.pareto_front() is front
    assert tuner.set_config(front.named("pcs-pred")) == front.named("PCS-pred").policy
    assert applied == [tuner.policy]
    with pytest.raises(PolicyError):
        tuner.set_config("wfq:weights=0")
    assert applied == [tuner.policy]


def test_hypervolume_against_known_areas() -> None:
    box = Box((0.0, 0.0), (10.0, 10.0))
    assert box.volume(np.array([[0.0, 0.0]])) == pytest.approx(1.0)
    assert box.volume(np.array([[2.0, 5.0], [5.0, 2.0]])) == pytest.approx(0.55)
    assert box.volume(np.array([[10.0, 0.0], [11.0, -5.0]])) == 0.0


def test_of_equal_points_the_first_is_on_the_front() -> None:
    costs = np.array([[2.0, 2.0], [1.0, 3.0], [1.0, 3.0], [math.inf, math.inf], [3.0, 2.0], [0.0, 9.0]])
    assert front_of(costs).tolist() == [5, 1, 0]
