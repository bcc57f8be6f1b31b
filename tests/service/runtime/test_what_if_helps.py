"""What would help: worked cases, and that a help that is carried out brings what was said."""

from __future__ import annotations

import random

import pytest

from betimes.cluster import Cluster, NodeGroup, Offer
from betimes.errors import Unknown
from betimes.service.spec.job_spec import JobSpec
from betimes.service.views.models import Help, NodeSpec
from betimes.testing import InMemoryService
from tests.service.runtime.test_what_if import some_job

RACK = NodeGroup("rack", 1, 0, 4, 16, usd_per_h=1.0)
BIG = Offer(type="big", cpu=4, memory_gib=16, usd_per_h=3.6, boot_s=30.0, setup_s=10.0)


def job(estimate_s: float, **fields: object) -> JobSpec:
    return JobSpec(command=["x"], workdir="/", estimate_s=estimate_s, **fields)  # pyright: ignore[reportArgumentType]


def test_a_wide_job_waits_for_a_long_one() -> None:
    """Three of four cores are busy for 1,000 s; a job of 100 s on two cores takes 200 s on the free one."""
    with InMemoryService(Cluster("one", (RACK,), offers=(BIG,))) as service:
        service.submit(job(1000.0, min_units=3, max_units=3))
        wide = service.submit(job(100.0, min_units=2, max_units=2)).job_id
        events = len([*service.events()])
        found = service.helps(wide)
        assert len([*service.events()]) == events
    assert (found.start_at, found.finish_at, found.not_tried) == (1000.0, 1100.0, [])
    assert [(one.text, one.start_at, one.finish_at, one.earlier_s) for one in found.helps] == [
        ("submitted again on 1 unit instead of 2", 0.0, 200.0, 900.0),
        ("one more node of type rack", 0.0, 100.0, 1000.0),
        ("renting one big ($3.6 an hour, up in 40 s)", 40.0, 140.0, 960.0),
        ("cancelling job 1", 30.0, 130.0, 970.0),  # after its grace period
    ]


def test_less_memory() -> None:
    with InMemoryService(Cluster("one", (RACK,)), policy="nodes:fifo") as service:
        service.submit(job(1000.0, memory_gib=13.5))
        found = service.helps(service.submit(job(100.0, memory_gib=4.0)).job_id)
    assert ("submitted again with 2.5 GiB of memory a unit instead of 4", 100.0) in [
        (one.text, one.finish_at) for one in found.helps
    ]


def test_what_brings_nothing_is_left_out() -> None:
    """A narrower job would be done later; one that runs, or has ended, or waits for another needs no help."""
    with InMemoryService(Cluster("one", (RACK,))) as service:
        first = service.submit(job(10.0, min_units=4, max_units=4)).job_id
        wide = service.submit(job(100.0, min_units=2, max_units=4)).job_id
        after = service.submit(job(10.0, after=[str(first)])).job_id
        assert [one.text for one in service.helps(wide).helps] == ["one more node of type rack"]
        assert service.helps(first).helps == service.helps(after).helps == []
        service.finish()
        assert service.helps(first).helps == []
        with pytest.raises(Unknown, match="there is no job 99"):
            service.helps(99)


def test_what_there_is_no_time_for_is_named() -> None:
    with InMemoryService(Cluster("one", (RACK,))) as service:
        service.submit(job(1000.0, min_units=4, max_units=4))
        found = service.helps(service.submit(job(100.0)).job_id, within_s=1e-9)
    assert (found.helps, found.not_tried) == ([], ["one more node of type rack", "cancelling job 1"])


def carried_out(service: InMemoryService, number: int, one: Help) -> int:
    """Make a change; returns the number of the job that is to be done earlier."""
    change = one.change
    nodes = [NodeSpec(kind="fake-cloud", type=name) for name in change.rent]
    nodes += [NodeSpec(type=name, cpu=4, memory_gib=16) for name in change.add_nodes]
    if change.cancel:
        service.cancel(change.cancel)
    for node in nodes:
        service.add_nodes(node)
    for spec in change.submit:
        number = service.submit(spec, work_s=(spec.estimate_s or 0.0) * spec.max_units).job_id
    return number


@pytest.mark.parametrize("policy", ["max-min", "fitgpp"])
def test_a_help_that_is_carried_out_brings_what_was_said(policy: str) -> None:
    """The same history again for each help, since carrying one out changes the state."""
    tried, place = 0, 0
    while place <= tried:
        draw = random.Random(f"helps {policy}")
        with InMemoryService(Cluster("one", (RACK,), offers=(BIG,)), policy=policy) as service:
            for _ in range(12):
                service.submit(
                    some_job(draw, policy).model_copy(update={"memory_gib": draw.uniform(0.5, 5.0)})
                )
                service.advance(draw.choice([0.0, draw.uniform(0.0, 60.0)]))
            waiting = [one.job_id for one in service.jobs(limit=50).items if one.status == "queued"]
            helps = [(number, one) for number in waiting for one in service.helps(number).helps]
            tried = min(len(helps), 5) - 1
            number, one = draw.sample(helps, len(helps))[place]
            number = carried_out(service, number, one)
            service.finish()
            done = service.job(number).job
            assert done.started_at == pytest.approx(one.start_at, abs=1e-6), one.text
            assert done.finished_at == pytest.approx(one.finish_at, abs=1e-6), one.text
        place += 1
    assert tried >= 3
