"""The savings of a planner's moves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from betimes.cluster import Offer
from betimes.core.planning import Bind, Decision, Migrate, Rent, Snapshot, Start, new

S_PER_H = 3600.0

M = TypeVar("M", int, str)
"""A machine's key: its number, or its name."""


@dataclass(frozen=True)
class ExpectedSaving:
    """The price of a job's own needs without and with a move, USD an hour, and the cost of moving, USD."""

    before_usd_per_h: float
    after_usd_per_h: float
    cost_usd: float


def alone_usd_per_h(
    job: int, on: Iterable[M], held: Mapping[int, Iterable[M]], usd_per_h: Mapping[M, float]
) -> float:
    """The price of a job's machines that no other job holds; one without a price costs nothing."""
    others = {machine for other, machines in held.items() if other != job for machine in machines}
    return sum(usd_per_h.get(machine, 0.0) for machine in {*on} - others)


def expected_savings(
    snapshot: Snapshot, decisions: Sequence[Decision], offers: Sequence[Offer]
) -> dict[int, ExpectedSaving]:
    """The expected savings of a round's migrations, by job number.

    All other jobs are where this round's and earlier decisions have them. Moving costs the pause at the job's own price
    where it is, and the boot of machines rented in this round at its own price there.
    """
    moving = [
        each
        for each in snapshot.jobs
        if any(isinstance(one, Migrate) and one.job == each.job for one in decisions)
    ]
    offer_of: dict[int, int] = {each.machine: each.offer for each in snapshot.machines}
    rented = {
        new(k): one.offer
        for k, one in enumerate(decisions)
        if isinstance(one, Rent) and 0 <= one.offer < len(offers)
    }
    price = {
        number: offers[offer].charged_usd_per_h if offer >= 0 else 0.0
        for number, offer in (offer_of | rented).items()
    }
    sent = {one.job: one.places for one in decisions if isinstance(one, Start | Bind | Migrate)}
    planned = {
        job.job: [place.machine for place in sent.get(job.job, job.bound or job.places)]
        for job in snapshot.jobs
    }
    found: dict[int, ExpectedSaving] = {}
    for job in moving:
        before = alone_usd_per_h(job.job, [place.machine for place in job.places], planned, price)
        after = alone_usd_per_h(job.job, planned[job.job], planned, price)
        boots = [offers[rented[machine]] for machine in planned[job.job] if machine in rented]
        boot_s = max((offer.boot_s + offer.setup_s for offer in boots), default=0.0)
        pause_s = job.launch_s + job.init_s + job.stop_s
        found[job.job] = ExpectedSaving(before, after, (before * pause_s + after * boot_s) / S_PER_H)
    return found
