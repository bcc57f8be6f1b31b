"""An array that is one job: its trials run on the units that the policy gives the set."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from betimes.errors import Conflict, Refused
from betimes.service.scheduling.job_states import Status
from betimes.service.spec.job_spec import JobSpec
from tests.service.reliability.cluster import Cluster, spec


def a_set(array: str, work_s: float = 10.0, code: int = 0, **asked: Any) -> JobSpec:
    return spec(work_s, code, array=array, as_one=True, **asked)


def running(cluster: Cluster, number: int) -> list[int]:
    jobs = cluster.ledger.jobs.values()
    return sorted(
        job.array_index or 0 for job in jobs if job.set_id == number and job.status is Status.RUNNING
    )


def test_as_many_trials_run_as_the_set_has_units() -> None:
    cluster = Cluster("fifo")  # two nodes of two cores
    (number,) = cluster.submit(a_set("1-6"))
    assert cluster.job(number).units == 4
    assert running(cluster, number) == [1, 2, 3, 4]
    cluster.go_on(10.0)
    assert running(cluster, number) == [5, 6]
    assert cluster.job(number).units == 2
    assert cluster.job(number).progress_frac == pytest.approx(4 / 6)
    cluster.go_on(10.0)
    assert cluster.status(number) == Status.FINISHED
    assert [row["array_index"] for row in cluster.rows.values() if row["array_id"] == number] == [
        None,
        *range(1, 7),
    ]


def test_the_trials_that_started_last_make_room_and_go_on_first() -> None:
    cluster = Cluster("srsf", nodes=1)
    (number,) = cluster.submit(a_set("1-5", 10.0))
    cluster.go_on(12.0)
    assert running(cluster, number) == [3, 4]
    (short,) = cluster.submit(spec(2.0))
    assert running(cluster, number) == [3]
    last = next(n for n, job in cluster.ledger.jobs.items() if job.array_index == 4)
    assert cluster.status(last) == Status.STOPPING
    assert "preempts" in cluster.story(short)
    cluster.go_on()
    assert cluster.status(number) == Status.FINISHED
    assert cluster.rows[last]["attempt"] == 2
    assert cluster.rows[last + 1]["started_at"] > cluster.rows[last]["started_at"]
    assert cluster.rows[number]["resizes"] >= 2


def test_at_most_so_many_at_once() -> None:
    cluster = Cluster()
    (number,) = cluster.submit(a_set("1-6%3"))
    assert running(cluster, number) == [1, 2, 3]
    assert cluster.rows[number]["max_units"] == 3


def test_a_set_fails_with_one_of_its_trials_and_the_others_run_on() -> None:
    cluster = Cluster(nodes=1)
    (number,) = cluster.submit(a_set("1-3", 5.0, code=1, retries=1, backoff_s=2.0))
    cluster.go_on()
    assert cluster.status(number) == Status.FAILED
    assert cluster.rows[number]["reason"]["text"] == "of 3 trials: 3 failed"
    assert [cluster.rows[n]["attempt"] for n in range(number + 1, number + 4)] == [2, 2, 2]


def test_a_cancelled_set_is_over_when_its_last_run_has_left() -> None:
    cluster = Cluster()
    (number,) = cluster.submit(a_set("1-6", grace_s=3.0))
    (after,) = cluster.submit(spec(1.0, after=[f"{number}:any"]))
    cluster.scheduler.jobs.cancel(number, "ann")
    cluster.turn()
    assert cluster.status(number) == Status.STOPPING
    assert cluster.status(number + 6) == Status.CANCELLED
    cluster.go_on(3.0)
    assert cluster.status(number) == Status.CANCELLED
    assert cluster.status(after) == Status.RUNNING


def test_a_cancelled_trial_leaves_the_others() -> None:
    cluster = Cluster()
    (number,) = cluster.submit(a_set("1-6"))
    cluster.scheduler.jobs.cancel(number + 5, "ann")
    cluster.turn()
    assert cluster.job(number).trials.width == 5
    cluster.go_on()
    assert cluster.rows[number]["reason"]["text"] == "of 6 trials: 1 cancelled"


def test_holding_is_for_the_whole_set() -> None:
    cluster = Cluster()
    (number,) = cluster.submit(a_set("1-3", hold=True))
    assert cluster.status(number) == Status.HELD
    assert running(cluster, number) == []
    with pytest.raises(Conflict, match=f"trial of job {number}"):
        cluster.scheduler.jobs.hold(number + 1, "ann")
    cluster.scheduler.jobs.release(number, "ann")
    cluster.turn()
    assert running(cluster, number) == [1, 2, 3]


def test_a_set_that_follows_a_job_ends_with_its_hopes() -> None:
    cluster = Cluster()
    (first,) = cluster.submit(spec(5.0, code=1))
    (number,) = cluster.submit(a_set("1-3", after=[str(first)]))
    assert cluster.status(number) == Status.BLOCKED
    cluster.go_on()
    assert [cluster.status(n) for n in range(number, number + 4)] == [Status.CANCELLED] * 4


@pytest.mark.parametrize("lose_world", [False, True], ids=["adopted", "lost"])
def test_a_set_survives_the_service(lose_world: bool) -> None:
    cluster = Cluster()
    (number,) = cluster.submit(a_set("1-6"))
    cluster.go_on(4.0)
    cluster.crash(lose_world)
    assert running(cluster, number) == [1, 2, 3, 4]
    cluster.go_on()
    assert cluster.status(number) == Status.FINISHED
    runs = [run["outcome"] for run in cluster.runs.values()]
    assert runs.count("exited") == 6
    assert runs.count("node-lost") == (4 if lose_world else 0)


def test_a_draining_node_takes_no_further_trials() -> None:
    cluster = Cluster()
    (number,) = cluster.submit(a_set("1-8"))
    cluster.scheduler.nodes.set_status("n-0", "draining", "user:ann")
    cluster.turn()
    assert len(running(cluster, number)) == 4
    cluster.go_on(10.0)
    assert len(running(cluster, number)) == 2
    assert cluster.ledger.nodes["n-0"].status == "drained"
    cluster.go_on()
    assert cluster.status(number) == Status.FINISHED


def test_the_next_of_its_name_is_believed_to_take_what_a_trial_took() -> None:
    cluster = Cluster()
    cluster.submit(a_set("1-4", 10.0, estimate_s=40.0))
    cluster.go_on()
    cluster.submit(spec(10.0).model_copy(update={"estimate_s": None}))
    assert next(iter(cluster.ledger.jobs.values())).runtime_estimate_s == pytest.approx(10.0)


def test_nodes_do_not_run_sets_and_it_is_said_what_to_do() -> None:
    nodes = Cluster("nodes:fifo")
    with pytest.raises(Refused) as refused:
        nodes.submit(a_set("1-3%2"))
    assert refused.value.field == "as_one"
    assert "needs a policy for a pool" in str(refused.value)
    assert "`betimes policy set srsf`" in str(refused.value)
    assert "Leave --as-one out (`--array 1-3%2` runs each trial as a job)" in str(refused.value)
    assert len(nodes.submit(spec(1.0, array="1-3%2"))) == 3
    cluster = Cluster()
    cluster.submit(a_set("1-3"))
    with pytest.raises(Conflict, match="is a set of trials"):
        cluster.scheduler.policy.set_policy("easy", "ann")


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"array": None}, "as_one is for an array"),
        ({"max_units": 4}, "leave units out"),
        ({"curve": "amdahl:0.1"}, "leave the curve out"),
    ],
)
def test_what_a_set_cannot_be(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        JobSpec(**{"command": ["x"], "array": "1-3", "as_one": True, **asked})
