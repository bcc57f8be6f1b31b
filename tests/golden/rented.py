"""The golden runs of policies that rent: a machine that is owned, and one of two types on offer."""

from __future__ import annotations

from typing import Any

from betimes import Cluster, simulate
from betimes.cluster import NodeGroup, Offer
from tests.golden.on_nodes import workload

OFFERS = (
    Offer(type="large", gpu=4, cpu=16, memory_gib=64, usd_per_h=4.0, boot_s=60, setup_s=30, release_s=1),
    Offer(
        type="small", gpu=1, cpu=4, memory_gib=16, usd_per_h=1.25, boot_s=45, bill_step_s=60, min_bill_s=120
    ),
)
CLUSTER = Cluster("one of our own", (NodeGroup("ours", 1, 4, 16, 64, 2.0),), offers=OFFERS)

POLICIES = (
    "njw",
    "ajw",
    "ajw-t:b=10m",
    "ljw:t=5m",
    "ljw:t=5m,lengths=speculate",
    "sww:b=10m",
    "compound:t=5m,b=10m",
    "compound:t=5m,b=10m,lengths=estimate,waits=none",
    "oda",
    "odb:order=unicef,placement=worst",
    "ode",
    "odm:placement=best",
    "odx",
    "portfolio:period=1,rules=whole-run",
    "no-packing",
    "stratus",
    "synergy",
    "consolidation",
    "eva",
    "eva:rules=paper",
)
# Owl has to know how jobs slow each other, which the sample's do not.
WITHOUT = ("owl",)


def run(policy: str) -> dict[str, list[Any]]:
    """When jobs started and finished, and every lease: from when until when, and what it cost."""
    result = simulate(workload(), policy, cluster=CLUSTER)
    assert result.leases is not None
    return {
        "start_s": result.jobs.start_s.tolist(),
        "finish_s": result.jobs.finish_s.tolist(),
        "requested_s": result.leases.requested_s.tolist(),
        "ended_s": result.leases.ended_s.tolist(),
        "cost_usd": result.leases.cost_usd.tolist(),
    }
