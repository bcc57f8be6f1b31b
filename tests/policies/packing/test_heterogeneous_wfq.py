"""Shares of classes on unlike machines: by hand, by brute force, and in rounds."""

from __future__ import annotations

import csv
import gzip
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike

import betimes
from betimes.cluster import Cluster, NodeGroup
from betimes.errors import InputError, PolicyError
from betimes.policies.packing.planners.heterogeneous import Wishes, type_shares
from tests.reference.wfq import class_shares

DATA = Path(__file__).parents[4] / "shared" / "data"
TYPES = ("v100", "p100", "k80")
CLASSES = "thresholds=100,weights=0.75+0.25"
POLICY = f"wfq:{CLASSES},heterogeneous=yes,period=10,turn=10"


def wishes(group, speed, capacity, weights, units: int | ArrayLike = 1) -> Wishes:
    """Jobs that need `units` of the one resource on every family."""
    speed = np.array(speed, float)
    need = np.repeat(np.broadcast_to(units, len(speed)).astype(float)[:, None], speed.shape[1], axis=1)
    return Wishes(
        np.array(group),
        need[:, :, None],
        speed,
        np.array(capacity, float)[:, None],
        np.array(weights, float),
        np.full(len(speed), -1),
    )


def levels(asked: Wishes, found: np.ndarray) -> np.ndarray:
    """What each class does, over what its machines would do if they were of all families in proportion."""
    there = asked.capacity[:, 0] / asked.capacity[:, 0].sum()
    usual = (asked.speed * there).sum(axis=1) / ((asked.speed > 0) * there).sum(axis=1)
    done = (found * asked.speed).sum(axis=1) / usual * asked.demand[:, 0, 0]
    return np.bincount(asked.group, done, len(asked.weights)) / asked.capacity.sum()


def test_who_gains_most_by_the_quick_machine_has_it() -> None:
    # The first does 4 on the one and 1 on the other, 2.5 in the mean: 1.6 times its part; the second 1 on both.
    asked = wishes([0, 1], [[4, 1], [1, 1]], [1, 1], [0.5, 0.5])
    assert type_shares(asked).tolist() == [[1, 0], [0, 1]]


def test_two_that_want_it_have_it_in_turns() -> None:
    # Half the time each: 2.5 of 2.5, and 1.5 of 1.5. No other division brings both that.
    asked = wishes([0, 1], [[4, 1], [2, 1]], [1, 1], [0.5, 0.5])
    assert type_shares(asked) == pytest.approx(np.full((2, 2), 0.5), abs=1e-5)


def test_inside_a_class_the_first_are_served() -> None:
    asked = wishes([0, 0, 0, 1, 1], np.ones((5, 2)), [2, 2], [0.5, 0.5])
    assert type_shares(asked).sum(axis=1).tolist() == [1, 1, 0, 1, 1]


def test_what_a_class_does_not_use_goes_to_the_others() -> None:
    asked = wishes([0, 1, 1, 1], np.ones((4, 2)), [2, 2], [0.9, 0.1])
    assert type_shares(asked).sum(axis=1).tolist() == [1, 1, 1, 1]


def test_a_job_has_no_share_where_it_cannot_run() -> None:
    asked = wishes([0, 0], [[1, 0], [1, 3]], [1, 1], [1.0])
    assert type_shares(asked).tolist() == [[1, 0], [0, 1]]
    too_wide = wishes([0], [[1, 3]], [4, 1], [1.0], units=2)
    assert type_shares(too_wide).tolist() == [[1, 0]]


@pytest.mark.parametrize("seed", range(5))
def test_on_one_family_classes_have_their_shares_of_today(seed: int) -> None:
    rng = np.random.default_rng(seed)
    group, units = np.sort(rng.integers(0, 3, 12)), rng.integers(1, 5, 12)
    weights = [Fraction(5, 10), Fraction(3, 10), Fraction(2, 10)]
    asked = wishes(group, np.ones((12, 1)), [16], weights, units)
    demands = np.bincount(group, units, 3).astype(int).tolist()
    held = np.bincount(group, type_shares(asked)[:, 0] * units, 3)
    assert held == pytest.approx([float(each) for each in class_shares(weights, demands, 16)], abs=1e-4)


@pytest.mark.parametrize("seed", range(8))
def test_no_division_has_a_higher_lowest_level(seed: int) -> None:
    rng = np.random.default_rng(seed)
    asked = wishes([0, 1], np.exp(rng.normal(0, 1, (2, 3))), rng.integers(2, 4, 3), [0.6, 0.4], [2, 2])
    found = type_shares(asked)
    check_limits(asked, found)
    assert lowest(asked, found) == pytest.approx(best_lowest(asked), abs=1e-4)


