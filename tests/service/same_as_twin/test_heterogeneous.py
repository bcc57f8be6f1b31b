"""Classes that share nodes of different speeds, in the service and in the twin: promises, starts, ends and moves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from betimes.cluster import Cluster, NodeGroup
from betimes.foresight.nodes.simulate import simulate_nodes
from betimes.service.spec.family_demand import FamilyDemand
from tests.service.same_as_twin.test_planners import STOP_S, jobs_of
from tests.service.same_as_twin.test_rents import workload_of
from tests.service.served_traces import assert_promised_as, serve_trace

CLUSTER = Cluster("unlike", (NodeGroup("quick", 1, 0, 4, 32), NodeGroup("slow", 2, 0, 3, 32)))


@pytest.mark.parametrize(
    "policy", ["wfq:thresholds=8000,weights=0.7+0.3,heterogeneous=yes,period=300,turn=900"]
)
def test_unlike_machines(policy: str, tmp_path: Path) -> None:
    specs, submit_s = jobs_of(16, 1, gap_s=900.0)
    rng = np.random.default_rng(1)
    specs = [
        spec.model_copy(
            update={
                "cpu": min(3.0, spec.cpu),
                "demand": {
                    "quick": FamilyDemand(speed=float(rng.choice([1.0, 2.0, 4.0]))),
                    "slow": FamilyDemand(speed=float(rng.choice([0.25, 0.5, 1.0]))),
                },
            }
        )
        for spec in specs
    ]
    jobs = workload_of(specs, submit_s)
    jobs = replace(jobs, extra={**jobs.extra, "kill_delay_s": np.full(len(specs), STOP_S)})
    twin = simulate_nodes(jobs, policy, cluster=CLUSTER, sizes="estimate", predict=True)
    submissions = list(zip(submit_s.tolist(), specs, strict=True))
    served = serve_trace(jobs, CLUSTER, policy, tmp_path, submissions=submissions, promise_every=4)
    assert_promised_as(twin.jobs, served)
    assert served.start_s.tolist() == twin.jobs.start_s.tolist()
    assert served.finish_s.tolist() == twin.jobs.finish_s.tolist()
    kinds = [event.kind for event in served.store.each_event(0)]
    assert "preempted" in kinds or "stopping" in kinds
    assert kinds.count("migrating") == twin.migrations > 0
    assert not list(served.store.events(kinds=["not-planned"]))
