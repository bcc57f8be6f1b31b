"""Planners in the service: what is rented and planned, another engine while machines boot, a cloud with too few."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import pytest

from betimes.cluster import Cluster, NodeGroup, Offer
from betimes.errors import PolicyError
from betimes.foresight.nodes.simulate import simulate_nodes
from betimes.service.engines.named_policies import check_live
from betimes.service.engines.plans import alone_usd_per_h
from betimes.service.machines.fake_cloud import FakeCloud, SetCapacity
from betimes.service.machines.machine import Machine
from betimes.service.machines.provider import OpenCloud
from betimes.service.scheduling.job import MoveRecord
from betimes.testing import InMemoryService
from betimes.workload import Workload

OFFERS = (
    Offer(type="c2", cpu=2, memory_gib=8, usd_per_h=0.1, boot_s=100.0),
    Offer(type="c4", cpu=4, memory_gib=16, usd_per_h=0.18, boot_s=100.0),
)
CLUSTER = Cluster("planned", (), offers=OFFERS)


def submit(service: InMemoryService, cpu: float, work_s: float) -> int:
    return service.submit(command=["x"], cpu=cpu, grace_s=10.0, estimate_s=work_s, work_s=work_s).job_id


def test_what_is_rented_costs_less_than_a_machine_for_each_task() -> None:
    with InMemoryService(CLUSTER, policy="eva:t=1,rounds=fixed") as service:
        service.advance(1.0)
        jobs = [submit(service, 2.0, 2000.0) for _ in range(2)]
        service.advance(300.0)  # past the round
        found = service.fleet()
        assert [(one.type, one.status) for one in found.machines] == [("c4", "booting")]
        service.advance(200.0)
        found = service.fleet()
        assert [one.jobs for one in found.machines] == [jobs]
        assert found.usd_per_h == 0.18
        assert found.no_packing_usd_per_h == pytest.approx(0.2)
        assert found.saving_usd_per_h == pytest.approx(0.02)
        assert service.fleet_plan().steps == []
        service.finish()


def test_every_policy_whose_machines_are_shared_is_compared_with_a_machine_for_each_task() -> None:
    with InMemoryService(CLUSTER, policy="odb:order=unicef,placement=best") as service:
        service.advance(1.0)
        submit(service, 4.0, 200.0)
        service.advance(200.0)
        submit(service, 4.0, 2000.0)
        submit(service, 2.0, 2000.0)
        service.advance(400.0)
        found = service.fleet()
        assert sorted(one.type for one in found.machines) == ["c2", "c4"]
        assert found.no_packing_usd_per_h == pytest.approx(0.28)
        assert found.saving_usd_per_h == pytest.approx(0.0)
    with InMemoryService(CLUSTER, policy="njw") as service:
        assert service.fleet().no_packing_usd_per_h is None, "each of its machines is for one job"


def test_owned_machines_save_nothing_since_they_are_filled_without_packing_too() -> None:
    cluster = replace(CLUSTER, groups=(NodeGroup("own", 1, 0, 2, 8),))
    with InMemoryService(cluster, policy="eva:t=1") as service:
        service.advance(1.0)
        for _ in range(2):
            submit(service, 2.0, 2000.0)
        service.advance(300.0)
        found = service.fleet()
        assert [one.type for one in found.machines] == ["c2"]
        assert (found.usd_per_h, found.no_packing_usd_per_h, found.saving_usd_per_h) == (0.1, 0.1, 0.0)
        service.finish()


def test_a_plan_is_shown_before_it_happens_and_then_does() -> None:
    with InMemoryService(CLUSTER, policy="eva:t=1,rounds=fixed") as service:
        service.advance(1.0)
        submit(service, 2.0, 550.0)
        submit(service, 2.0, 40000.0)
        service.advance(1190.0)  # the first has left half of the machine empty
        plan = service.fleet_plan()
        asked = [(step.kind, step.job) for step in plan.steps]
        assert (plan.at, plan.usd_per_h_change) == (1200.0, pytest.approx(-0.08))
        assert asked == [("rent", None), ("migrate", 2), ("release", None)]
        assert plan.steps[1].reason == (
            "c4-0 can then be given back; it leaves c4-0 once these are up; this move saves $0.08 an hour, for $0.0033"
        )
        assert plan.moves_usd == pytest.approx((0.18 * 10.0 + 0.1 * 100.0) / 3600)
        assert service.fleet().machines[0].type == "c4", "asking has changed nothing"
        service.advance(40.0)
        assert [event.job_id for event in service.events(kinds=["migrating"])] == [2]
        service.advance(200.0)
        assert [one.type for one in service.fleet().machines] == ["c2"]


def test_a_move_is_logged_with_what_it_is_to_save_and_then_with_what_it_has_saved() -> None:
    """Job 2 has a c4 (0.18) to itself from 550 s on, goes to a c2 (0.10), and there is alone all the time."""
    with InMemoryService(CLUSTER, policy="eva:t=1,rounds=fixed") as service:
        service.advance(1.0)
        submit(service, 2.0, 550.0)
        submit(service, 2.0, 4000.0)
        service.advance(1250.0)
        (move,) = service.fleet().moves
        assert (move.job, move.saving_usd_per_h) == (2, None), "it has been decided, and the c2 boots"
        assert move.expected_saving_usd_per_h == pytest.approx(0.08)
        service.advance(1000.0)
        (move,) = service.fleet().moves
        assert move.saving_usd_per_h == pytest.approx(0.08)
        service.finish()
        assert service.fleet().moves == []
        (planned,) = [event.data["move"] for event in service.events(job=2, kinds=["migrating"])]
        (moved,) = service.events(job=2, kinds=["moved"])
        record, ended = MoveRecord(**moved.data["move"]), [*service.events(job=2, kinds=["ended"])][-1]
        assert record.decided_at == planned["decided_at"]
        assert planned["expected_cost_usd"] == pytest.approx(
            (0.18 * 10.0 + 0.1 * 100.0) / 3600
        )  # grace, boot
        assert record.saving_usd_per_h == pytest.approx(0.08)
        launched = [*service.events(job=2, kinds=["launched"])][-1]
        assert record.paid_usd == pytest.approx(0.1 * (ended.at - launched.at) / 3600)
        first = next(iter(service.events(job=2, kinds=["ended"])))
        assert record.cost_usd == pytest.approx(0.18 * (launched.at - first.at) / 3600)


def test_a_round_that_moves_jobs_says_what_its_moves_save_together() -> None:
    """Two jobs leave a c8 (0.30), which each needs if it stays, for a c4 (0.18), which the other needs in any case."""
    offers = (OFFERS[1], Offer(type="c8", cpu=8, memory_gib=32, usd_per_h=0.3, boot_s=100.0))
    with InMemoryService(replace(CLUSTER, offers=offers), policy="eva:t=1,rounds=fixed") as service:
        service.advance(1.0)
        submit(service, 4.0, 550.0)
        jobs = [submit(service, 2.0, 6000.0) for _ in range(2)]
        service.advance(1000.0)
        assert service.fleet().reconfiguration is None
        service.advance(300.0)
        moves = [MoveRecord(**event.data["move"]) for event in service.events(kinds=["migrating"])]
        assert [each.expected_saving_usd_per_h for each in moves] == [0.3, 0.3], "each alone keeps the c8"
        (told,) = service.events(kinds=["reconfigured"])
        assert (told.data["jobs"], told.data["ended"], told.data["rented"]) == (jobs, 1, 1)
        whole = service.fleet().reconfiguration
        assert whole is not None
        assert (whole.jobs, whole.ended, whole.rented) == (jobs, 1, 1)
        assert whole.expected_saving_usd_per_h == pytest.approx(0.12)
        assert whole.expected_cost_usd == pytest.approx((0.3 * 10.0 + 0.18 * 100.0) / 3600)  # grace, boot
        service.finish()
        assert service.fleet().reconfiguration is None, "its jobs are over"


def test_a_move_saves_the_bill_of_the_plan_without_it_less_that_with_it() -> None:
    """Job 2 leaves a machine that is given back for one that job 1 keeps: all that the former costs is saved."""
    price = {"m": 15.3, "n": 6.12}
    planned = {1: ["m"], 2: ["m"]}
    assert alone_usd_per_h(2, ["n"], planned, price) == 6.12, "it alone would keep n"
    assert alone_usd_per_h(2, ["m"], planned, price) == 0.0, "job 1 keeps m in any case"
    assert alone_usd_per_h(2, ["m", "n"], {1: ["m"], 2: ["m", "n"]}, price) == 6.12
    assert alone_usd_per_h(2, ["own"], {1: ["m"], 2: ["own"]}, price) == 0.0, "it has no price"


@pytest.mark.parametrize(("policy", "moves"), [("eva:t=1,period=5", 0), ("eva:t=1,period=5,ends=false", 2)])
def test_short_jobs_that_come_and_go_move_no_long_one(policy: str, moves: int) -> None:
    """A c4 for both costs less than two c2, but only while the short one runs."""
    quick = tuple(replace(offer, boot_s=3.0) for offer in OFFERS)
    with InMemoryService(replace(CLUSTER, offers=quick), policy=policy) as service:
        service.advance(1.0)
        submit(service, 2.0, 3600.0)
        service.advance(30.0)
        for _ in range(3):
            submit(service, 2.0, 8.0)
            service.advance(20.0)
        assert [event.job_id for event in service.events(kinds=["migrating"])] == [1] * moves


def report(service: InMemoryService, until_s: float, steps_per_s: float, *jobs: int) -> None:
    """The jobs report every 40 s from now on, as far as they run."""
    done = dict.fromkeys(jobs, 0.0)
    for job in jobs:
        done[job] = (service.job(job).job.progress_frac or 0.0) * STEPS
    while service.now_s < until_s:
        service.advance(40.0)
        for job in jobs:
            done[job] += 40.0 * steps_per_s
            runs = service.job(job).runs
            if runs and runs[-1].ended_at is None:
                service.report_progress(job, done[job], STEPS)


STEPS = 1e5


def types(service: InMemoryService) -> list[str]:
    return sorted(one.type for one in service.fleet().machines if one.jobs)


@pytest.mark.slow
def test_jobs_are_profiled_then_packed_and_parted_again_when_they_disturb_each_other() -> None:
    """On a c4 each at first; together as a pair counts for 1; apart again as each then shows 0.3 of that."""
    only = replace(CLUSTER, offers=(OFFERS[1],))
    with InMemoryService(only, policy="eva:t=1,profile=30m") as service:
        service.advance(1.0)
        jobs = [submit(service, 2.0, STEPS) for _ in range(2)]
        service.advance(450.0)
        assert types(service) == ["c4", "c4"], "alone until their throughput is known"
        report(service, 800.0, 1.0, *jobs)
        assert types(service) == ["c4"]
        report(service, 2000.0, 0.3, *jobs)
        assert types(service) == ["c4", "c4"]
        assert [event.job_id for event in service.events(kinds=["moved"])] == [2]


@pytest.mark.parametrize(("reports", "moves_s"), [(True, 600.0), (False, 2400.0)])
def test_profiling_is_over_when_it_is_in_the_twin_or_its_time_is(reports: bool, moves_s: float) -> None:
    """Both have a c4 at 400 s, first seen to run at 600 s; jobs that report, as the twin's do, are known by then."""
    only, policy = replace(CLUSTER, offers=(OFFERS[1],)), "eva:t=1,profile=30m,rounds=fixed"
    with InMemoryService(only, policy=policy) as service:
        service.advance(1.0)
        jobs = [submit(service, 2.0, 6000.0) for _ in range(2)]
        while service.now_s < 640.0:
            service.advance(20.0)
            for job in jobs:
                if reports and (ran_s := service.job(job).job.ran_s):
                    service.report_progress(job, ran_s, 6000.0)
        why = [service.job(job).job.reason for job in jobs]
        if reports:
            assert why == [None, None]
        else:
            assert [each and (each.code, each.evidence["until_at"]) for each in why] == [
                ("profiled", 2400.0),
                ("profiled", 2400.0),
            ]
        service.finish()
        assert next(event.at for event in service.events(kinds=["migrating"])) == moves_s
        assert all(service.job(job).job.reason is None for job in jobs)
    if reports:
        columns = {"submit_s": [1.0] * 2, "work_s": [6000.0] * 2, "min_units": [1] * 2, "max_units": [1] * 2}
        twin = simulate_nodes(
            Workload.from_columns(**columns, cpu=[2.0] * 2), policy, cluster=only, predict=True
        )
        assert twin.leases is not None
        assert sorted(twin.leases.ended_s.tolist())[0] == moves_s, "the machine that is left"
        assert twin.jobs.predicted_finish_s.tolist() == twin.jobs.finish_s.tolist()


