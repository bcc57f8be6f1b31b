"""Results written out by hand: the four jobs of the first worked case, and results drawn at random."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from betimes.outcome import AbsenceColumns, JobColumns, JobState, ResourceUse, Result, SegmentColumns, Timing

FAIR_FINISH_S = (24.5, 20.5, 4.0, 27.0)
# Per policy: starts, ends, first predictions, contention as (sum, samples).
FOUR_JOBS: dict[str, tuple[Sequence[float], Sequence[float], Sequence[float], Sequence[tuple[int, int]]]] = {
    "fifo": ((0, 10, 18, 19), (10, 18, 19, 27), (10, 18, 19, 27), ((7, 4), (12, 5), (13, 5), (9, 4))),
    "srsf": ((0, 0, 1, 10), (27, 9, 2, 18), (10, 8, 2, 18), ((13, 8), (9, 4), (6, 2), (4, 2))),
    "themis": ((0, 3, 2, 19), (19, 16, 3, 27), (10, 15, 3, 27), ((52, 23), (46, 19), (9, 3), (35, 18))),
}
_FIFO = ((0, 0, 10), (1, 10, 18), (2, 18, 19), (3, 19, 27))
_SRSF = ((1, 0, 1), (2, 1, 2), (1, 2, 9), (0, 9, 10), (3, 10, 18), (0, 18, 27))
_THEMIS = (
    (0, 0, 2), (2, 2, 3), (1, 3, 4), (0, 4, 5), (1, 5, 7), (0, 7, 8), (1, 8, 9), (0, 9, 10), (1, 10, 12),
    (0, 12, 13), (1, 13, 14), (0, 14, 15), (1, 15, 16), (0, 16, 19), (3, 19, 27),
)  # fmt: skip
_HELD = {"fifo": _FIFO, "srsf": _SRSF, "themis": _THEMIS}


def columns(n: int, **given: Any) -> JobColumns:
    """Job columns with plain defaults: submitted together, each one unit wide, finished after a second."""
    nan, ones, zeros = np.full(n, np.nan), np.ones(n), np.zeros(n)
    plain: dict[str, Any] = {
        "job_id": np.arange(1, n + 1),
        "submit_s": zeros,
        "start_s": zeros,
        "finish_s": ones,
        "predicted_finish_s": nan,
        "work_s": ones,
        "run_alone_s": ones,
        "min_units": ones,
        "max_units": ones,
        "units_s": ones,
        "preemptions": zeros,
        "resizes": zeros,
        "restart_s": zeros,
        "contention_mean": nan,
        "user": -ones,
        "qos": zeros,
        "status": -ones,
        "state": np.full(n, JobState.FINISHED),
        "cost_usd": nan,
    }
    unknown = set(given) - set(plain)
    assert not unknown, unknown
    return JobColumns(**(plain | given))


def result(jobs: JobColumns, **given: Any) -> Result:
    """A result with plain defaults around the given jobs."""
    plain: dict[str, Any] = {
        "policy": "fifo",
        "units": 1,
        "seed": 0,
        "fractional": False,
        "sizes": "true",
        "workload_name": "case",
        "fingerprint": "0" * 64,
        "segments": None,
        "timing": Timing(load_s=0.25, compile_s=1.5, wall_s=0.5, events=8),
    }
    return Result(jobs=jobs, **(plain | given))


def four_jobs(policy: str) -> Result:
    """The paper's Figure 1: four jobs on one unit."""
    starts, ends, predicted, contention = FOUR_JOBS[policy]
    work_s = np.array([10.0, 8.0, 1.0, 8.0])
    jobs = columns(
        4,
        job_id=np.array(["J1", "J2", "J3", "J4"]),
        submit_s=[0.0, 0.0, 1.0, 10.0],
        start_s=starts,
        finish_s=ends,
        predicted_finish_s=predicted,
        work_s=work_s,
        run_alone_s=work_s,
        units_s=work_s,
        contention_mean=[total / samples for total, samples in contention],
    )
    row, start_s, end_s = zip(*_HELD[policy], strict=True)
    segments = SegmentColumns(np.array(row), np.array(start_s), np.array(end_s), np.ones(len(row)))
    return result(
        jobs,
        policy=policy,
        workload_name="figure 1",
        segments=segments,
        fair_finish_s=np.array(FAIR_FINISH_S),
    )


