"""The same specifications to the service and to the twin: the same jobs are refused, and the others run alike.

Nothing is translated for the service: a job is submitted as a user would. The twin's workload has what the
specification says, and each splits jobs into tasks by itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from betimes import Workload, read_trace
from betimes.cluster import Cluster, NodeGroup, read_cluster
from betimes.cluster.labels import Labels
from betimes.foresight.nodes.simulate import simulate_nodes
from betimes.service.executors.virtual import WORK, VirtualWorld
from betimes.service.spec.job_spec import JobSpec
from betimes.service.tuning.recent import as_workload
from betimes.twin.nodes.offered import scaled_to
from tests.service.same_as_twin.test_traces import DATA, NODES, RESTART_S, pester
from tests.service.served_traces import serve_trace

GPU = DATA / "gpu"
MIXED = Cluster(
    "mixed",
    (
        NodeGroup("small", 2, 2, 16, 64),
        NodeGroup("large", 2, 8, 64, 512),
        NodeGroup("middle", 3, 4, 48, 256),
        NodeGroup("cores", 1, 0, 32, 128),
    ),
)


def specifications(workload: Workload, seed: int) -> list[JobSpec]:
    """The jobs of a trace as users would submit them, with all choices of tasks, and estimates that are off."""
    rng = np.random.default_rng(seed)
    specs: list[JobSpec] = []
    for row, job in enumerate(workload):
        units = job.max_units
        divisors = [k for k in range(1, units + 1) if units % k == 0]
        choice = ["pack", "spread", int(rng.choice(divisors))][int(rng.choice(3, p=[0.7, 0.15, 0.15]))]
        work_s = max(1.0, round(job.work_s))
        specs.append(
            JobSpec(
                command=["true"],
                name=f"job-{row}",
                workdir="/",
                gpu=0.0 if math.isnan(job.gpu) else job.gpu,
                cpu=float(rng.choice([0.5, 1.1, 4.0, 6.0])) if math.isnan(job.cpu) else job.cpu,
                memory_gib=float(rng.choice([0.0, 0.3, 16.0, 30.0]))
                if math.isnan(job.memory_gib)
                else job.memory_gib,
                min_units=units if rng.random() < 0.5 else 1,
                max_units=units,
                units_per_task=choice,
                qos="trial" if rng.random() < 0.3 else "best-effort",
                priority=int(rng.integers(0, 3)),
                grace_s=float(rng.choice([0.0, 30.0, 120.0])),
                estimate_s=max(1.0, round(work_s / units * float(rng.uniform(0.3, 2.0)), 3)),
                env={WORK: repr(work_s)},
            )
        )
    return specs


def assert_alike(
    specs: list[JobSpec],
    submit_s: np.ndarray,
    cluster: Cluster,
    policy: str,
    folder: Path,
    *,
    is_disturbed: bool = False,
    world_of: Callable[[float, bool, float], VirtualWorld] = VirtualWorld,
) -> None:
    jobs, _ = as_workload(
        specs,
        name="specifications",
        job_id=range(len(specs)),
        submit_s=submit_s,
        work_s=[float(spec.env[WORK]) for spec in specs],
        estimate_s=[spec.runtime_estimate_s for spec in specs],
    )
    name = policy.removeprefix("nodes:")
    twin = simulate_nodes(jobs, name, cluster=cluster, sizes="estimate", restart_s=RESTART_S, seed=5).jobs
    arrivals = list(zip(submit_s.tolist(), specs, strict=True))
    served = serve_trace(
        jobs,
        cluster,
        policy,
        folder,
        restart_s=RESTART_S,
        seed=5,
        submissions=arrivals,
        disturb=pester if is_disturbed else None,
        promise_every=1 if is_disturbed else 0,
        world_of=world_of,
    )
    kept = ~np.isnan(twin.finish_s)
    assert kept.mean() > 0.8
    waited = float((twin.start_s > twin.submit_s).mean())
    assert waited > 0.1, "a trace in which few jobs wait shows little"
    rows = [served.store.job(number) for number in range(1, len(served.start_s) + 1)]
    accepted = [row["name"] for row in rows if row is not None]
    assert accepted == [spec.name for spec, runs in zip(specs, kept, strict=True) if runs]
    for field, ours, theirs in (
        ("start", served.start_s, twin.start_s[kept]),
        ("finish", served.finish_s, twin.finish_s[kept]),
        ("preemptions", served.preemptions, twin.preemptions[kept]),
    ):
        differ = np.flatnonzero(ours != theirs)
        assert len(differ) == 0, (policy, field, differ[:5], ours[differ[:5]], theirs[differ[:5]])


def wide(jobs: int, seed: int = 3) -> Workload:
    """Jobs of 1 to 32 GPUs, submitted faster than `MIXED` runs them; some are too wide for it."""
    rng = np.random.default_rng(seed)
    units = rng.choice([1, 2, 3, 4, 8, 12, 16, 32], jobs, p=[0.3, 0.15, 0.1, 0.1, 0.15, 0.07, 0.05, 0.08])
    return Workload.from_columns(
        submit_s=0.05 * np.cumsum(np.round(20.0 * rng.exponential(60.0, jobs))),
        work_s=(units * rng.lognormal(5.5, 1.2, jobs)).round() + 1,
        max_units=units,
        gpu=rng.choice([1.0, 0.5, 1 / 3, 0.125, np.nan], jobs, p=[0.6, 0.1, 0.1, 0.1, 0.1]),
    )


@pytest.mark.parametrize("policy", ["nodes:fifo", "fitgpp", "conservative"])
def test_wide_jobs_on_mixed_nodes(policy: str, tmp_path: Path) -> None:
    jobs = wide(100)
    assert_alike(specifications(jobs, 1), jobs.submit_s, MIXED, policy, tmp_path, is_disturbed=True)


@pytest.mark.parametrize("policy", NODES)
def test_few_wide_jobs_on_mixed_nodes(policy: str, tmp_path: Path) -> None:
    jobs = wide(60)
    assert_alike(specifications(jobs, 1), jobs.submit_s, MIXED, policy, tmp_path)


def in_zones(specs: list[JobSpec], seed: int, cluster: Cluster) -> tuple[list[JobSpec], Cluster]:
    """Jobs of which every other one requires labels, of nodes that have some; no node has those of a few."""
    zones: list[Labels] = [(("zone", "a"),), (("kind", "fast"), ("zone", "b")), (("zone", "b"),), ()]
    groups = tuple(replace(group, labels=zones[at % 4]) for at, group in enumerate(cluster.groups))
    wanted = [
        {},
        {"zone": "a"},
        {"zone": "b"},
        {"kind": "fast"},
        {"zone": "b", "kind": "fast"},
        {"zone": "c"},
    ]
    chosen = np.random.default_rng(seed).choice(6, len(specs), p=[0.5, 0.15, 0.15, 0.1, 0.09, 0.01])
    required = [
        spec.model_copy(update={"require": wanted[at]}) for spec, at in zip(specs, chosen, strict=True)
    ]
    return required, replace(cluster, groups=groups)


@pytest.mark.parametrize("policy", ["fitgpp", "easy"])
def test_jobs_that_require_labels(policy: str, tmp_path: Path) -> None:
    jobs = wide(90)
    specs, cluster = in_zones(specifications(jobs, 1), 2, MIXED)
    assert_alike(specs, jobs.submit_s, cluster, policy, tmp_path, is_disturbed=True)


def of_data(name: str) -> Path:
    path = GPU / name
    if not path.is_file():
        pytest.skip(f"the public traces are not here: there is no {path}")
    return path


def part_of_openb(share: int) -> Cluster:
    """GPU nodes of every shape that Alibaba's cluster has, one of so many: of 1 to 8 GPUs."""
    whole = read_cluster(of_data("alibaba_openb/openb_node_list_gpu_node.csv.gz"))
    groups = tuple(replace(group, count=-(-group.count // share)) for group in whole.groups)
    return replace(whole, name="part", groups=groups)


# Every policy once at this length, on one of two traces; on so small a cluster that jobs queue up and are preempted.
@pytest.mark.slow
@pytest.mark.parametrize("policy", NODES[::2])
def test_hundreds_of_jobs_of_philly(policy: str, tmp_path: Path) -> None:
    trace = read_trace(of_data("philly_jobs_2017_without_heldout.csv.gz"))
    jobs = trace[np.flatnonzero(trace.max_units <= 32)[:300]]
    assert jobs.max_units.max() == 16
    cluster = part_of_openb(60)
    assert_alike(specifications(jobs, 1), scaled_to(jobs, cluster, 0.9).submit_s, cluster, policy, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("policy", NODES[1::2])
def test_hundreds_of_jobs_of_openb(policy: str, tmp_path: Path) -> None:
    trace = read_trace(of_data("alibaba_openb/openb_pod_list_default.csv.gz"))
    jobs = trace[np.flatnonzero(trace.max_units <= 32)[:400]]
    # As many pods in a job as the trace has of GPUs, up to 32: openb itself has no jobs of several pods.
    several = np.random.default_rng(2).choice([1, 2, 4], len(jobs), p=[0.6, 0.25, 0.15])
    wider = replace(jobs, max_units=jobs.max_units * several, work_s=jobs.work_s * several)
    assert wider.max_units.max() == 16
    cluster = part_of_openb(120)
    assert_alike(specifications(wider, 1), scaled_to(wider, cluster, 2.0).submit_s, cluster, policy, tmp_path)
