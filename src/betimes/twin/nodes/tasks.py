"""From the jobs of a workload to tasks that nodes can hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from betimes.cluster.cluster import Cluster
from betimes.cluster.labels import NONE, Labels, as_texts, bits_for, mask, parse_labels, suits, why_none_suits
from betimes.cluster.resources import NOWHERE, PER_UNIT, RESOURCES, UNITS, whole_demand
from betimes.cluster.tasks import split, split_by_family
from betimes.core.nodes.columns import TaskDemand
from betimes.core.nodes.demands import DemandRows
from betimes.errors import ClusterError, InputError
from betimes.kernels import Ints, Records, blank
from betimes.workload.family_demands import (
    SAME_IN_A_POOL,
    FamilyDemands,
    family_demands,
    refuse_family_demands,
)
from betimes.workload.workload import Workload

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

NO_LIMIT = 1 << 40  # tasks on a node; as many on each of a million nodes are still an int64


@dataclass(frozen=True, eq=False)
class Tasks:
    """The tasks of each job of a workload on a cluster: `count` equal tasks that start and end together.

    `count` (n,) and `demand` (n, 3), of one task, in the whole numbers of `cluster.resources`;
    `refused` (n,) marks the jobs that the empty cluster cannot run. `reasons` has one line for each kind of
    refusal, which names the first such job. `fits_no_owned` (n,) marks those that only rented machines can run.
    `by_family` (n, families, 3) is one task's demand on each of the cluster's families, `NOWHERE` where it cannot
    run; null where no job has demands by family. `demand` is the least of any family. `speeds` (n, families): how
    fast a job works on each, null where `by_family` is.
    """

    count: Integers
    demand: Integers
    refused: Bools
    reasons: tuple[str, ...]
    fits_no_owned: Bools | None = None
    by_family: Integers | None = None
    speeds: Floats | None = None

    def of(self, rows: NDArray[np.intp]) -> Tasks:
        """The tasks of the jobs in these rows."""
        some = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "reasons"}
        return replace(self, **{name: None if each is None else each[rows] for name, each in some.items()})

    def needs(self, family: int) -> Integers:
        """(n, 3) the demand of all tasks of a job together on machines of a family; 0 where it cannot run."""
        if self.by_family is None:
            return self.count[:, None] * self.demand
        each = self.by_family[:, family]
        return self.count[:, None] * np.where(each < NOWHERE, each, 0)

    @property
    def differs(self) -> Bools:
        """(n,) whether a job's demand depends on the family, or its speed."""
        if self.by_family is None:
            return np.zeros(len(self.count), dtype=bool)
        assert self.speeds is not None, "both are given, or none"
        return (self.by_family != self.by_family[:, :1]).any(axis=(1, 2)) | (self.speeds != 1.0).any(axis=1)


@dataclass(frozen=True, eq=False)
class Requirements:
    """The labels that jobs require of their nodes: `of_job` (n,) indexes `distinct`, whose first requires none."""

    of_job: Integers
    distinct: tuple[Labels, ...]

    def of(self, row: int) -> Labels:
        """The labels that one job requires."""
        return self.distinct[int(self.of_job[row])]

    @property
    def bits(self) -> dict[tuple[str, str], int]:
        """The bit of each label that is required (`cluster.labels`). Raises InputError for too many of them."""
        try:
            return bits_for(self.distinct)
        except ClusterError as error:
            raise InputError(f"field require: {error}") from None

    @property
    def masks(self) -> Integers:
        """(n,) the bits of the labels that each job requires."""
        bits = self.bits
        return np.array([mask(labels, bits) for labels in self.distinct], np.int64)[self.of_job]


def requirements_of(workload: Workload) -> Requirements:
    """The labels that the jobs of a workload require. Raises InputError, naming the job, for anything else."""
    stated = np.flatnonzero(workload.require != "")
    of_job = np.zeros(len(workload), np.int64)
    if not len(stated):
        return Requirements(of_job, (NONE,))
    texts, codes = np.unique(workload.require[stated], return_inverse=True)
    known: dict[Labels, int] = {NONE: 0}
    found = list[int]()
    for code, text in enumerate(texts.tolist()):
        try:
            labels = parse_labels(text.split(","))
        except ClusterError as error:
            row = int(stated[int(np.argmax(codes == code))])
            raise InputError(f"job {workload.job_id[row]}, field require: {error}") from None
        found.append(known.setdefault(labels, len(known)))
    of_job[stated] = np.array(found, np.int64)[codes]
    return Requirements(of_job, tuple(known))


