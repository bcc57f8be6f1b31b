"""`betimes.learn`: a history makes promises for what runs and waits, and they are judged."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import betimes
from betimes import ClusterState, Learned, RunningJob, Workload
from betimes.errors import InputError

SHORT_S, LONG_S, LIMIT_S = 60.0, 1200.0, 7200.0
WIDTH = 4


def history(jobs: int = 80, *, are_named: bool = True, from_s: float = 0.0) -> Workload:
    """Jobs of one user and one limit: `short` ones and `long` ones in turn, more than run at once."""
    rng, is_long = np.random.default_rng(3), np.arange(jobs) % 2 == 1
    run_s = np.where(is_long, LONG_S, SHORT_S) * rng.uniform(0.9, 1.1, jobs)
    names = np.where(is_long, "long", "short") if are_named else np.full(jobs, "")
    return of_a_user(
        submit_s=from_s + 500.0 * np.arange(jobs), work_s=WIDTH * run_s, JobName=names,
        recorded_wait_s=np.zeros(jobs), job_id=[f"{from_s:g}-{row}" for row in range(jobs)],
    )  # fmt: skip


def of_a_user(JobName: Any, recorded_wait_s: Any = 0.0, **columns: Any) -> Workload:  # noqa: N803
    count = len(columns["submit_s"])
    extra = {"JobName": JobName, "recorded_wait_s": np.broadcast_to(recorded_wait_s, count)}
    given: dict[str, Any] = {
        "min_units": WIDTH,
        "max_units": WIDTH,
        "estimate_s": LIMIT_S,
        "user": ["ann"] * count,
    }
    return Workload.from_columns(**(given | columns), extra=extra)


def queue(now_s: float, age_s: float) -> tuple[Workload, ClusterState]:
    """A long job that has run for a while on the whole pool, and one of each name behind it; how long is unknown."""
    jobs = of_a_user(
        submit_s=[now_s - age_s, now_s - 1.0, now_s - 1.0], work_s=[1.0] * 3,
        job_id=["runs", "long", "short"], JobName=["long", "long", "short"],
    )  # fmt: skip
    return jobs, ClusterState(now_s, [RunningJob("runs", now_s - age_s, units=WIDTH)], ["long", "short"])


def ended(jobs: Workload, run_s: list[float], wait_s: list[float]) -> Workload:
    return replace(
        jobs, work_s=WIDTH * np.array(run_s), extra={**jobs.extra, "recorded_wait_s": np.array(wait_s)}
    )


@pytest.fixture(scope="module")
def taught() -> bytes:
    return betimes.learn(history(), "srsf", units=WIDTH).to_bytes()


def test_a_job_is_promised_what_its_kin_took(taught: bytes) -> None:
    learned, (jobs, state) = Learned.from_bytes(taught), queue(60_000.0, 600.0)
    promises = {each.job_id: each for each in learned.promise(jobs, "srsf", units=WIDTH, state=state)}
    assert [*promises] == ["runs", "long", "short"]
    runs, short = promises["runs"], promises["short"]
    assert runs.is_running
    assert runs.finish_s == pytest.approx(state.now_s + 600.0, abs=120.0)
    assert runs.start_s == runs.start_low_s == runs.start_high_s == state.now_s - 600.0
    unnamed = betimes.learn(history(are_named=False), "srsf", units=WIDTH)
    other = {each.job_id: each for each in unnamed.promise(jobs, "srsf", units=WIDTH, state=state)}
    assert abs(runs.finish_s - state.now_s - 600.0) < abs(other["runs"].finish_s - state.now_s - 600.0)
    for each in promises.values():
        assert each.finish_low_s <= each.finish_s <= each.finish_high_s
        assert each.start_low_s <= each.start_s <= each.start_high_s
        assert each.finish_low_s >= state.now_s
    assert not short.is_running
    assert short.start_s > state.now_s


def test_a_job_that_has_just_begun_is_not_about_to_end(taught: bytes) -> None:
    learned, (jobs, state) = Learned.from_bytes(taught), queue(60_000.0, 5.0)
    runs, *_ = learned.promise(jobs, "srsf", units=WIDTH, state=state)
    assert runs.finish_low_s > state.now_s + 0.5 * LONG_S
    assert runs.finish_high_s < state.now_s + 2.0 * LONG_S


def test_what_is_observed_is_judged_and_learned_from(taught: bytes) -> None:
    learned, (jobs, state) = Learned.from_bytes(taught), queue(60_000.0, 600.0)
    before = learned.promise(jobs, "srsf", units=WIDTH, state=state)
    judged = learned.finished
    learned.observe(ended(jobs, [LONG_S, 3.0 * LONG_S, SHORT_S], [0.0, 601.0, 4201.0]))
    assert learned.finished == judged + 2  # those that were promised an end while they waited
    longer = history(from_s=66_000.0)[1::2]
    learned.observe(replace(longer, work_s=3.0 * longer.work_s))
    later, at = queue(170_000.0, 600.0)
    after = learned.promise(replace(later, job_id=np.array(["r2", "l2", "s2"])), "srsf", units=WIDTH, state=replace(
        at, running=[RunningJob("r2", 169_400.0, units=WIDTH)], waiting=["l2", "s2"]))  # fmt: skip
    assert after[1].finish_s - 170_000.0 > before[1].finish_s - 60_000.0 + LONG_S


def test_a_job_that_is_gone_unobserved_teaches_nothing(taught: bytes) -> None:
    learned, (jobs, state) = Learned.from_bytes(taught), queue(60_000.0, 600.0)
    learned.promise(jobs, "srsf", units=WIDTH, state=state)
    judged, rest = learned.finished, ClusterState(60_100.0, state.running, ["short"])
    again = learned.promise(jobs[[0, 2]], "srsf", units=WIDTH, state=rest)
    assert [each.job_id for each in again] == ["runs", "short"]
    assert learned.finished == judged


def test_bytes_hold_all_of_it_open_promises_too(taught: bytes) -> None:
    learned, (jobs, state) = Learned.from_bytes(taught), queue(60_000.0, 600.0)
    learned.promise(jobs, "srsf", units=WIDTH, state=state)
    twin = Learned.from_bytes(learned.to_bytes())
    assert twin.level == 0.8
    for each in (learned, twin):
        each.observe(ended(jobs[[0]], [LONG_S], [0.0]))
    rest = ClusterState(60_700.0, [RunningJob("long", 60_600.0, units=WIDTH)], ["short"])
    one, other = (each.promise(jobs[[1, 2]], "srsf", units=WIDTH, state=rest) for each in (learned, twin))
    assert one == other
    assert twin.to_bytes() == learned.to_bytes()


def test_starts_have_errors_of_their_own() -> None:
    """Waits are three times as long as in the play-outs, since more is submitted; runs are as expected."""
    learned, found = Learned(), dict[str, float]()
    for number in range(40):
        jobs, state = queue(1000.0 + 10_000.0 * number, 600.0)
        ids = np.array([f"{number}-{job}" for job in jobs.job_id])
        jobs = replace(jobs[[0, 2]], job_id=ids[[0, 2]])
        now = ClusterState(state.now_s, [RunningJob(ids[0], state.now_s - 600.0, units=WIDTH)], [ids[2]])
        [runs, waits] = learned.promise(jobs, "srsf", units=WIDTH, state=now)
        learned.observe(ended(jobs, [LONG_S, SHORT_S], [0.0, 1801.0]))
        ends = {"runs": runs.finish_s, "starts": waits.start_s, "waits": waits.finish_s}
        found = {name: at_s - now.now_s for name, at_s in ends.items()}
    assert found["runs"] == pytest.approx(600.0, abs=60.0)
    assert found["starts"] == pytest.approx(1800.0, rel=0.0, abs=300.0)
    assert found["waits"] == pytest.approx(1800.0 + SHORT_S, abs=300.0)


def test_what_is_missing_is_named(taught: bytes) -> None:
    learned, (jobs, _) = Learned.from_bytes(taught), queue(60_000.0, 600.0)
    with pytest.raises(InputError, match="give state="):
        learned.promise(jobs, "srsf", units=WIDTH)
    with pytest.raises(InputError, match="further column recorded_wait_s"):
        learned.observe(replace(jobs, extra={}))
    with pytest.raises(InputError, match="above 0 and below 1"):
        betimes.learn(history(4), "srsf", units=WIDTH, level=1.5)
