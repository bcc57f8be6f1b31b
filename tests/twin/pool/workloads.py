"""Random jobs, and whether what becomes of them hangs on the last bit of a float."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from hypothesis import strategies as st

from tests.reference import Job, ReferenceResult, run
from tests.twin.pool.driving import Setup, as_stated

WFQ = "wfq:thresholds=4+8,weights=1/2+3/10+1/5,zeta_min=0.6,delta=0.3"
POLICIES = [
    "fifo",
    "srsf",
    "srtf",
    "las:quantum=2",
    "themis:lease=2",
    "afs",
    "max-min",
    WFQ,
    WFQ + ",cap=largest",
]
SIZES = ["true", "estimate", "noise"]

# Speeds that are powers of two: whole units, whole seconds and these make no rounding error, ties included.
BINARY_CURVES: list[tuple[float, ...]] = [(0, 1), (0, 1, 2), (0, 1, 1, 2), (0, 1, 2, 2, 4), (0, 1, 2, 4)]
CURVES: list[tuple[float, ...] | None] = [
    None,
    (0, 1, 1.8, 2.4, 2.8, 3.0, 3.1),
    (0, 1, 1.9, 2.1, 3.6),  # efficiency falls and rises again
    (0, 1, 1.5),
    (0, 1, 1.25, 1.25, 1.25),
]


@st.composite
def binary_jobs(draw: st.DrawFn, most_jobs: int = 6, widest: int = 4) -> tuple[Job, ...]:
    """Whole times and speeds that are powers of two: many ties, no rounding error in whole units."""
    jobs: list[Job] = []
    submit = 0
    for _ in range(draw(st.integers(1, most_jobs))):
        submit += draw(st.integers(0, 4))
        most = draw(st.integers(1, widest))
        jobs.append(
            Job(
                submit=submit,
                work=draw(st.integers(1, 16)),
                max_units=most,
                min_units=draw(st.integers(1, most)),
                speedup=draw(st.sampled_from(BINARY_CURVES)),
                estimate=draw(st.sampled_from([4, 5, 7, 8, 12, 16])),
                factor=Fraction(draw(st.integers(1, 8)), 4),
            )
        )
    return tuple(jobs)


SECONDS = st.one_of(st.integers(1, 20), st.floats(0.125, 40.0))


@st.composite
def mixed_jobs(draw: st.DrawFn, most_jobs: int = 6, widest: int = 6) -> tuple[Job, ...]:
    """Times of any kind, curves of any kind, widths of any kind."""
    jobs: list[Job] = []
    submit = 0.0
    for _ in range(draw(st.integers(1, most_jobs))):
        submit += draw(st.one_of(st.integers(0, 4), st.floats(0.0, 6.0)))
        most = draw(st.integers(1, widest))
        job = Job(
            submit=submit,
            work=draw(SECONDS),
            max_units=most,
            min_units=draw(st.one_of(st.just(1), st.integers(1, most))),
            speedup=draw(st.sampled_from(CURVES)),
            estimate=draw(st.floats(6.0, 40.0)),  # on up to six units at least the second that is believed
            factor=draw(st.floats(0.25, 1.75)),
        )
        jobs.append(as_stated(job))
    return tuple(jobs)


def fitting(jobs: tuple[Job, ...], units: int, policy: str, **choices: Any) -> Setup:
    """A setup in which no job needs more than all units."""
    fit = tuple(replace(job, min_units=min(job.min_units, units)) for job in jobs)
    return Setup(fit, units, policy, **choices)


def oracle(setup: Setup, *, exact: bool) -> ReferenceResult:
    return run(
        setup.jobs,
        setup.units,
        setup.policy,
        fractional=setup.fractional,
        predict=setup.predict,
        restart_s=setup.restart_s,
        sizes=setup.sizes,
        exact=exact,
    )


def course(result: ReferenceResult) -> Any:
    """What happened in which order, times left aside, and the promises to six digits."""
    decisions = [
        (decision.kind, {row: round(float(units), 6) for row, units in decision.grants.items()})
        for decision in result.decisions
    ]
    promised = [[round(float(promise), 5) for promise in promises] for promises in result.predictions]
    return decisions, promised


def same_in_floats(setup: Setup, exact: ReferenceResult) -> bool:
    """Whether the model's own rounding errors leave the course of things as it is."""
    return course(oracle(setup, exact=False)) == course(exact)


def hangs_on_nothing_small(setup: Setup, exact: ReferenceResult) -> bool:
    """Whether the course of things survives when every size and time is off in the twelfth digit."""
    return all(
        course(oracle(replace(setup, jobs=_shaken(setup.jobs, pattern, later)), exact=False)) == course(exact)
        for pattern, later in (
            ((0,), 0),
            ((0,), 1),
            ((0,), -1),
            ((1, -1), 0),
            ((-1, 1, 1), 1),
            ((2, -1, 0), -1),
        )
    )


def _shaken(jobs: Sequence[Job], pattern: tuple[int, ...], later: int) -> tuple[Job, ...]:
    shaken: list[Job] = []
    for index, job in enumerate(jobs):
        by = 1.0 + 1e-12 * pattern[index % len(pattern)]
        estimate = None if job.estimate is None else float(job.estimate) * by
        submit = float(job.submit) * (1.0 + 1e-12 * later)
        shaken.append(replace(job, submit=submit, work=float(job.work) * by, estimate=estimate))
    return tuple(shaken)
