"""Virtual nodes of a cluster."""

from __future__ import annotations

from betimes.cluster import Cluster
from betimes.service.machines.machine import Machine, machines_of


def machines_of_cluster(cluster: Cluster) -> list[Machine]:
    """Virtual nodes `type-0`, `type-1`, ... in the cluster's order; groups of one type are numbered on.

    Raises ClusterError for a cluster without nodes.
    """
    cluster.need_nodes()
    machines: list[Machine] = []
    taken: set[str] = set()
    for group in cluster.groups:
        nodes = machines_of(group, "virtual", taken)
        taken.update(node.name for node in nodes)
        machines += nodes
    return machines
