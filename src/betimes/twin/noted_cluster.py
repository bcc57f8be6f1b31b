"""The nodes that a workload was generated for, as its generator's parameters or its header describe them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from betimes.cluster import Cluster
from betimes.workload import Workload
from betimes.workload.generators import parse_spec

PREFIX = "closed_loop_"
"""Of the keys of a workload's header that a generator which keeps a load writes."""

_NODE = {"gpu": "node_gpu", "cpu": "node_cpu", "memory_gib": "node_memory_gib"}


def described_cluster(spec: str) -> Cluster | None:
    """The nodes on which a generator keeps a load; None for one that makes jobs for a pool. Raises InputError."""
    return _described(parse_spec(spec)[1])


def noted_cluster(workload: Workload) -> Cluster | None:
    """The nodes that a workload was generated for, if any, also after it was written and read."""
    header = workload.notes.header
    return _described({key.removeprefix(PREFIX): header[key] for key in noted_keys() if key in header})


def _described(values: Mapping[str, Any]) -> Cluster | None:
    if not {"nodes", *_NODE.values()} <= set(values):
        return None
    amounts = {name: float(values[key]) for name, key in _NODE.items()}
    return Cluster.uniform(int(values["nodes"]), name="generated", **amounts)


def noted_keys() -> list[str]:
    """The keys of a workload's header that describe its nodes."""
    return [f"{PREFIX}{name}" for name in ("nodes", *_NODE.values())]
