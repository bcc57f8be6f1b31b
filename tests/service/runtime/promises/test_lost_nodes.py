"""A node is drained or lost: promises that cannot be kept are broken at once, and others are made anew."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from betimes.cli.render.events import details
from betimes.cluster import Cluster, NodeGroup, Offer
from betimes.service.machines.budgets import DAY_S
from betimes.service.runtime.inbox import Request
from betimes.service.runtime.requests import change_members
from betimes.service.scheduling.events import Event
from betimes.service.scheduling.fold import recovered
from betimes.service.scheduling.node import DRAINING, LOST, UP
from betimes.testing import InMemoryService

SMALL, LARGE = NodeGroup("small", 1, 0, 2, 8), NodeGroup("large", 1, 0, 4, 16)
RENTED = Offer(type="rented", cpu=2, memory_gib=8, usd_per_h=1.0, boot_s=30.0)


def service_of(*groups: NodeGroup, policy: str = "nodes:fifo", **more: Any) -> InMemoryService:
    return InMemoryService(Cluster("some", groups, **more), policy=policy)


def submit(service: InMemoryService, cpu: float) -> int:
    return service.submit(command=["x"], estimate_s=100.0, work_s=100.0, cpu=cpu).job_id


def ask(service: InMemoryService, request: Request[object]) -> None:
    service._do(service._parts.controller.ask("nodes", request))  # pyright: ignore[reportPrivateUsage]
    service.advance(0.0)


def broken(service: InMemoryService, job: int) -> list[dict[str, Any]]:
    return [{"at": event.at, **event.data} for event in service.events(job=job, kinds=["promise-broken"])]


def ends(service: InMemoryService, job: int) -> list[float | None]:
    return [quote.finish_at for quote in service.job(job).quotes]


def drain(name: str) -> Request[object]:
    return lambda scheduler: scheduler.nodes.set_status(name, DRAINING, "user:ann")


def undrain(name: str) -> Request[object]:
    return lambda scheduler: scheduler.nodes.set_status(name, UP, "user:ann")


def lose(name: str) -> Request[object]:
    return lambda scheduler: scheduler.nodes.set_status(name, LOST, "timer")


def leave(name: str) -> Request[object]:
    return lambda scheduler: change_members(scheduler, [], [name])


@pytest.mark.parametrize(
    ("away", "status", "helps"),
    [
        (drain, "draining", "`betimes nodes undrain large-0`"),
        (lose, "lost", "node large-0 up again, which is lost"),
        (leave, "lost", None),
    ],
)
def test_a_promise_that_no_node_can_keep_any_more_is_broken_at_once(
    away: Callable[[str], Request[object]], status: str, helps: str | None
) -> None:
    """It has no interval, as the service is new; the event, the reason, the list and what would help name the node."""
    with service_of(SMALL, LARGE) as service:
        submit(service, 4.0)
        waits = submit(service, 4.0)
        service.advance(10.0)
        ask(service, away("large-0"))
        (one,) = broken(service, waits)
        assert (one["at"], one["why"], one["finish_at"]) == (10.0, "never", None)
        assert (one["promise"]["finish_at"], one["promise"]["until_at"]) == (200.0, 200.0)
        assert one["because"] == f"node large-0 is {status}"
        assert ends(service, waits) == [200.0, None]
        (event,) = service.events(job=waits, kinds=["promise-broken"])
        assert details(event, 10.0).endswith(f"; it is never done as things stand; node large-0 is {status}")
        reason = service.job(waits).job.reason
        assert reason is not None
        assert f"node large-0 is {status}" in reason.text
        (listed,) = (node for node in service.nodes() if node.name == "large-0")
        assert (listed.status, listed.since_at) == (status, 10.0)
        found = service.helps(waits).helps
        assert (helps in [each.text for each in found]) == (helps is not None)
        assert all(each.finish_at is not None for each in found)
        service.advance(50.0)
        assert len(broken(service, waits)) == 1


def test_jobs_behind_a_node_that_goes_or_comes_are_promised_another_end() -> None:
    with service_of(NodeGroup("small", 2, 0, 2, 8)) as service:
        first, second, third, fourth = (submit(service, 2.0) for _ in range(4))
        service.advance(10.0)
        ask(service, drain("small-1"))
        assert [ends(service, job) for job in (first, second)] == [[100.0], [100.0]]  # they go on there
        assert [ends(service, job) for job in (third, fourth)] == [[200.0], [200.0, 300.0]]
        ask(service, undrain("small-1"))
        assert [ends(service, job) for job in (third, fourth)] == [[200.0], [200.0, 300.0, 200.0]]
        ask(service, lose("small-0"))  # with the first job
        assert [ends(service, job) for job in (second, first)] == [[100.0], [100.0, 190.0]]
        assert [ends(service, job)[-1] for job in (third, fourth)] == [290.0, 390.0]
        assert all(broken(service, job) == [] for job in (first, second, third, fourth))  # no interval


def test_a_job_that_was_promised_no_end_is_promised_one_when_its_node_comes_back() -> None:
    with service_of(SMALL, LARGE) as service:
        submit(service, 4.0)
        waits = submit(service, 4.0)
        ask(service, drain("large-0"))
        service.advance(50.0)
        ask(service, undrain("large-0"))
        assert ends(service, waits) == [200.0, None, 200.0]
        ask(service, drain("large-0"))
        assert len(broken(service, waits)) == 2


def test_a_promise_with_an_interval_is_broken_as_well_and_a_replay_of_the_log_agrees() -> None:
    with service_of(SMALL, LARGE) as service:
        for _ in range(22):
            submit(service, 4.0)
            service.finish()
        now_s = service.now_s
        submit(service, 4.0)
        waits = submit(service, 4.0)
        assert service.job(waits).quotes[0].level == 0.8
        ask(service, leave("large-0"))
        (one,) = broken(service, waits)
        assert (one["why"], one["because"]) == ("never", "node large-0 is lost")
        assert one["promise"]["finish_high_at"] >= now_s + 200.0
        log = [Event(e.event_id, e.at, e.kind, e.cause, e.job_id, e.node, e.data) for e in service.events()]
        whole, half = recovered(None, log), recovered(None, log[:-3])
        again = recovered(half.to_bytes(), log[-3:])
        assert json.loads(again.to_bytes()) == json.loads(whole.to_bytes())
        assert [node.machine.name for node in whole.away()] == ["large-0"]


def test_a_node_that_was_lost_for_good_is_listed_for_a_day() -> None:
    with service_of(SMALL, LARGE) as service:
        ask(service, leave("large-0"))
        service.advance(DAY_S - 10.0)
        submit(service, 1.0)
        assert [node.status for node in service.nodes()] == ["up", "lost"]
        service.advance(20.0)
        submit(service, 1.0)
        assert [node.name for node in service.nodes()] == ["small-0"]


def test_machines_that_a_policy_gives_back_break_no_promise() -> None:
    """Each job has a machine that is rented for it, and given back with its end."""
    with service_of(SMALL, policy="no-packing:period=10", offers=(RENTED,)) as service:
        jobs = [submit(service, 2.0) for _ in range(4)]
        service.finish()
        service.advance(30.0)
        assert [*service.events(kinds=["node-gone"])]
        assert all(broken(service, job) == [] for job in jobs)
        assert all(len(ends(service, job)) <= 2 for job in jobs)
