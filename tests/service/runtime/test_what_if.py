"""What-if: nothing is changed by asking, and a change that is carried out brings what the answer said."""

from __future__ import annotations

import random
from typing import Any

import pytest

from betimes.cluster import Cluster
from betimes.errors import BetimesError, Conflict, PolicyError, Refused, Unknown
from betimes.service.spec.job_spec import JobSpec
from betimes.service.views.models import WhatIfView
from betimes.testing import InMemoryService

POOL = ("fifo", "srsf", "las", "max-min", "wfq", "themis")
NODES = ("nodes:fifo", "easy", "conservative", "fitgpp")


def some_job(draw: random.Random, policy: str) -> JobSpec:
    """A job that truly takes as long as estimated, so that what is believed comes true."""
    units = draw.choice([1, 1, 2, 3])
    least = draw.randint(1, units) if policy in POOL else units
    return JobSpec(
        command=["x"],
        workdir="/",
        estimate_s=draw.uniform(5.0, 500.0),
        min_units=least,
        max_units=units,
        grace_s=draw.choice([0.0, 7.0]) if policy in NODES else 0.0,  # a pool counts work from the grant on
        qos=draw.choice(["trial", "best-effort"]),
    )


def busy(draw: random.Random, service: InMemoryService, policy: str, jobs: int = 25) -> list[int]:
    numbers: list[int] = []
    for _ in range(jobs):
        numbers += service.submit(some_job(draw, policy)).job_ids
        service.advance(draw.choice([0.0, 0.0, draw.uniform(0.0, 60.0)]))
    pipeline = service.submit(some_job(draw, policy).model_copy(update={"after": [str(numbers[-1])]}))
    array = service.submit(some_job(draw, policy).model_copy(update={"array": "1-5%2"}))
    return [*numbers, *pipeline.job_ids, *array.job_ids]


def comes_true(service: InMemoryService, answer: WhatIfView) -> None:
    service.finish()
    for one in answer.jobs:
        job = service.job(one.job_id).job
        finished_at = job.finished_at if job.status == "finished" else None
        assert finished_at == (None if one.finish_at is None else pytest.approx(one.finish_at, abs=1e-6)), one
        if one.start_at is not None:
            assert job.started_at == pytest.approx(one.start_at, abs=1e-6), one


@pytest.mark.parametrize("change", ["nothing", "cancel", "submit", "policy", "drain"])
@pytest.mark.parametrize("policy", POOL + NODES)
def test_a_change_brings_what_was_answered(policy: str, change: str) -> None:
    draw = random.Random(f"{policy} {change}")
    with InMemoryService(Cluster.pool(4) if policy in POOL else None, policy=policy) as service:
        numbers = busy(draw, service, policy)
        before = [job.model_dump() for job in service.jobs(limit=200)]
        alive = [job.job_id for job in service.jobs(limit=200) if job.finished_at is None]
        new = [some_job(draw, policy) for _ in range(3)]
        asked: dict[str, Any] = {
            "nothing": {"cancel": [max(numbers)]},
            "cancel": {"cancel": draw.sample(alive, 3)},
            "submit": {"submit": new},
            "policy": {"policy": "srsf" if policy != "srsf" else "fifo"},
            "drain": {"cancel": [min(alive)], "submit": new[:1]},
        }[change]
        if change == "policy" and policy in NODES:
            asked = {"policy": "sjf" if policy != "sjf" else "fifo"}
        answer = service.what_if(**asked)
        assert [job.model_dump() for job in service.jobs(limit=200)] == before
        if "cancel" in asked:
            service.cancel(*asked["cancel"])
        if "policy" in asked:
            service.set_policy(asked["policy"])
        for one in asked.get("submit", ()):
            service.submit(one)
        comes_true(service, answer)


def test_the_state_as_it_is_comes_true_too() -> None:
    """Pipelines and throttled arrays included; and sets of trials as far as their trials take what is believed."""
    draw = random.Random(5)
    with InMemoryService(policy="fifo") as service:
        busy(draw, service, "fifo")
        service.submit(JobSpec(command=["x"], workdir="/", array="1-6", as_one=True, estimate_s=30.0))
        answer = service.what_if(submit=[JobSpec(command=["late"], workdir="/", estimate_s=1.0, hold=True)])
        service.finish()
        for one in (each for each in answer.jobs if not each.is_new):
            finished_at = service.job(one.job_id).job.finished_at
            assert finished_at == pytest.approx(one.finish_before_at, abs=1e-6), one


def test_more_nodes_and_fewer() -> None:
    """Two nodes of two cores: four jobs of 100 s on two units each take 200 s, on one more node 200, 100 s on four."""
    cluster = Cluster.pool(2)
    with InMemoryService(cluster, policy="fifo") as service:
        job = JobSpec(command=["x"], workdir="/", estimate_s=100.0)
        numbers = [service.submit(job).job_id for _ in range(4)]
        (node,) = service.nodes()
        kind = node.name.rpartition("-")[0] or node.name
        types = {kind, node.name}
        answer = None
        for name in sorted(types):
            try:
                answer = service.what_if(add_nodes={name: 1})
                break
            except Unknown:
                continue
        assert answer is not None
        assert [one.finish_at for one in answer.jobs] == [100.0] * 4
        assert [one.finish_before_at for one in answer.jobs] == [100.0, 100.0, 200.0, 200.0]
        fewer = service.what_if(remove_nodes=[node.name])
        assert [one.finish_at for one in fewer.jobs] == [100.0, 100.0, None, None]
        assert [one.job_id for one in fewer.jobs] == numbers


@pytest.mark.parametrize(
    ("asked", "error", "text"),
    [
        ({}, Refused, "no change is given"),
        ({"cancel": [1]}, Conflict, "job 1 is finished and cannot be cancelled any more"),
        ({"cancel": [99]}, Unknown, "there is no job 99"),
        ({"remove_nodes": ["moon"]}, Unknown, "moon"),
        ({"add_nodes": {"moon": 1}}, Unknown, "there is no node of type moon"),
        ({"policy": "sooner"}, PolicyError, "sooner"),
        ({"submit": [JobSpec(command=["x"], workdir="/", cpu=99.0)]}, Refused, "cpu"),
    ],
)
def test_bad_input_is_refused_and_nothing_changes(
    asked: dict[str, Any], error: type[BetimesError], text: str
) -> None:
    with InMemoryService() as service:
        service.submit(JobSpec(command=["x"], workdir="/", estimate_s=10.0))
        service.finish()
        service.submit(JobSpec(command=["x"], workdir="/", estimate_s=10.0))
        events = len(service.events())
        with pytest.raises(error, match=text):
            service.what_if(**asked)
        assert len(service.events()) == events
