"""Searches as the experiments make them, and what is counted of what they tried."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from betimes_papers.experiment import Pace, Workers
from betimes_papers.pcs.fig3 import ends
from betimes_papers.pcs.fig9 import gains
from betimes_papers.pcs.fig10 import Moved, distances
from betimes_papers.pcs.runs import TAIL, Outcome, Planned, problem_of, workload_3
from betimes_papers.pcs.study import Searched, study

INF = np.inf
RUNS = [("jobs", Planned("fifo", "fifo")), ("jobs", Planned("srsf", "srsf"))]


def found(workers: Workers, heard: list[int] | None = None) -> tuple[Searched, list[Outcome]]:
    """A search on 60 jobs, and two policies on them; heard: the steps that the progress tells."""
    problem = problem_of(workload_3(jobs=60, load=1.2, units=8), TAIL, units=8)
    pace = Pace(lambda _, done, __: (heard if heard is not None else []).append(done), 0)
    with study({"jobs": problem}, workers, pace) as of_jobs:
        return of_jobs.searched("jobs", 40, seed=1), of_jobs.outcomes(RUNS)


@pytest.fixture(scope="module")
def front() -> Searched:
    return found(Workers())[0]


def made(tried: list[tuple[float, float]]) -> Searched:
    """A search that tried these costs; configurations and problem do not matter."""
    nothing: Any = None
    return Searched(nothing, (), np.empty((0, 2)), np.array(tried), 0.0)


@pytest.mark.parametrize("processes", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_search_and_runs_are_the_same_for_the_same_seed_whoever_makes_them(processes: int):
    told: list[int] = []
    (front, runs), (again, runs_again) = found(Workers()), found(Workers(processes), told)
    assert [config.policy for config in again.configs] == [config.policy for config in front.configs]
    assert np.array_equal(again.tried, front.tried)
    assert [each.run for each in runs_again] == [run for _, run in RUNS]
    for one, other in zip(runs, runs_again, strict=True):
        assert np.array_equal(one.jct_s, other.jct_s)
        assert np.array_equal(one.errors, other.errors)
    assert told == sorted(told)
    assert told[-1] == 60 * (40 + len(RUNS))


def test_a_search_keeps_all_it_tried(front: Searched):
    assert front.tried.shape == (40, 2)
    assert len(front.configs) == len(front.values) > 1
    possible = front.tried[np.isfinite(front.tried).all(axis=1)]
    for value in front.values:
        assert not (possible <= value).all(axis=1).any() or (possible == value).all(axis=1).any()


def test_picked_points_are_no_slower_than_allowed_and_in_order(front: Searched):
    jct, error = front.values[:, 0], front.values[:, 1]
    policies = [config.policy for config in front.configs]

    def at(most_jct_s: float) -> dict[str, int]:
        picked = front.picked(most_jct_s)
        return {name: policies.index(config.policy) for name, config in picked.items()}

    anything = at(INF)
    assert list(anything) == ["PCS-JCT", "PCS-bal", "PCS-pred"]
    assert jct[anything["PCS-JCT"]] == jct.min()
    assert error[anything["PCS-pred"]] == error.min()
    limit = float(np.median(jct))
    assert all(jct[row] <= limit for row in at(limit).values())
    assert set(at(0.0).values()) == {int(np.argmin(jct))}


def test_the_ends_of_a_front(front: Searched):
    found = ends(front)
    assert found.least_jct_s == front.values[:, 0].min()
    assert found.most_jct_s == front.values[:, 0].max()
    assert found.most_error == pytest.approx(100 * front.values[:, 1].max())
    assert found.points <= len(front.values)


def test_gains_count_what_is_on_the_fronts_after_so_many_evaluations():
    # The joint front: (1, 4) and (2, 2) of one, (4, 1) of the other.
    good = made([(3.0, 3.0), (2.0, 2.0), (INF, INF), (1.0, 4.0)])
    poor = made([(INF, INF), (4.0, 1.0), (3.0, 4.0), (5.0, 5.0)])
    found = gains({"good": [good], "poor": [poor]}, (1, 2, 4))
    assert [found["good"][n].own for n in (1, 2, 4)] == [0.0, 50.0, 100.0]
    assert [found["good"][n].joint for n in (1, 2, 4)] == pytest.approx([0.0, 100 / 3, 200 / 3])
    assert [found["poor"][n].own for n in (1, 2, 4)] == [0.0, 50.0, 100.0]
    assert [found["poor"][n].joint for n in (1, 2, 4)] == pytest.approx([0.0, 100 / 3, 100 / 3])
    assert found["poor"][1].volume == 0.0
    volumes = [found["good"][n].volume for n in (1, 2, 4)]
    assert volumes == sorted(volumes)
    both = gains({"both": [made([*good.tried.tolist(), *poor.tried.tolist()])]}, (8,))
    assert both["both"][8].volume == pytest.approx(100.0)


def test_distances_from_a_front_are_parts_of_what_it_spans():
    front = np.array([[100.0, 0.5], [200.0, 0.1], [300.0, 0.0]])
    values = np.array([[200.0, 0.1], [220.0, 0.1], [300.0, 0.1], [90.0, 0.6], [400.0, 0.0]])
    assert distances(values, front).tolist() == pytest.approx([0.0, 0.1, 0.2, 0.2, 0.5])
    moved = Moved(0.6, values, front)
    assert moved.near() == pytest.approx(40.0)
    assert moved.near_by_ratio() == pytest.approx(40.0)
    assert moved.away == pytest.approx(20.0)
