"""A pool that rents, in the service and in the twin: the same machines, promises, starts, ends, resizes, and bill.

The service rents from the fake cloud on a virtual clock. Instants are multiples of 1/1024 s, so that both add them up
to the same floats.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from betimes import Workload, simulate
from betimes.cluster import Cluster, NodeGroup, Offer
from betimes.errors import ClusterError
from betimes.outcome import JobColumns
from betimes.twin.generate import generate
from tests.service.same_as_twin.test_rents import on_grid
from tests.service.same_as_twin.test_ticks import leases_of
from tests.service.same_as_twin.test_traces import estimated
from tests.service.served_traces import Served, serve_trace

PAIR = Offer(
    type="m2", cpu=2, memory_gib=8, usd_per_h=0.1, boot_s=60.0, setup_s=30.0, release_s=2.0, bill_step_s=900
)
LARGE = Offer(
    type="m8", cpu=8, memory_gib=32, usd_per_h=0.3, boot_s=120.0, min_bill_s=60, bill_from="request"
)
CLUSTER = Cluster("rents", (NodeGroup("own", 2, 0, 8, 32),), offers=(PAIR, LARGE))
RESTART_S = 4.0


def jobs_of(count: int, seed: int) -> Workload:
    made = estimated(generate(f"demo:jobs={count}", seed=seed, units=16))
    return replace(made, submit_s=np.cumsum(on_grid(np.diff(made.submit_s, prepend=made.submit_s[0]))))


def slowly(case: object) -> object:
    """A case for the slow tests."""
    return pytest.param(case, marks=pytest.mark.slow)


@pytest.mark.parametrize("seed", [3, slowly(4)])
@pytest.mark.parametrize(
    "policy",
    [
        "fifo:rent_within=20m",
        "wfq:thresholds=2000,weights=3/4+1/4,rent_within=20m",
        "max-min:rent_within=1h,rent_price=0.04",
        slowly("srsf:rent_within=10m,rent_budget=1.5"),
        slowly("las:quantum=60,rent_within=20m"),
        slowly("themis:rent_within=20m"),
        slowly("afs:rent_within=20m"),
    ],
)
def test_the_same_machines_and_promises(policy: str, seed: int, tmp_path: Path) -> None:
    jobs = jobs_of(50, seed)
    twin = simulate(
        jobs, policy, engine="pool", cluster=CLUSTER, sizes="estimate", restart_s=RESTART_S, predict=True
    )
    assert twin.leases is not None
    assert len(twin.leases) > 3
    served = serve_trace(jobs, CLUSTER, policy, tmp_path, restart_s=RESTART_S)
    assert served.start_s.tolist() == twin.jobs.start_s.tolist()
    assert served.finish_s.tolist() == twin.jobs.finish_s.tolist()
    assert served.preemptions.tolist() == twin.jobs.preemptions.tolist()
    assert served.resizes.tolist() == twin.jobs.resizes.tolist()
    found, usd = leases_of(served)
    ours = [(from_s, until_s) for from_s, until_s, _ in found]
    release_s = np.where(twin.leases.instance_type == PAIR.type, PAIR.release_s, LARGE.release_s)
    given_back_s = twin.leases.ended_s - release_s
    assert ours == sorted(zip(twin.leases.requested_s.tolist(), given_back_s.tolist(), strict=True))
    assert usd == pytest.approx(float(twin.leases.cost_usd.sum()), abs=0.005)
    assert_promised(twin.jobs, served)


def assert_promised(twin: JobColumns, served: Served) -> None:
    """The first promises are the twin's, but for those that the service puts off beside a job that is late to go.

    One that leaves takes a while there; one past its estimate is not promised to end any moment, though its belief,
    doubled once more, may have it so.
    """
    leave_s, late_s = set[float](), dict[int, tuple[float, float]]()
    for event in served.store.each_event(0):
        if event.kind == "stopping":
            leave_s.add(event.at_s)
        elif event.kind == "estimate-changed" and event.job is not None:
            late_s.setdefault(event.job, (event.at_s, float(served.finish_s[event.job - 1])))
    made = {
        job - 1: end_s
        for job, (at_s, end_s) in served.promises().items()
        if at_s not in leave_s and not any(since_s <= at_s < until_s for since_s, until_s in late_s.values())
    }
    assert len(made) > len(twin.submit_s) / 2
    theirs = twin.predicted_finish_s
    assert {row: end_s for row, end_s in made.items() if abs(end_s - theirs[row]) > 1e-3} == {}


def test_a_job_wider_than_what_is_owned_is_taken_by_both_or_by_none(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """16 cores are owned, and two machines of 8 may be rented at once: no job has more than 32."""
    cluster = replace(CLUSTER, offers=(LARGE,), quota=2)
    jobs = jobs_of(20, 5)
    least, most = jobs.min_units.copy(), jobs.max_units.copy()
    least[[4, 9]], most[[4, 9, 12]] = (20, 32), (24, 32, 30)
    jobs = replace(jobs, min_units=least, max_units=most)
    policy = "fifo:rent_within=20m"
    twin = simulate(
        jobs, policy, engine="pool", cluster=cluster, sizes="estimate", restart_s=RESTART_S, predict=True
    )
    assert twin.jobs.finished.all()
    served = serve_trace(jobs, cluster, policy, tmp_path, restart_s=RESTART_S)
    assert served.start_s.tolist() == twin.jobs.start_s.tolist()
    assert served.finish_s.tolist() == twin.jobs.finish_s.tolist()
    assert served.preemptions.tolist() == twin.jobs.preemptions.tolist()
    least, most = least.copy(), most.copy()
    least[9] = most[9] = 33
    wider = replace(jobs, min_units=least, max_units=most)
    with pytest.raises(
        ClusterError, match=r"33 units can never be held at once: .* 32 at most, by the quota"
    ):
        simulate(wider, policy, engine="pool", cluster=cluster, sizes="estimate")
    serve_trace(wider, cluster, policy, tmp_path / "wider", restart_s=RESTART_S)
    assert "min_units: 33 units can never be held at once" in caplog.text