def refuse_requirements(workload: Workload, policy: str) -> None:
    """Raises InputError for a job that requires labels, under a policy that knows none."""
    if (workload.require != "").any():
        row = int(np.argmax(workload.require != ""))
        raise InputError(
            f"job {workload.job_id[row]}, field require: policy {policy} does not choose nodes by their labels; choose "
            "one for nodes that places jobs itself, such as nodes:fifo, or leave the column out"
        )


def tasks_of(workload: Workload, cluster: Cluster, *, rents: bool = False) -> Tasks:
    """Split every job, at full width, into tasks for the nodes of this cluster, by the rule of `cluster.tasks`.

    For a job that requires labels the nodes are those that have them all.

    A resource that the workload does not know counts as none; where it knows none of the three a unit needs one
    GPU, or one core on a cluster without GPUs. On a pool a unit is one core, whatever it needs elsewhere. rents:
    machines on offer count as nodes. A job with demands by family needs that of each node's family.
    """
    unit = unit_amounts(workload, cluster)
    shapes, counts = cluster.shapes(rents=rents)
    made = split(unit, workload.max_units, workload.units_per_task, shapes)
    required, has = requirements_of(workload), cluster.labels(rents=rents)
    suit = [np.array([suits(labels, each) for labels in has], dtype=bool) for each in required.distinct]
    for code in range(1, len(suit)):
        rows = np.flatnonzero(required.of_job == code)
        some = split(unit[rows], workload.max_units[rows], workload.units_per_task[rows], shapes[suit[code]])
        made.put(rows, some)
    different = None if cluster.is_pool else family_demands(workload)
    by_family: Integers | None = None
    speeds: Floats | None = None
    families = cluster.family_numbers(rents=rents)
    on_family = [[there & (families == family) for family in range(len(cluster.families))] for there in suit]
    if different is not None:
        by_family = np.repeat(made.demand[:, None], len(cluster.families), axis=1)
        amounts = different.on(cluster.families)
        speeds = np.ones((len(workload), len(cluster.families)))
        speeds[different.rows] = different.speeds_on(cluster.families)
        for code in range(len(suit)):
            of = np.flatnonzero(required.of_job[different.rows] == code)
            rows = different.rows[of]
            some, by_family[rows] = split_by_family(
                amounts[of],
                workload.max_units[rows],
                workload.units_per_task[rows],
                [shapes[there] for there in on_family[code]],
            )
            made.put(rows, some)
    count, each, demand = made.count, made.units_each, made.demand
    nowhere = np.array([not one.any() for one in suit])[required.of_job] & (required.of_job > 0)
    large = (made.together == 0) & ~nowhere
    tight = np.flatnonzero(~made.fits & ~large & ~nowhere)
    several = np.flatnonzero((count > 1) & made.fits)
    room = np.zeros(len(several), np.int64)
    for code, there in enumerate(suit):
        of = required.of_job[several] == code
        if by_family is None:
            room[of] = held(demand[several[of]], shapes[there], counts[there])
        else:
            for family, on in enumerate(on_family[code]):
                room[of] += held(by_family[several[of], family], shapes[on], counts[on])
    crowded = several[count[several] > room]
    impatient = np.flatnonzero(workload.grace_s > cluster.grace_limit_s)

    refused = ~made.fits
    refused[crowded] = True
    refused[impatient] = True
    elsewhere = np.zeros(len(workload), dtype=bool)
    if different is not None:
        elsewhere[different.rows] = large[different.rows]
    reasons = _too_large(workload, unit, large & ~elsewhere, required, [shapes[there] for there in suit])
    if different is not None and elsewhere.any():
        reasons.append(_fits_no_family(workload, different, elsewhere, cluster))
    rows = np.flatnonzero(nowhere)
    if len(rows):
        row = int(rows[0])
        why = why_none_suits(required.of(row), has)
        reasons.append(f"job {workload.job_id[row]}, field require: {why}{_such(len(rows))}")
    if len(tight):
        row = int(tight[0])
        told = f"a task has {each[row]} units, the largest node holds {made.together[row]}{_such(len(tight))}"
        reasons.append(f"job {workload.job_id[row]}, field units_per_task: {told}")
    if len(crowded):
        row = int(crowded[0])
        most = int(room[np.searchsorted(several, row)])
        reasons.append(_too_wide(workload, row, count, each, most, cluster) + _such(len(crowded)))
    if len(impatient):
        row = int(impatient[0])
        limit, found = _plain(cluster.grace_limit_s), _plain(workload.grace_s[row])
        told = f"asks for {found} s, the cluster allows {limit} (grace_limit_s){_such(len(impatient))}"
        reasons.append(f"job {workload.job_id[row]}, field grace_s: {told}")
    return Tasks(count, demand, refused, tuple(reasons), by_family=by_family, speeds=speeds)


