"""A cluster at one instant, to play on from: what runs, where and since when, and what waits, in which order."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from betimes.cluster import Cluster
from betimes.cluster.resources import PER_UNIT, RESOURCES
from betimes.core.work import doubled
from betimes.errors import InputError
from betimes.kernels import entry
from betimes.twin.account import Account
from betimes.workload import Workload

_doubled = entry(doubled, float, float)


@dataclass(frozen=True)
class RunningJob:
    """A job that has run since `since_s`, on so many units of each node (`nodes`, by name), or of a pool (`units`).

    left_s: the seconds that it has left where it runs; None: those of its row of the workload, less those that it has
    run. Raises InputError for numbers that no run can have.
    """

    job_id: str
    since_s: float
    nodes: Mapping[str, int] = field(default_factory=dict[str, int])
    units: float | None = None
    left_s: float | None = None

    def __post_init__(self) -> None:
        if not math.isfinite(self.since_s):
            raise self.error(f"it runs since {self.since_s:g} s; give the instant at which its run began")
        if self.units is not None and self.nodes and self.units != sum(self.nodes.values()):
            raise self.error(
                f"{self.units:g} units, and {sum(self.nodes.values())} on its nodes; give one of them"
            )
        if not self.held > 0 or any(units < 1 for units in self.nodes.values()):
            raise self.error("it holds nothing; give its units on each node, or its units of a pool")
        if self.left_s is not None and not 0.0 < self.left_s < math.inf:
            raise self.error(
                f"{self.left_s:g} s left; give a time above 0 s, or leave a job out that is over"
            )

    @property
    def held(self) -> float:
        """The units that it holds."""
        return self.units if self.units is not None else float(sum(self.nodes.values()))

    def error(self, what: str) -> InputError:
        """The error that names this job of a state; what: completes the sentence."""
        return InputError(f"state, running job {self.job_id}: {what}")


@dataclass(frozen=True)
class ClusterState:
    """A cluster at `now_s`: the jobs that run, and the ids of those that wait, in the order in which they stand.

    closed: nodes, by name, that take no new jobs; what runs there goes on. accounts: by job, what does not follow from
    its row of the workload, since it has run before; a simulation's `cluster_state` has it of all. The users' recent
    use, reservations, and what policies remember beside their jobs is not part of it. Raises InputError for a job that
    is there twice, or that runs since a later instant.
    """

    now_s: float
    running: Sequence[RunningJob] = ()
    waiting: Sequence[str] = ()
    closed: Sequence[str] = ()
    accounts: Mapping[str, Account] = field(default_factory=dict[str, Account])

    def __post_init__(self) -> None:
        if not 0.0 <= self.now_s < math.inf:
            raise InputError(f"state, now_s {self.now_s:g}: give an instant of 0 s or later")
        for job in self.running:
            if job.since_s > self.now_s:
                raise job.error(
                    f"it runs since {job.since_s:g} s, after now_s ({self.now_s:g} s); give the instant at which its "
                    "run began, or let it wait"
                )
        seen = set[str]()
        for job_id in (*(job.job_id for job in self.running), *self.waiting):
            if job_id in seen:
                raise InputError(f"state, job {job_id}: it is there twice; a job runs once, or waits once")
            seen.add(job_id)
        for job_id, account in self.accounts.items():
            running = self.running_by_id.get(job_id)
            if job_id not in seen:
                raise InputError(f"state, accounts: job {job_id} neither runs nor waits; leave it out")
            if account.since_s > self.now_s:
                raise InputError(
                    f"state, accounts, job {job_id}: it is true at {account.since_s:g} s, after now_s "
                    f"({self.now_s:g} s)"
                )
            if running is not None and running.left_s is not None:
                raise running.error("left_s, and an account, which says what is left; give one of them")

    @cached_property
    def running_by_id(self) -> dict[str, RunningJob]:
        """The jobs that run."""
        return {job.job_id: job for job in self.running}

    def without(self, refused: Iterable[object]) -> ClusterState:
        """The same without these jobs, which nothing can hold. Raises InputError if one of them runs."""
        gone = {str(job) for job in refused}
        for job in self.running:
            if job.job_id in gone:
                raise job.error(
                    "the empty cluster does not hold it; correct its row of the workload, or the cluster"
                )
        left = {job: account for job, account in self.accounts.items() if job not in gone}
        return replace(self, waiting=[job for job in self.waiting if job not in gone], accounts=left)

    def rows(self, workload: Workload) -> list[int]:
        """The row of each of its jobs, in the order in which they count as submitted; these are the first rows.

        That is the order of the rows, but jobs that wait keep the order that is given. Raises InputError for a job that
        the workload does not have, and for one that was submitted by now and neither runs nor waits.
        """
        count = int(np.searchsorted(workload.submit_s, self.now_s, side="right"))
        row_of = {str(job): row for row, job in enumerate(workload.job_id[:count].tolist())}
        named = [*(job.job_id for job in self.running), *self.waiting]
        for job_id in named:
            if job_id not in row_of:
                later = np.flatnonzero(workload.job_id[count:].astype(np.str_) == job_id)
                why = "the workload has no such job"
                if len(later):
                    submit_s = workload.submit_s[count + later[0]]
                    why = f"it is submitted at {submit_s:g} s, after now_s ({self.now_s:g} s)"
                raise InputError(
                    f"state, job {job_id}: {why}; leave it out of the state, or correct the workload"
                )
        if len(named) < count:
            there = set(named)
            missing = next(job for job in row_of if job not in there)
            raise InputError(
                f"state, job {missing}: it is submitted by now_s ({self.now_s:g} s), and neither runs nor waits; name "
                "it in the state, or leave it out of the workload if it is over"
            )
        found, waiting = list[int](), [row_of[job] for job in self.waiting]
        running = sorted(row_of[job.job_id] for job in self.running)
        for row in waiting:
            while running and running[0] < row:
                found.append(running.pop(0))
            found.append(row)
        return [*found, *running]

    def account(
        self,
        job_id: str,
        submit_s: float,
        size_s: float,
        work_s: float,
        *,
        rate: float = 0.0,
        stall_s: float = 0.0,
        per_work: float = 1.0,
        is_known: bool,
    ) -> Account:
        """The account of one of its jobs, at the instant from which it holds what it holds.

        size_s, work_s: all of its work, as believed and in truth. rate: of a running job, work a second after
        `stall_s`. is_known: what is believed is the truth. Raises InputError for a running job that would be over.
        """
        job, account = self.running_by_id.get(job_id), self.accounts.get(job_id)
        if account is not None:
            return account
        if job is None:
            return Account(submit_s, size_s, size_s, 0.0, 0.0, submit_s, 0, work_left_s=work_s)
        if job.since_s < submit_s:
            raise job.error(
                f"it runs since {job.since_s:g} s, and is submitted at {submit_s:g} s; correct one of them"
            )
        working_s = self.now_s - job.since_s - stall_s
        done = rate * max(0.0, working_s)
        if job.left_s is not None:
            work_s = done + rate * max(0.0, job.left_s + min(0.0, working_s))
            size_s = work_s if is_known else size_s
        if not work_s > done:
            raise job.error(
                f"it has run for {self.now_s - job.since_s:g} s, and is over after {stall_s + work_s / rate:g} s by "
                "the workload; give left_s, or leave it out"
            )
        if per_work == 1.0:
            size_s = float(_doubled(size_s, done))
        return Account(
            job.since_s, size_s, size_s, 0.0, stall_s, submit_s, 0, work_left_s=work_s, started_s=job.since_s
        )


def refuse_crowded(
    cluster: Cluster, state: ClusterState, held: Mapping[str, Sequence[tuple[int, Sequence[int]]]]
) -> None:
    """Raise InputError for a node on which more is held than it has.

    held: of each running job, the nodes by number, and what it holds there in whole amounts.
    """
    free = cluster.capacity.copy()
    on: dict[int, list[str]] = {}
    for job_id, places in held.items():
        for node, amounts in places:
            on.setdefault(node, []).append(job_id)
            free[node] -= amounts
            if (free[node] < 0).any():
                at = int(np.argmax(free[node] < 0))
                has, used = cluster.capacity[node, at], cluster.capacity[node, at] - free[node, at]
                jobs = f"jobs {', '.join(on[node])}" if len(on[node]) > 1 else f"job {job_id}"
                raise InputError(
                    f"state, node {cluster.node_names[node]}: {jobs} would hold {used / PER_UNIT[at]:g} "
                    f"{RESOURCES[at]} there, and it has {has / PER_UNIT[at]:g}; correct where they run, or the cluster"
                )


def numbers_of(cluster: Cluster, nodes: Iterable[str]) -> list[int]:
    """The numbers of nodes by their names. Raises InputError for one that the cluster does not have."""
    numbers = {name: number for number, name in enumerate(cluster.node_names)}
    for name in nodes:
        if name not in numbers:
            raise InputError(
                f"state, node {name}: cluster {cluster.name} has no such node; nodes are named after their types, from "
                f"{next(iter(numbers), 'none')} to {next(reversed(numbers), 'none')}"
            )
    return [numbers[name] for name in nodes]
