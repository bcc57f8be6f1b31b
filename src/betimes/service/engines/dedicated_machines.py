"""How a job stands on machines that are rented for it alone: what is offered, and how many units each machine has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from betimes.cluster import Cluster, Offer
from betimes.cluster.labels import Shapes
from betimes.cluster.resources import Amounts, whole_capacity
from betimes.cluster.tasks import JobTasks
from betimes.core.nodes.columns import Terms
from betimes.kernels import Records, as_array, blank
from betimes.policies.hooks import Value
from betimes.policies.nodes.hooks import Member
from betimes.twin.nodes.renting import terms_of


def known_live(member: Member) -> Member:
    """The policy without oracles: true run times and waits are not known, so estimates and play-outs stand for them.

    The play-outs are the engine's, where `plays_out` says so.
    """
    values = dict(member.values)
    if values.get("lengths") == "oracle":
        values["lengths"] = "estimate"
    if plays_out(values):
        values["waits"] = "none"
    return replace(member, values=values)


def plays_out(values: Mapping[str, Value | None]) -> bool:
    """Whether it is found out by playing forward that a job would wait in vain."""
    return values.get("waits") in ("oracle", "simulated")


def live_terms(offers: Sequence[Offer]) -> Records[Terms]:
    """The offers as the core knows them: what chance does to a machine is told by the cloud."""
    if not offers:
        return blank(Terms, 0)
    terms = terms_of(Cluster("offers", (), offers=tuple(offers)))
    as_array(terms)["drawn"] = 0
    return terms


def shapes_of(offers: Sequence[Offer]) -> list[Amounts]:
    """What a machine of each offer has, in whole numbers."""
    return [tuple(whole_capacity(np.array(offer.amounts)).tolist()) for offer in offers]


def offered_shapes(offers: Sequence[Offer]) -> Shapes:
    """The same, with the labels of its machines."""
    return tuple(zip(shapes_of(offers), (offer.labels for offer in offers), strict=True))


def units_on(
    tasks: JobTasks, unit: Amounts, machine: Amounts, count: int
) -> tuple[tuple[int, ...], int] | None:
    """Units on each of `count` equal machines, and units a task there; null: the machines do not hold the job.

    Tasks stay whole where they can; else units are spread.
    """
    for amounts, each, most in ((tasks.demand, tasks.units_each, tasks.count), (unit, 1, tasks.units)):
        held = min([most, *(room // need for room, need in zip(machine, amounts, strict=True) if need > 0)])
        if held * count >= most:
            full, rest = divmod(most, held)
            counts = [held] * full + [rest] * (rest > 0)
            units = tasks.units_in(counts) if each == tasks.units_each else counts
            return tuple(units) + (0,) * (count - len(counts)), each
    return None


def is_held_by(tasks: JobTasks, unit: Amounts, machines: Sequence[Amounts]) -> bool:
    """Whether a job can be rented for: on one machine, or on several of the largest (`core.nodes.alone`)."""
    if any(units_on(tasks, unit, machine, 1) is not None for machine in machines):
        return True
    largest = max(machines, key=lambda machine: machine[1])
    return (count := machines_holding(tasks, largest)) > 0 and units_on(
        tasks, unit, largest, count
    ) is not None


def machines_holding(tasks: JobTasks, machine: Amounts) -> int:
    """How many equal machines have what a job needs in all, 0: none have, however many."""
    needs = [(tasks.count * need, room) for need, room in zip(tasks.demand, machine, strict=True) if need > 0]
    return 0 if any(room == 0 for _, room in needs) else max(-(-need // room) for need, room in needs)
