"""Sets of trials in the twin: a unit runs one trial at a time, and the last ones leave units unused."""

from __future__ import annotations

import numpy as np
import pytest

from betimes import Workload, simulate
from betimes.errors import InputError
from betimes.policies import parse_policy
from betimes.twin.options import SimulationOptions
from betimes.twin.pool.trials import TrialSimulation, work_left

POLICIES = ("fifo", "srsf", "max-min", "afs", "wfq:thresholds=50,weights=1/2+1/2,zeta_min=0,delta=0.1")


def sets(*jobs: tuple[float, int, float]) -> Workload:
    """(submitted, trials, seconds each)."""
    submit_s, trials, each_s = (np.array(column, dtype=float) for column in zip(*jobs, strict=True))
    return Workload.from_columns(
        submit_s=submit_s, work_s=trials * each_s, min_units=1, max_units=trials.astype(int), name="sets"
    )


def test_three_equal_trials_on_two_units_take_two_rounds() -> None:
    workload = sets((0, 3, 10))
    assert simulate(workload, "fifo", units=2).jobs.finish_s.tolist() == [15.0]
    exact = simulate(workload, "fifo", units=2, as_trials=True)
    assert exact.jobs.finish_s.tolist() == [20.0]
    assert exact.jobs.run_alone_s.tolist() == [20.0]


def test_a_unit_that_the_last_trials_leave_is_given_to_the_next_job() -> None:
    # The first set needs one unit for its third trial from 10 s on; the second one gets the other.
    exact = simulate(sets((0, 3, 10), (1, 1, 5)), "fifo", units=2, as_trials=True).jobs
    assert exact.finish_s.tolist() == [20.0, 15.0]
    assert exact.start_s.tolist() == [0.0, 10.0]


def test_trials_that_give_up_their_units_go_on_where_they_were() -> None:
    # srsf: at 4 s the short set takes both units for 1 s; the two trials that ran go on for 6 s more.
    exact = simulate(sets((0, 2, 10), (4, 2, 1)), "srsf", units=2, as_trials=True).jobs
    assert exact.finish_s.tolist() == [11.0, 5.0]
    assert exact.preemptions.tolist() == [1, 0]


def test_only_the_trial_that_is_started_again_loses_the_time_of_a_restart() -> None:
    # At 4 s one unit goes to the other job for 2 s; the second trial goes on at 6 s, after a restart of 3 s.
    exact = simulate(sets((0, 2, 10), (4, 1, 2)), "srsf", units=2, as_trials=True, restart_s=3.0).jobs
    assert exact.finish_s.tolist() == [15.0, 6.0]


@pytest.mark.parametrize("policy", POLICIES)
def test_sets_of_one_trial_are_plain_jobs(policy: str) -> None:
    rng = np.random.default_rng(1)
    workload = sets(
        *(
            (float(at), 1, float(each))
            for at, each in zip(np.arange(40) * 3, rng.integers(1, 60, 40), strict=True)
        )
    )
    exact, plain = (simulate(workload, policy, units=4, as_trials=each).jobs for each in (True, False))
    np.testing.assert_allclose(exact.finish_s, plain.finish_s, rtol=1e-12)


@pytest.mark.parametrize("policy", POLICIES)
def test_no_set_is_done_before_its_trials_could_be(policy: str) -> None:
    rng = np.random.default_rng(2)
    jobs = [
        (float(at), int(n), float(w))
        for at, n, w in zip(np.arange(30) * 20, rng.integers(1, 9, 30), rng.integers(5, 50, 30), strict=True)
    ]
    workload = sets(*jobs)
    result = simulate(workload, policy, units=6, as_trials=True, timeline=True)
    done = result.jobs
    assert (done.finish_s - done.submit_s >= done.run_alone_s * (1 - 1e-12)).all()
    segments = result.segments
    assert segments is not None
    held = np.bincount(segments.row, (segments.end_s - segments.start_s) * segments.units, len(jobs))
    np.testing.assert_allclose(held, workload.work_s, rtol=1e-9)  # every unit that is held works


def test_trials_of_unequal_length() -> None:
    workload = sets((0, 3, 10))
    run = TrialSimulation(workload, parse_policy("fifo"), SimulationOptions(units=2))
    run.works = [[5.0, 20.0, 5.0]]
    run.run()
    result = run.result().jobs
    assert result.finish_s.tolist() == [20.0]  # 5 and then 5 on one unit, 20 on the other
    assert result.run_alone_s.tolist() == [20.0]


def test_a_promise_takes_sets_for_fluid() -> None:
    exact = simulate(sets((0, 3, 10)), "fifo", units=2, as_trials=True, predict=True).jobs
    np.testing.assert_allclose(exact.predicted_finish_s, [15.0], rtol=1e-6)


def test_what_is_left_follows_what_trials_have_taken() -> None:
    assert work_left(10.0, 0.0, 0, [], 3) == pytest.approx(30.0)
    assert work_left(10.0, 40.0, 2, [(5.0, 0.0)], 1) == pytest.approx(35.0)
    assert work_left(10.0, 0.0, 0, [(5.0, 0.25)], 0) == pytest.approx(15.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fractional": True}, "whole units"),
        ({"sizes": "last-two"}, "sizes last-two"),
        ({"engine": "nodes"}, "as-trials"),
    ],
)
def test_what_sets_of_trials_cannot_be(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        simulate(sets((0, 3, 10)), "fifo", units=2, as_trials=True, **options)  # pyright: ignore[reportArgumentType]
