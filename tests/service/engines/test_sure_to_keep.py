"""What an engine says of a job without playing the state forward is what the play-out says, to the last bit."""

from __future__ import annotations

import random

import numpy as np
import pytest

from betimes.cluster.labels import NONE
from betimes.cluster.shapes import Shape
from betimes.foresight.run_times import GRID
from betimes.policies import NODES_POLICIES, POLICIES, parse_nodes_policy, parse_policy
from betimes.service.engines.messages import Inputs, JobRequest, Preempt
from betimes.service.engines.nodes import LiveNodes
from betimes.service.engines.pool import LivePool

CORES = (4, 2, 3)
CAPACITY = np.array([[0, 1000 * cores, 0] for cores in CORES])
RESIZED = {"srsf", "srtf", "las", "themis", "afs", "max-min", "wfq"}
PREEMPTED = {"fitgpp", "youngest", "lowest-priority"}
AT_TICKS = {"oda", "odb", "ode", "odm", "odx", "portfolio"}  # a job starts some time after it came
PARAMETERS = {
    "wfq": "thresholds=30,weights=2/3+1/3,zeta_min=0.5,delta=0.1",
    "ajw-t": "b=1h",
    "sww": "b=1h",
}


def engine(kind: str, policy: str) -> LivePool | LiveNodes:
    if kind == "pool":
        return LivePool(parse_policy(policy), sum(CORES), CAPACITY, restart_s=3.0)
    shapes = tuple(Shape((0, 1000 * cores, 0), NONE, "") for cores in CORES)
    return LiveNodes(
        parse_nodes_policy(policy),
        shapes,
        np.arange(len(CORES)),
        shapes=shapes,
        units=float(sum(CORES)),
        restart_s=3.0,
    )


def wanted(job: int, luck: random.Random) -> JobRequest:
    least = luck.choice((1, 1, 2))
    return JobRequest(
        job, least, least + luck.randrange(3), "linear", luck.choice((0.001, luck.uniform(5.0, 50.0))), cpu=1.0,
        priority=luck.randrange(3),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "policy", "keeps"),
    [
        *(("pool", policy, policy not in RESIZED) for policy in POLICIES),
        *(
            ("nodes", policy, policy not in PREEMPTED | AT_TICKS)
            for policy, rules in NODES_POLICIES.items()
            if rules.planner is None
        ),
    ],
)
def test_what_is_said_without_a_play_out_is_what_a_play_out_says(kind: str, policy: str, keeps: bool) -> None:
    rng = np.random.default_rng(7)
    luck, live, coming, now_s, said = random.Random(7), list[int](), 1, 0.0, 0
    parameters = PARAMETERS.get(policy)
    one = engine(kind, f"{policy}:{parameters}" if parameters else policy)
    for _ in range(60):
        now_s += luck.uniform(0.0, 8.0)
        rounds, what = one.catch_up(now_s), Inputs()
        if live and luck.random() < 0.6:
            what.done.append(live.pop(luck.randrange(len(live))))
        if live and luck.random() < 0.2:
            what.believed.append((luck.choice(live), luck.uniform(1.0, 30.0)))
        if live and luck.random() < 0.1:
            one.lose(live[0], now_s)
            what.look = True
        what.requests = [wanted(coming + k, luck) for k in range(luck.choice((0, 1, 1, 2)))]
        came = [each.job for each in what.requests]
        live += came
        coming += len(came)
        rounds += one.happen(now_s, what)
        left = [move.job for each in rounds for move in each.instructions if isinstance(move, Preempt)]
        if left:
            one.happen(now_s, Inputs(gone=left))
        # Some jobs are expected to end at other times than is believed.
        takes = {job: np.sort(rng.uniform(1.0, 60.0, GRID)) for job in live if job % 3 == 0}
        foreseen = one.foresee(now_s, expected=takes)()
        for job in came:
            if (found := one.sure_to_keep(job, takes)) is not None:
                assert found == foreseen.of(job)
                said += 1
    assert (said > 0) == keeps, said
