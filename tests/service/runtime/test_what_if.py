"""What-if: nothing is changed by asking, and a change that is carried out brings what the answer said."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from betimes.cluster import Cluster, NodeGroup, Offer
from betimes.errors import BetimesError, Conflict, Refused, Unknown
from betimes.service.engines.messages import Foreseen
from betimes.service.runtime.inbox import Request
from betimes.service.runtime.rehearsal import Rehearsal
from betimes.service.spec.family_demand import FamilyDemand
from betimes.service.spec.job_spec import JobSpec
from betimes.service.views.models import NodeSpec, WhatIfView
from betimes.testing import InMemoryService

POOL = ("fifo", "srsf", "las", "max-min", "wfq", "themis")
NODES = ("nodes:fifo", "easy", "conservative", "fitgpp")


def some_job(draw: random.Random, policy: str) -> JobSpec:
    """A job that truly takes as long as estimated, so that what is believed comes true."""
    units = draw.choice([1, 1, 2, 3])
    least = draw.randint(1, units) if policy in POOL else units
    estimate_s = draw.uniform(5.0, 500.0)
    return JobSpec(
        command=["x", str(estimate_s)],  # none has kin, which would be expected to take as long
        workdir="/",
        estimate_s=estimate_s,
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


@pytest.mark.parametrize(
    ("policy", "change"),
    [
        *((policy, "both") for policy in POOL + NODES),
        *((policy, change) for policy in ("las", "fitgpp") for change in ("cancel", "submit", "policy")),
        *(
            pytest.param(policy, "policy", marks=pytest.mark.slow)
            for policy in POOL + NODES
            if policy not in ("las", "fitgpp")
        ),
    ],
)
def test_a_change_brings_what_was_answered(policy: str, change: str) -> None:
    draw = random.Random(f"{policy} {change}")
    with InMemoryService(Cluster.pool(4) if policy in POOL else None, policy=policy) as service:
        busy(draw, service, policy)
        before = [job.model_dump() for job in service.jobs(limit=200).items]
        alive = [job.job_id for job in service.jobs(limit=200).items if job.finished_at is None]
        new = [some_job(draw, policy) for _ in range(3)]
        asked: dict[str, Any] = {
            "cancel": {"cancel": draw.sample(alive, 3)},
            "submit": {"submit": new},
            "policy": {"policy": "srsf" if policy != "srsf" else "fifo"},
            "both": {"cancel": [min(alive)], "submit": new[:1]},
        }[change]
        if change == "policy" and policy in NODES:
            asked = {"policy": "sjf" if policy != "sjf" else "fifo"}
        answer = service.what_if(**asked)
        assert [job.model_dump() for job in service.jobs(limit=200).items] == before
        if "cancel" in asked:
            service.cancel(asked["cancel"])
        if "policy" in asked:
            service.set_policy(asked["policy"])
        for one in asked.get("submit", ()):
            service.submit(one)
        comes_true(service, answer)


@pytest.mark.parametrize("policy", ["fifo", "easy"])
def test_a_job_that_asks_for_something_else_ends_as_answered(policy: str) -> None:
    draw = random.Random(policy)
    with InMemoryService(Cluster.pool(4), policy=policy) as service:
        numbers = busy(draw, service, policy)
        job = max(number for number in numbers if service.job(number).job.status == "queued")
        before = service.job(job).job
        answer = service.what_if(edit=[{"job_id": job, "units": 1, "time_limit_s": 4000.0}])
        assert service.job(job).job == before
        service.edit([job], min_units=1, max_units=1, time_limit_s=4000.0)
        comes_true(service, answer)


@pytest.mark.parametrize("field", ["nodes", "partition"])
def test_what_only_a_job_in_slurm_has_is_refused(field: str) -> None:
    with InMemoryService(policy="fifo") as service:
        number = service.submit(JobSpec(command=["x"], workdir="/", estimate_s=1.0)).job_id
        with pytest.raises(Refused, match=f"{field}: is of a job in Slurm"):
            service.what_if(edit=[{"job_id": number, field: 2 if field == "nodes" else "short"}])
        with pytest.raises(Unknown, match="there is no job 9"):
            service.what_if(edit=[{"job_id": 9, "units": 2}])


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


def all_in_the_queue(draw: random.Random, service: InMemoryService, policy: str) -> list[int]:
    """Jobs of which none waits for anything but the policy."""
    numbers: list[int] = []
    for _ in range(25):
        numbers += service.submit(some_job(draw, policy)).job_ids
        service.advance(draw.choice([0.0, 0.0, draw.uniform(0.0, 60.0)]))
    return numbers


def some_changes(draw: random.Random, service: InMemoryService, policy: str) -> dict[str, Any]:
    alive = [job.job_id for job in service.jobs(limit=200).items if job.finished_at is None]
    others = sorted({*(POOL if policy in POOL else NODES)} - {policy})
    (node, *_) = service.nodes()
    asked: dict[str, Any] = {
        "submit": [some_job(draw, policy) for _ in range(2)],
        "cancel": draw.sample(alive, 2),
        "policy": draw.choice(others),
        "add_nodes": {node.name.rpartition("-")[0]: 1},
        "remove_nodes": [node.name],
    }
    return {name: asked[name] for name in draw.sample(sorted(asked), draw.randint(1, 3))}


@pytest.mark.parametrize("policy", POOL + NODES)
def test_a_play_out_of_the_engine_answers_as_a_rehearsal_does(
    policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw, shortcuts = random.Random(f"both ways {policy}"), 0
    asks_engine = Rehearsal._foreseen

    def counted(rehearsal: Rehearsal) -> Foreseen | None:
        nonlocal shortcuts
        found = asks_engine(rehearsal)
        shortcuts += found is not None
        return found

    cluster = Cluster("two kinds", (NodeGroup("a", 2, 0, 3, 16, usd_per_h=1.0), NodeGroup("b", 1, 0, 4, 16)))
    with InMemoryService(cluster, policy=policy) as service:
        all_in_the_queue(draw, service, policy)
        for _ in range(4):
            asked = some_changes(draw, service, policy)
            monkeypatch.setattr(Rehearsal, "_foreseen", counted)
            quick = service.what_if(**asked)
            monkeypatch.setattr(Rehearsal, "_foreseen", lambda _: None)
            slow = service.what_if(**asked)
            assert [one.job_id for one in quick.jobs] == [one.job_id for one in slow.jobs]
            for one, other in zip(quick.jobs, slow.jobs, strict=True):
                assert one.model_dump() == pytest.approx(other.model_dump(), abs=1e-6), asked
            for sums, others in ((quick.before, slow.before), (quick.after, slow.after)):
                assert sums is not None
                assert others is not None
                assert sums.model_dump() == pytest.approx(others.model_dump(), abs=1e-6), asked
            service.advance(draw.uniform(0.0, 100.0))
    assert shortcuts > 1


@pytest.mark.parametrize("policy", ["fifo", "easy"])
def test_what_only_the_scheduler_knows_is_rehearsed(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dependency, an array's limit, maintenance; of anything else the scheduler plays the change alone."""
    turns, turn = list[float](), Rehearsal._turn

    def counted(rehearsal: Rehearsal, at: float, requests: Sequence[Request[Any]]) -> list[Any]:
        turns.append(at)
        return turn(rehearsal, at, requests)

    monkeypatch.setattr(Rehearsal, "_turn", counted)
    new = JobSpec(command=["new"], workdir="/", estimate_s=100.0)
    asked: list[dict[str, Any]] = [
        {"submit": [new.model_copy(update={"after": ["1"]})]},
        {"submit": [new.model_copy(update={"array": "1-5%2"})]},
        {"submit": [new], "maintenance": [{"from_at": 5000.0, "to_at": 6000.0}]},
    ]
    with InMemoryService(policy=policy) as service:
        service.submit(command=["a"], workdir="/", estimate_s=1000.0, min_units=4, max_units=4)
        service.submit(command=["b"], workdir="/", estimate_s=500.0)
        service.what_if(submit=[new])
        assert turns == [0.0]
        for each in asked:
            turns.clear()
            service.what_if(**each)
            assert len(turns) > 2


