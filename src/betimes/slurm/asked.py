"""Jobs as they are asked about: one that Slurm does not have, and one with another request than it has.

Both are rows of `squeue` that Slurm would print then, so that a picture with them is planned like any other.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from betimes.errors import Refused
from betimes.slurm.jobs import SlurmJob, parts_of
from betimes.slurm.machines import Machines, Partition
from betimes.slurm.picture import Picture
from betimes.units import length


@dataclass(frozen=True)
class Request:
    """A job's request to Slurm.

    cpus: in all. nodes: at least; null: as few as hold its CPUs. limit_s: NaN: that of its partition. partitions: it
    goes into any of them; none: the default one. reason, gres, features, dependency: as `squeue` would print them.
    """

    cpus: int
    nodes: int | None = None
    limit_s: float = math.nan
    partitions: tuple[str, ...] = ()
    user: str = ""
    name: str = ""
    is_exclusive: bool = False
    reason: str = "Priority"
    gres: str = ""
    features: str = ""
    dependency: str = ""


def new_job(request: Request, picture: Picture, machines: Machines) -> SlurmJob:
    """The row of a job that is submitted now, with the next number and the lowest priority of those that wait there.

    Raises Refused, naming the field, for one that no partition takes.
    """
    partitions = request.partitions or machines.default_partition
    if not partitions:
        raise Refused("no partition of Slurm is the default; name one", "partition")
    nodes = request.nodes or _fewest_nodes(request.cpus, partitions, machines)
    row = SlurmJob(
        id=str(1 + max(map(_number, picture.jobs), default=0)),
        user=request.user,
        name=request.name,
        state="PENDING",
        submit_at=picture.at,
        start_at=math.nan,
        end_at=math.nan,
        limit_s=request.limit_s,
        cpus=max(request.cpus, nodes),
        nodes=nodes,
        partitions=partitions,
        priority=_lowest_priority(picture.waiting, partitions),
        reason=request.reason,
        hosts=(),
        dependency=request.dependency,
        gres=request.gres,
        features=request.features,
        is_exclusive=request.is_exclusive,
    )
    return _where_it_fits(row, machines)


def changed(
    job: SlurmJob,
    machines: Machines,
    *,
    limit_s: float | None = None,
    cpus: int | None = None,
    nodes: int | None = None,
    partitions: tuple[str, ...] = (),
) -> SlurmJob:
    """The row of a job with another request. On more nodes it asks for as many CPUs of each as before.

    Raises Refused, naming the field, for one that no partition takes, and for what a job that runs cannot change.
    """
    if job.runs:
        given = {"nodes": nodes, "units": cpus, "partition": partitions or None}
        for field in (name for name, value in given.items() if value is not None):
            raise Refused(
                f"job {job.id} runs; of such a job only another time limit can be asked about", field
            )
    if cpus is None and nodes is not None:
        cpus = math.ceil(job.cpus / job.nodes) * nodes
    elif cpus is not None and nodes is None:
        nodes = _fewest_nodes(cpus, partitions or job.partitions, machines)
    row = replace(
        job,
        limit_s=job.limit_s if limit_s is None else limit_s,
        cpus=job.cpus if cpus is None else max(cpus, nodes or 1),
        nodes=job.nodes if nodes is None else nodes,
        partitions=partitions or job.partitions,
    )
    return row if job.runs else _where_it_fits(row, machines)


def _number(job_id: str) -> int:
    """Slurm's number of a job, of an element that of its array; parts of a heterogeneous job have the next ones."""
    base, _, part = job_id.partition("+")
    return parts_of(base)[0] + int(part or 0)


def _fewest_nodes(cpus: int, partitions: Iterable[str], machines: Machines) -> int:
    """The nodes of partitions that hold so many CPUs."""
    sizes = [
        node.cpus
        for name in partitions
        if (partition := machines.partitions.get(name)) is not None
        for node in machines.nodes_of(partition)
    ]
    return math.ceil(cpus / max(sizes, default=cpus))


def _lowest_priority(waiting: Iterable[SlurmJob], partitions: Iterable[str]) -> float:
    """Of the jobs that wait for any of these partitions, as a new job has no age yet; a held one has no priority."""
    wanted = set(partitions)
    return min(
        (job.priority for job in waiting if job.priority > 0 and not wanted.isdisjoint(job.partitions)),
        default=1.0,
    )


def _where_it_fits(row: SlurmJob, machines: Machines) -> SlurmJob:
    """The job in those of its partitions that take it. Raises Refused with the reason of the first, if none does."""
    refusals, fitting = list[Refused](), list[str]()
    for name in row.partitions:
        partition = machines.partitions.get(name)
        why = _unknown(name, machines) if partition is None else _why_refused(row, partition, machines)
        if why is None:
            fitting.append(name)
        else:
            refusals.append(why)
    if not fitting:
        raise refusals[0]
    return replace(row, partitions=tuple(fitting))


def _unknown(name: str, machines: Machines) -> Refused:
    there = ", ".join(sorted(machines.partitions)) or "none"
    return Refused(f"Slurm shows no partition {name[:60]}; there are: {there}", "partition")


def _why_refused(row: SlurmJob, partition: Partition, machines: Machines) -> Refused | None:
    """Why Slurm would not start a job in a partition, whatever else runs; null: it would."""
    name, sizes = partition.name, sorted(node.cpus for node in machines.nodes_of(partition))
    if row.limit_s > partition.limit_s:
        most = length(partition.limit_s)
        asked = "has no limit" if row.limit_s == math.inf else f"asks for {length(row.limit_s)}"
        return Refused(f"partition {name} allows {most} at most, and the job {asked}", "time_limit_s")
    if row.nodes > len(sizes):
        return Refused(f"partition {name} has {len(sizes)} nodes, and the job asks for {row.nodes}", "nodes")
    most = sum(sizes[-row.nodes :])
    if row.cpus > most:
        where = "node has" if row.nodes == 1 else f"{row.nodes} nodes have"
        return Refused(
            f"the largest {where} {most} CPUs in partition {name}, and the job asks for {row.cpus}; ask for more nodes",
            "units",
        )
    return None
