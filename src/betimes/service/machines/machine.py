"""A machine as the service knows it before anything runs there."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from itertools import count, islice
from typing import TYPE_CHECKING, Literal

from betimes.cluster.checks import family_of
from betimes.cluster.cluster import NodeGroup
from betimes.cluster.labels import NONE, Labels
from betimes.errors import ClusterError

if TYPE_CHECKING:
    from betimes.cluster import Cluster

Kind = Literal["local", "ray", "virtual", "fake-cloud", "rented", "cloud", "slurm"]
RENTED: tuple[Kind, ...] = ("rented", "cloud")  # of machines on which jobs really run: here, and elsewhere
REAL: tuple[Kind, ...] = ("local", "ray", *RENTED)  # nodes of these kinds execute commands
HERE: tuple[Kind, ...] = ("local", "rented")  # and these are on the service's own machine


@dataclass(frozen=True, slots=True)
class Machine:
    """A node and its resources. `usd_per_h` is null where no price is known.

    family: of machines on which a task needs the same; by default what the type has before its dot.
    """

    name: str
    kind: Kind
    type: str
    cpu: float  # cores
    memory_gib: float
    gpu: float
    usd_per_h: float | None = None
    cores: tuple[int, ...] = ()  # the numbers of the cores that its jobs may be pinned to; empty: unknown
    gpu_ids: tuple[str, ...] = ()  # names of the GPUs for CUDA_VISIBLE_DEVICES; empty where there are none
    labels: Labels = NONE  # which jobs may require of their nodes
    family: str = ""

    def __post_init__(self) -> None:
        if self.family == "":
            object.__setattr__(self, "family", family_of(self.type))


def machines_of(group: NodeGroup, kind: Kind, taken: Collection[str] = ()) -> list[Machine]:
    """The nodes of a group, named `type-0`, `type-1`, ... without the names that are taken."""
    free = (name for number in count() if (name := f"{group.type}-{number}") not in taken)
    return [
        Machine(
            name,
            kind,
            group.type,
            float(group.cpu),
            float(group.memory_gib),
            float(group.gpu),
            group.charged_usd_per_h,
            labels=group.labels,
            family=group.family,
        )
        for name in islice(free, group.count)
    ]


def machines_of_cluster(cluster: Cluster) -> list[Machine]:
    """Virtual nodes `type-0`, `type-1`, ... in the cluster's order; groups of one type are numbered on.

    Raises ClusterError for a cluster without nodes, or with maintenance, whose times are those of a trace.
    """
    cluster.need_nodes()
    if cluster.maintenance:
        raise ClusterError(
            f"cluster {cluster.name}: [[maintenance]] is for the simulator; leave it out, and announce it to the "
            "service with `betimes maintenance add`"
        )
    machines: list[Machine] = []
    taken: set[str] = set()
    for group in cluster.groups:
        nodes = machines_of(group, "virtual", taken)
        taken.update(node.name for node in nodes)
        machines += nodes
    return machines
