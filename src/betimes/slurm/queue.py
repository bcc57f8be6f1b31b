"""A picture of Slurm as a cluster, jobs and a state, from which simulations and promises begin."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from betimes.cluster import Cluster, NodeGroup
from betimes.cluster.labels import MOST_REQUIRED
from betimes.errors import SlurmError
from betimes.slurm.dependencies import Dependencies, dependencies_of
from betimes.slurm.jobs import SlurmJob, in_order
from betimes.slurm.machines import Machines, Partition
from betimes.slurm.picture import Picture
from betimes.twin.cluster_state import ClusterState, RunningJob
from betimes.workload import Workload

POLICY = "conservative:window=100"
"""Plans as Slurm's backfill does, as far as a policy of Betimes does."""
NO_LIMIT_S = 365 * 86400.0
"""The run time for which Slurm plans a job without a limit."""
SOON_S = 0.001
"""After this, jobs come that wait for others no more: what comes at the instant of the state would stand in it."""
CLEANS_UP_S = 10.0
"""Until a job that is completing has left its nodes."""


@dataclass(frozen=True)
class Queue:
    """The jobs that run and wait, to be played forward: a unit is a CPU, and instants are seconds since 1970.

    unforeseen: by id, why a job is promised nothing; those of them that run hold their CPUs, and those that wait are
    left out.
    """

    cluster: Cluster
    workload: Workload
    state: ClusterState
    unforeseen: Mapping[str, str] = field(default_factory=dict[str, str])
    planned: Mapping[str, float] = field(default_factory=dict[str, float])
    """The limits with which Slurm plans, s, of all jobs of the picture."""
    held: Mapping[str, Mapping[str, int]] = field(default_factory=dict[str, Mapping[str, int]])
    """The CPUs that running jobs hold, by job and node of Slurm."""
    dependencies: Dependencies = field(default_factory=Dependencies)
    """Jobs that wait for others: they are not in the state, and are submitted once those are over at their limits."""

    @property
    def kept(self) -> dict[str, str]:
        """By job, why it waits for something else than nodes, whether it is promised anything or not."""
        return {**self.unforeseen, **self.dependencies.in_words}


def queue_of(picture: Picture, machines: Machines) -> Queue:
    """The queue of a picture. Raises SlurmError where no node has a CPU."""
    return _Mirror(picture, machines).queue()