def test_published_throughputs() -> None:
    """Two of Gavel's jobs at a time on one GPU of each type: as brute force has it, and no worse than by turns."""
    path = DATA / "gavel" / "gavel_throughputs.csv.gz"
    if not path.exists():
        pytest.skip(f"{path} is not here")
    speeds: dict[str, dict[str, float]] = {}
    with gzip.open(path, "rt") as file:
        for row in csv.DictReader(file):
            if row["consolidated"] == "yes" and row["scale_factor"] == "1":
                of = speeds.setdefault(f"{row['model']} {row['batch_size']}", {})
                of[row["gpu_type"]] = float(row["steps_per_s_simulation_table"])
    kinds = [[of[name] for name in TYPES] for of in speeds.values() if all(of.get(name) for name in TYPES)]
    assert len(kinds) > 20
    for one, other in zip(kinds[::4], kinds[2::4], strict=False):
        asked = wishes([0, 1], [one, other], [1, 1, 1], [0.5, 0.5])
        found = type_shares(asked)
        check_limits(asked, found)
        assert lowest(asked, found) == pytest.approx(best_lowest(asked), abs=1e-4)
        assert lowest(asked, found) > 0.999


def check_limits(asked: Wishes, found: np.ndarray) -> None:
    assert (found >= 0).all()
    assert (found.sum(axis=1) <= 1 + 1e-5).all()
    assert ((found[:, :, None] * asked.demand).sum(axis=0) <= asked.capacity + 1e-4).all()


def lowest(asked: Wishes, found: np.ndarray) -> float:
    """The lowest level of the classes over their parts, which are their weights or what they can use."""
    return float((levels(asked, found) / parts(asked)).min())


def parts(asked: Wishes) -> np.ndarray:
    demands = np.bincount(asked.group, asked.demand[:, 0, 0], len(asked.weights))
    units = int(asked.capacity.sum())
    weights = [Fraction(each).limit_denominator(1000) for each in asked.weights]
    return (
        np.array([float(each) for each in class_shares(weights, demands.astype(int).tolist(), units)]) / units
    )