def test_a_preempted_job_leaves_a_pool_after_its_grace_period() -> None:
    with InMemoryService(policy="srsf") as service:
        service.submit(command=["a"], workdir="/", estimate_s=1000.0, min_units=4, max_units=4)
        new = JobSpec(command=["new"], workdir="/", estimate_s=100.0, min_units=4, max_units=4)
        answer = service.what_if(submit=[new])
    assert [(one.start_at, one.finish_before_at) for one in answer.jobs] == [(0.0, 1000.0), (30.0, None)]


@pytest.mark.parametrize("policy", ["fifo", "srsf", "nodes:fifo", "easy"])
def test_a_rented_machine_brings_what_was_answered(policy: str) -> None:
    draw = random.Random(f"rent {policy}")
    offer = Offer(type="big", cpu=2, memory_gib=8, usd_per_h=3.6, boot_s=30.0, setup_s=10.0, min_bill_s=60.0)
    group = NodeGroup("rack", 1, 0, 4, 16, usd_per_h=1.0)
    with InMemoryService(Cluster("two kinds", (group,), offers=(offer,)), policy=policy) as service:
        busy(draw, service, policy)
        answer = service.what_if(rent=["big", "big"])
        assert len(service.nodes()) == 1
        service.add_nodes(NodeSpec(kind="fake-cloud", type="big", count=2))
        comes_true(service, answer)


