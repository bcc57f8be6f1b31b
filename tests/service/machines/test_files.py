"""Virtual nodes from cluster files."""

from __future__ import annotations

from pathlib import Path

import pytest

from betimes.cluster import Cluster, NodeGroup, read_cluster
from betimes.errors import ClusterError
from betimes.service.machines.machine import Machine, machines_of, machines_of_cluster


def test_a_file(tmp_path: Path) -> None:
    path = tmp_path / "racks.toml"
    path.write_text(
        '[[nodes]]\ntype = "a100"\ncount = 2\ngpu = 8\ncpu = 128\nmemory_gib = 1024\nusd_per_h = 32.77\n'
        '[[nodes]]\ntype = "big"\ncpu = 64\nmemory_gib = 256\n'
    )
    assert machines_of_cluster(read_cluster(path)) == [
        Machine("a100-0", "virtual", "a100", 128.0, 1024.0, 8.0, 32.77),
        Machine("a100-1", "virtual", "a100", 128.0, 1024.0, 8.0, 32.77),
        Machine("big-0", "virtual", "big", 64.0, 256.0, 0.0, None),
    ]


def test_offers_are_no_nodes() -> None:
    with pytest.raises(ClusterError, match="cluster m5: it has offers to rent and no owned nodes"):
        machines_of_cluster(read_cluster("m5"))


def test_a_reservation_lowers_the_price() -> None:
    group = NodeGroup("m5", 1, 0, 64, 256, 3.072, 0.6)
    assert machines_of(group, "virtual")[0].usd_per_h == pytest.approx(1.2288)


def test_names_differ_whatever_the_types() -> None:
    groups = (
        NodeGroup("a", 2, 0, 4, 1),
        NodeGroup("a-1", 2, 0, 4, 1),
        NodeGroup("a", 1, 1, 4, 1),
        NodeGroup("a-1-0", 1, 0, 4, 1),
    )
    names = [machine.name for machine in machines_of_cluster(Cluster("c", groups))]
    assert names == ["a-0", "a-1", "a-1-0", "a-1-1", "a-2", "a-1-0-0"]


def test_names_that_are_taken_are_left_out() -> None:
    made = machines_of(NodeGroup("a", 3, 0, 4, 1), "fake-cloud", {"a-0", "a-2", "b-1"})
    assert [(machine.name, machine.kind) for machine in made] == [
        ("a-1", "fake-cloud"), ("a-3", "fake-cloud"), ("a-4", "fake-cloud")
    ]  # fmt: skip
