"""A live pool takes jobs over that hold more units than it has: fewer nodes are left, or others counted the units."""

from __future__ import annotations

import numpy as np

from betimes.policies import parse_policy
from betimes.service.engines.messages import Allocation, Grant, Inputs, JobRequest, Restored
from betimes.service.engines.pool import LivePool

JOBS = 6


def wanted(job: int) -> JobRequest:
    return JobRequest(job, 1, 1, "linear", 100.0, cpu=0.5)


def test_more_units_are_held_than_the_pool_has() -> None:
    # On three cores there are three units, and six jobs that hold half a core each.
    engine = LivePool(parse_policy("srsf"), 3, np.array([[0, 3000, 0]]))
    giver = LivePool(parse_policy("srsf"), JOBS, np.array([[0, 3000, 0]]))
    giver.happen(0.0, Inputs(requests=[wanted(job) for job in range(JOBS)]))
    for job in range(JOBS):
        engine.restore(Restored(wanted(job), giver.account(job), 1, (Allocation(0, 1),)), 0.0)
    rounds = engine.happen(0.0, Inputs(look=True))
    rounds += engine.happen(0.0, Inputs(requests=[wanted(JOBS)]))  # at the same instant
    held = dict.fromkeys(range(JOBS), 1)
    for one in rounds:
        for move in one.instructions:
            assert isinstance(move, Grant)
            held[move.job] = move.units
    assert sum(held.values()) == 3
