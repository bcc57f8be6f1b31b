"""A pool that rents: worked cases by hand, and the last promise, which comes true to the last bit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes import Result, simulate, summarise
from betimes.cluster import Cluster, NodeGroup, Offer, Spot
from betimes.errors import BetimesError, ClusterError
from betimes.outcome import JobState
from betimes.twin.options import SimulationOptions
from tests.reference import Job
from tests.twin.pool.driving import recorded_segments, workload_of

BOOT_S = 10.0
PAIR = Offer(type="g2", gpu=2, cpu=8, memory_gib=32, usd_per_h=1.0, boot_s=BOOT_S, bill_step_s=60.0)


def rented(
    *jobs: Job, policy: str = "fifo:rent_within=100", offers: tuple[Offer, ...] = (PAIR,), **options: Any
) -> Result:
    """Two owned GPUs, and what is offered."""
    quota, predict = options.pop("quota", None), options.pop("predict", True)
    owned = (NodeGroup("own", 1, 2, 8, 32, usd_per_h=3.6),)
    workload = workload_of(jobs)
    workload = replace(workload, gpu=np.ones(len(jobs)))
    cluster = Cluster("two", owned, offers=offers, quota=quota)
    return simulate(
        workload, policy, engine="pool", cluster=cluster, predict=predict, timeline=True, **options
    )


TWO = (Job(0, 200, 2, 1), Job(0, 200, 2, 1))
"""Work of 200 s, on two units at most: together 400 s of work, which takes four units for 100 s."""


def test_a_machine_is_ordered_for_the_work_that_the_pool_cannot_do_in_time() -> None:
    """For the first job the pool is enough; for both a machine is ordered, which is up at 10 s and paid for until 70 s.

    Then 60 s of work are left of the first job, and 80 s of the second: two units do these within 100 s, and the
    machine is given back. The second job loses its units, and goes on when the first is done.
    """
    result = rented(*TWO)
    assert recorded_segments(result) == [(0, 0.0, 100.0, 2.0), (1, 10.0, 70.0, 2.0), (1, 100.0, 140.0, 2.0)]
    assert result.jobs.finish_s.tolist() == [100.0, 140.0]
    assert result.jobs.predicted_finish_s.tolist() == [100.0, 140.0]
    assert result.jobs.preemptions.tolist() == [0, 1]
    leases = result.leases
    assert leases is not None
    assert leases.up_s.tolist() == [10.0]
    assert leases.ended_s.tolist() == [70.0]
    assert leases.cost_usd.tolist() == [1.0 / 60.0]


def test_a_machine_stays_while_it_is_needed() -> None:
    """Within 50 s the 140 s of work that are left at 70 s take three units; at 130 s nothing is left."""
    result = rented(*TWO, policy="fifo:rent_within=50")
    assert recorded_segments(result) == [(0, 0.0, 100.0, 2.0), (1, 10.0, 110.0, 2.0)]
    assert result.leases is not None
    assert result.leases.ended_s.tolist() == [130.0]  # one machine: together the jobs can use four units
    shown = summarise(result)
    assert shown["on_demand_usd"] == pytest.approx(2.0 / 60.0)
    assert shown["fixed_usd"] == pytest.approx(130.0 / 3600.0 * 3.6)


def test_within_what_the_pool_does_anyway_nothing_is_rented() -> None:
    result = rented(*TWO, policy="fifo:rent_within=200")
    assert result.jobs.finish_s.tolist() == [100.0, 200.0]
    assert result.leases is not None
    assert len(result.leases) == 0


@pytest.mark.parametrize("policy", ["fifo", "srsf", "las", "themis", "afs", "max-min", "wfq"])
def test_a_job_wider_than_the_owned_nodes_has_machines_rented_for_it(policy: str) -> None:
    """It needs four units at least: it waits for a machine, which is up at 10 s, and is done 100 s later.

    The machine is paid for until 70 s, and then until 130 s, as it is needed.
    """
    result = rented(Job(0, 400, 4, 4), policy=f"{policy}:rent_within=100")
    assert recorded_segments(result) == [(0, 10.0, 110.0, 4.0)]
    assert result.jobs.predicted_finish_s.tolist() == [110.0]
    assert result.leases is not None
    assert result.leases.ended_s.tolist() == [130.0]


def test_a_job_widens_onto_rented_machines_as_far_as_a_limit_allows() -> None:
    """Of 8 units that it can use, and a quota of one machine, it gets 4: 20 s of work on two, 380 s of it on four."""
    notes = list[str]()
    result = rented(Job(0, 400, 8, 1), policy="fifo:rent_within=10", quota=1, warn=notes.append)
    assert recorded_segments(result) == [(0, 0.0, 10.0, 2.0), (0, 10.0, 105.0, 4.0)]
    assert notes == [
        "1 job that could use more units than the nodes hold, rented machines included: narrowed to those"
    ]


def test_a_job_that_never_can_be_held_is_refused_with_the_limit_that_forbids_it() -> None:
    with pytest.raises(ClusterError, match=r"job 0: 5 units can never .* hold 4 at most, by the quota"):
        rented(Job(0, 400, 8, 5), quota=1)
    result = rented(Job(0, 400, 8, 5), Job(0, 40, 2, 1), quota=1, on_wide="drop")
    assert [JobState(state).name for state in result.jobs.state] == ["REFUSED", "FINISHED"]
    clipped = rented(Job(0, 400, 8, 5), quota=1, on_wide="clip")
    assert recorded_segments(clipped) == [(0, 10.0, 110.0, 4.0)]


LARGE = replace(PAIR, type="g8", gpu=8, usd_per_h=2.0)


@pytest.mark.parametrize(
    ("parameters", "types"),
    [
        ("", ["g2"]),  # two units are missing: 0.5 USD for each of them, on the large one 1 USD
        # An hour of a unit costs 0.5 USD on the small one, 0.25 USD on the large one.
        ("rent_price=0.4,", ["g8"]),
        ("rent_price=0.2,", []),
        ("rent_budget=0.9,", []),
        ("rent_budget=1,", ["g2"]),
    ],
)
def test_the_cheapest_for_the_missing_units_is_rented_at_a_price_and_within_a_budget(
    parameters: str, types: list[str]
) -> None:
    result = rented(*TWO, policy=f"fifo:{parameters}rent_within=100", offers=(LARGE, PAIR))
    assert result.leases is not None
    assert result.leases.instance_type.tolist() == types


def test_as_many_as_the_budget_the_quota_and_the_offer_allow_for() -> None:
    jobs = [Job(0, 1000, 2, 1) for _ in range(10)]
    small = replace(PAIR, capacity=2)

    def most(policy: str, offer: Offer = PAIR, quota: int | None = None) -> int:
        leases = rented(*jobs, policy=policy, offers=(offer,), quota=quota).leases
        assert leases is not None
        there = [sum((leases.requested_s <= at) & (at < leases.ended_s)) for at in leases.requested_s]
        return max(there)

    assert most("wfq:thresholds=500,weights=1/2+1/2,rent_within=100") == 9
    assert most("fifo:rent_within=100,rent_budget=3") == 3
    assert most("fifo:rent_within=100", quota=4) == 4
    assert most("fifo:rent_within=100", small) == 2


def test_a_machine_that_waiting_jobs_do_not_fit_is_given_back() -> None:
    """The second and third job need all memory of the owned machine: each waits for the one before, beside a machine.

    Three units can be used until the first job ends, at 200 s; the machine is paid for until 250 s, and goes then.
    """
    jobs = [Job(0, 200, 1, 1) for _ in range(3)]
    workload = replace(workload_of(jobs), gpu=np.ones(3), memory_gib=np.array([1.0, 32.0, 32.0]))
    cluster = Cluster("two", (NodeGroup("own", 1, 2, 8, 32),), offers=(replace(PAIR, memory_gib=16.0),))
    result = simulate(workload, "fifo:rent_within=10", engine="pool", cluster=cluster)
    assert result.jobs.finish_s.tolist() == [200.0, 400.0, 600.0]
    assert result.leases is not None
    assert result.leases.ended_s.tolist() == [250.0]


@st.composite
def cases(draw: st.DrawFn) -> tuple[tuple[Job, ...], str, tuple[Offer, ...], SimulationOptions]:
    jobs, at = list[Job](), 0
    for _ in range(draw(st.integers(1, 12))):
        at += draw(st.integers(0, 60))
        most = draw(st.integers(1, 6))
        jobs.append(Job(at, draw(st.integers(1, 400)), most, draw(st.integers(1, most))))
    own = draw(
        st.sampled_from(
            [
                "fifo",
                "srsf",
                "las:quantum=30",
                "max-min",
                "wfq:thresholds=100,weights=2/3+1/3",
                "themis",
                "afs",
            ]
        )
    )
    within = draw(st.sampled_from([5, 50, 500]))
    offers = tuple(
        Offer(
            type=f"g{gpu}",
            gpu=gpu,
            cpu=8,
            memory_gib=32,
            usd_per_h=float(gpu),
            boot_s=float(draw(st.integers(0, 50))),
            setup_s=float(draw(st.integers(0, 5))),
            release_s=float(draw(st.integers(0, 5))),
            bill_step_s=float(draw(st.sampled_from([0, 40, 60]))),
            min_bill_s=float(draw(st.sampled_from([0, 50]))),
            bill_from=draw(st.sampled_from(["boot", "request"])),
        )
        for gpu in draw(st.sampled_from([(1,), (2,), (4, 1)]))
    )
    options = SimulationOptions(restart_s=float(draw(st.sampled_from([0, 3]))))
    mark = "," if ":" in own else ":"
    return tuple(jobs), f"{own}{mark}rent_within={within}", offers, options


@given(cases())
def test_the_last_promise_comes_true_and_every_lease_ends(
    case: tuple[tuple[Job, ...], str, tuple[Offer, ...], SimulationOptions],
) -> None:
    jobs, policy, offers, options = case
    result = rented(*jobs, policy=policy, offers=offers, restart_s=options.restart_s)
    assert result.jobs.finish_s[-1] == result.jobs.predicted_finish_s[-1]
    assert result.jobs.finished.all()
    leases = result.leases
    assert leases is not None
    assert (leases.ended_s >= leases.up_s).all()
    assert (leases.cost_usd >= 0.0).all()
    unasked = rented(*jobs, policy=policy, offers=offers, restart_s=options.restart_s, predict=False)
    assert unasked.jobs.finish_s.tolist() == result.jobs.finish_s.tolist()
    assert unasked.leases is not None
    assert unasked.leases.cost_usd.tolist() == leases.cost_usd.tolist()


def test_offers_that_a_policy_leaves_are_noted() -> None:
    notes = list[str]()
    rented(*TWO, policy="fifo", warn=notes.append)
    rented(*TWO, warn=notes.append)
    (note,) = notes
    assert note.startswith("fifo rents nothing of what is offered: give it rent_within")


@pytest.mark.parametrize(
    ("policy", "changes", "message"),
    [
        ("fifo:rent_price=1", {}, "nothing is rented without rent_within"),
        ("fifo:rent_within=10", {"offers": ()}, "two offers none"),
        ("fifo:rent_within=10", {"offers": (replace(PAIR, spot=Spot()),)}, "offer g2 has spot"),
        ("fifo:rent_within=10", {"fair": True}, "--fair"),
        ("fifo:rent_within=0.5", {}, "not between"),
    ],
)
def test_what_makes_no_sense_is_refused(policy: str, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(BetimesError, match=message):
        rented(*TWO, policy=policy, **changes)
