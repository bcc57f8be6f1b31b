"""A trace replayed: its jobs as specifications, and as a source of submissions on a virtual clock."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import repeat

import numpy as np
from pydantic import ValidationError

from betimes.cluster import Cluster
from betimes.errors import ClusterError, InputError
from betimes.foresight.engines import NODES
from betimes.service.engines.named_policies import heeds_labels, kind_of, rents_for_jobs, shared_offers
from betimes.service.executors.virtual import SPEEDS, WORK
from betimes.service.machines.machine import Machine, machines_of_cluster
from betimes.service.scheduling.events import Event
from betimes.service.spec.family_demand import FamilyDemand
from betimes.service.spec.job_spec import Curve, JobSpec
from betimes.service.spec.spec_errors import faults
from betimes.twin.nodes.launching import KIND
from betimes.twin.nodes.renting import RENT
from betimes.twin.nodes.tasks import (
    refuse_requirements,
    requirements_of,
    tasks_of,
    tasks_on_owned_first,
    unit_amounts,
)
from betimes.workload import Workload
from betimes.workload.family_demands import SAME_IN_A_POOL, family_demands, refuse_family_demands
from betimes.workload.speedup import SpeedupTable, bind


class Source:
    """Jobs that are submitted at given instants, in order.

    promise_every: one in so many is promised an end; 0: none. users: whose they are; null: all of user `trace`.
    """

    def __init__(
        self,
        arrivals: Iterable[tuple[float, JobSpec]],
        promise_every: int = 1,
        users: Sequence[str] | None = None,
    ) -> None:
        self.promise_every = promise_every
        self._users = repeat("trace") if users is None else iter(users)
        self._causes = {f"user:{user}" for user in users or ("trace",)}
        self._arrivals = iter(arrivals)
        self._coming = next(self._arrivals, None)
        self._seen = 0

    def next_at(self) -> float:
        """The instant at which the next one is due; infinity: there is none."""
        return self._coming[0] if self._coming is not None else math.inf

    def take(self, now_at: float) -> list[tuple[JobSpec, str]]:
        """The jobs now due, each with its user."""
        due: list[tuple[JobSpec, str]] = []
        while self._coming is not None and self._coming[0] <= now_at:
            due.append((self._coming[1], next(self._users)))
            self._coming = next(self._arrivals, None)
        return due

    def to_promise(self, events: Sequence[Event]) -> list[int]:
        """The jobs submitted now that are to be promised an end."""
        numbers: list[int] = []
        for event in events:
            of_a_set = "set_id" in event.data  # which is promised as a whole
            mine = event.kind == "submitted" and event.cause in self._causes and not of_a_set
            if mine and event.job is not None:
                if self.promise_every and self._seen % self.promise_every == 0:
                    numbers.append(event.job)
                self._seen += 1
        return numbers


TRIAL = 1


def machines_for(cluster: Cluster) -> list[Machine]:
    """The nodes of a trace's cluster; a pool is one node as large as the pool."""
    if not cluster.is_pool:
        return machines_of_cluster(cluster)
    return [Machine("pool", "virtual", "pool", float(cluster.units), 0.0, 0.0)]


