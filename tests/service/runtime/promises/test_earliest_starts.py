"""No number that is made of a promise lies before the instant at which the job may begin, whatever others have done."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from betimes.cli.live.jobs.deadline import Deadline, outlook
from betimes.cluster import Cluster, NodeGroup, Offer
from betimes.foresight.past_errors import LEAST
from betimes.service.scheduling.promises import ENDS, STARTS
from betimes.service.spec.job_spec import JobSpec
from betimes.service.views.models import Quote
from betimes.testing import InMemoryService

HOUR_S = 3600.0
QUICK: dict[str, Any] = {"command": ["quick"], "workdir": "/data", "estimate_s": HOUR_S}
INSTANTS = ("start_at", "finish_at", *STARTS, *ENDS)


@pytest.fixture(scope="module", params=["fifo", "nodes:easy"])
def service(request: pytest.FixtureRequest) -> Iterator[InMemoryService]:
    """Many jobs were over a second after they began, where an hour was promised."""
    with InMemoryService(policy=request.param) as found:
        for _ in range(LEAST + 10):
            found.submit(**QUICK, work_s=1.0)
            found.finish()
        yield found


def check(found: Any, earliest_s: float) -> None:
    """A quote, or a job of an answer to what-if."""
    known = {name: at for name in INSTANTS if (at := getattr(found, name, None)) is not None}
    assert {name: at for name, at in known.items() if at < earliest_s - 1e-6} == {}
    assert known["finish_low_at"] <= known["finish_median_at"] <= known["finish_high_at"]


def check_probability(quote: Quote, earliest_s: float) -> None:
    for share in (0.01, 0.5, 1.0):
        deadline = Deadline("", None, share * (earliest_s - quote.made_at) - 1e-6)
        assert outlook(quote, deadline).stands.probability == 0.0


@pytest.mark.parametrize("seed", range(12))
def test_nothing_lies_before_the_gates_of_a_job(service: InMemoryService, seed: int) -> None:
    random_ = random.Random(seed)
    now_s = gate_s = service.now_s
    more = dict[str, Any]()
    if random_.random() < 0.5:  # an hour does not fit before it
        gate_s = now_s + random_.uniform(700.0, 8000.0)
        service.add_maintenance(now_s + random_.choice([0.0, 600.0]), gate_s)
    if random_.random() < 0.5:
        first_s = now_s + random_.uniform(60.0, 8000.0)
        others = [service.submit(**QUICK, work_s=1.0, begin_at=first_s).job_id]
        for _ in range(random_.randrange(3)):
            others.append(service.submit(**QUICK, work_s=1.0, after=[f"{others[-1]}"]).job_id)
        more["after"] = [f"{others[-1]}"]
        gate_s = max(gate_s, first_s)
    if random_.random() < 0.5 or gate_s == now_s:
        more["begin_at"] = now_s + random_.uniform(60.0, 8000.0)
        gate_s = max(gate_s, more["begin_at"])
    if random_.random() < 0.3:
        more["array"] = "1-4%2"
    spec = JobSpec(**QUICK, **more)
    asked = service.quote(spec)
    check(asked, gate_s)
    assert asked.earliest_at == pytest.approx(gate_s)
    check_probability(asked, gate_s)
    for one in service.what_if(submit=[spec]).jobs:
        if one.is_new:
            check(one, gate_s)
    if "array" not in more:
        follows = spec.model_copy(update={"name": "then", "after": []})
        for one in service.what_if(submit=[spec, follows]).jobs:
            if one.is_new and one.name == "quick":
                check(one, gate_s)
    taken = service.submit(spec, work_s=1.0)
    assert taken.quote is not None
    check(taken.quote, gate_s)
    for number in taken.job_ids:  # as the page's row has it
        shown = service.job(number).job
        if shown.estimate is not None and shown.estimate.finish_at is not None:
            check(shown.estimate, gate_s)
        ends = (shown.promised_finish_at, shown.promised_low_at, shown.promised_high_at)
        assert all(at is None or at >= gate_s for at in ends)
    assert taken.quote.cost_usd == asked.cost_usd
    service.advance(0.999 * (gate_s - now_s))
    broken = [*service.events(kinds=["promise-broken"])]
    assert {each.job_id for each in broken}.isdisjoint(taken.job_ids)
    service.finish()


def test_a_promise_behind_a_gate_teaches_what_comes_after_it(service: InMemoryService) -> None:
    """A wait of two hours is no delay of two hours, nor is an end early that comes as the gate goes."""
    began_s = service.now_s
    plain = service.quote(**QUICK)
    for _ in range(5):
        service.submit(**QUICK, work_s=1.0, begin_at=service.now_s + 7200.0)
        service.finish()
    early = service.submit(**QUICK, work_s=1.0, begin_at=service.now_s + 7200.0)
    service.edit(early.job_id, begin_at=0.0)
    service.finish()
    again = service.quote(**QUICK)
    for name in ENDS:
        assert getattr(again, name) - service.now_s == pytest.approx(getattr(plain, name) - began_s, abs=1.0)


def test_the_shown_interval_is_renewed_as_a_job_runs_and_no_promise_is_judged_by_that() -> None:
    with InMemoryService() as service:
        for at in range(LEAST + 10):
            service.submit(**QUICK, work_s=10.0 + 3.0 * at)
            service.finish()
        number = service.submit(**QUICK, work_s=500.0).job_id
        before = service.job(number)
        first = before.job.estimate
        assert first is not None
        assert first.finish_low_at is not None
        assert first.finish_low_at == before.quotes[0].finish_low_at
        service.advance(first.finish_low_at + 5.0 - service.now_s)
        after = service.job(number)
        later = after.job.estimate
        assert later is not None
        assert later.finish_low_at is not None
        assert later.finish_low_at >= service.now_s > first.finish_low_at
        assert (after.quotes, after.job.promised_low_at) == (before.quotes, before.job.promised_low_at)


GATES: dict[str, dict[str, Any]] = {
    "begin": {"begin_at": 700.0},
    "after": {"after": ["3"]},
    "resource": {"resources": {"licence": 1}},
    "array": {"array": "1-4%2"},
}


@pytest.mark.parametrize(
    ("policy", "gate"),
    [
        *(("eva:t=1", gate) for gate in ("begin", "array")),
        *(("ljw", gate) for gate in ("begin", "array")),
        ("no-packing", "resource"),
        ("consolidation", "after"),
        ("sww", "resource"),
    ],
)
def test_a_gated_job_is_promised_the_end_that_comes_where_the_policy_rents(policy: str, gate: str) -> None:
    """Asked while machines boot, and run, for others; it is quoted as it is promised."""
    draw = random.Random(policy)
    offers = (
        Offer(type="small", cpu=2, memory_gib=8, usd_per_h=1.0, boot_s=40.0, setup_s=10.0, capacity=2),
        Offer(type="big", cpu=8, memory_gib=32, usd_per_h=3.6, boot_s=90.0),
    )
    cluster = Cluster("cloud", (NodeGroup("own", 1, 0, 3, 16),), offers=offers)
    with InMemoryService(cluster, policy=policy, resources={"licence": 1}) as service:
        for _ in range(4):
            estimate_s, cpu = draw.uniform(100.0, 500.0), draw.choice([1.0, 2.0])
            service.submit(command=["x", str(estimate_s)], workdir="/", estimate_s=estimate_s, cpu=cpu)
            service.advance(draw.choice([0.0, draw.uniform(0.0, 100.0)]))
        service.submit(command=["has"], workdir="/", estimate_s=400.0, resources={"licence": 1})
        spec = JobSpec(command=["gated"], workdir="/", estimate_s=draw.uniform(5.0, 500.0), **GATES[gate])
        quote = service.quote(spec)
        taken = service.submit(spec)
        assert quote.elements is None
        promised = [service.job(number).job.promised_finish_at for number in taken.job_ids]
        service.finish()
        ended = [service.job(number).job.finished_at for number in taken.job_ids]
        assert promised == [pytest.approx(at, abs=1e-3) for at in ended]
        assert quote.finish_at == pytest.approx(max(at or 0.0 for at in ended), abs=1e-3)
