"""Users who share: the service decides as the twin does, counts their use as its engine does, and goes on with it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from betimes import Workload, generate, simulate
from betimes.cluster import Cluster
from betimes.service.scheduling.ledger import Ledger
from betimes.twin.users import FairUsers
from tests.service.same_as_twin.test_traces import RESTART_S, estimated, pester
from tests.service.served_traces import serve_trace

HALF_LIFE_S = 600.0


def of_users(workload: Workload) -> Workload:
    rng = np.random.default_rng(5)
    user = rng.choice(3, len(workload), p=(0.7, 0.2, 0.1))
    priority = rng.integers(0, 3, len(workload))
    return replace(workload, user=user, user_names=("ann", "bob", "cem"), priority=priority)


@pytest.mark.parametrize(
    "policy",
    [
        "easy",
        "srsf",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("fitgpp", "conservative", "las", "themis")),
    ],
)
def test_the_same_schedule(policy: str, tmp_path: Path) -> None:
    on_nodes = policy not in ("srsf", "las", "themis")
    if on_nodes:
        workload = of_users(estimated(generate("fitgpp:jobs=120,nodes=4", seed=3)))
        cluster = Cluster.uniform(2, gpu=8, cpu=32, memory_gib=256)
        where: dict[str, Any] = {"cluster": cluster}
    else:
        workload, cluster = of_users(estimated(generate("demo:jobs=120", seed=3, units=16))), Cluster.pool(16)
        where = {"units": 16}
    twin = simulate(
        workload,
        policy,
        sizes="estimate",
        restart_s=RESTART_S,
        seed=5,
        users=FairUsers(HALF_LIFE_S),
        **where,
    )
    alone = simulate(workload, policy, sizes="estimate", restart_s=RESTART_S, seed=5, **where)
    assert (twin.jobs.finish_s != alone.jobs.finish_s).any()  # it makes a difference
    served = serve_trace(
        workload,
        cluster,
        policy,
        tmp_path,
        restart_s=RESTART_S,
        seed=5,
        disturb=pester,
        half_life_s=HALF_LIFE_S,
    )
    assert (served.start_s == twin.jobs.start_s).all()
    assert (served.finish_s == twin.jobs.finish_s).all()

    # The log alone gives what the engine has counted.
    scheduler = served.controller.scheduler
    again = Ledger.recovered(None, served.store.each_event())
    users = scheduler.engine.state.users
    now_s = float(scheduler.engine.state.pool[0].now)
    for at, (name, account) in enumerate(again.shares.accounts.items()):
        assert account == scheduler.ledger.shares.accounts[name]
        assert account.recent == users[at].recent
        assert (account.running, account.charge, users[at].running) == (0, 0.0, 0)
    parts = again.shares.standing({}, (), now_s)
    assert sum(part.recent_frac for part in parts.values()) == pytest.approx(1.0)
