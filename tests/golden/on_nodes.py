"""The golden runs on nodes: two equal machines, a sample whose jobs are marked as trials and take time to leave."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from betimes import Cluster, Workload, mark_trials, read_trace, simulate
from betimes.workload import draw_grace, samples

CLUSTER = Cluster.uniform(2, gpu=4, cpu=16, memory_gib=64, name="two nodes")

POLICIES = (
    "fifo",
    "fifo:placement=worst",
    "skip-over",
    "skip-over:window=2,placement=first",
    "easy",
    "easy:order=sjf,placement=worst",
    "conservative",
    "conservative:order=sjf,placement=worst",
    "slurm",
    "slurm:depth=3,horizon=1h,precision=0,placement=first",
    "sjf",
    "ljf",
    "widest",
    "slowdown",
    "wfp3",
    "unicef",
    "wfq-order",
    "wfq-order:classes=2,first=10m,W=-0.5,backfill=easy",
    "fitgpp",
    "fitgpp:s=0.5,P=2,fallback=none",
    "lrtp",
    "lrtp:trim=false",
    "rand",
    "rand:trim=false,placement=worst",
    "youngest",
    "lowest-priority",
)

MODES: dict[str, dict[str, Any]] = {
    "estimates": {},
    "restarts, killed": {"restart_s": 30.0, "overrun": "kill"},
}


@cache
def workload() -> Workload:
    """The tiny sample; what a unit needs, and how much jobs matter, goes round with the number of the job."""
    jobs = read_trace(samples.path("tiny"))
    turn = np.arange(len(jobs))
    jobs = replace(
        jobs,
        gpu=np.choose(turn % 4, [1.0, 1.0, 0.5, 0.5]),
        cpu=np.choose(turn % 3, [2.0, 4.0, 0.75]),
        memory_gib=np.choose(turn % 5, [8.0, 4.0, 16.0, 2.0, 8.0]),
        priority=turn % 3,
    )
    return draw_grace(mark_trials(jobs, "random:0.3", seed=1), 60.0, 400.0)


def run(policy: str, mode: str) -> dict[str, list[float] | list[int]]:
    """Times and promised times of every job, in order of submission, and how often it was preempted."""
    jobs = simulate(workload(), policy, cluster=CLUSTER, predict=True, **MODES[mode]).jobs
    return {
        "start_s": jobs.start_s.tolist(),
        "finish_s": jobs.finish_s.tolist(),
        "predicted_finish_s": jobs.predicted_finish_s.tolist(),
        "preemptions": jobs.preemptions.tolist(),
    }
