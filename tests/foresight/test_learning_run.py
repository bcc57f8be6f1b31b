"""Simulations that promise intervals and learn run times on their way: nothing looks ahead, and no schedule changes."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from betimes import simulate, tune
from betimes.cluster import Cluster, NodeGroup
from betimes.cluster.cluster import Maintenance
from betimes.errors import InputError
from betimes.outcome import Result, load, save, summarise
from betimes.twin import driving
from betimes.workload import Workload
from tests.twin.pool.crowds import crowd

POLICIES = [
    "fifo",
    "srsf",
    "wfq:thresholds=20+60,weights=1/2+3/10+1/5,zeta_min=0.6,delta=0.1",
    "easy",
    "fitgpp",
]
EACH = pytest.mark.parametrize("policy", POLICIES, ids=lambda text: text.partition(":")[0])


def jobs(count: int, seed: int = 5) -> Workload:
    made = crowd(seed, count, gap_s=12.0)
    return replace(made, qos=np.asarray(np.arange(count) % 3 == 0, dtype=np.int8))


def run(workload: Workload, policy: str, *, sizes: str = "estimate", interval: float | None = 0.8) -> Result:
    return simulate(workload, policy, units=8, sizes=sizes, predict=True, interval=interval)


@EACH
def test_an_interval_changes_no_schedule(policy: str) -> None:
    with_it, without = (run(jobs(120), policy, interval=level) for level in (0.8, None))
    assert np.array_equal(with_it.jobs.start_s, without.jobs.start_s)
    assert np.array_equal(with_it.jobs.finish_s, without.jobs.finish_s)
    assert without.intervals is None


@pytest.mark.parametrize("policy", ["srsf", "easy"])
def test_calls_of_few_events_make_the_same_promises(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = run(jobs(40), policy)
    monkeypatch.setattr(driving, "EVENTS_A_CALL", 1)
    assert run(jobs(40), policy) == expected


@EACH
@pytest.mark.parametrize("sizes", ["estimate", "learned"])
def test_nothing_looks_ahead(policy: str, sizes: str) -> None:
    """All that has not finished by an instant takes longer, also what comes later: no promise before it changes."""
    workload = jobs(200)
    one = run(workload, policy, sizes=sizes)
    at_s = float(workload.submit_s[160])
    open_then = ~(one.jobs.finish_s <= at_s)
    other = run(
        replace(workload, work_s=np.where(open_then, 3.0 * workload.work_s, workload.work_s)),
        policy,
        sizes=sizes,
    )
    early = workload.submit_s <= at_s
    assert one.intervals is not None
    assert other.intervals is not None
    for name, values in one.intervals.columns().items():
        assert np.array_equal(values[early], other.intervals.columns()[name][early], equal_nan=True), name
    assert not np.array_equal(one.jobs.finish_s, other.jobs.finish_s)


def test_a_job_is_expected_to_take_what_jobs_like_it_took_and_easy_believes_the_limit() -> None:
    """One unit, jobs of 10 s that ask for 100 s: the fifth, behind the fourth, is promised 20 s and not 200 s."""
    submit_s = np.array([0.0, 20.0, 40.0, 60.0, 60.5])
    workload = Workload.from_columns(
        submit_s=submit_s, work_s=[10.0] * 5, estimate_s=[100.0] * 5, user=[1] * 5, name="alike"
    )
    result = simulate(workload, "easy", units=1, sizes="estimate", predict=True, interval=0.8)
    assert result.intervals is not None
    played = result.intervals.played_finish_s - submit_s
    assert played[:2] == pytest.approx([100.0, 10.0])
    assert played[3:] == pytest.approx([10.0, 19.5])
    assert result.intervals.played_start_s[4] == pytest.approx(70.0)
    assert result.intervals.estimate_finish_s[4] == pytest.approx(170.0)
    believed = simulate(workload, "easy", units=1, sizes="estimate", predict=True).jobs.predicted_finish_s
    assert believed[4] == pytest.approx(260.0)


def test_learned_sizes_are_what_a_policy_goes_by() -> None:
    """Ann's jobs take 5 s and Bob's 50 s, whatever they ask for: SRSF lets Ann go first once that is known."""
    workload = Workload.from_columns(
        submit_s=[0.0, 0.0, 100.0, 100.0, 100.0],
        work_s=[5.0, 50.0, 20.0, 50.0, 5.0],
        estimate_s=[60.0, 60.0, 60.0, 30.0, 60.0],
        user=[1, 2, 3, 2, 1],
        name="two users",
    )

    def finishes(sizes: str) -> list[float]:
        return simulate(workload, "srsf", units=1, sizes=sizes).jobs.finish_s.tolist()

    assert finishes("estimate")[3] < finishes("estimate")[4]
    assert finishes("learned")[4] < finishes("learned")[3]


def test_the_figures_and_the_files(tmp_path: object) -> None:
    result = run(jobs(200), "easy")
    figures = summarise(result)
    names = ("pred_cover_frac", "pred_width_p50_frac", "pred_err_p50_frac", "pred_score")
    for name in (*names, *(f"{each}{of}" for each in names for of in ("_estimate", "_ratio"))):
        assert figures[name] >= 0.0, name
    again = load(save(result, f"{tmp_path}/out"))
    assert again == result
    assert again.interval_frac == 0.8


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(InputError, match="part of a promise"):
        simulate(jobs(5), "easy", units=8, interval=0.8)
    with pytest.raises(InputError, match="above 0 and below 1"):
        run(jobs(5), "easy", interval=1.0)
    with pytest.raises(InputError, match="trials are promised without"):
        simulate(jobs(5), "fifo", units=8, predict=True, interval=0.8, as_trials=True)
    with pytest.raises(InputError, match="trials are not learned"):
        simulate(jobs(5), "fifo", units=8, sizes="learned", as_trials=True)
    with pytest.raises(InputError, match="learns no run times"):
        tune(jobs(50), ["jct:avg"], units=8, sizes="learned")


def test_no_interval_of_a_job_that_starts_at_once_reaches_beyond_a_limit_that_ends_it() -> None:
    """Half of what asks for 100 s takes longer."""
    workload = Workload.from_columns(
        submit_s=np.arange(120) * 1000.0,
        work_s=np.resize([40.0, 300.0], 120),
        estimate_s=[100.0] * 120,
        user=[1] * 120,
        name="long",
    )
    for overrun, least_s, most_s in (("kill", 50.0, 101.0), ("extend", 200.0, math.inf)):
        result = simulate(
            workload, "easy", units=1, sizes="estimate", predict=True, interval=0.8, overrun=overrun
        )
        assert result.intervals is not None
        longest_s = (result.intervals.predicted_high_s - workload.submit_s).max()
        assert least_s < longest_s < most_s


def test_jobs_that_are_left_out_have_no_interval() -> None:
    workload = replace(jobs(20), min_units=np.where(np.arange(20) == 7, 8, 1), max_units=np.full(20, 8))
    result = simulate(workload, "fifo", units=4, predict=True, interval=0.8, sizes="estimate", on_wide="drop")
    assert result.intervals is not None
    assert np.flatnonzero(np.isnan(result.intervals.predicted_low_s)).tolist() == [7]


@pytest.mark.parametrize("policy", ["nodes:easy", "fifo"])
def test_no_interval_begins_before_the_end_of_a_maintenance_of_all_nodes(policy: str) -> None:
    """Short jobs that ask for an hour make every promise shorter, but not the wait for the windows."""
    rng = np.random.default_rng(0)
    submit_s = np.sort(rng.uniform(0.0, 60_000.0, 150))
    workload = Workload.from_columns(
        submit_s=submit_s,
        work_s=rng.uniform(1.0, 20.0, 150),
        estimate_s=[600.0] * 150,
        user=[1] * 150,
        name="short",
    )
    windows = [(at, at + rng.uniform(500.0, 4000.0)) for at in rng.uniform(20_000.0, 60_000.0, 4)]
    cluster = Cluster(
        "two", (NodeGroup("n", 2, 0.0, 8.0, 0.0),), maintenance=tuple(Maintenance(*each) for each in windows)
    )
    result = simulate(workload, policy, cluster=cluster, sizes="estimate", predict=True, interval=0.8)
    assert result.intervals is not None
    gated = 0
    for at_s, low_s in zip(submit_s, result.intervals.predicted_low_s, strict=True):
        opens_s = max((end for begin, end in windows if begin <= at_s < end), default=at_s)
        gated += opens_s > at_s
        assert low_s >= opens_s - 1e-6
    assert gated
