"""Users who share: the service decides as the twin does, counts their use as its engine does, and goes on with it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from betimes import generate, simulate
from betimes.cluster import Cluster
from betimes.cluster.cluster import Maintenance
from betimes.service.executors.virtual import VirtualWorld
from betimes.service.runtime.service_backend import ServiceBackend
from betimes.service.scheduling.fold import recovered
from betimes.service.views.models import MaintenanceSpec
from betimes.twin.users import Entitled, FairUsers
from tests.service.same_as_twin.test_traces import POOL, RESTART_S, estimated, known, pester, quick
from tests.service.served_traces import of_users, serve_trace
from tests.twin.nodes.test_maintenance import crossings

HALF_LIFE_S = 600.0
PORTFOLIO = "portfolio:members=easy/order=sjf,objective=jct:avg"


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
        shares=FairUsers(HALF_LIFE_S),
    )
    assert (served.start_s == twin.jobs.start_s).all()
    assert (served.finish_s == twin.jobs.finish_s).all()

    # The log alone gives what the engine has counted.
    scheduler = served.controller.scheduler
    again = recovered(None, served.store.each_event())
    users = scheduler.engine.state.users
    now_s = float(scheduler.engine.state.pool[0].now)
    for at, (name, account) in enumerate(again.shares.accounts.items()):
        assert account == scheduler.ledger.shares.accounts[name]
        assert account.recent == users[at].recent
        assert (account.running, account.charge, users[at].running) == (0, 0.0, 0)
    parts = again.shares.standing({}, (), now_s)
    assert sum(part.recent_frac for part in parts.values()) == pytest.approx(1.0)


@pytest.mark.parametrize(
    "policy",
    quick(
        ["easy", "srsf", "las", POOL[-1], "max-min", "conservative", "fitgpp", PORTFOLIO],
        *("easy", "srsf", "fitgpp", PORTFOLIO),
    ),
)
def test_shares_limits_and_windows_at_once(policy: str, tmp_path: Path) -> None:
    if policy in ("easy", "conservative", "fitgpp", PORTFOLIO):
        workload, engine = known(generate("fitgpp:jobs=60,nodes=4", seed=3)), "nodes"
        cluster, named = Cluster.uniform(2, gpu=8, cpu=32, memory_gib=256), ("node-1",)
    else:
        workload, engine = known(generate("demo:jobs=60", seed=3, units=16)), "pool"
        cluster, named = Cluster.pool(16), ()
    last_s = round(float(workload.submit_s[-1]))
    windows = (Maintenance(0.3 * last_s, 0.4 * last_s, named), Maintenance(0.5 * last_s, 0.7 * last_s))
    closing = replace(cluster, maintenance=windows)
    workload = of_users(replace(workload, submit_s=workload.submit_s + 60.0))  # when all is announced
    where: dict[str, Any] = {"engine": engine, "sizes": "estimate", "restart_s": RESTART_S, "seed": 5}
    entitled = {"ann": Entitled(2.0, most_running=3.0), "bob": Entitled(most_units=16.0)}
    users = FairUsers(HALF_LIFE_S, entitled)
    twin = simulate(workload, policy, cluster=closing, users=users, timeline=True, **where)
    assert engine == "pool" or crossings(twin, closing) == []

    async def announce(backend: ServiceBackend, _: VirtualWorld) -> None:
        with backend.controller.clock.hold():
            for each in windows:
                asked = MaintenanceSpec(from_at=each.from_s, to_at=each.to_s, nodes=[*each.nodes])
                await backend.add_maintenance(asked, "cem")

    served = serve_trace(
        workload,
        cluster,
        policy,
        tmp_path,
        restart_s=RESTART_S,
        seed=5,
        disturb=announce,
        shares=users,
    )
    assert (served.start_s == twin.jobs.start_s).all()
    assert (served.finish_s == twin.jobs.finish_s).all()
    again = recovered(None, served.store.each_event())
    assert again.to_bytes() == served.controller.scheduler.ledger.to_bytes()