RENTING = ("eva:t=1", "no-packing", "consolidation", "ljw", "sww")


@pytest.mark.parametrize("policy", RENTING)
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_under_a_policy_that_rents_the_answer_comes_true_whatever_boots_and_goes(
    policy: str, seed: int
) -> None:
    """Asked with machines that are ordered, boot, are up, idle and gone: no job with a promise ends "never"."""
    draw = random.Random(f"{policy} {seed}")
    offers = (
        Offer(type="small", cpu=2, memory_gib=8, usd_per_h=1.0, boot_s=40.0, setup_s=10.0, capacity=2),
        Offer(type="big", cpu=8, memory_gib=32, usd_per_h=3.6, boot_s=90.0),
    )
    with InMemoryService(
        Cluster("cloud", (NodeGroup("own", 1, 0, 3, 16),), offers=offers), policy=policy
    ) as service:
        for _ in range(5):
            for _ in range(draw.randint(1, 3)):
                service.submit(some_job(draw, policy))
                service.advance(draw.choice([0.0, draw.uniform(0.0, 200.0)]))
            promised = [job.job_id for job in service.jobs().items if job.finished_at is None]
            held = JobSpec(command=["later"], workdir="/", hold=True)
            answer = service.what_if(submit=[held])
            found = {one.job_id: one for one in answer.jobs if not one.is_new}
            assert sorted(found) == sorted(promised)
            assert all(one.finish_at == one.finish_before_at is not None for one in found.values()), found
        new = some_job(draw, policy)
        answer = service.what_if(submit=[new])
        service.submit(new)
        comes_true(service, answer)


def test_a_machine_that_boots_for_a_job_is_waited_for_once() -> None:
    offer = Offer(type="big", cpu=8, memory_gib=32, usd_per_h=3.6, boot_s=90.0)
    cluster = Cluster("cloud", (NodeGroup("own", 1, 0, 3, 16),), offers=(offer,))
    with InMemoryService(cluster, policy="ljw") as service:
        service.submit(command=["has the owned machine"], workdir="/", estimate_s=1000.0, cpu=3.0)
        number = service.submit(command=["x"], workdir="/", estimate_s=100.0, rent="now").job_id
        held = JobSpec(command=["later"], workdir="/", hold=True)
        for _ in range(3):
            found = {one.job_id: one.finish_at for one in service.what_if(submit=[held]).jobs}
            assert found[number] == pytest.approx(190.0)
            service.advance(60.0)


