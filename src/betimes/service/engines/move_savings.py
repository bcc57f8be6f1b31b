"""What each move of a planner is expected to save: the job's part of what its machines cost, before and after.

A machine's price is divided among the jobs on it by the largest share that each needs of any of its resources, so that
the parts of all jobs together are the price of the machines that hold any.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from betimes.cluster import Offer
from betimes.cluster.resources import Amounts, whole_capacity
from betimes.core.planning import Bind, Decision, JobSnapshot, Migrate, Place, Rent, Snapshot, Start, new

S_PER_H = 3600.0

M = TypeVar("M", int, str)
"""What a machine goes by: its number, or its name."""


@dataclass(frozen=True)
class ExpectedSaving:
    """A job's part of its machines' price before and after a move, USD an hour, and what moving costs, USD."""

    before_usd_per_h: float
    after_usd_per_h: float
    cost_usd: float


def largest_share(demand: Amounts, capacity: Amounts) -> float:
    """The largest share that a demand is of any resource of a machine."""
    return max(
        (need / room for need, room in zip(demand, capacity, strict=True) if need and room), default=0.0
    )


def parts_usd_per_h(
    held: Mapping[int, Iterable[tuple[M, float]]], usd_per_h: Mapping[M, float]
) -> dict[int, float]:
    """Each job's part of the price of the machines where it holds a share; machines without a price cost nothing."""
    total: dict[M, float] = {}
    for shares in held.values():
        for machine, share in shares:
            total[machine] = total.get(machine, 0.0) + share
    return {
        job: sum(
            usd_per_h.get(machine, 0.0) * share / total[machine] for machine, share in shares if share > 0
        )
        for job, shares in held.items()
    }


def expected_savings(
    snapshot: Snapshot, decisions: Sequence[Decision], offers: Sequence[Offer]
) -> dict[int, ExpectedSaving]:
    """What the migrations among a round's decisions are expected to save, by the number of the job.

    Before: where jobs are, after: where all of this round's and earlier decisions have them. Moving costs the pause at
    what the job's machines cost it before, and the boot of machines that are rented in this round at what they will.
    """
    moving = {one.job for one in decisions if isinstance(one, Migrate)}
    if not moving:
        return {}
    offer_of: dict[int, int] = {each.machine: each.offer for each in snapshot.machines}
    rented = {
        new(k): one.offer
        for k, one in enumerate(decisions)
        if isinstance(one, Rent) and 0 <= one.offer < len(offers)
    }
    offer_of |= rented
    price = {
        number: offers[offer].charged_usd_per_h if offer >= 0 else 0.0 for number, offer in offer_of.items()
    }
    room = {each.machine: each.capacity for each in snapshot.machines}
    for number, offer in rented.items():
        gpu, cpu, memory = whole_capacity(offers[offer].amounts).tolist()
        room[number] = (gpu, cpu, memory)
    families = tuple(dict.fromkeys(offer.family for offer in offers))
    family = {each.machine: each.family for each in snapshot.machines}
    family |= {number: families.index(offers[offer].family) for number, offer in rented.items()}
    sent = {one.job: one.places for one in decisions if isinstance(one, Start | Bind | Migrate)}

    def shares(job: JobSnapshot, places: Iterable[Place]) -> list[tuple[int, float]]:
        return [
            (each.machine, each.tasks * largest_share(demand, room[each.machine]))
            for each in places
            if each.machine in room and (demand := job.demand_on(family[each.machine]))  # else it is refused
        ]

    before = {job.job: shares(job, job.places) for job in snapshot.jobs}
    after = {job.job: shares(job, sent.get(job.job, job.bound or job.places)) for job in snapshot.jobs}
    paid, to_pay = parts_usd_per_h(before, price), parts_usd_per_h(after, price)
    found: dict[int, ExpectedSaving] = {}
    for job in (each for each in snapshot.jobs if each.job in moving):
        boots = [rented[place.machine] for place in sent[job.job] if place.machine in rented]
        boot_s = max((offers[offer].boot_s + offers[offer].setup_s for offer in boots), default=0.0)
        pause_s = job.launch_s + job.init_s + job.stop_s
        cost_usd = (paid[job.job] * pause_s + to_pay[job.job] * boot_s) / S_PER_H
        found[job.job] = ExpectedSaving(paid[job.job], to_pay[job.job], cost_usd)
    return found