def tasks_on_owned_first(workload: Workload, cluster: Cluster) -> Tasks:
    """The same for jobs that wait for owned machines: split for those, or for offers if no owned one holds them."""
    if not cluster.groups:
        offered = tasks_of(workload, cluster, rents=True)
        return replace(offered, fits_no_owned=~offered.refused)
    owned = tasks_of(workload, cluster)
    if not owned.refused.any():
        return replace(owned, fits_no_owned=np.zeros(len(workload), dtype=bool))
    offered = tasks_of(workload, cluster, rents=True)
    fits_no_owned = owned.refused & ~offered.refused
    by_family = None
    if owned.by_family is not None and offered.by_family is not None:
        by_family = np.where(fits_no_owned[:, None, None], offered.by_family, owned.by_family)
    return Tasks(
        np.where(fits_no_owned, offered.count, owned.count),
        np.where(fits_no_owned[:, None], offered.demand, owned.demand),
        owned.refused & offered.refused,
        offered.reasons,
        fits_no_owned,
        by_family,
        offered.speeds,
    )


def unit_demand(workload: Workload, cluster: Cluster) -> Integers:
    """The demand of one unit of each job of a pool on nodes, (n, 3), in the whole numbers of `cluster.resources`.

    Raises InputError for a job with demands by family: a unit of a pool needs the same on all nodes.
    """
    refuse_family_demands(workload, SAME_IN_A_POOL)
    return whole_demand(unit_amounts(workload, cluster))


def unit_amounts(workload: Workload, cluster: Cluster) -> Floats:
    """The demand of one unit of each job, (n, 3): GPUs, cores, GiB."""
    if cluster.is_pool:
        return np.tile([0.0, 1.0, 0.0], (len(workload), 1))
    unit: Floats = np.stack([getattr(workload, name) for name in RESOURCES], axis=1)
    nothing_known = np.isnan(workload.gpu) & np.isnan(workload.cpu) & np.isnan(workload.memory_gib)
    unit[np.isnan(unit)] = 0.0
    unit[nothing_known] = [1.0, 0.0, 0.0] if cluster.total[0] > 0 else [0.0, 1.0, 0.0]
    return unit


