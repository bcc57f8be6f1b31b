"""Virtual nodes from a cluster file."""

from __future__ import annotations

import os

from betimes.cluster import Cluster, read_cluster
from betimes.service.machines.machine import Machine, machines_of


def read_machines(path: str | os.PathLike[str]) -> list[Machine]:
    """The nodes that a cluster file lists, in its order; raises ClusterError as `read_cluster` does."""
    return machines_of_cluster(read_cluster(path))


def machines_of_cluster(cluster: Cluster) -> list[Machine]:
    """Virtual nodes `type-0`, `type-1`, ... in the cluster's order; groups of one type are numbered on."""
    machines: list[Machine] = []
    taken: set[str] = set()
    for group in cluster.groups:
        nodes = machines_of(group, "virtual", taken)
        taken.update(node.name for node in nodes)
        machines += nodes
    return machines