def best_lowest(asked: Wishes) -> float:
    """The best lowest level over all corners of what is possible: the program, solved by looking everywhere."""
    jobs, families = asked.speed.shape
    size = jobs * families + 1
    limits, bounds = list[np.ndarray](), list[float]()

    def limit(row: np.ndarray, most: float) -> None:
        limits.append(row)
        bounds.append(most)

    for at in range(size):
        limit(-np.eye(size)[at], 0.0)
    for job in range(jobs):
        row = np.zeros(size)
        row[job * families : (job + 1) * families] = 1
        limit(row, min(1.0, parts(asked)[asked.group[job]] * asked.capacity.sum() / asked.demand[job, 0, 0]))
    for family in range(families):
        row = np.zeros(size)
        row[family:-1:families] = asked.demand[:, family, 0]
        limit(row, float(asked.capacity[family, 0]))
    for group in range(len(asked.weights)):
        row = np.zeros(size)
        row[-1] = 1
        for at in range(size - 1):
            if asked.group[at // families] == group:
                one = np.zeros((jobs, families))
                one[at // families, at % families] = 1
                row[at] = -levels(asked, one)[group] / parts(asked)[group]
        limit(row, 0.0)
    rows, most = np.array(limits), np.array(bounds)
    tight = np.array(list(combinations(range(len(rows)), size)))
    tight = tight[np.abs(np.linalg.det(rows[tight])) > 1e-9]
    corners = np.linalg.solve(rows[tight], most[tight][:, :, None])[:, :, 0]
    possible = (corners @ rows.T <= most + 1e-9).all(axis=1)
    return float(corners[possible, -1].max())


UNLIKE = Cluster("unlike", (NodeGroup("v100", 1, 1, 0, 0), NodeGroup("k80", 1, 1, 0, 0)))


def jobs_of(run_s, v100, k80, submit_s: float | np.ndarray = 0.0):
    extra = {"speed.v100": v100, "speed.k80": k80}
    return betimes.Workload.from_columns(
        submit_s=np.zeros(len(run_s)) + submit_s, work_s=run_s, gpu=1.0, extra=extra
    )


def test_each_runs_where_it_gains_most() -> None:
    jobs = jobs_of([100.0, 100.0], [1.0, 1.0], [0.25, 1.0])
    found = betimes.simulate(jobs, "wfq:weights=1,heterogeneous=yes,period=10,turn=10", cluster=UNLIKE).jobs
    assert found.finish_s.tolist() == [100, 100]


def test_a_job_that_is_alone_moves_to_the_quick_machine() -> None:
    # The second is on the k80 until the round at 50 s; then it moves, with 87.5 of its 100 s of work left.
    jobs = jobs_of([40.0, 100.0], [1.0, 1.0], [0.125, 0.25])
    found = betimes.simulate(jobs, "wfq:weights=1,heterogeneous=yes,period=50", cluster=UNLIKE).jobs
    assert found.finish_s.tolist() == [40, 137.5]


def test_the_last_promise_is_what_happens() -> None:
    """The first job's promise does not know of the second, which comes 10 s later and takes turns with it."""
    jobs = jobs_of([60.0, 100.0], [0.6, 1.0], [np.nan, np.nan], np.array([0.0, 10.0]))
    one = Cluster("one", (NodeGroup("v100", 1, 1, 0, 0), NodeGroup("other", 1, 0, 1, 0)))
    text = "wfq:thresholds=60,weights=0.5+0.5,heterogeneous=yes,period=10,turn=40"
    plain, promised = (
        betimes.simulate(jobs, text, cluster=one, sizes="true", predict=each).jobs for each in (False, True)
    )
    assert promised.finish_s.tolist() == plain.finish_s.tolist()
    assert promised.predicted_finish_s[0] == 100 < plain.finish_s[0]
    assert promised.predicted_finish_s[1] == plain.finish_s[1]


def test_a_turn_lasts() -> None:
    """The first until 40 s, the second until 90 (at 80 both are owed alike, and who runs stays), then to 130 and 170.

    The first is done at 190 s, as that round begins, and the second goes on at 200 s.
    """
    jobs = jobs_of([60.0, 100.0], [0.6, 1.0], [np.nan, np.nan])
    one = Cluster("one", (NodeGroup("v100", 1, 1, 0, 0), NodeGroup("other", 1, 0, 1, 0)))
    text = "wfq:thresholds=60,weights=0.5+0.5,heterogeneous=yes,period=10,turn=40"
    assert betimes.simulate(jobs, text, cluster=one).jobs.finish_s.tolist() == [190, 210]


def test_classes_take_turns_by_weight() -> None:
    """One GPU: the class of 3/4 has three rounds of four, and when it is done the next round gives it to the other."""
    jobs = jobs_of([60.0, 400.0], [1.0, 1.0], [np.nan, np.nan])
    one = Cluster("one", (NodeGroup("v100", 1, 1, 0, 0), NodeGroup("other", 1, 0, 1, 0)))
    found = betimes.simulate(jobs, POLICY, cluster=one)
    assert found.jobs.finish_s.tolist() == [80, 470]


@pytest.mark.parametrize("machines", [{"units": 8}, {"cluster": Cluster.uniform(2, gpu=4, name="alike")}])
def test_on_machines_of_one_family_it_is_wfq_itself(machines: dict[str, Any]) -> None:
    jobs = betimes.generate("demo:jobs=60", units=8, seed=1)
    plain = betimes.simulate(jobs, f"wfq:{CLASSES}", predict=True, **machines)
    found = betimes.simulate(jobs, POLICY, predict=True, **machines)
    assert found.policy == plain.policy
    for name in ("start_s", "finish_s", "predicted_finish_s", "units_s"):
        assert getattr(found.jobs, name).tobytes() == getattr(plain.jobs, name).tobytes()


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ("wfq:T=1,heterogeneous=yes", "policy wfq has no parameter 'T'"),
        ("wfq:thresholds=2+1,heterogeneous=yes", "they must increase"),
        ("wfq:weights=0.5+0.5,thresholds=1+2,heterogeneous=yes", "2 given for 3 classes"),
        ("wfq:heterogeneous=maybe", "'maybe' is none of yes"),
        ("wfq:heterogeneous=yes,period=0", "parameter period: 0 is not between 1"),
        ("wfq:heterogeneous=yes,turn=-1", "parameter turn: -1 is not between 0"),
    ],
)
def test_bad_parameters(policy: str, message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        betimes.simulate(jobs_of([1.0], [1.0], [1.0]), policy, cluster=UNLIKE)


def test_a_job_that_can_run_nowhere() -> None:
    with pytest.raises(InputError, match=r"fields speed.FAMILY: 0 on every family"):
        betimes.simulate(jobs_of([1.0], [0.0], [np.nan]), "nodes:fifo", cluster=UNLIKE)


def test_without_the_parameter_it_is_for_a_pool() -> None:
    with pytest.raises(InputError, match="a unit of a pool needs the same on all nodes"):
        betimes.simulate(jobs_of([1.0], [1.0], [1.0]), "wfq", cluster=UNLIKE)


def test_bad_parameters_where_machines_are_alike() -> None:
    for text in ("wfq:heterogeneous=yes,period=0", "wfq:heterogeneous=maybe"):
        with pytest.raises(PolicyError, match=r"period: 0 is not between 1|'maybe' is none of yes"):
            betimes.simulate(betimes.generate("demo:jobs=2", units=8), text, units=8)
