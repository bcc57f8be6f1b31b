"""The same trace through the service and through the twin: the same starts, finishes, preemptions and resizes.

To the last bit, whatever else is asked of the service meanwhile: quotes, lists, unchanged progress.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from betimes import Workload, generate, read_trace, simulate
from betimes.cluster import Cluster
from betimes.cluster.cluster import Maintenance
from betimes.errors import Conflict
from betimes.foresight.nodes.simulate import simulate_nodes
from betimes.outcome import Result
from betimes.service.executors.virtual import VirtualWorld
from betimes.service.runtime.service_backend import ServiceBackend
from betimes.service.spec.job_spec import JobSpec
from betimes.service.views.models import JobFilter, MaintenanceSpec
from betimes.workload.speedup import bind
from tests.service.served_traces import Disturb, serve_trace

DATA = Path(__file__).resolve().parents[4] / "shared" / "data"
RESTART_S = 7.0
POOL = [
    "fifo",
    "srsf",
    "srtf",
    "las",
    "max-min",
    "afs",
    "themis",
    "wfq:thresholds=1627+9694,weights=14/20+5/20+1/20,zeta_min=0.5,delta=0.1",
]
NODES = [
    "nodes:fifo",
    "fitgpp",
    "lrtp",
    "rand",
    "youngest",
    "easy",
    "conservative",
    "slurm",
    "sjf",
    "skip-over:order=random",
    "wfp3",
    "ljf",
    "widest:backfill=easy",
    "slowdown",
    "wfq-order:classes=4,first=10m,backfill=easy",
    "unicef:backfill=conservative",
    "lowest-priority",
]


def quick(policies: list[str], *chosen: str) -> list[Any]:
    """All policies, those that are not chosen marked as slow."""
    assert set(chosen) <= set(policies)
    return [
        policy if policy in chosen else pytest.param(policy, marks=pytest.mark.slow) for policy in policies
    ]


def known(workload: Workload) -> Workload:
    """With estimates that are true."""
    table, _ = bind(workload.curve_names, int(workload.max_units.max()))
    return replace(
        workload, estimate_s=np.maximum(workload.work_s / table.at(workload.curve, workload.max_units), 1.0)
    )


def estimated(workload: Workload, seed: int = 1) -> Workload:
    """With estimates that are off by up to a factor of three: beliefs are outrun, and promises are broken."""
    off = np.random.default_rng(seed).uniform(0.3, 2.0, len(workload))
    return replace(workload, estimate_s=np.maximum(known(workload).estimate_s * off, 1.0))


async def pester(backend: ServiceBackend, world: VirtualWorld) -> None:
    """Ask for what must not change anything, at most once for each change of the jobs that are there or run."""
    spec = JobSpec(command=["x"], workdir="/", cpu=0.001, gpu=0.0, estimate_s=30)
    rng, asked_at = np.random.default_rng(3), (0, 0)
    while True:
        # Not as often as one gets a turn: a slow machine would ask more than a fast one.
        jobs = backend.controller.scheduler.ledger.next_job, len(world.stays)
        if jobs != asked_at:
            asked_at = jobs
            await backend.quote(spec, "bob")
            await backend.jobs(JobFilter(limit=5))
            await backend.nodes()
        await asyncio.sleep(float(rng.uniform(0.0, 0.02)))


async def pester_with_progress(backend: ServiceBackend, world: VirtualWorld) -> None:
    """Besides, let runs report the progress that is believed of them."""
    rng = np.random.default_rng(4)
    pestering = asyncio.ensure_future(pester(backend, world))
    try:
        while True:
            for number, stay in list(world.stays.items())[:3]:
                done = world.progress_frac(stay.run, backend.controller.clock.now_s())
                if done is not None and number in backend.scheduler.ledger.jobs:
                    # The run may end before the report is heard; time stands still until it is.
                    with suppress(Conflict), backend.controller.clock.hold():
                        await backend.progress(number, stay.run.number, done * 1000.0, 1000.0)
            await asyncio.sleep(float(rng.uniform(0.0, 0.003)))
    finally:
        pestering.cancel()


def assert_same(
    workload: Workload,
    cluster: Cluster,
    policy: str,
    twin: Result,
    folder: Path,
    *,
    seed: int = 0,
    restart_s: float = RESTART_S,
    disturb: Disturb = pester,
) -> None:
    served = serve_trace(workload, cluster, policy, folder, restart_s=restart_s, seed=seed, disturb=disturb)
    jobs = twin.jobs
    for name, ours, theirs in (
        ("start", served.start_s, jobs.start_s),
        ("finish", served.finish_s, jobs.finish_s),
        ("preemptions", served.preemptions, jobs.preemptions),
        ("resizes", served.resizes, jobs.resizes),
    ):
        differ = np.flatnonzero(ours != theirs)
        assert len(differ) == 0, (policy, name, differ[:5], ours[differ[:5]], theirs[differ[:5]])


@pytest.mark.parametrize("policy", quick(POOL, "fifo", "las", "themis", POOL[-1]))
def test_pool_policies(policy: str, tmp_path: Path) -> None:
    workload = estimated(generate("demo:jobs=80", seed=3, units=16))
    twin = simulate(workload, policy, units=16, sizes="estimate", restart_s=RESTART_S)
    assert_same(workload, Cluster.pool(16), policy, twin, tmp_path)


@pytest.mark.parametrize("policy", quick(NODES, "fitgpp", "easy", "skip-over:order=random"))
def test_nodes_policies(policy: str, tmp_path: Path) -> None:
    workload = estimated(generate("fitgpp:jobs=80,nodes=4", seed=3))
    cluster = Cluster.uniform(2, gpu=8, cpu=32, memory_gib=256)
    name = policy.removeprefix("nodes:")
    twin = simulate_nodes(workload, name, cluster=cluster, sizes="estimate", restart_s=RESTART_S, seed=5)
    assert_same(workload, cluster, policy, twin, tmp_path, seed=5)


@pytest.mark.parametrize("policy", ["easy", "srsf"])
def test_maintenance(policy: str, tmp_path: Path) -> None:
    """The windows of a cluster in the twin, and the same ones announced to the service before it begins."""
    if policy == "easy":
        workload = known(generate("fitgpp:jobs=60,nodes=4", seed=3))
        cluster, named = Cluster.uniform(2, gpu=8, cpu=32, memory_gib=256), ("node-1",)
    else:
        workload, cluster, named = known(generate("demo:jobs=60", seed=3, units=16)), Cluster.pool(16), ()
    last_s = round(float(workload.submit_s[-1]))
    windows = (Maintenance(0.3 * last_s, 0.4 * last_s, named), Maintenance(0.5 * last_s, 0.7 * last_s))
    engine: Any = "nodes" if policy == "easy" else "pool"
    twin, alone = (
        simulate(workload, policy, engine=engine, cluster=each, sizes="estimate", restart_s=RESTART_S)
        for each in (replace(cluster, maintenance=windows), cluster)
    )
    assert (twin.jobs.start_s != alone.jobs.start_s).any()

    async def announce(backend: ServiceBackend, _: VirtualWorld) -> None:
        with backend.controller.clock.hold():
            for each in windows:
                asked = MaintenanceSpec(from_at=each.from_s, to_at=each.to_s, nodes=[*each.nodes])
                await backend.add_maintenance(asked, "ann")

    assert_same(workload, cluster, policy, twin, tmp_path, disturb=announce)


@pytest.mark.parametrize("policy", ["srsf", "themis", "fitgpp"])
def test_progress_that_is_no_news(policy: str, tmp_path: Path) -> None:
    if policy == "fitgpp":
        workload = known(generate("fitgpp:jobs=70,nodes=4", seed=3))
        cluster = Cluster.uniform(2, gpu=8, cpu=32, memory_gib=256)
        twin = simulate_nodes(workload, policy, cluster=cluster, sizes="estimate", restart_s=0.0, seed=5)
    else:
        workload, cluster = known(generate("demo:jobs=70", seed=3, units=16)), Cluster.pool(16)
        twin = simulate(workload, policy, units=16, sizes="estimate", restart_s=0.0)
    assert_same(
        workload, cluster, policy, twin, tmp_path, seed=5, restart_s=0.0, disturb=pester_with_progress
    )


@pytest.mark.slow
@pytest.mark.parametrize("policy", POOL)
def test_hundreds_of_jobs_of_philly(policy: str, tmp_path: Path) -> None:
    trace = DATA / "gpu" / "philly_pcs" / "trace_2869ce.csv.gz"
    if not trace.exists():
        pytest.skip(f"the public traces are not here: there is no {trace}")
    workload = estimated(read_trace(trace, format="philly-pcs")[:250])
    twin = simulate(workload, policy, units=64, sizes="estimate", restart_s=RESTART_S)
    assert_same(workload, Cluster.pool(64), policy, twin, tmp_path)


# Every policy is compared on hundreds of jobs in `test_specifications`; here one that preempts, while more is asked.
@pytest.mark.slow
def test_a_thousand_jobs_of_the_fitgpp_mixture(tmp_path: Path) -> None:
    workload = estimated(generate("fitgpp:jobs=1000,nodes=20", seed=3))
    cluster = Cluster.uniform(18, gpu=8, cpu=32, memory_gib=256)
    twin = simulate_nodes(workload, "fitgpp", cluster=cluster, sizes="estimate", restart_s=RESTART_S, seed=5)
    assert_same(workload, cluster, "fitgpp", twin, tmp_path, seed=5)


@pytest.mark.slow
def test_a_thousand_jobs_of_an_swf_log_under_easy(tmp_path: Path) -> None:
    log = DATA / "swf" / "KTH-SP2-1996-2.swf.gz"
    if not log.is_file():
        pytest.skip(f"the public traces are not here: there is no {log}")
    workload = read_trace(log)[:1000]
    twin = simulate_nodes(workload, "easy", cluster=Cluster.pool(100), sizes="estimate", restart_s=RESTART_S)
    assert_same(workload, Cluster.pool(100), "easy", twin, tmp_path)
