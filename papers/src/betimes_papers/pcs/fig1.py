"""PCS (OSDI 2024), figure 1: four jobs on one unit, and why a promise breaks.

Promises at later arrivals come from a run that ends with that arrival: without further submissions the run is the
play-out.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from betimes_papers.experiment import Experiment, Progress, Row

if TYPE_CHECKING:
    from betimes.outcome import Result
    from betimes.workload import Workload

UNIT = "time units"

Promises = dict[str, dict[str, float]]
"""By job, then by the job at whose arrival the promise was made: the promised finish."""


@dataclass(frozen=True)
class Case:
    """A policy of the example, and its values in figure 1: its summary (b) and promises (a)."""

    name: str
    policy: str
    title: str
    jct_mean: float | None = None
    error_percent: float | None = None
    unfairness_percent: float | None = None
    promises: tuple[tuple[str, tuple[float, ...]], ...] = ()


CASES = (
    Case(
        "srsf", "srsf", "Tiresias", 11.25, 46.0, 10.0,
        (("J1", (10.0, 18.0, 19.0, 27.0)),),
    ),
    Case(
        "themis", "themis:lease=1", "Themis", 13.5, 24.0, 0.0,
        (("J1", (10.0, 18.0, 19.0, 19.0)), ("J2", (15.0, 16.0, 16.0))),
    ),
    Case(
        "fifo", "fifo", "FIFO", 15.75, 0.0, 500.0,
        (("J1", (10.0, 10.0, 10.0)), ("J2", (18.0, 18.0, 18.0)), ("J3", (19.0, 19.0)), ("J4", (27.0,))),
    ),
    Case("afs", "afs", "AFS"),
    Case("max-min", "max-min", "max-min"),
    Case("wfq", "wfq:thresholds=5,weights=1/2+1/2,zeta_min=0", "WFQ, half to jobs of size 5 or less"),
)  # fmt: skip


def four_jobs() -> Workload:
    """The example: J1 and J2 at 0, J3 at 1, J4 at 10; 10, 8, 1 and 8 units of work, one unit of machine."""
    from betimes.workload import Workload

    return Workload.from_columns(
        job_id=["J1", "J2", "J3", "J4"],
        submit_s=[0.0, 0.0, 1.0, 10.0],
        work_s=[10.0, 8.0, 1.0, 8.0],
        name="the four jobs of figure 1",
        machine_units=1,
    )


def run(_: Path | None, progress: Progress) -> list[Row]:
    """The rows of all policies."""
    from betimes.foresight.simulate import simulate
    from betimes.outcome import summarise

    jobs = four_jobs()
    rows: list[Row] = []
    for at, case in enumerate(CASES):
        progress(case.title, at, len(CASES))
        result = simulate(jobs, case.policy, units=1, fractional=True, predict=True, fair=True)
        rows += _summary_rows(case, summarise(result), result)
        rows += _promise_rows(case, promises(jobs, case.policy, result))
    progress("done", len(CASES), len(CASES))
    return rows


def promises(jobs: Workload, policy: str, result: Result) -> Promises:
    """The promises of every job at its arrival and at each later arrival before its end."""
    from betimes.foresight.simulate import simulate

    names = [str(name) for name in jobs.job_id]
    found: Promises = {name: {} for name in names}
    for last, arriving in enumerate(names):
        until_then = simulate(jobs.head(last + 1), policy, units=1, fractional=True)
        for row in range(last + 1):
            if row == last or result.jobs.finish_s[row] > jobs.submit_s[last]:
                found[names[row]][arriving] = float(until_then.jobs.finish_s[row])
    return found


def _summary_rows(case: Case, summary: dict[str, float], result: Result) -> list[Row]:
    import numpy as np

    from betimes.outcome import job_metric

    jct = Row(case.name, "jct_mean", case.jct_mean, summary["jct_mean_s"], UNIT)
    error = Row(
        case.name,
        "pred_err_mean",
        case.error_percent,
        100.0 * summary["pred_err_mean_frac"],
        "%",
        "" if case.error_percent is None else "printed without decimals",
    )
    against_run = Row(
        case.name,
        "unfairness_fair_run_max",
        case.unfairness_percent,
        100.0 * summary["unfairness_fair_run_max_frac"],
        "%",
        "fair finish time: that of a max-min run, as in the figure",
    )
    averaged = Row(
        case.name,
        "unfairness_max",
        None,
        100.0 * float(np.max(job_metric(result, "unfairness_frac"))),
        "%",
        "fair finish time: from the contention averaged over events, as in the released code",
    )
    return [jct, error, against_run, averaged]


def _promise_rows(case: Case, promised: Promises) -> list[Row]:
    return [
        Row(f"{case.name}/{job}", f"promised_finish_at_{arriving}", published, ours, UNIT)
        for job, expected in case.promises
        for (arriving, ours), published in zip(promised[job].items(), expected, strict=True)
    ]


EXPERIMENT = Experiment(
    name="pcs-fig1",
    summary="PCS, figure 1: four jobs on one unit, their promised and their true finishes",
    needs=(),
    run=run,
    alone="its runs of four jobs take less time than a process takes to start",
)
