"""Policies that rent at ticks, in the service and in the twin: the same machines, promises, starts, ends, and bill.

The same specifications go to both; the service rents from the fake cloud on a virtual clock. Instants are multiples of
1/1024 s, so that both add them up to the same floats.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from betimes.cluster import Cluster, NodeGroup, Offer
from betimes.foresight.nodes.simulate import simulate_nodes
from betimes.foresight.portfolio.hindsight import FIRST_JOBS, Submitted
from betimes.service.engines.selection import SelectionSnapshot
from betimes.service.executors.virtual import WORK
from betimes.service.runtime.planning import PastJobs
from betimes.service.spec.job_spec import JobSpec
from betimes.twin.users import Entitled, FairUsers
from tests.service.same_as_twin.test_rents import on_grid, workload_of
from tests.service.served_traces import Served, assert_promised_as, of_three, serve_trace

OFFER = Offer(
    type="m4",
    cpu=4,
    memory_gib=16,
    usd_per_h=0.192,
    boot_s=100.0,
    setup_s=20.0,
    bill_step_s=3600,
    capacity=12,
)
CLUSTER = Cluster("ticking", (NodeGroup("own", 1, 0, 4, 16),), offers=(OFFER,))
RENTED_ONLY = replace(CLUSTER, name="rented-only", groups=(), quota=10)
SHARES = FairUsers(3600.0, {"ann": Entitled(2.0, most_running=3.0), "bob": Entitled(most_units=8.0)})
TROUBLED = replace(CLUSTER, name="troubled", offers=(replace(OFFER, boot_failure_frac=0.3, boot_sigma=0.2),))


def jobs_of(count: int, seed: int) -> tuple[list[JobSpec], np.ndarray]:
    """Jobs of one to eight cores in bursts, of which some share a machine and some need two."""
    rng = np.random.default_rng(seed)
    run_s = np.maximum(1.0, on_grid(rng.lognormal(6.5, 1.2, count)))
    units = rng.choice((1, 1, 2, 4, 8), count)
    specs = [
        JobSpec(
            command=["true", f"{row}"],
            name=f"job-{row}",
            workdir="/",
            cpu=1.0,
            min_units=int(units[row]),
            max_units=int(units[row]),
            estimate_s=float(run_s[row]),
            env={WORK: repr(float(run_s[row] * units[row]))},
        )
        for row in range(count)
    ]
    return specs, np.cumsum(on_grid(rng.exponential(150.0, count)))


def leases_of(served: Served) -> tuple[list[tuple[float, float, str]], float]:
    """Request, end and why it went of each machine that the policy has rented; and what the cloud has charged."""
    began: dict[str, float] = {}
    found: list[tuple[float, float, str]] = []
    for event in served.store.each_event(0):
        if event.kind == "node-added" and event.data.get("by_policy") and event.node not in began:
            began[str(event.node)] = event.at_s
        elif event.kind == "node-gone":
            found.append((began.pop(str(event.node)), event.at_s, event.data["why"]))
    assert not began, "every lease ends"
    rentals = served.controller.rentals
    assert rentals is not None
    return sorted(found), rentals.cost_usd(served.controller.scheduler.now_at)


@pytest.mark.parametrize(
    ("policy", "cluster"),
    [
        ("odb:order=unicef,placement=worst", CLUSTER),
        ("portfolio:members=odb/unicef/worst,period=4", CLUSTER),
        ("oda", RENTED_ONLY),
        pytest.param("odx:placement=best", CLUSTER, marks=pytest.mark.slow),
        pytest.param("odx:placement=best", TROUBLED, marks=pytest.mark.slow),
        pytest.param("ode:order=fifo", TROUBLED, marks=pytest.mark.slow),
        pytest.param("odm:tick=30s", CLUSTER, marks=pytest.mark.slow),
    ],
)
def test_the_same_rents_at_ticks(policy: str, cluster: Cluster, tmp_path: Path) -> None:
    specs, submit_s = jobs_of(40, 1)
    check_alike(specs, submit_s, policy, cluster, tmp_path)


@pytest.mark.parametrize(
    "policy", ["odb:order=unicef,placement=worst", "portfolio:members=odb/unicef/worst,period=4"]
)
def test_the_same_rents_at_ticks_for_users_who_share_within_limits(policy: str, tmp_path: Path) -> None:
    specs, submit_s = jobs_of(40, 1)
    check_alike(specs, submit_s + 60.0, policy, CLUSTER, tmp_path, SHARES)


@pytest.mark.parametrize(
    "policy", ["odb:order=unicef,placement=worst", "ode", "portfolio:members=odb/unicef/worst,period=4"]
)
def test_the_same_rents_at_ticks_where_jobs_require_labels(policy: str, tmp_path: Path) -> None:
    """The machine of one's own in one zone, those on offer in another; no other offer is ever rented at ticks.

    There is any number of machines: what is given back to the fake cloud can be had again only after that instant.
    """
    zones = [(("zone", name),) for name in "ab"]
    other = replace(OFFER, type="m4-c", labels=(("zone", "c"),))
    cluster = replace(
        CLUSTER,
        groups=(replace(CLUSTER.groups[0], labels=zones[0]),),
        offers=(replace(OFFER, labels=zones[1], capacity=None), other),
    )
    specs, submit_s = jobs_of(40, 1)
    wanted = [{}, {"zone": "a"}, {"zone": "b"}]
    required = [
        spec.model_copy(update={"require": wanted[at % 3] if spec.max_units <= 4 else {}})
        for at, spec in enumerate(specs)
    ]
    check_alike(required, submit_s, policy, cluster, tmp_path)


def check_alike(
    specs: list[JobSpec],
    submit_s: np.ndarray,
    policy: str,
    cluster: Cluster,
    tmp_path: Path,
    shares: FairUsers | None = None,
) -> None:
    jobs = workload_of(specs, submit_s)
    if shares is not None:
        specs, jobs = of_three(specs, jobs)
    foreseeable = cluster is not TROUBLED  # no promise knows what chance will bring
    twin = simulate_nodes(jobs, policy, cluster=cluster, sizes="estimate", predict=foreseeable, users=shares)
    assert twin.leases is not None
    assert len(twin.leases.job) > 3
    replayed = cluster is RENTED_ONLY  # its jobs fit rented machines only
    submissions = None if replayed else list(zip(submit_s.tolist(), specs, strict=True))
    served = serve_trace(jobs, cluster, policy, tmp_path, submissions=submissions, shares=shares)
    if foreseeable:
        assert_promised_as(twin.jobs, served)
    assert served.start_s.tolist() == twin.jobs.start_s.tolist()
    assert served.finish_s.tolist() == twin.jobs.finish_s.tolist()
    found, usd = leases_of(served)
    ours = [(from_s, until_s) for from_s, until_s, _ in found]
    assert ours == sorted(zip(twin.leases.requested_s.tolist(), twin.leases.ended_s.tolist(), strict=True))
    assert usd == pytest.approx(float(twin.leases.cost_usd.sum()), abs=0.005)


@pytest.mark.parametrize("shares", [None, SHARES])
def test_the_same_choices_with_the_same_past(
    shares: FairUsers | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jobs to come are drawn from those that have been, which the service reads from its log, also after a restart.

    A shadow leaves the first member in force, so that each selection has the same past in both.
    """
    learnt: list[tuple[SelectionSnapshot, float, Submitted]] = []
    submitted = PastJobs.submitted

    def noting(self: PastJobs, snapshot: SelectionSnapshot, epoch_at: float) -> Submitted:
        learnt.append((snapshot, epoch_at, submitted(self, snapshot, epoch_at)))
        return learnt[-1][2]

    monkeypatch.setattr(PastJobs, "submitted", noting)
    policy = "portfolio:members=odx/fifo/first+od[ae]/unicef/worst,period=40,shadow=true"
    specs, submit_s = jobs_of(FIRST_JOBS + 10, 4)
    submit_s += 60.0
    jobs = workload_of(specs, submit_s)
    if shares is not None:
        specs, jobs = of_three(specs, jobs)
    found = simulate_nodes(jobs, policy, cluster=CLUSTER, sizes="estimate", users=shares).selections
    assert found is not None
    submissions = list(zip(submit_s.tolist(), specs, strict=True))
    served = serve_trace(jobs, CLUSTER, policy, tmp_path, submissions=submissions, shares=shares)
    selected = [event for event in served.store.each_event(0) if event.kind == "selected"]
    assert [event.data["from_at"] for event in selected] == found.at_s[found.chosen].tolist()
    assert [event.data["member"] for event in selected] == found.member[found.chosen].tolist()
    scores = [score for event in selected for score in event.data["scores"].values()]
    assert scores == pytest.approx(found.score.tolist(), rel=1e-9)
    assert len(set(found.member[found.chosen].tolist())) > 1
    snapshot, epoch_at, before = learnt[-1]
    assert before.count > FIRST_JOBS
    again = submitted(PastJobs(served.store), snapshot, epoch_at)
    assert again.count == before.count
    assert again.jobs.tobytes() == before.jobs.tobytes()
    nowhere = replace(snapshot, job_rows=replace(snapshot.job_rows, machines=()))
    assert len(submitted(PastJobs(served.store), nowhere, epoch_at).jobs) == 0
