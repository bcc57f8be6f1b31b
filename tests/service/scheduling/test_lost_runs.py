"""The run time that is learned of a job is that of work that counted: what was lost, and done again, is none of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from betimes.service.scheduling.events import Ended, RunId
from betimes.service.scheduling.fold import recovered
from tests.service.reliability.cluster import Cluster, spec

POLICIES = ["fifo", "nodes:fifo"]
KEY = spec().history_key


def learned(cluster: Cluster) -> list[float]:
    """The run time that is learned: by the service that runs, and from its log."""
    known = cluster.ledger, recovered(None, cluster.log)
    return [ledger.runtime_estimates.learnt("ann", KEY).seconds for ledger in known]


def loses_its_node(cluster: Cluster, job: int) -> None:
    (name, _), *_ = cluster.job(job).run.places
    assert cluster.ask("nodes.set_status", name, "lost", "timer")
    cluster.turn()


def vanishes(cluster: Cluster, job: int) -> None:
    end(cluster, job, why="node-lost")


def killed_as_it_is_stopped(cluster: Cluster, job: int) -> None:
    cluster.ask("jobs.requeue_run", job, "ann")
    cluster.turn()
    end(cluster, job, why="stopped", signal=15)


def fails(cluster: Cluster, job: int) -> None:
    end(cluster, job, exit_code=1)


def saves_and_stops(cluster: Cluster, job: int) -> None:
    cluster.ask("jobs.requeue_run", job, "ann")
    cluster.turn()
    end(cluster, job, why="stopped", exit_code=0)


def end(cluster: Cluster, job: int, **how: Any) -> None:
    """The job's run has ended so."""
    run = RunId(job, cluster.job(job).run.number)
    cluster.world.forget(run, cluster.now_at)
    cluster.scheduler.reports.ended(Ended(run, cluster.now_at, **{"exit_code": None, **how}))
    cluster.turn()


def finishes_after(cluster: Cluster, job: int, run_s: float) -> None:
    cluster.go_on(run_s)
    end(cluster, job, exit_code=0)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    ("ends", "run_s"),
    [
        (loses_its_node, 50.0),
        (vanishes, 50.0),
        (killed_as_it_is_stopped, 50.0),
        (fails, 50.0),
        (saves_and_stops, 150.0),
    ],
)
def test_a_run_whose_work_is_lost_teaches_nothing(
    policy: str, ends: Callable[[Cluster, int], None], run_s: float
) -> None:
    cluster = Cluster(policy)
    (job,) = cluster.submit(spec(1e6, estimate_s=1000.0, max_units=2, min_units=2, retries=1, backoff_s=0.0))
    cluster.go_on(100.0)
    ends(cluster, job)
    cluster.go_on(0.01)  # a retry has a delay
    finishes_after(cluster, job, 50.0)
    assert learned(cluster) == pytest.approx([run_s] * 2, abs=0.02)
    (finished,) = [event for event in cluster.log if event.kind == "finished"]
    assert finished.data["run_s"] == pytest.approx(run_s, abs=0.02)
    is_shown = ends not in (saves_and_stops, fails)
    assert finished.data.get("lost_s", 0.0) == pytest.approx(100.0 if is_shown else 0.0)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("ends", [loses_its_node, saves_and_stops])
@pytest.mark.parametrize(("resumed", "run_s"), [(0, 50.0), (30, 110.0), (50, 150.0)])
def test_progress_shows_how_much_was_kept(
    policy: str, ends: Callable[[Cluster, int], None], resumed: int, run_s: float
) -> None:
    cluster = Cluster(policy)
    (job,) = cluster.submit(spec(1e6, estimate_s=1000.0))
    cluster.go_on(100.0)
    cluster.scheduler.reports.progressed(job, 1, 50, 100)
    ends(cluster, job)
    for done in (resumed, resumed + 1):
        cluster.scheduler.reports.progressed(job, 2, done, 100)
    cluster.turn()
    cluster.crash()
    finishes_after(cluster, job, 50.0)
    assert learned(cluster) == pytest.approx([run_s] * 2, abs=0.02)


def test_a_trial_that_is_run_again_counts_once() -> None:
    cluster = Cluster("fifo")
    (first, *_) = cluster.submit(spec(1e6, estimate_s=1000.0, array="1-2", as_one=True))
    trial = min(number for number, job in cluster.ledger.jobs.items() if job.set_id == first)
    cluster.go_on(100.0)
    vanishes(cluster, trial)
    finishes_after(cluster, trial, 50.0)
    assert cluster.job(first).trials.taken_s == pytest.approx(50.0)
