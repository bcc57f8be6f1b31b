"""Who would finish when after a change: the present state is played out twice, as it is and changed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from betimes.errors import Conflict, Refused, Unknown
from betimes.service.machines.machine import Machine
from betimes.service.runtime.commands import (
    AddMaintenance,
    CancelJobs,
    Command,
    SetNodeStatus,
    SetPolicy,
    SubmitJobs,
)
from betimes.service.runtime.rehearsal import Arrival, Rehearsal, Times
from betimes.service.runtime.rentals import Rentals
from betimes.service.scheduling.job import Job
from betimes.service.scheduling.node import DRAINING
from betimes.service.scheduling.promises import INTERVAL
from betimes.service.scheduling.scheduler import Scheduler
from betimes.service.tuning.recent import Submission
from betimes.service.views.models import WhatIfJob, WhatIfSpec, WhatIfSums, WhatIfView
from betimes.units import humanise_s

LATE_S = 86_400.0  # arrivals of late are those of so long
MOST_ARRIVALS = 500  # and at most so many, the latest
LEAST_ARRIVALS = 10
LEAST_LATE_S = 60.0  # jobs that came together say nothing of how often jobs come


@dataclass(frozen=True)
class AddMachines(Command[None]):
    """Add machines like those of a type that are there."""

    type: str
    count: int

    def carry_out(self, scheduler: Scheduler, _: Rentals | None, /) -> None:
        """Raises Unknown for a type of which there is none."""
        nodes = scheduler.ledger.nodes
        like = next((node.machine for node in nodes.values() if node.machine.type == self.type), None)
        if like is None:
            known = ", ".join(sorted({node.machine.type for node in nodes.values()})) or "none"
            raise Unknown(f"there is no node of type {self.type} to add more of; there are: {known}")
        for number in range(1, self.count + 1):
            scheduler.nodes.add(
                replace(like, name=f"{self.type}.what-if-{number}", kind="virtual"), "operator"
            )


@dataclass(frozen=True)
class RentMachine(Command[None]):
    """Rent one more machine of an offer, which boots."""

    type: str

    def carry_out(self, scheduler: Scheduler, _: Rentals | None, /) -> None:
        """Raises Unknown for a type that is not offered, Conflict for one of which no more can be rented."""
        offers, quota = scheduler.settings.offers, scheduler.settings.quota
        if not offers:
            raise Conflict("this service rents from no cloud; start it with `betimes up --cloud FILE.toml`")
        offer = next((each for each in offers if each.type == self.type), None)
        if offer is None:
            known = ", ".join(sorted(each.type for each in offers))
            raise Unknown(f"the cloud offers no {self.type}; it offers: {known}")
        rented = [node.machine for node in scheduler.ledger.nodes.values() if node.rented_at is not None]
        alike = sum(machine.type == self.type for machine in rented)
        if quota is not None and len(rented) >= quota:
            raise Conflict(
                f"no {self.type} can be rented: {len(rented)} machines are, as many as the quota allows"
            )
        if offer.capacity is not None and alike >= offer.capacity:
            raise Conflict(f"no {self.type} can be rented: {alike} are, and the cloud has no more")
        name, price = f"{self.type}.what-if-rented-{alike + 1}", offer.charged_usd_per_h
        amounts = offer.cpu, offer.memory_gib, offer.gpu, price
        machine = Machine(name, "fake-cloud", self.type, *amounts, labels=offer.labels, family=offer.family)
        scheduler.nodes.rent(machine, "operator")


@dataclass(frozen=True)
class Arrive(Command[list[int]]):
    """Submit a job of the recent ones again; none where the cluster cannot hold it any more."""

    of: Submission

    def carry_out(self, scheduler: Scheduler, rentals: Rentals | None, /) -> list[int]:
        """The numbers of its jobs."""
        try:
            return SubmitJobs((self.of.spec,), self.of.user).carry_out(scheduler, rentals)[0]
        except Refused:
            return []


def check_late(late: Sequence[Submission], now_at: float) -> None:
    """Raise Conflict where the submissions of late are too few to show how jobs arrive."""
    if len(late) < LEAST_ARRIVALS:
        raise Conflict(
            f"too few jobs to show how jobs arrive: {len(late)} submitted within the last {humanise_s(LATE_S)}, and "
            f"load needs {LEAST_ARRIVALS}"
        )
    if now_at - late[0].at < LEAST_LATE_S:
        raise Conflict(
            f"all jobs of the last {humanise_s(LATE_S)} were submitted within the last {humanise_s(LEAST_LATE_S)}, "
            "which does not show how jobs arrive; leave out load, or ask again later"
        )


def arrivals(late: Sequence[Submission], now_at: float, load: float) -> list[Arrival]:
    """The submissions of late from now on, `load` times as fast, over and over for as long as they took."""
    if not late:
        return []
    first_at, found = late[0].at, list[Arrival]()
    period_s = now_at - first_at
    for repeat in range(math.ceil(load)):
        for one in late:
            after_s = (repeat * period_s + one.at - first_at) / load
            if after_s < period_s:
                found.append(Arrival(now_at + after_s, Arrive(one)))
    return found


def commands(asked: WhatIfSpec, user: str) -> list[Command[Any]]:
    """The changes in the order in which they are made; jobs to submit come last."""
    found: list[Command[Any]] = []
    if asked.cancel:
        found.append(CancelJobs(tuple(asked.cancel), user))
    found += [SetNodeStatus(name, DRAINING, f"user:{user}") for name in asked.remove_nodes]
    found += [AddMachines(name, count) for name, count in asked.add_nodes.items()]
    found += [RentMachine(name) for name in asked.rent]
    found += [
        AddMaintenance(each.from_at, each.to_at, tuple(each.nodes), each.reason, user, each.stop)
        for each in asked.maintenance
    ]
    if asked.policy is not None:
        found.append(SetPolicy(asked.policy, user))
    if asked.submit:
        found.append(SubmitJobs(tuple(asked.submit), user))
    return found


class WhatIf:
    """Both plays of a question, made between two turns, to be run in any thread."""

    def __init__(
        self,
        before: Rehearsal,
        after: Rehearsal,
        asked: WhatIfSpec,
        user: str,
        late: Sequence[Submission] = (),
    ) -> None:
        """before, after: two copies of one state; late: the arrivals that `load` repeats, oldest first."""
        self._asked, self._user, self._before, self._after = asked, user, before, after
        self._late, self.now_at = late, before.now_at

    def play(self) -> WhatIfView:
        """The answer. Raises what the changes raise: Refused, Unknown, Conflict, PolicyError."""
        changes, load = commands(self._asked, self._user), self._asked.load
        if not changes and load is None:
            raise Refused(
                "no change is given; name one: submit, add_nodes, remove_nodes, policy, cancel, rent, maintenance, load"
            )
        after, _ = self._after.play(changes, arrivals(self._late, self.now_at, load or 1.0))
        before, _ = self._before.play((), arrivals(self._late, self.now_at, 1.0))
        came = {number for numbers in self._before.arrived for number in numbers}
        come = {number for numbers in self._after.arrived for number in numbers}
        there = {number: times for number, times in before.items() if number not in came}
        jobs = [
            self._job(number, there.get(number), after[number])
            for number in sorted(after)
            if number not in come
        ]
        both = [one.job_id for one in jobs if one.finish_at is not None and one.finish_before_at is not None]
        return WhatIfView(
            made_at=self.now_at,
            jobs=jobs,
            before=_sums(self._before, before, both, came),
            after=_sums(self._after, after, both, come),
            arrivals_of_s=None if load is None else self.now_at - self._late[0].at,
            refused=sum(not numbers for numbers in self._after.arrived),
        )

    def how_sure(self, found: WhatIfView, scheduler: Scheduler) -> WhatIfView:
        """The answer with intervals of the jobs that the change submits, by what the present scheduler has learned."""
        queue, jobs = scheduler.queue, list[WhatIfJob]()
        for one in found.jobs:
            if one.is_new:
                spec = self._after.jobs[one.job_id].spec
                believed = scheduler.ledger.runtime_estimates.believed(self._user, spec)
                job = Job(one.job_id, spec, self._user, found.made_at, *believed)
                around = scheduler.ledger.promise_errors.around(
                    job, found.made_at, one.start_at, one.finish_at, queue
                )
                one = one.model_copy(update={name: around.fields.get(name) for name in INTERVAL})  # noqa: PLW2901
            jobs.append(one)
        return found.model_copy(update={"jobs": jobs})

    def _job(self, number: int, before: Times | None, after: Times) -> WhatIfJob:
        job = self._after.jobs[number]
        is_new, was = before is None, before or Times(None, None)
        return WhatIfJob(
            job_id=number,
            name=job.spec.title if job.array_index is None else f"{job.spec.title}[{job.array_index}]",
            user=job.user,
            is_new=is_new,
            start_before_at=was.start_at,
            finish_before_at=was.finish_at,
            start_at=after.start_at,
            finish_at=after.finish_at,
        )


def _sums(
    played: Rehearsal, times: Mapping[int, Times], both: Sequence[int], arrived: set[int]
) -> WhatIfSums:
    """both: jobs that finish in both plays."""
    jobs = {number: job for number, job in played.jobs.items() if job.set_id is None}
    done = [number for number in sorted(arrived) if times[number].finish_at is not None]
    whole = [number for number in (*both, *done) if number in jobs]
    submitted_at = np.array([jobs[number].submitted_at for number in whole])
    starts_at, ends_at = np.array([times[number] for number in whole], dtype=float).reshape(-1, 2).T
    return WhatIfSums(
        jobs=len(whole),
        arrivals=len(done),
        never=sum(times[number].finish_at is None and not job.status.is_over for number, job in jobs.items()),
        mean_jct_s=float(np.mean(ends_at - submitted_at)) if whole else None,
        p99_jct_s=float(np.percentile(ends_at - submitted_at, 99)) if whole else None,
        mean_wait_s=float(np.mean(starts_at - submitted_at)) if whole else None,
        cost_usd=played.cost_usd(),
    )
