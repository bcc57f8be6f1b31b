"""Machines that are rented, and what they cost, under planners of a few lines."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from betimes.cluster import Offer
from betimes.core.planning import (
    Bind,
    Decision,
    JobPhase,
    Migrate,
    Place,
    Preempt,
    Release,
    Rent,
    Snapshot,
    new,
)
from betimes.errors import PolicyViolation
from betimes.foresight.nodes.simulate import simulate_nodes
from betimes.outcome import summarise
from betimes.twin.nodes.simulation import NodesSimulation
from betimes.twin.options import SimulationOptions
from tests.twin.nodes.driving import small_columns
from tests.twin.nodes.planned import jobs_of, planned, rented, run

P3 = Offer(
    type="p3", cpu=8.0, gpu=1.0, memory_gib=61.0, usd_per_h=3.06, boot_s=22.0, setup_s=151.0, release_s=1.0
)


def one_each(snapshot: Snapshot) -> list[Decision]:
    """A machine for each job, given back when it is empty."""
    decisions = list[Decision]()
    for job in snapshot.jobs:
        if job.phase == JobPhase.WAITS:
            decisions += [Rent(0), Bind(job.job, (Place(new(len(decisions)), job.tasks),))]
    used = {place.machine for job in snapshot.jobs for place in (*job.places, *job.bound)}
    decisions += [Release(machine.machine) for machine in snapshot.machines if machine.machine not in used]
    return decisions


def test_the_timeline_and_the_bill_of_evas_first_job() -> None:
    jobs = jobs_of(
        (2438.0, 15276.0),
        cpu=6.0,
        fetch_delay_s=[1.0],
        build_image_delay_s=[10.0],
        init_delay_s=[160.0],
        kill_delay_s=[1.0],
        upload_delay_s=[1.0],
    )
    _, result = run(jobs, planned(300.0, one_each), rented(P3))
    assert result.jobs.finish_s.tolist() == [18320.0]
    leases = result.leases
    assert leases is not None
    assert [leases.requested_s[0], leases.booted_s[0], leases.up_s[0], leases.ended_s[0]] == [
        2700,
        2722,
        2873,
        18601,
    ]
    found = summarise(result)
    assert found["cost_usd"] == pytest.approx(15879 * 3.06 / 3600, abs=1e-12)
    assert (found["instances"], found["migrations"]) == (1, 0)
    assert found["idle_machine_h"] == pytest.approx((18600 - 18320) / 3600)


def test_a_job_moves_at_once_and_runs_again_when_the_other_machine_is_up() -> None:
    moved = list[int]()

    def decide(snapshot: Snapshot) -> list[Decision]:
        running = [job for job in snapshot.jobs if job.phase == JobPhase.RUNS]
        if snapshot.now_s == 900.0 and running and not moved:
            moved.append(1)
            old = running[0].places[0].machine
            return [Rent(0), Migrate(running[0].job, (Place(new(0)),)), Release(old)]
        return one_each(snapshot)

    jobs = jobs_of((0.0, 2000.0), kill_delay_s=[1.0], upload_delay_s=[1.0], init_delay_s=[80.0])
    simulation, result = run(jobs, planned(300.0, decide), rented(P3))
    # Up at 173, initialised at 253; stopped at 900 with 647 s done; the other machine is up at 1073.
    assert result.jobs.finish_s[0] == 1073 + 80 + (2000 - 647)
    assert (result.migrations, result.jobs.preemptions[0]) == (1, 0)
    leases = result.leases
    assert leases is not None
    assert leases.ended_s.tolist()[0] == 900 + 2 + 1
    assert not simulation.refused


def test_a_job_that_is_kept_runs_on_until_the_other_machine_is_up() -> None:
    moved = list[int]()

    def decide(snapshot: Snapshot) -> list[Decision]:
        running = [job for job in snapshot.jobs if job.phase == JobPhase.RUNS]
        if snapshot.now_s == 900.0 and running and not moved:
            moved.append(1)
            return [Rent(0), Migrate(running[0].job, (Place(new(0)),), keep=True)]
        return one_each(snapshot)

    jobs = jobs_of((0.0, 2000.0), kill_delay_s=[1.0], upload_delay_s=[1.0], init_delay_s=[80.0])
    _, result = run(jobs, planned(300.0, decide), rented(P3))
    # It works from 253 to 1073, leaves by 1075, and initialises again.
    assert result.jobs.finish_s[0] == 1075 + 80 + (2000 - (1073 - 253))


def test_a_job_that_ends_before_it_could_move_gives_up_where_it_was_to_go() -> None:
    moved = list[int]()

    def decide(snapshot: Snapshot) -> list[Decision]:
        running = [job for job in snapshot.jobs if job.phase == JobPhase.RUNS]
        if snapshot.now_s == 900.0 and running and not moved:
            moved.append(1)
            return [Rent(0), Migrate(running[0].job, (Place(new(0)),), keep=True)]
        return one_each(snapshot)

    _, result = run(jobs_of((0.0, 800.0)), planned(300.0, decide), rented(P3))
    assert result.jobs.finish_s[0] == 973
    assert result.leases is not None
    assert result.leases.ended_s.tolist() == [1201.0, 1201.0]


def test_two_jobs_swap_their_machines() -> None:
    swapped = list[int]()

    def decide(snapshot: Snapshot) -> list[Decision]:
        running = [job for job in snapshot.jobs if job.phase == JobPhase.RUNS]
        if len(running) == 2 and not swapped:
            swapped.append(1)
            a, b = running
            return [Migrate(a.job, b.places), Migrate(b.job, a.places)]
        return one_each(snapshot)

    jobs = jobs_of((0.0, 5000.0), (0.0, 5000.0), cpu=8.0, kill_delay_s=[1.0, 1.0], upload_delay_s=[1.0, 9.0])
    simulation, result = run(jobs, planned(300.0, decide), rented(P3))
    assert not simulation.refused
    # Both stop at 300 with 127 s done; the second leaves at 310, and only then the first begins where it was.
    assert result.jobs.finish_s.tolist() == [310 + 5000 - 127, 310 + 5000 - 127]


def test_what_cannot_be_carried_out_is_named_and_changes_nothing() -> None:
    asked = list[int]()

    def decide(snapshot: Snapshot) -> list[Decision]:
        if not asked:
            asked.append(1)
            job = snapshot.jobs[0].job
            return [
                Rent(7),
                Release(99),
                Bind(job, (Place(99),)),
                Migrate(job, (Place(0),)),
                Bind(12345, (Place(0),)),
                Rent(0),
                Bind(job, (Place(new(5), 2),)),
            ]
        return one_each(snapshot)

    simulation, result = run(jobs_of((0.0, 100.0)), planned(300.0, decide), rented(P3))
    assert [one.reason for one in simulation.refused] == [
        "there is no such offer",
        "there is no such machine any more",
        "there is no such machine any more",
        "the job does not run",
        "there is no such job any more",
        "these are not all tasks of the job, each once",
    ]
    assert np.isfinite(result.jobs.finish_s).all()


def test_a_machine_that_jobs_wait_for_is_not_released_before_it_is_up() -> None:
    asked = list[int]()

    def decide(snapshot: Snapshot) -> list[Decision]:
        if snapshot.now_s == 300.0 and not asked:
            asked.append(1)
            return [Release(snapshot.machines[0].machine)]
        return one_each(snapshot)

    slow = replace(P3, boot_s=1000.0)
    simulation, result = run(jobs_of((0.0, 100.0)), planned(300.0, decide), rented(slow))
    assert [str(one).split(": ")[-1] for one in simulation.refused] == [
        "jobs are bound to the machine, which is not up yet"
    ]
    assert result.jobs.finish_s.tolist() == [1151 + 100]
    assert result.leases is not None
    assert result.leases.ended_s.tolist() == [1501.0]


def test_the_user_hears_of_decisions_that_were_refused() -> None:
    heard = list[str]()

    def decide(snapshot: Snapshot) -> list[Decision]:
        return [
            *one_each(snapshot),
            *(Preempt(job.job) for job in snapshot.jobs if job.phase == JobPhase.WAITS),
        ]

    simulate_nodes(jobs_of((0.0, 100.0)), planned(300.0, decide), cluster=rented(P3), warn=heard.append)
    assert [line for line in heard if "could not be carried out" in line] == [
        "policy planned: 1 decision could not be carried out and changed nothing; the first job 0, at 0 s: "
        "Preempt(job=0): the job does not run"
    ]


def test_a_planner_that_never_releases_is_named() -> None:
    def decide(snapshot: Snapshot) -> list[Decision]:
        return [one for one in one_each(snapshot) if not isinstance(one, Release)]

    with pytest.raises(
        PolicyViolation, match="policy planned at 87000 s: it still holds 1 machines a day after the"
    ):
        run(jobs_of((0.0, 100.0)), planned(300.0, decide), rented(P3))


def test_a_bill_follows_the_price_as_it_changes() -> None:
    hourly = replace(P3, bill_step_s=3600.0, boot_s=0.0, setup_s=0.0, release_s=0.0)
    dearer = replace(hourly, price_changes=((3600.0, 6.0), (5000.0, 1.0)))
    _, result = run(jobs_of((0.0, 8000.0)), planned(300.0, one_each), rented(dearer))
    # Charged by the hour from 0 to 8100: hours that begin at 0, 3600 and 7200, each at the price of its beginning.
    assert summarise(result)["cost_usd"] == pytest.approx(3.06 + 6.0 + 1.0, abs=1e-12)
    second = replace(dearer, bill_step_s=0.0)
    _, result = run(jobs_of((0.0, 8000.0)), planned(300.0, one_each), rented(second))
    by_the_moment = 3600 * 3.06 + 1400 * 6.0 + 3100 * 1.0
    assert summarise(result)["cost_usd"] == pytest.approx(by_the_moment / 3600, abs=1e-12)


def test_the_log_says_what_was_decided_when_and_where() -> None:
    simulation = NodesSimulation(
        jobs_of((0.0, 100.0)), planned(300.0, one_each), SimulationOptions(cluster=rented(P3), timeline=True)
    )
    simulation.run()
    decisions = simulation.result().decisions
    assert decisions is not None
    told = zip(
        *(getattr(decisions, name).tolist() for name in ("at_s", "what", "row", "node", "value")), strict=True
    )
    assert list(told) == [
        (0.0, "rent", -1, 0, 173.0),
        (0.0, "bind", 0, 0, 0.0),
        (173.0, "start", 0, 0, 0.0),
        (300.0, "release", -1, 0, 0.0),
    ]


def test_a_planner_is_asked_though_there_is_no_slot_for_jobs_of_that_instant(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    small_columns(monkeypatch)
    _, result = run(jobs_of((0.0, 60.0), (0.0, 60.0), (0.0, 60.0)), planned(300.0, one_each), rented(P3))
    assert result.jobs.start_s.tolist() == [173.0] * 3
