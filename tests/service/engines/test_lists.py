"""A list of jobs gets what the same jobs get that come one after the other at the same instant."""

from __future__ import annotations

import random

import numpy as np
import pytest

from betimes.policies import parse_policy
from betimes.service.engines.messages import Inputs, JobRequest
from betimes.service.engines.pool import LivePool

CORES = (4, 2, 3, 3)
CAPACITY = np.array([[0, 1000 * cores, 4096] for cores in CORES])


def wanted(job: int, luck: random.Random) -> JobRequest:
    least = luck.choice((1, 1, 2))
    run_s = luck.uniform(5.0, 50.0)
    return JobRequest(
        job,
        least,
        least + luck.randrange(5),
        luck.choice(("linear", "amdahl:0.9")),
        run_s,
        cpu=luck.choice((0.5, 1.0, 2.0)),
        memory_gib=luck.choice((0.0, 0.5)),
        work_s=run_s if luck.random() < 0.1 else None,  # a set of trials
    )


@pytest.mark.parametrize(("interval_s", "gain"), [(0.0, False), (15.0, False), (0.0, True), (15.0, True)])
def test_a_list_gets_what_its_jobs_get_one_after_the_other(interval_s: float, gain: bool) -> None:
    for seed in range(8):
        luck, live, coming, now_s = random.Random(seed), list[int](), 1, 0.0
        one, other = (
            LivePool(
                *(parse_policy("fifo"), sum(CORES), CAPACITY),
                restart_s=3.0,
                resize_interval_s=interval_s,
                resize_gain=gain,
            )
            for _ in range(2)
        )
        for _ in range(25):
            now_s += luck.uniform(0.0, 8.0)
            done = [live.pop(luck.randrange(len(live))) for _ in range(luck.randrange(min(3, len(live) + 1)))]
            asked = [wanted(coming + k, luck) for k in range(luck.choice((1, 2, 5)))]
            live += [each.job for each in asked]
            coming += len(asked)
            one.happen(now_s, Inputs(done=list(done), requests=list(asked)))
            other.happen(now_s, Inputs(done=list(done), requests=asked[:1]))
            for each in asked[1:]:
                other.happen(now_s, Inputs(requests=[each]))
            assert {job: held for job, held in one.held.items() if held} == {
                job: held for job, held in other.held.items() if held
            }
            assert one.next_timer_s() == other.next_timer_s()
            for job in live:
                assert one.account(job).row() == other.account(job).row(), (seed, job)
                assert one.why_less(job) == other.why_less(job)
