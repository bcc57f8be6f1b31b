"""Policies that plan in rounds, in the service and in the twin: the same machines, promises, starts, ends, and bill.

The same specifications go to both; the service rents from the fake cloud on a virtual clock. How much jobs slow each
other is not measured live, and `t=1` takes for known that they do not, so that both plan with the same.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from betimes_papers.eva.runs import PODS, trace

from betimes.cluster import Cluster, NodeGroup, Offer, read_cluster
from betimes.foresight.nodes.simulate import simulate_nodes
from betimes.service.executors.virtual import WORK
from betimes.service.spec.job_spec import JobSpec
from betimes.twin.users import Entitled, FairUsers
from tests.service.same_as_twin.test_rents import on_grid, workload_of
from tests.service.same_as_twin.test_ticks import leases_of
from tests.service.served_traces import Served, assert_promised_as, of_three, of_users, serve_trace

DATA = Path(__file__).parents[4] / "shared" / "data"
STOP_S = 16.0
OFFERS = tuple(
    Offer(
        type=f"c{cores}", cpu=cores, memory_gib=4 * cores, usd_per_h=0.05 * cores, boot_s=100.0, setup_s=21.0
    )
    for cores in (2, 4, 8)
)
CLUSTER = Cluster("planned", (), offers=OFFERS)
MIXED = replace(CLUSTER, name="mixed", groups=(NodeGroup("own", 1, 0, 8, 32),))
UNLIKE = replace(
    CLUSTER,
    name="unlike",
    offers=(*OFFERS[:2], replace(OFFERS[2], speeds=(("train", 2.0), ("serve", 4.0), ("read", 0.5)))),
)
TROUBLED = replace(
    CLUSTER,
    name="troubled",
    offers=tuple(replace(offer, boot_failure_frac=0.3, boot_sigma=0.2) for offer in OFFERS),
)


def jobs_of(count: int, seed: int, gap_s: float = 300.0) -> tuple[list[JobSpec], np.ndarray]:
    """Jobs of one to five cores, each one task, some of which can share a machine."""
    rng = np.random.default_rng(seed)
    run_s = np.maximum(1.0, on_grid(rng.lognormal(8.5, 1.0, count)))
    cores = rng.choice((1.0, 2.0, 3.0, 5.0), count)
    specs = [
        JobSpec(
            command=["true", f"{row}"],
            name=f"job-{row}",
            workdir="/",
            cpu=float(cores[row]),
            memory_gib=float(2 * cores[row]),
            min_units=1,
            max_units=1,
            grace_s=STOP_S,
            estimate_s=float(run_s[row]),
            env={WORK: repr(float(run_s[row]))},
        )
        for row in range(count)
    ]
    return specs, np.cumsum(on_grid(rng.exponential(gap_s, count)))


@pytest.mark.parametrize(
    ("policy", "cluster", "count"),
    [
        ("no-packing", CLUSTER, 20),
        ("eva:t=1", CLUSTER, 30),
        ("eva:t=1", MIXED, 30),
        pytest.param("no-packing", TROUBLED, 40, marks=pytest.mark.slow),
        pytest.param("eva:t=1", TROUBLED, 40, marks=pytest.mark.slow),
        pytest.param("eva:t=1,rules=paper", CLUSTER, 40, marks=pytest.mark.slow),
        pytest.param("stratus", CLUSTER, 40, marks=pytest.mark.slow),
        pytest.param("synergy:t=1", CLUSTER, 40, marks=pytest.mark.slow),
        pytest.param("consolidation", CLUSTER, 40, marks=pytest.mark.slow),
    ],
)
def test_the_same_plans(policy: str, cluster: Cluster, count: int, tmp_path: Path) -> None:
    assert_alike(*jobs_of(count, 1), cluster, policy, tmp_path)


SHARES = FairUsers(3600.0, {"ann": Entitled(2.0, most_running=3.0), "bob": Entitled(most_units=2.0)})
SCARCE = replace(MIXED, name="scarce", quota=2)


@pytest.mark.parametrize(
    ("policy", "live", "cluster"),
    [
        ("eva:t=1", None, SCARCE),
        ("no-packing", "portfolio:members=no-packing,objective=cost:0.1,tick=300", CLUSTER),
        pytest.param("eva:t=1", None, CLUSTER, marks=pytest.mark.slow),
        pytest.param("stratus", None, SCARCE, marks=pytest.mark.slow),
        pytest.param("synergy:t=1", None, SCARCE, marks=pytest.mark.slow),
        pytest.param("consolidation", None, SCARCE, marks=pytest.mark.slow),
    ],
)
def test_the_same_plans_for_users_who_share_within_limits(
    policy: str, live: str | None, cluster: Cluster, tmp_path: Path
) -> None:
    specs, submit_s = jobs_of(40, 1, gap_s=100.0)
    assert_alike(specs, submit_s + 600.0, cluster, policy, tmp_path, live, shares=SHARES)
    jobs = workload_of(specs, submit_s)
    alone = simulate_nodes(jobs, policy, cluster=cluster, sizes="estimate").jobs
    shared = simulate_nodes(of_users(jobs), policy, cluster=cluster, sizes="estimate", users=SHARES).jobs
    assert (alone.start_s != shared.start_s).any()


@pytest.mark.parametrize("seed", [2, 4])
def test_a_job_that_stays_as_its_next_machine_fails_to_boot_leaves_a_plan(seed: int) -> None:
    """Other jobs are bound to the machine that it was to leave, and do not fit beside it."""
    specs, submit_s = jobs_of(40, seed)
    jobs = workload_of(specs, submit_s)
    found = simulate_nodes(jobs, "eva:t=1,rounds=fixed", cluster=TROUBLED, sizes="estimate")
    assert found.jobs.finished.all()


@pytest.mark.parametrize(
    "policy", ["eva:t=1", *(pytest.param(each, marks=pytest.mark.slow) for each in ("stratus", "no-packing"))]
)
def test_the_same_plans_for_machines_of_different_speeds(policy: str, tmp_path: Path) -> None:
    specs, submit_s = jobs_of(20, 1)
    workloads = ("train", "train[2]", "serve", "read", "other", None)
    specs = [
        spec.model_copy(update={"workload": workloads[row % len(workloads)]})
        for row, spec in enumerate(specs)
    ]
    assert_alike(specs, submit_s, UNLIKE, policy, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["eva:t=1", "no-packing"])
def test_jobs_of_evas_trace(policy: str, tmp_path: Path) -> None:
    """With what it says of arrivals, needs and durations: live no delay and no interference comes from a trace."""
    if not (DATA / PODS).exists():
        pytest.skip(f"{DATA / PODS} is not here")
    told = trace(DATA, 60)
    specs = [
        JobSpec(
            command=["true", f"{row}"],
            name=f"job-{row}",
            workdir="/",
            gpu=float(told.gpu[row]),
            cpu=float(told.cpu[row]),
            memory_gib=float(told.memory_gib[row]),
            min_units=1,
            max_units=1,
            grace_s=STOP_S,
            estimate_s=float(work_s),
            env={WORK: repr(float(work_s))},
        )
        for row, work_s in enumerate(np.maximum(1.0, on_grid(told.work_s)))
    ]
    cluster = replace(read_cluster("ec2-2023-vcpu"), interference=None)
    assert_alike(specs, on_grid(told.submit_s), cluster, policy, tmp_path)


@pytest.mark.parametrize(
    ("member", "cluster", "count", "portfolio"),
    [
        ("no-packing", CLUSTER, 20, "objective=cost:0.1,tick=300"),
        ("eva:t=1", MIXED, 20, "objective=cost:0.1,tick=300,period=3"),
        pytest.param("stratus", CLUSTER, 30, "period=30", marks=pytest.mark.slow),
        pytest.param("eva:t=1", TROUBLED, 40, "objective=jct:avg", marks=pytest.mark.slow),
    ],
)
def test_a_portfolio_of_one_plans_as_that_planner(
    member: str, cluster: Cluster, count: int, portfolio: str, tmp_path: Path
) -> None:
    served = assert_alike(
        *jobs_of(count, 1),
        cluster,
        member,
        tmp_path,
        f"portfolio:members={member.replace(':', '/')},{portfolio}",
    )
    assert len(list(served.store.events(kinds=["selected"]))) > 3
    assert not list(served.store.events(kinds=["not-selected", "not-planned"]))


def assert_alike(
    specs: list[JobSpec],
    submit_s: np.ndarray,
    cluster: Cluster,
    policy: str,
    tmp_path: Path,
    live: str | None = None,
    shares: FairUsers | None = None,
) -> Served:
    """live: what the service decides by, if that is not called as in the twin. shares: the jobs are of three users."""
    jobs = workload_of(specs, submit_s)
    if shares is not None:
        specs, jobs = of_three(specs, jobs)
    jobs = replace(jobs, extra={**jobs.extra, "kill_delay_s": np.full(len(specs), STOP_S)})
    foreseeable = cluster is not TROUBLED  # no promise knows what chance will bring
    twin = simulate_nodes(jobs, policy, cluster=cluster, sizes="estimate", predict=foreseeable, users=shares)
    assert twin.leases is not None
    submissions = list(zip(submit_s.tolist(), specs, strict=True))
    served = serve_trace(
        jobs, cluster, live or policy, tmp_path, submissions=submissions, promise_every=4, shares=shares
    )
    if foreseeable:
        assert_promised_as(twin.jobs, served)
    assert served.start_s.tolist() == twin.jobs.start_s.tolist()
    assert served.finish_s.tolist() == twin.jobs.finish_s.tolist()
    found, usd = leases_of(served)
    ours = [(from_s, until_s) for from_s, until_s, _ in found]
    # The event is that a machine is given back; it is gone, and paid for, until `release_s` later.
    release_s = {offer.type: offer.release_s for offer in cluster.offers}
    back_s = [
        end_s - release_s[kind] * (cause == 0)
        for end_s, kind, cause in zip(
            twin.leases.ended_s.tolist(), twin.leases.instance_type, twin.leases.cause, strict=True
        )
    ]
    assert ours == sorted(zip(twin.leases.requested_s.tolist(), back_s, strict=True))
    assert usd == pytest.approx(float(twin.leases.cost_usd.sum()), abs=0.005)
    moves = [event for event in served.store.each_event(0) if event.kind == "migrating"]
    if policy.startswith("eva"):
        assert moves
    return served
