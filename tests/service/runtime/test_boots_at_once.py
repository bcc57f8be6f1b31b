"""Machines that are up, or have booted, as soon as they are ordered, as those of the catalogue m5 have."""

from __future__ import annotations

import pytest

from betimes.cluster import Cluster, Offer
from betimes.testing import InMemoryService


@pytest.mark.parametrize("setup_s", [0.0, 5.0])
@pytest.mark.parametrize("policy", ["no-packing", "eva", "oda"])
def test_jobs_start_on_a_machine_that_boots_at_once(policy: str, setup_s: float) -> None:
    offer = Offer(type="c4", cpu=4, memory_gib=16, usd_per_h=0.2, setup_s=setup_s)
    with InMemoryService(Cluster("rented", (), offers=(offer,)), policy=policy) as service:
        for _ in range(2):
            service.submit(command=["a"], estimate_s=60.0)
        service.finish(3600.0)
        jobs = service.jobs().items
        assert [job.status.value for job in jobs] == ["finished"] * 2
        starts_s = sorted(job.started_at for job in jobs if job.started_at is not None)
        # Rounds fill an idle machine between them; a provisioning policy starts what a tick rents for at the next.
        assert starts_s[0] == (20.0 if policy == "oda" and setup_s else setup_s)