def test_objectives_and_cost_before_and_after() -> None:
    """One node of one core at $1 an hour, two jobs of 100 s; then a rented core, up after 40 s, billed from 30 s on."""
    offer = Offer(type="big", cpu=1, memory_gib=8, usd_per_h=3.6, boot_s=30.0, setup_s=10.0)
    cluster = Cluster("two kinds", (NodeGroup("rack", 1, 0, 1, 8, usd_per_h=1.0),), offers=(offer,))
    with InMemoryService(cluster) as service:
        for _ in range(2):
            service.submit(JobSpec(command=["x"], workdir="/", estimate_s=100.0))
        answer = service.what_if(rent=["big"])
    before, after = answer.before, answer.after
    assert before is not None
    assert after is not None
    assert (before.jobs, before.arrivals, before.mean_jct_s, before.mean_wait_s) == (2, 0, 150.0, 50.0)
    assert (before.p99_jct_s, before.cost_usd) == (pytest.approx(199.0), pytest.approx(200 / 3600))
    assert (after.mean_jct_s, after.mean_wait_s) == (120.0, 20.0)
    assert after.cost_usd == pytest.approx(140 / 3600 + 110 * 3.6 / 3600)


def test_jobs_go_on_arriving() -> None:
    """A job of 40 s every 10 s on eight cores waits for none: at four times the rate a queue grows."""
    job = JobSpec(command=["x"], workdir="/", estimate_s=99.0)
    with InMemoryService(Cluster.pool(8)) as service:
        for _ in range(12):
            service.submit(job, work_s=40.0)
            service.advance(10.0)
        late = service.submit(job.model_copy(update={"estimate_s": 40.0}), work_s=40.0).job_id
        events = len([*service.events()])
        once, often = service.what_if(load=1), service.what_if(load=4)
        assert len([*service.events()]) == events
    assert once.before == once.after == often.before
    assert once.before is not None
    assert often.after is not None
    assert (once.arrivals_of_s, once.before.arrivals, often.after.arrivals) == (120.0, 12, 3 * 13 + 12)
    assert once.before.mean_wait_s == 0.0
    assert (often.after.mean_wait_s or 0.0) > 30.0
    assert [one.job_id for one in often.jobs if one.job_id > late] == []


def test_arrivals_that_never_end_and_those_that_are_refused_are_counted() -> None:
    groups = (NodeGroup("small", 1, 0, 2, 8), NodeGroup("large", 1, 0, 8, 32))
    with InMemoryService(Cluster("two", groups), policy="nodes:fifo") as service:
        for number in range(12):
            of_small = {"small": FamilyDemand(cpu=2.0)} if number % 2 else {}
            cpu = 8.0 if number == 10 else 1.0
            service.submit(JobSpec(command=["x"], workdir="/", estimate_s=5.0, cpu=cpu, demand=of_small))
            service.advance(10.0)
        service.finish()
        fewer = service.what_if(load=1, remove_nodes=["large-0"])
        pool = service.what_if(load=1, policy="pool:fifo")
    assert [(sums.arrivals, sums.never) for sums in (fewer.before, fewer.after) if sums] == [(12, 0), (10, 2)]
    assert (pool.refused, pool.after and pool.after.arrivals) == (6, 6)


def test_what_cannot_be_rented_is_refused() -> None:
    offer = Offer(type="big", cpu=1, memory_gib=8, usd_per_h=3.6, capacity=1)
    cluster = Cluster("two kinds", (NodeGroup("rack", 1, 0, 1, 8),), offers=(offer,))
    with InMemoryService(cluster) as service:
        with pytest.raises(Unknown, match="the cloud offers no moon; it offers: big"):
            service.what_if(rent=["moon"])
        with pytest.raises(Conflict, match="no capacity: 1 big asked for, 0 of 1 free"):
            service.what_if(rent=["big", "big"])


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
        ({"policy": "sooner"}, Refused, "sooner"),
        ({"rent": ["big"]}, Conflict, "this service rents from no cloud"),
        ({"load": 2.0}, Conflict, "too few jobs to show how jobs arrive: 2 submitted within the last 24 h"),
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
        events = len([*service.events()])
        with pytest.raises(error, match=text):
            service.what_if(**asked)
        assert len([*service.events()]) == events