def held(demand: Integers, shapes: Integers, counts: Integers, most: int = NO_LIMIT) -> Integers:
    """The number of tasks of each demand (n, 3) that some empty nodes of these shapes hold, so many on each at most."""
    capacities, group = np.unique(shapes, axis=0, return_inverse=True)
    nodes = np.bincount(group, counts, len(capacities)).astype(np.int64)
    total = np.zeros(len(demand), np.int64)
    for capacity, count in zip(capacities, nodes, strict=True):
        fits = np.where(demand > 0, capacity // np.maximum(demand, 1), most)
        total += fits.min(axis=1, initial=most) * count
    return total


def _too_large(
    workload: Workload, unit: Floats, large: Bools, required: Requirements, shapes: Sequence[Integers]
) -> list[str]:
    """One line for each resource that a unit needs more of than any node has, one for the other refusals.

    shapes: of the nodes that suit each of the distinct requirements.
    """
    reasons: list[str] = []
    left = large.copy()
    largest = np.array([each.max(axis=0, initial=0) for each in shapes])[required.of_job]
    for at, (field, name) in enumerate(zip(RESOURCES, UNITS, strict=True)):
        rows = np.flatnonzero(left & (whole_demand(unit)[:, at] > largest[:, at]))
        left[rows] = False
        if len(rows):
            row = int(rows[0])
            limit, labelled = _plain(largest[row, at] / PER_UNIT[at]), required.of(row)
            which = f" with {' and '.join(as_texts(labelled))}" if labelled else ""
            kind = name.removesuffix("s") if unit[row, at] == 1.0 else name
            asked = f"a unit asks for {_plain(unit[row, at])} {kind}"
            there = "no node{} has any" if largest[row, at] == 0 else f"the largest node{{}} has {limit}"
            told = f"{asked}, {there.format(which)}{_such(len(rows))}"
            reasons.append(f"job {workload.job_id[row]}, field {field}: {told}")
    rows = np.flatnonzero(left)
    if len(rows):
        row = int(rows[0])
        found = ", ".join(f"{_plain(unit[row, at])} {name}" for at, name in enumerate(UNITS))
        reasons.append(
            f"job {workload.job_id[row]}, fields {', '.join(RESOURCES)}: a unit asks for {found}, no node has all "
            f"of that{_such(len(rows))}"
        )
    return reasons


def _fits_no_family(workload: Workload, demands: FamilyDemands, jobs: Bools, cluster: Cluster) -> str:
    """One line about jobs with demands by family whose unit fits no machine."""
    row = int(np.argmax(jobs))
    at = int(np.searchsorted(demands.rows, row))
    named = demands.named(at)
    where = f"job {workload.job_id[row]}, demand on {', '.join(named)}"
    if there := [family for family in named if family in cluster.families]:
        amounts = demands.amounts[at, demands.families.index(there[0])].tolist()
        found = ", ".join(f"{_plain(amount)} {name}" for amount, name in zip(amounts, UNITS, strict=True))
        what = f"a unit asks for {found} on {there[0]}, no machine of that family has all of that"
    else:
        what = f"the cluster has no such machines; its families are {', '.join(cluster.families)}"
    return f"{where}: {what}{_such(int(jobs.sum()))}"


def _too_wide(
    workload: Workload, row: int, count: Integers, each: Integers, held: int, cluster: Cluster
) -> str:
    where, units = f"job {workload.job_id[row]}, field max_units", workload.max_units[row]
    if cluster.is_pool:
        return f"{where}: asks for {units} units, the pool has {_plain(cluster.groups[0].cpu)}"
    such = f"{held} such task{'' if held == 1 else 's'}"
    return (
        f"{where}: asks for {units} units ({count[row]} tasks of {each[row]}), the empty cluster holds {such}"
    )


def _such(jobs: int) -> str:
    return f"; {jobs} such {'job is' if jobs == 1 else 'jobs are'} refused"


def _plain(number: float) -> str:
    return f"{number:.10g}"


def demand_rows(tasks: Tasks, kept: NDArray[np.intp]) -> tuple[Records[TaskDemand], Ints]:
    """`State.demands`, and `Need.demands` of each job that is kept (jobs,): jobs of equal demands share their rows."""
    first_of = np.zeros(len(kept), np.int64)
    different = np.flatnonzero(tasks.differs[kept])
    if tasks.by_family is None or not len(different):
        return blank(TaskDemand, 0), first_of
    assert tasks.speeds is not None, "both are given, or none"
    each = np.concatenate([tasks.by_family, tasks.speeds[:, :, None]], axis=2)[kept[different]]
    distinct, code = np.unique(each, axis=0, return_inverse=True)
    rows = DemandRows(each.shape[1], len(distinct))
    found = [
        rows.first_of(tuple(((int(g), int(c), int(m)), speed) for g, c, m, speed in one), (0, 0, 0)) or 0
        for one in distinct.tolist()
    ]
    first_of[different] = np.array(found)[code.reshape(-1)]
    return rows.table, first_of
