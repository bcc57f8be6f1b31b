"""Provisioning policies of one order that are simulated as one as long as they decide alike.

A family is a set of members, one bit each: provisioning policy times placement. The family is itself a policy whose
first parameter is the set. If two members would decide differently, its hooks give no answer, and the simulation
divides the set in two (`foresight.portfolio.simulate`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from betimes.core.nodes.columns import NodesView
from betimes.core.nodes.demands import tasks_that_fit
from betimes.core.nodes.machines.provisioning import NO_ANSWER
from betimes.core.nodes.machines.rented import paid_until_s
from betimes.core.nodes.rules import NodesRules
from betimes.core.placements import Node
from betimes.kernels import Floats, Ints, Records, is_hook_ready, kernel
from betimes.policies.hooks import compiled
from betimes.policies.nodes.hooks import Member
from betimes.policies.nodes.provisioning import (
    PAID_TIME,
    PROVISIONING,
    order_balance,
    order_by_ends,
    order_for_all,
    order_for_largest,
    order_for_urgent,
    score_by_paid_time,
)

NUMBER = len(PROVISIONING)
PLACEMENTS = len(PAID_TIME.choices)
OF_ONE_PROVISIONING = (1 << PLACEMENTS) - 1
OF_FIRST_PLACEMENT = sum(1 << PLACEMENTS * number for number in range(NUMBER))


def bit_of(member: Member) -> int | None:
    """A member's bit in its family; None: the member is not a built-in provisioning policy."""
    for number, policy in enumerate(PROVISIONING):
        if member.policy is policy:
            placement = PAID_TIME.choices.index(str(member.values[PAID_TIME.name]))
            return number * PLACEMENTS + placement
    return None


def params_of(bits: Iterable[int]) -> Floats:
    """The parameters of a family of these members."""
    return np.array([float(sum(1 << bit for bit in bits))])


def bits_of(params: Floats) -> list[int]:
    """The members of a family with these parameters."""
    members = int(params[0])
    return [bit for bit in range(PLACEMENTS * NUMBER) if (members >> bit) & 1]


def rules_of(rules: NodesRules) -> NodesRules:
    """The rules of a family, from those of one of its members."""
    return rules.replaced(**compiled_hooks())


def compiled_hooks() -> dict[str, Any]:
    """The hooks of families, compiled or loaded."""
    return {name: compiled("portfolio", function, NodesRules, name) for name, function in _hooks().items()}


def is_ready() -> bool:
    """Whether the hooks are compiled, so that `compiled_hooks` only loads them."""
    return all(is_hook_ready(function, NodesRules, name) for name, function in _hooks().items())


def _hooks() -> dict[str, Any]:
    return {"place": place_alike, "provision": order_alike}


@kernel
def first_of(members: int) -> int:
    """The number of the first member of a non-empty set."""
    number = 0
    while (members >> number) & 1 == 0:
        number += 1
    return number


@kernel
def with_same_placement(members: int) -> int:
    """The members of the set that place like its first member."""
    return members & (OF_FIRST_PLACEMENT << (first_of(members) % PLACEMENTS))


@kernel
def with_same_orders(view: NodesView, now: float, waiting: Ints, orders: Ints, members: int) -> int:
    """The members of the set that order the same machines as its first member; `orders` becomes that order.

    Orders beyond the number of rentable machines are equal.
    """
    first, same, cluster = first_of(members) // PLACEMENTS, 0, view.cluster[0]
    offers = len(view.offers)
    for number in range(first, NUMBER):
        of_this = members & (OF_ONE_PROVISIONING << number * PLACEMENTS)
        if of_this != 0:
            for offer in range(offers):
                orders[offer] = 0
            _order(view, now, waiting, orders, number)
            is_same = True
            for offer in range(offers):
                terms = view.offers[offer]
                most = min(terms.capacity - terms.rented, cluster.quota - cluster.rented)
                wanted = min(max(orders[offer], 0), most)
                if number == first:
                    orders[offers + offer] = wanted
                is_same = is_same and wanted == orders[offers + offer]
            if is_same:
                same |= of_this
    for offer in range(offers):
        orders[offer] = orders[offers + offer]
    return same


@kernel
def _order(view: NodesView, now: float, waiting: Ints, orders: Ints, number: int) -> None:
    """Write the orders of the provisioning policy of this number."""
    if number == 0:
        order_for_all(view, now, waiting, orders)
    elif number == 1:
        order_balance(view, now, waiting, orders)
    elif number == 2:
        order_by_ends(view, now, waiting, orders)
    elif number == 3:
        order_for_largest(view, now, waiting, orders)
    else:
        order_for_urgent(view, now, waiting, orders)


@kernel
def order_alike(view: NodesView, now: float, waiting: Ints, orders: Ints) -> None:
    """Provision: as all members do; no answer where they differ."""
    members = int(view.params[0])
    if with_same_orders(view, now, waiting, orders, members) != members:
        orders[0] = NO_ANSWER


@kernel
def place_alike(view: NodesView, nodes: Records[Node], slot: int, fitting: Ints, score: Floats) -> None:
    """Place: as all members do; no answer where they may differ."""
    members = int(view.params[0])
    if with_same_placement(members) != members and not _is_all_the_same(view, nodes, slot, fitting):
        score[0] = math.nan
        return
    score_by_paid_time(view, fitting, score, first_of(members) % PLACEMENTS)


@kernel
def _is_all_the_same(view: NodesView, nodes: Records[Node], slot: int, fitting: Ints) -> bool:
    """Whether all placements take the same nodes: the job needs all, or the paid time of all ends together."""
    room, equal = 0, True
    for k in range(len(fitting)):
        room += tasks_that_fit(view, nodes, fitting[k], view.needs[slot])
        if view.machines[fitting[k]].offer < 0 or (
            k > 0 and paid_until_s(view, fitting[k]) != paid_until_s(view, fitting[0])
        ):
            equal = False
    return equal or room == view.needs[slot].tasks
