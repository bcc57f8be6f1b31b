"""What is known of a job goes with it when another policy, on another engine, takes over."""

from __future__ import annotations

import pytest

from tests.service.reliability.cluster import Cluster, machine, spec


def test_resizes_are_counted_on_over_a_switch_to_nodes_and_back() -> None:
    cluster = Cluster("max-min")
    (wide,) = cluster.submit(spec(100.0, max_units=4))
    cluster.go_on(1.0)
    cluster.submit(spec(100.0, max_units=4))
    cluster.go_on(1.0)
    assert cluster.rows[wide]["resizes"] == 1  # from four cores to two
    for policy in ("fitgpp", "max-min"):
        cluster.ask("policy.set_policy", policy, "ann")
        cluster.turn()
        cluster.crash()
        assert cluster.rows[wide]["resizes"] >= 1
        assert cluster.job(wide).resizes == cluster.rows[wide]["resizes"]
    before = cluster.rows[wide]["resizes"]
    cluster.submit(*(spec(10.0) for _ in range(2)))
    assert cluster.rows[wide]["resizes"] == before + 1
    cluster.go_on()


@pytest.mark.parametrize("between", ["fifo", "easy"])
def test_a_trial_job_still_has_the_room_that_a_job_is_leaving_for_it(between: str) -> None:
    """Under a policy for a pool, too, which nominates nobody: no second job leaves when fitgpp is back."""
    cluster = Cluster("fitgpp", nodes=0)
    cluster.ask("nodes.add", machine("n-0", 4.0), "operator")
    cluster.turn()
    cluster.submit(spec(1000.0, cpu=2.0, grace_s=20.0), spec(1000.0, cpu=2.0, grace_s=30.0))
    cluster.go_on(1.0)
    [trial] = cluster.submit(spec(10.0, cpu=2.0, qos="trial"))
    for policy in (between, "fitgpp"):
        cluster.go_on(1.0)
        cluster.ask("policy.set_policy", policy, "ann")
        cluster.turn()
    assert cluster.job(trial).is_nominated
    cluster.go_on(17.5)
    assert cluster.status(trial) == "queued"
    cluster.go_on(1.0)
    assert cluster.status(trial) == "running"
    assert [event.job for event in cluster.log if event.kind == "stopping"] == [1]
