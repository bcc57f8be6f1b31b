"""The savings of a planner's moves."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from betimes.cluster import Offer
from betimes.core.planning import Bind, Decision, Migrate, Release, Rent, Snapshot, Start, new

S_PER_H = 3600.0

M = TypeVar("M", int, str)
"""A machine's key: its number, or its name."""


@dataclass(frozen=True)
class ExpectedSaving:
    """The price of what jobs alone need without and with their moves, USD an hour, and the cost of moving, USD."""

    before_usd_per_h: float
    after_usd_per_h: float
    cost_usd: float


@dataclass(frozen=True)
class Reconfiguration:
    """The moves of a round: what each is expected to save, by job number, and all of them together.

    ended: machines that these jobs leave and that are given back; rented: new ones that they go to.
    """

    moves: dict[int, ExpectedSaving]
    whole: ExpectedSaving
    ended: int
    rented: int


def alone_on(jobs: Collection[int], on: Iterable[M], held: Mapping[int, Iterable[M]]) -> set[M]:
    """The machines of these jobs that no other job holds."""
    others = {machine for other, machines in held.items() if other not in jobs for machine in machines}
    return {*on} - others


def alone_usd_per_h(
    job: int, on: Iterable[M], held: Mapping[int, Iterable[M]], usd_per_h: Mapping[M, float]
) -> float:
    """The price of a job's machines that no other job holds; one without a price costs nothing."""
    return sum(usd_per_h.get(machine, 0.0) for machine in alone_on({job}, on, held))


def expected_savings(
    snapshot: Snapshot,
    decisions: Sequence[Decision],
    offers: Sequence[Offer],
    refused: Sequence[Decision] = (),
) -> Reconfiguration | None:
    """The expected savings of a round's migrations; None: it has none.

    All other jobs are where this round's and earlier decisions have them. Moving costs the pause at the price of the
    machines left, and the boot of those rented in this round at theirs.
    """
    # By identity: as tuples, a start and a move of a job to the same places are equal.
    carried_out = [one for one in decisions if not any(one is each for each in refused)]
    sent = {one.job: one.places for one in carried_out if isinstance(one, Start | Bind | Migrate)}
    migrating = {one.job for one in carried_out if isinstance(one, Migrate)}
    moving = {each.job: each for each in snapshot.jobs if each.job in migrating}
    if not moving:
        return None
    rented = {
        new(k): offers[one.offer]
        for k, one in enumerate(decisions)
        if isinstance(one, Rent) and 0 <= one.offer < len(offers)
    }
    offer_of = {each.machine: offers[each.offer] for each in snapshot.machines if each.offer >= 0} | rented
    price = {machine: offer.charged_usd_per_h for machine, offer in offer_of.items()}
    planned = {
        job.job: [place.machine for place in sent.get(job.job, job.bound or job.places)]
        for job in snapshot.jobs
    }
    held = {job: {place.machine for place in each.places} for job, each in moving.items()}

    def saving(jobs: Collection[int]) -> ExpectedSaving:
        left = alone_on(jobs, set[int]().union(*(held[job] for job in jobs)), planned)
        needed = alone_on(jobs, {machine for job in jobs for machine in planned[job]}, planned)
        cost = 0.0
        for machine in left & price.keys():
            pauses = (moving[job] for job in jobs if machine in held[job])
            cost += price[machine] * max(job.launch_s + job.init_s + job.stop_s for job in pauses)
        for machine in needed & rented.keys():
            cost += price[machine] * (rented[machine].boot_s + rented[machine].setup_s)
        before, after = (sum(price.get(machine, 0.0) for machine in each) for each in (left, needed))
        return ExpectedSaving(before, after, cost / S_PER_H)

    gone = {one.machine for one in carried_out if isinstance(one, Release)}
    return Reconfiguration(
        {job: saving({job}) for job in moving},
        saving(moving),
        len(gone & set[int]().union(*held.values())),
        len({machine for job in moving for machine in planned[job]} & rented.keys()),
    )
