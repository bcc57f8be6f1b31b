"""What a restart takes is measured, and counted with from then on."""

from __future__ import annotations

import pytest

from betimes.service.scheduling.beliefs import MOST, RestartCost
from tests.service.reliability.cluster import Cluster, spec

# Of the cluster's jobs those of even numbers have no handler for resizes: they are stopped, which takes their grace
# period of 3 s, and started again.


def resized_once(**settings: float | bool) -> Cluster:
    """Job 2 had both cores of a node, and was cut to one of them when job 3 came."""
    cluster = Cluster("max-min", nodes=1, **settings)
    cluster.submit(spec(1.0))
    cluster.go_on()
    cluster.submit(spec(200.0, max_units=2))
    cluster.go_on(20.0)
    cluster.submit(spec(500.0))
    return cluster


def restart_of(cluster: Cluster) -> float:
    """What the engine counts with."""
    return float(cluster.scheduler.engine.state.pool[0].restart_s)


def test_a_restart_is_measured_from_being_told_to_running_again() -> None:
    cluster = resized_once(measures_restarts=True, restart_s=0.0)
    assert restart_of(cluster) == 0.0
    cluster.go_on(10.0)
    (took,) = [event for event in cluster.log if event.kind == "restarted"]
    assert (took.job, took.data["took_s"]) == (2, 3.0)
    assert restart_of(cluster) == 3.0
    cluster.crash()
    assert restart_of(cluster) == 3.0
    cluster.snapshot()
    cluster.crash()
    assert restart_of(cluster) == 3.0


def test_a_job_that_reports_progress_gets_on_when_it_reports_again() -> None:
    cluster = resized_once(measures_restarts=True)
    cluster.scheduler.reports.progressed(2, 1, 10.0, 200.0)
    cluster.go_on(5.0)
    assert cluster.job(2).attempt == 2
    assert restart_of(cluster) == 0.0
    cluster.scheduler.reports.progressed(2, 2, 10.0, 200.0)
    cluster.turn()
    assert restart_of(cluster) == 5.0


def test_an_operators_figure_stands() -> None:
    cluster = resized_once(restart_s=60.0)
    cluster.go_on(10.0)
    assert "restarted" in cluster.story(2)
    assert restart_of(cluster) == 60.0


def test_a_job_that_is_cancelled_meanwhile_is_no_restart() -> None:
    cluster = resized_once(measures_restarts=True)
    cluster.scheduler.jobs.cancel(2, "ann")
    cluster.go_on(10.0)
    assert "restarted" not in cluster.story(2)


def test_the_figure_is_the_median_of_the_last_ones_and_moves_only_when_that_is_far_from_it() -> None:
    restarts = RestartCost()
    assert restarts.usual_s is None
    restarts.took(10.0)
    restarts.took(11.0)
    assert restarts.usual_s == 10.0
    for _ in range(MOST):
        restarts.took(30.0)
    assert restarts.usual_s == 30.0
    assert len(restarts.last_s) == MOST


@pytest.mark.parametrize("policy", ["max-min", "srsf", "afs"])
def test_the_schedule_goes_on_while_the_figure_moves(policy: str) -> None:
    cluster = Cluster(policy, nodes=2, measures_restarts=True)
    for number in range(12):
        cluster.submit(spec(40.0 + 13.0 * number, max_units=1 + number % 4, grace_s=1.0 + number % 5))
        cluster.go_on(9.0)
    cluster.go_on()
    assert {row["status"] for row in cluster.rows.values()} == {"finished"}
