"""Slurm's accounting as a workload, and its nodes as a cluster: what the twin runs again under other policies."""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np

from betimes.cluster import Cluster, NodeGroup
from betimes.cluster.labels import MOST_LABELS, is_label
from betimes.errors import SlurmError
from betimes.slurm.commands import Commands
from betimes.slurm.machines import Machines
from betimes.workload import Workload, read_trace

_SOME_GIB = 1.0
"""Of a node: a cluster's file needs some, and no job asks for any."""


def read_history(commands: Commands, since_at: float) -> Workload:
    """The jobs of accounting since an instant, seconds since 1970. Raises SlurmError, TraceError."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sacct"
        path.write_text(commands.history(since_at), encoding="utf-8")
        return read_trace(path, "sacct", on_bad_rows="skip")


def placed(history: Workload, machines: Machines) -> tuple[Workload, Cluster]:
    """The jobs on the nodes of their partitions: CPUs alone count, and a partition is a label of its nodes.

    Jobs of partitions that are no more go anywhere. Raises SlurmError where no node has a CPU.
    """
    ran_in = Counter(map(str, history.extra["Partition"].tolist())) if "Partition" in history.extra else {}
    shown = [name for name in ran_in if name in machines.partitions and is_label(name, "yes")]
    labels = sorted(shown, key=lambda name: -ran_in[name])[:MOST_LABELS]
    groups = Counter[tuple[int, tuple[tuple[str, str], ...]]]()
    for node in machines.nodes.values():
        if node.cpus:
            has = sorted((name, "yes") for name in labels if node.name in machines.partitions[name].nodes)
            groups[node.cpus, tuple(has)] += 1
    if not groups:
        raise SlurmError("scontrol shows no node with a CPU")
    cluster = Cluster(
        "slurm",
        tuple(
            NodeGroup(f"nodes{at}", count, 0.0, float(cpus), _SOME_GIB, labels=has)
            for at, ((cpus, has), count) in enumerate(groups.items())
        ),
    )
    require = [f"{name}=yes" if name in labels else "" for name in history.extra.get("Partition", ())]
    zeros = np.zeros(len(history))
    return (
        replace(
            history,
            require=np.array(require or [""] * len(history), dtype=str),
            cpu=zeros + 1.0,
            gpu=zeros,
            memory_gib=zeros,
            name="slurm",
        ),
        cluster,
    )


def as_toml(cluster: Cluster) -> str:
    """The file of a cluster of CPUs, for `--cluster`."""
    tables = list[str]()
    for group in cluster.groups:
        labels = ", ".join(f'"{key}" = "{value}"' for key, value in group.labels)
        amounts = f"cpu = {group.cpu:g}\ngpu = 0\nmemory_gib = {group.memory_gib:g}"
        table = f'[[nodes]]\ntype = "{group.type}"\ncount = {group.count}\n{amounts}\n'
        tables.append(f"{table}labels = {{ {labels} }}\n")
    return "\n".join(tables)
