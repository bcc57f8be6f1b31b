"""Sets of trials through the service and through the twin: the same starts, finishes, preemptions and resizes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from betimes import Workload, simulate
from betimes.cluster import Cluster
from betimes.service.executors.virtual import WORK
from betimes.service.scheduling.fold import recovered
from betimes.service.spec.job_spec import JobSpec
from tests.service.served_traces import Served, serve_trace

UNITS = 8
POLICIES = [
    "fifo",
    "srsf",
    "max-min",
    "afs",
    "themis",
    "wfq:thresholds=300+2000,weights=14/20+5/20+1/20,zeta_min=0.5,delta=0.1",
]


def sets(jobs: int, seed: int = 5, off: bool = False) -> Workload:
    """1 to 20 trials of one unit each, of whole seconds; `off`: with estimates off by up to a factor of three."""
    rng = np.random.default_rng(seed)
    trials = rng.integers(1, 21, jobs)
    each_s = rng.integers(20, 400, jobs).astype(np.float64)
    told_s = np.floor(each_s * rng.uniform(0.3, 2.0, jobs)) if off else each_s
    made = Workload.from_columns(
        submit_s=np.cumsum(rng.integers(0, 400, jobs)).astype(np.float64),
        work_s=each_s * trials,
        min_units=1,
        max_units=trials,
        name="sets",
        machine_units=UNITS,
    )
    return replace(made, estimate_s=told_s)


def served(workload: Workload, policy: str, folder: Path, restart_s: float) -> Served:
    submissions = [
        (
            float(workload.submit_s[row]),
            JobSpec(
                command=["trial"],
                workdir="/",
                array=f"1-{workload.max_units[row]}",
                as_one=True,
                grace_s=0.0,
                estimate_s=float(workload.estimate_s[row]),
                env={WORK: repr(float(workload.work_s[row] / workload.max_units[row]))},
            ),
        )
        for row in range(len(workload))
    ]
    cluster = Cluster.pool(UNITS)
    return serve_trace(workload, cluster, policy, folder, restart_s=restart_s, submissions=submissions)


@pytest.mark.parametrize("policy", POLICIES)
def test_the_same_schedule(policy: str, tmp_path: Path) -> None:
    assert_same(sets(12, off=True), policy, tmp_path, restart_s=7.0)


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
def test_the_same_schedule_of_more_sets(policy: str, tmp_path: Path) -> None:
    assert_same(sets(40), policy, tmp_path, restart_s=0.0)


def assert_same(workload: Workload, policy: str, folder: Path, *, restart_s: float) -> None:
    twin = simulate(workload, policy, units=UNITS, sizes="estimate", restart_s=restart_s, as_trials=True).jobs
    live = served(workload, policy, folder, restart_s)
    sets_before = np.arange(len(workload))
    numbers = (
        sets_before + np.cumsum(workload.max_units) - workload.max_units
    )  # a set comes before its trials
    for name in ("start_s", "finish_s", "preemptions", "resizes"):
        ours, theirs = getattr(live, name)[numbers], getattr(twin, name)
        differ = np.flatnonzero(ours != theirs)
        assert len(differ) == 0, (name, differ[:5], ours[differ[:5]], theirs[differ[:5]])
    ledger = live.controller.scheduler.ledger
    assert recovered(None, live.store.each_event(0)).to_bytes() == ledger.to_bytes()
