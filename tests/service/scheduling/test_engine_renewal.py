"""What is known of a job goes with it when another policy, on another engine, takes over."""

from __future__ import annotations

import pytest

from betimes.service.runtime.requests import edit
from betimes.service.scheduling.runs import SUSPENDED_S
from betimes.service.spec.job_changes import JobChanges
from tests.service.reliability.cluster import Cluster, machine, spec


def test_resizes_are_counted_on_over_a_switch_to_nodes_and_back() -> None:
    cluster = Cluster("max-min")
    (wide,) = cluster.submit(spec(100.0, max_units=4))
    cluster.go_on(1.0)
    cluster.submit(spec(100.0, max_units=4))
    cluster.go_on(1.0)
    assert cluster.rows[wide]["resizes"] == 1  # from four cores to two
    for policy in ("fitgpp", "max-min"):
        cluster.ask("policy.set_policy", policy, "ann")
        cluster.turn()
        cluster.crash()
        assert cluster.rows[wide]["resizes"] >= 1
        assert cluster.job(wide).resizes == cluster.rows[wide]["resizes"]
    before = cluster.rows[wide]["resizes"]
    cluster.submit(*(spec(10.0) for _ in range(2)))
    assert cluster.rows[wide]["resizes"] == before + 1
    cluster.go_on()


@pytest.mark.parametrize("between", ["fifo", "easy"])
def test_a_trial_job_still_has_the_room_that_a_job_is_leaving_for_it(between: str) -> None:
    """Under a policy for a pool, too, which nominates nobody: no second job leaves when fitgpp is back."""
    cluster = Cluster("fitgpp", nodes=0)
    cluster.ask("nodes.add", machine("n-0", 4.0), "operator")
    cluster.turn()
    cluster.submit(spec(1000.0, cpu=2.0, grace_s=20.0), spec(1000.0, cpu=2.0, grace_s=30.0))
    cluster.go_on(1.0)
    [trial] = cluster.submit(spec(10.0, cpu=2.0, qos="trial"))
    for policy in (between, "fitgpp"):
        cluster.go_on(1.0)
        cluster.ask("policy.set_policy", policy, "ann")
        cluster.turn()
    assert cluster.job(trial).is_nominated
    cluster.go_on(17.5)
    assert cluster.status(trial) == "queued"
    cluster.go_on(1.0)
    assert cluster.status(trial) == "running"
    assert [event.job for event in cluster.log if event.kind == "stopping"] == [1]


@pytest.mark.parametrize("policy", ["max-min", "nodes:fifo"])
def test_an_edit_that_renews_the_engine_keeps_what_is_believed_of_a_job_just_suspended(policy: str) -> None:
    cluster = Cluster(policy, nodes=1)
    first, _, waiting = cluster.submit(*3 * [spec(1000.0)])
    cluster.go_on(10.0)
    cluster.scheduler.jobs.suspend(first, "ann")
    edit(cluster.scheduler, [waiting], JobChanges(priority=5), "ann")
    cluster.turn()
    assert left_s(cluster, first) == pytest.approx(990.0 + SUSPENDED_S)
    assert changes(cluster, first) == [("user:ann", True)]


@pytest.mark.parametrize(("policy", "then"), [("max-min", "fitgpp"), ("fitgpp", "max-min")])
@pytest.mark.parametrize("compiled", [True, False])
def test_what_is_believed_of_a_job_just_suspended_goes_to_another_kind_of_engine(
    policy: str, then: str, compiled: bool
) -> None:
    """Which counts the work of a job that is faster on two cores in another unit."""
    cluster = Cluster(policy, nodes=1)
    [wide] = cluster.submit(spec(2000.0, min_units=2, max_units=2))
    cluster.go_on(10.0)
    before_s = left_s(cluster, wide)
    cluster.scheduler.jobs.suspend(wide, "ann")
    cluster.is_compiled = compiled
    assert cluster.ask("policy.set_policy", then, "ann")
    cluster.turn()
    assert left_s(cluster, wide) == pytest.approx(before_s + SUSPENDED_S)
    assert changes(cluster, wide) == [("user:ann", True)]
    cluster.is_compiled = True
    cluster.scheduler.jobs.resume(wide, "ann")
    assert cluster.ask("policy.set_policy", policy, "ann")
    cluster.turn()
    assert left_s(cluster, wide) == pytest.approx(before_s)
    assert changes(cluster, wide)[1:] == [("user:ann", False)]


@pytest.mark.parametrize(("policy", "then"), [("max-min", "fitgpp"), ("fitgpp", "max-min")])
def test_a_job_just_cancelled_is_still_believed_to_end_within_its_grace_by_another_engine(
    policy: str, then: str
) -> None:
    cluster = Cluster(policy, nodes=1)
    [wide] = cluster.submit(spec(2000.0, min_units=2, max_units=2, grace_s=30.0))
    cluster.go_on(10.0)
    cluster.scheduler.jobs.suspend(wide, "ann")
    cluster.scheduler.jobs.cancel(wide, "ann")
    assert cluster.ask("policy.set_policy", then, "ann")
    cluster.scheduler.turn()
    assert left_s(cluster, wide) == pytest.approx(30.0)


def test_a_job_suspended_and_cancelled_at_once_that_ends_within_its_grace_is_believed_to_do_so() -> None:
    cluster = Cluster("nodes:fifo", nodes=1)
    [short] = cluster.submit(spec(20.0, grace_s=30.0))
    cluster.go_on(10.0)
    cluster.scheduler.jobs.suspend(short, "ann")
    cluster.scheduler.jobs.cancel(short, "ann")
    cluster.scheduler.turn()
    assert left_s(cluster, short) == pytest.approx(10.0)


@pytest.mark.parametrize("policy", ["max-min", "nodes:fifo"])
def test_a_job_on_a_machine_that_slept_is_late_though_an_edit_renews_the_engine(policy: str) -> None:
    cluster = Cluster(policy, nodes=1)
    wide, waiting = cluster.submit(*2 * [spec(2000.0, min_units=2, max_units=2)])
    cluster.go_on(10.0)
    before_s = left_s(cluster, wide)
    edit(cluster.scheduler, [waiting], JobChanges(priority=5), "ann")
    cluster.scheduler.sleep(500.0)
    assert left_s(cluster, wide) == pytest.approx(before_s + 500.0)


def test_a_job_on_fewer_units_than_it_can_use_has_as_much_left_after_a_switch_to_nodes_and_back() -> None:
    cluster = Cluster("max-min", nodes=1)
    first, second = cluster.submit(*2 * [spec(2000.0, max_units=2)])
    cluster.go_on(10.0)
    before_s = [left_s(cluster, number) for number in (first, second)]
    assert [cluster.job(number).units for number in (first, second)] == [1, 1]
    for policy in ("fitgpp", "max-min"):
        assert cluster.ask("policy.set_policy", policy, "ann")
        cluster.turn()
        assert [left_s(cluster, number) for number in (first, second)] == pytest.approx(before_s)


def left_s(cluster: Cluster, number: int) -> float:
    """How long a job's run is believed to take from now on."""
    engine, job = cluster.scheduler._engine, cluster.job(number)
    return engine.believed_left_s(job) / engine.rate(job)


def changes(cluster: Cluster, number: int) -> list[tuple[str, bool]]:
    """The causes of another belief of a job, and whether it was suspended then."""
    events = [one for one in cluster.log if one.job == number and one.kind == "estimate-changed"]
    return [(one.cause, one.data["suspended"]) for one in events]
