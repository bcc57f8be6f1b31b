"""What is known of a job goes with it when another policy, on another engine, takes over."""

from __future__ import annotations

from tests.service.reliability.cluster import Cluster, spec


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
