"""Placement of a job on machines rented for it alone: offers, and units on each machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from betimes.cluster import Cluster, Offer
from betimes.cluster.resources import Amounts, UnitDemand, capacity_amounts
from betimes.cluster.shapes import Room, Shape, Shapes
from betimes.cluster.tasks import JobTasks
from betimes.core.nodes.columns import Terms
from betimes.core.nodes.machines.reported import EARLY_OR_LATE_S
from betimes.kernels import Records, as_array, blank
from betimes.policies.hooks import Value
from betimes.policies.nodes.hooks import Member
from betimes.twin.nodes.renting import terms_of


def known_live(member: Member) -> Member:
    """The policy without oracles: estimates and play-outs replace true run times and waits, which are not known.

    The play-outs are the engine's, where `plays_out` is true.
    """
    values = dict(member.values)
    if values.get("lengths") == "oracle":
        values["lengths"] = "estimate"
    if plays_out(values):
        values["waits"] = "none"
    return replace(member, values=values)


def plays_out(values: Mapping[str, Value | None]) -> bool:
    """Whether play-outs decide if a job would wait in vain."""
    return values.get("waits") in ("oracle", "simulated")


def live_terms(offers: Sequence[Offer], *, shares: bool = False) -> Records[Terms]:
    """The offers as the core knows them, without chance, which the cloud reports.

    shares: jobs start on machines once the cloud reports these, and has given them names: so none has booted
    at the very instant of its order.
    """
    if not offers:
        return blank(Terms, 0)
    terms = terms_of(Cluster("offers", (), offers=tuple(offers)))
    columns = as_array(terms)
    columns["drawn"] = 0
    if shares:
        columns["boot_s"] = np.maximum(columns["boot_s"], EARLY_OR_LATE_S)
    return terms


def shapes_of(offers: Sequence[Offer]) -> Shapes:
    """The shapes of machines on offer, by offer."""
    return tuple(Shape(capacity_amounts(*offer.amounts), offer.labels, offer.family) for offer in offers)


def rooms_of(shapes: Shapes) -> list[Room]:
    """The same without the labels."""
    return [Room(shape.amounts, shape.family) for shape in shapes]


def units_on(
    tasks: JobTasks, unit: UnitDemand, machine: Room, count: int
) -> tuple[tuple[int, ...], int] | None:
    """Units on each of `count` equal machines, and units a task there; null: the machines do not hold the job.

    Tasks stay whole where they can; else units are spread.
    """
    of_task, of_unit = tasks.demand_on(machine.family), unit.amounts_on(machine.family)
    for amounts, each, most in ((of_task, tasks.units_each, tasks.count), (of_unit, 1, tasks.units)):
        held = min(most, times_on(machine, amounts))
        if held * count >= most:
            full, rest = divmod(most, held)
            counts = [held] * full + [rest] * (rest > 0)
            units = tasks.units_in(counts) if each == tasks.units_each else counts
            return tuple(units) + (0,) * (count - len(counts)), each
    return None


def times_on(machine: Room, demand: Amounts | None) -> int:
    """The number of times that a demand fits on a machine; null: nothing can run there."""
    if demand is None:
        return 0
    return min(room // need for room, need in zip(machine.amounts, demand, strict=True) if need > 0)


def is_held_by(tasks: JobTasks, unit: UnitDemand, machines: Sequence[Room]) -> bool:
    """Whether one machine, or several of the largest, can hold a job (`core.nodes.machines.dedicated`).

    The largest is the one with the most cores on which the job can run at all.
    """
    if any(units_on(tasks, unit, machine, 1) is not None for machine in machines):
        return True
    suited = [machine for machine in machines if machines_holding(tasks, machine) > 0]
    if not suited:
        return False
    largest = max(suited, key=lambda machine: machine.amounts[1])
    return units_on(tasks, unit, largest, machines_holding(tasks, largest)) is not None


def machines_holding(tasks: JobTasks, machine: Room) -> int:
    """The number of equal machines that hold a whole job; 0: no number does."""
    demand = tasks.demand_on(machine.family)
    if demand is None:
        return 0
    needs = [
        (tasks.count * need, room) for need, room in zip(demand, machine.amounts, strict=True) if need > 0
    ]
    return 0 if any(room == 0 for _, room in needs) else max(-(-need // room) for need, room in needs)