def on_nodes(**given: Any) -> Result:
    """One node of 8 GPUs and 32 cores: a best-effort job of 60 s leaves after 3 s of grace for two trials of 5 s.

    Jobs one after the other: job 1 runs 0..10, is told to leave at 10 and at 20; job 4 is killed, job 5 refused.
    """
    jobs = columns(
        5,
        submit_s=[0.0, 10.0, 20.0, 30.0, 31.0],
        start_s=[0.0, 13.0, 23.0, 76.0, np.nan],
        finish_s=[76.0, 18.0, 28.0, 80.0, np.nan],
        work_s=[60.0, 5.0, 5.0, 9.0, 9.0],
        run_alone_s=[60.0, 5.0, 5.0, 9.0, np.nan],
        units_s=[66.0, 5.0, 5.0, 4.0, 0.0],
        preemptions=[2, 0, 0, 0, 0],
        qos=[0, 1, 1, 0, 0],
        state=[0, 0, 0, 3, 2],
    )
    plain: dict[str, Any] = {
        "policy": "fitgpp:P=2",
        "units": 8,
        "segments": SegmentColumns(
            np.array([0, 1, 0, 2, 0, 3]),
            np.array([0.0, 13.0, 18.0, 23.0, 28.0, 76.0]),
            np.array([13.0, 18.0, 23.0, 28.0, 76.0, 80.0]),
            np.ones(6),
        ),
        "absences": AbsenceColumns(
            np.array([0, 0]), np.array([10.0, 20.0]), np.array([13.0, 23.0]), np.array([18.0, 28.0])
        ),
        "resources": (ResourceUse("gpu", 8.0, 592.0), ResourceUse("memory_gib", 100.0, 800.0)),
    }
    return result(jobs, **(plain | given))


@st.composite
def random_results(draw: st.DrawFn) -> Result:
    """Consistent results of 1 to 30 rigid jobs: some refused, killed, unfinished or unpredicted; on a pool or nodes."""
    n = draw(st.integers(1, 30))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    submit_s = np.cumsum(random.exponential(5.0, n))
    width = random.integers(1, 5, n)
    run_s = random.lognormal(2.0, 1.0, n)
    start_s = submit_s + random.exponential(10.0, n) * random.integers(0, 2, n)
    state = random.choice([*JobState], n, p=[0.7, 0.1, 0.1, 0.1])
    started = (state == JobState.FINISHED) | (state == JobState.KILLED)
    finish_s = np.where(started, start_s + run_s, np.nan)
    predicted_s = np.where(random.random(n) < 0.7, submit_s + run_s * random.uniform(0.5, 2.0, n), np.nan)
    jobs = columns(
        n,
        job_id=random.permutation(n),
        submit_s=submit_s,
        start_s=np.where(started, start_s, np.nan),
        finish_s=finish_s,
        predicted_finish_s=np.where(state == JobState.REFUSED, np.nan, predicted_s),
        work_s=run_s * width,
        run_alone_s=run_s,
        min_units=width,
        max_units=width,
        units_s=np.where(started, run_s * width, 0.0),
        contention_mean=random.uniform(1.0, 9.0, n),
        qos=random.integers(0, 2, n),
        status=random.choice([1, 0, 5], n),
        state=state,
        cost_usd=np.where(random.random(n) < 0.5, run_s, np.nan),
    )
    rows = np.flatnonzero(started)
    rows = rows[np.argsort(start_s[rows], kind="stable")]
    segments = SegmentColumns(rows, start_s[rows], finish_s[rows], width[rows])
    nodes: dict[str, Any] = {}
    if draw(st.booleans()):
        nodes["resources"] = (ResourceUse("cpu", 8.0, float(jobs.units_s.sum())),)
        if draw(st.booleans()):
            nodes["absences"] = AbsenceColumns(rows, start_s[rows], start_s[rows] + 1.0, start_s[rows] + 2.5)
    return result(jobs, units=8, segments=segments if draw(st.booleans()) else None, **nodes)