class _Mirror:
    """The part of a picture that goes into a state."""

    def __init__(self, picture: Picture, machines: Machines) -> None:
        self._picture, self._machines = picture, machines
        self._nodes_by_partitions = dict[tuple[str, ...], frozenset[str]]()
        self._unforeseen = {
            job.id: why
            for job in picture.jobs.values()
            if not job.is_over and (why := job.why_unforeseen or self._why_unforeseen(job))
        }
        self._waiting = [job for job in picture.waiting if job.id not in self._unforeseen]
        self._free = {name: node.cpus for name, node in machines.nodes.items()}

    def queue(self) -> Queue:
        """All of it."""
        if not any(self._free.values()):
            raise SlurmError("scontrol shows no node with a CPU, so that no job can be promised anything")
        self._refuse_labels()
        cluster, name_of = self._cluster()
        running = [
            (job, held)
            for job in sorted(self._picture.running, key=lambda job: (job.start_at, job.id))
            if (held := self._held(job))
        ]
        dependencies = self._dependencies([job.id for job, _ in running])
        jobs = [*(job for job, _ in running), *self._waiting]
        widths = [*(sum(held.values()) for _, held in running), *map(self._width, self._waiting)]
        at, limits = self._picture.at, {job.id: self._limit_s(job) for job in self._picture.jobs.values()}
        starts = {job.id: min(job.start_at, at) if job.runs else at for job in jobs}
        dependencies.place(starts, {job.id: starts[job.id] + limits[job.id] for job in jobs})
        workload = Workload.from_columns(
            job_id=[job.id for job in jobs],
            submit_s=[
                max(starts[job.id], at + SOON_S)
                if job.id in dependencies.after
                else min(job.submit_at, starts[job.id])
                for job in jobs
            ],
            work_s=[limits[job.id] * width for job, width in zip(jobs, widths, strict=True)],
            min_units=widths,
            max_units=widths,
            estimate_s=[limits[job.id] for job in jobs],
            cpu=1.0,
            gpu=0.0,
            memory_gib=0.0,
            units_per_task=[
                *(math.gcd(*held.values()) for _, held in running),
                *map(_each_node, widths[len(running) :], [job.nodes for job in self._waiting]),
            ],
            require=["" if job.runs else self._label(job) for job in jobs],
            user=[job.user for job in jobs] if jobs else -1,
            name="slurm",
            extra={"JobName": [job.name for job in jobs]},
        )
        state = ClusterState(
            at,
            [
                RunningJob(
                    job.id,
                    min(job.start_at, at),
                    {name_of[host]: cpus for host, cpus in held.items()},
                    left_s=CLEANS_UP_S if job.state == "COMPLETING" else None,
                )
                for job, held in running
            ],
            [job.id for job in in_order(self._waiting, self._tiers) if job.id not in dependencies.after],
            closed=[
                name_of[node.name] for node in self._machines.nodes.values() if node.cpus and not node.is_open
            ],
        )
        every_held = {job.id: held for job, held in running}
        return Queue(cluster, workload, state, self._unforeseen, limits, every_held, dependencies)

    def _dependencies(self, running: Sequence[str]) -> Dependencies:
        """Those among the jobs that run and wait; jobs are left out that wait for others than these."""
        found = dependencies_of(self._picture.jobs, [*running, *(job.id for job in self._waiting)])
        self._unforeseen |= found.refused
        self._waiting = [job for job in self._waiting if job.id not in found.refused]
        return found

    def _why_unforeseen(self, job: SlurmJob) -> str | None:
        """Why a job is not foreseen that its row says nothing of."""
        if not job.waits:
            lost = not any(host in self._machines.nodes for host in job.hosts)
            return "the nodes that it runs on are not shown" if lost else None
        known = [self._machines.partitions.get(name) for name in job.partitions]
        if None in known:
            return "its partition is not shown"
        if any(each is not None and each.preempts for each in known):
            return "jobs of its partition may be preempted, which is not modelled"
        if not self._nodes_of(job.partitions):
            return "its partition has no nodes"
        return None

    def _partitions(self, names: Iterable[str]) -> list[Partition]:
        return [each for name in names if (each := self._machines.partitions.get(name)) is not None]

    def _nodes_of(self, partitions: tuple[str, ...]) -> frozenset[str]:
        found = self._nodes_by_partitions.get(partitions)
        if found is None:  # thousands of jobs name the same ones
            found = self._nodes_by_partitions[partitions] = frozenset(
                name for each in self._partitions(partitions) for name in each.nodes if self._free_of(name)
            )
        return found

    def _free_of(self, node: str) -> int:
        found = self._machines.nodes.get(node)
        return 0 if found is None else found.cpus

    @property
    def _tiers(self) -> dict[str, int]:
        return {name: each.tier for name, each in self._machines.partitions.items()}

    @cached_property
    def _labels(self) -> dict[frozenset[str], str]:
        """By the nodes that a waiting job may have: a label of these; of all nodes none is needed."""
        asked = dict.fromkeys(self._nodes_of(job.partitions) for job in self._waiting)
        every = frozenset(name for name, node in self._machines.nodes.items() if node.cpus)
        return {nodes: f"p{at}" for at, nodes in enumerate(each for each in asked if each != every)}

    def _refuse_labels(self) -> None:
        """Leave out the jobs of more sets of partitions than there can be labels."""
        for nodes in list(self._labels)[MOST_REQUIRED:]:
            for job in self._waiting:
                if self._nodes_of(job.partitions) == nodes:
                    self._unforeseen[job.id] = "jobs of more sets of partitions wait than are modelled"
        self._waiting = [job for job in self._waiting if job.id not in self._unforeseen]

    def _label(self, job: SlurmJob) -> str:
        label = self._labels.get(self._nodes_of(job.partitions))
        return "" if label is None else f"{label}=yes"

    def _cluster(self) -> tuple[Cluster, dict[str, str]]:
        """The nodes, those that are alike in one group; and the name there of each node."""
        groups: dict[tuple[int, tuple[str, ...]], list[str]] = {}
        labels = list(self._labels.items())[:MOST_REQUIRED]
        for name, node in self._machines.nodes.items():
            if node.cpus:
                has = tuple(sorted(label for nodes, label in labels if name in nodes))
                groups.setdefault((node.cpus, has), []).append(name)
        made = [
            NodeGroup(
                f"nodes{at}", len(names), 0.0, float(cpus), 0.0, labels=tuple((each, "yes") for each in has)
            )
            for at, ((cpus, has), names) in enumerate(groups.items())
        ]
        name_of = {
            name: f"nodes{at}-{number}"
            for at, names in enumerate(groups.values())
            for number, name in enumerate(names)
        }
        return Cluster("slurm", tuple(made)), name_of

    def _limit_s(self, job: SlurmJob) -> float:
        """The limit with which Slurm plans a job."""
        if not math.isnan(job.limit_s):
            return min(max(job.limit_s, 1.0), NO_LIMIT_S)
        defaults = [
            each.limit_s if math.isnan(each.default_s) else each.default_s
            for each in self._partitions(job.partitions)
        ]
        return min(max(defaults, default=NO_LIMIT_S), NO_LIMIT_S)

    def _width(self, job: SlurmJob) -> int:
        """The CPUs of a job that waits: all of its nodes where it gets whole ones."""
        is_whole = (
            job.is_exclusive
            or self._machines.whole_nodes
            or any(each.is_exclusive for each in self._partitions(job.partitions))
        )
        if not is_whole:
            return max(job.cpus, job.nodes)
        sizes = sorted(self._free_of(name) for name in self._nodes_of(job.partitions))
        return max(job.cpus, job.nodes * sizes[len(sizes) // 2])

    def _held(self, job: SlurmJob) -> dict[str, int]:
        """The CPUs that a running job holds on each node: as evenly as there is room, which squeue does not say."""
        if job.why_unforeseen == "it is suspended":
            return {}
        hosts = [host for host in job.hosts if self._free.get(host, 0) > 0]
        held, left = dict.fromkeys(hosts, 0), job.cpus
        while left > 0 and (room := [host for host in hosts if self._free[host] > 0]):
            for host, share in zip(
                room, np.diff(np.arange(len(room) + 1) * left // len(room)).tolist(), strict=True
            ):
                taken = min(share, self._free[host])
                held[host] += taken
                self._free[host] -= taken
                left -= taken
        if not (found := {host: cpus for host, cpus in held.items() if cpus > 0}):
            self._unforeseen.setdefault(job.id, "it shares its CPUs with other jobs, which is not modelled")
        return found


def _each_node(cpus: int, nodes: int) -> int:
    """CPUs on each node that a job takes: equal parts, and no more on a node than on so many nodes is needed."""
    most = math.ceil(cpus / nodes)
    return next(part for part in range(most, 0, -1) if cpus % part == 0)