class Arrivals:
    """The jobs of a trace that its cluster can hold, in order, each made when it is submitted; (submit_s, job).

    A job's true work is in its environment, its number in the trace a label. Its name is the time that it asks for, as
    in a log jobs of one user and request are alike. In a pool jobs are elastic, and a unit is a core or a GPU of the
    pool's nodes; on nodes they are rigid, with the trace's demand per unit. Without estimates the true run time is the
    estimate. Raises InputError if none fits.
    """

    def __init__(
        self,
        workload: Workload,
        cluster: Cluster,
        policy: str,
        curves: SpeedupTable | None = None,
        *,
        grace: bool = True,
    ) -> None:
        self._workload = workload
        self._table, _ = bind(workload.curve_names, int(workload.max_units.max(initial=1)), curves)
        self._truth_s = workload.work_s / self._table.at(workload.curve, workload.max_units)
        estimate_s = np.where(np.isnan(workload.estimate_s), self._truth_s, workload.estimate_s)
        self._estimate_s = np.maximum(estimate_s, 1.0)
        on_nodes = kind_of(policy)[0] == NODES
        self._grace = grace and on_nodes
        self._required = requirements_of(workload)
        if not heeds_labels(policy):
            refuse_requirements(workload, policy)
        self._demands = None
        if on_nodes:
            self._demands = None if cluster.is_pool else family_demands(workload)
        elif not cluster.is_pool:
            refuse_family_demands(workload, f"under policy {policy} {SAME_IN_A_POOL}")
        self._unit = unit_amounts(workload, cluster) if on_nodes else None
        self._gpus = not cluster.is_pool and bool(cluster.total[0] > 0)
        fits = np.ones(len(workload), dtype=bool)
        if on_nodes and rents_for_jobs(policy):
            fits = ~tasks_on_owned_first(workload, cluster).refused
        elif on_nodes:
            rented = shared_offers(policy, cluster.offers)
            fits = ~tasks_of(workload, replace(cluster, offers=rented), rents=bool(rented)).refused
        self._kinds = workload.extra.get(KIND)
        self._rent = workload.extra.get(RENT) if rents_for_jobs(policy) else None
        self._rows = np.flatnonzero(fits)
        if not len(self._rows):
            raise InputError(f"{workload.name}: no job fits {cluster.name}")
        for row in self._rows.tolist():  # invalid jobs raise now, and not at their submission
            try:
                self._job(row)
            except ValidationError as error:
                fault = faults(error)[0]
                raise InputError(
                    f"{workload.name}, job {workload.job_id[row]}: {fault.field}: {fault.text}"
                ) from None

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def users(self) -> list[str]:
        """The user of each job."""
        workload = self._workload
        users = workload.user[self._rows].tolist()
        names = workload.user_names
        return ["trace" if user < 0 else names[user] if names else f"user{user}" for user in users]

    @property
    def begin_s(self) -> float:
        """The submission of the first job."""
        return float(self._workload.submit_s[self._rows[0]])

    def __iter__(self) -> Iterator[tuple[float, JobSpec]]:
        for row in self._rows.tolist():
            yield float(self._workload.submit_s[row]), self._job(row)

    def _job(self, row: int) -> JobSpec:
        workload = self._workload
        units, least = int(workload.max_units[row]), int(workload.min_units[row])
        if self._unit is not None:
            least = units
            gpu, cpu, memory_gib = self._unit[row].tolist()
            work_s, speeds = float(self._truth_s[row]), [1.0] * units
            curve: str | Curve = "linear"
        else:
            gpu, cpu, memory_gib = (1.0, 0.0, 0.0) if self._gpus else (0.0, 1.0, 0.0)
            work_s = float(workload.work_s[row])
            speeds = self._table.speedup[workload.curve[row], 1 : units + 1].tolist()
            curve = Curve(speedup=dict(enumerate(speeds, 1)))
        return JobSpec(
            command=["replayed"],
            name=f"{self._estimate_s[row]:g} s",
            labels={"trace-job": str(workload.job_id[row])},
            workload=None if self._kinds is None else str(self._kinds[row]) or None,
            workdir="/",
            gpu=gpu,
            cpu=cpu,
            memory_gib=memory_gib,
            demand=self._demand(row),
            min_units=least,
            max_units=units,
            units_per_task=int(workload.units_per_task[row]) or "pack",
            curve=curve,
            qos="trial" if workload.qos[row] == TRIAL else "best-effort",
            priority=int(workload.priority[row]),
            require=dict(self._required.distinct[self._required.of_job[row]]),
            grace_s=float(workload.grace_s[row]) if self._grace else 0.0,
            estimate_s=float(self._estimate_s[row]),
            rent=str(self._rent[row]) if self._rent is not None else "auto",  # pyright: ignore[reportArgumentType]
            env={WORK: repr(work_s), SPEEDS: ",".join(map(repr, speeds))},
        )

    def _demand(self, row: int) -> dict[str, FamilyDemand]:
        """The demand of a job's unit on each family, where they differ."""
        if self._demands is None:
            return {}
        at = int(np.searchsorted(self._demands.rows, row))
        if at == len(self._demands.rows) or self._demands.rows[at] != row:
            return {}
        of = self._demands
        each = zip(of.families, of.amounts[at].tolist(), of.speeds[at].tolist(), strict=True)
        return {
            family: FamilyDemand(gpu=gpu, cpu=cpu, memory_gib=memory_gib, speed=speed)
            for family, (gpu, cpu, memory_gib), speed in each
            if not math.isnan(gpu)
        }


def cluster_for(units: int | None, cluster: Cluster | None) -> Cluster:
    """The requested cluster; raises ClusterError for none."""
    if cluster is not None:
        return cluster
    if units is None:
        raise ClusterError("a replayed trace needs a machine: give --units N or --nodes FILE.toml")
    return Cluster.pool(units)