def test_another_policy_while_machines_boot() -> None:
    with InMemoryService(CLUSTER, policy="eva:t=1") as service:
        jobs = [submit(service, 2.0, 2000.0) for _ in range(2)]
        service.advance(50.0)
        service.set_policy("no-packing")
        service.finish()
        assert [service.job(job).job.status for job in jobs] == ["finished", "finished"]


def test_a_job_whose_machine_is_not_to_be_had_waits_for_another() -> None:
    few = replace(CLUSTER, offers=(replace(OFFERS[0], capacity=1),))
    with InMemoryService(few, policy="no-packing") as service:
        jobs = [submit(service, 2.0, 700.0) for _ in range(2)]
        service.finish()
        assert [service.job(job).job.status for job in jobs] == ["finished", "finished"]


@pytest.fixture
def no_c2(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cloud has no c2 for the first 2,000 s."""

    def cloud_of(cluster: Cluster) -> OpenCloud:
        def open_cloud(held: Iterable[tuple[Machine, float]], made: Mapping[str, int]) -> FakeCloud:
            script = (SetCapacity(0.0, "c2", 0), SetCapacity(2000.0, "c2", None))
            return FakeCloud(cluster.offers, cluster.seed, cluster.quota, script)

        return open_cloud

    monkeypatch.setattr("betimes.testing.cloud_of", cloud_of)


@pytest.mark.usefixtures("no_c2")
@pytest.mark.parametrize("policy", ["eva:t=1", "no-packing", "consolidation"])
def test_a_type_that_is_not_to_be_had_is_left_out_of_plans_for_a_while(policy: str) -> None:
    with InMemoryService(CLUSTER, policy=policy) as service:
        service.advance(1.0)
        job = submit(service, 2.0, 150.0)
        service.finish()
        assert service.job(job).job.status == "finished"
        ordered = [event.data["type"] for event in service.events(kinds=["ordered"])]
        assert ordered == ["c2", "c4"], "the next choice, not the same again"
        service.advance(2400.0 - service.now_s)
        submit(service, 2.0, 300.0)
        service.finish()
        assert [event.data["type"] for event in service.events(kinds=["ordered"])][2:] == ["c2"]


def test_policies_that_cannot_be_used_are_refused() -> None:
    with pytest.raises(PolicyError, match="none are offered"):
        check_live("eva", ())
