"""A planner's first round comes with the first job; between rounds an empty machine takes a job that fits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from betimes.cluster import Cluster, NodeGroup, Offer
from betimes.testing import InMemoryService

SMALL, LARGE = (
    Offer(type=f"c{cores}", cpu=cores, memory_gib=4 * cores, usd_per_h=0.05 * cores, boot_s=100.0)
    for cores in (2, 4)
)
CLOUD = Cluster("cloud", (), offers=(SMALL, LARGE))
MIXED = replace(CLOUD, groups=(NodeGroup("own", 2, 0, 2, 8),))


def submit(service: InMemoryService, cpu: float, work_s: float) -> int:
    return service.submit(command=["x"], cpu=cpu, estimate_s=work_s, work_s=work_s).job_id


def started(service: InMemoryService, job: int) -> float | None:
    return service.job(job).job.started_at


@pytest.mark.parametrize("policy", ["eva", "no-packing", "consolidation"])
def test_the_first_round_comes_with_the_first_job_and_an_empty_machine_takes_a_job_at_once(
    policy: str,
) -> None:
    with InMemoryService(MIXED, policy=policy) as service:
        service.advance(1.0)
        first = service.submit(command=["x"], cpu=2.0, estimate_s=1000.0, work_s=1000.0)
        assert first.quote is not None
        assert first.quote.finish_at == 1001.0
        service.advance(49.0)
        second, third = submit(service, 2.0, 1000.0), submit(service, 2.0, 1000.0)
        assert [started(service, job) for job in (first.job_id, second, third)] == [1.0, 50.0, None]
        reason = service.job(third).job.reason
        assert reason is not None
        assert f"; {policy} plans next at 1970-01-01T00:05:00" in reason.text
        assert service.fleet().plans_at == reason.evidence["plans_at"] == 300.0
        service.advance(400.0)  # a machine is rented in that round, and boots
        assert started(service, third) == 400.0


def test_a_rented_machine_that_is_empty_takes_a_job_that_fits_before_it_is_given_back() -> None:
    with InMemoryService(CLOUD, policy="eva") as service:
        first = submit(service, 2.0, 100.0)
        service.advance(150.0)
        wide, narrow = submit(service, 4.0, 50.0), submit(service, 1.0, 50.0)
        assert started(service, first) == 100.0
        service.advance(60.0)
        assert service.job(first).job.finished_at == 200.0
        assert started(service, narrow) == 200.0
        assert started(service, wide) is None
        service.finish()
        assert len({place for run in service.job(narrow).runs for place, _ in run.places}) == 1


@pytest.mark.parametrize("policy", ["eva:rounds=fixed", "eva:rules=paper", "no-packing:rounds=fixed"])
def test_as_published_everything_is_decided_in_rounds(policy: str) -> None:
    with InMemoryService(MIXED, policy=policy) as service:
        service.advance(1.0)
        first = submit(service, 2.0, 1000.0)
        service.advance(350.0)
        second = submit(service, 2.0, 1000.0)
        service.advance(300.0)
        assert [started(service, job) for job in (first, second)] == [300.0, 600.0]
