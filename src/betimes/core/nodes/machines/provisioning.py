"""A tick of a policy that decides about machines at regular times: rent its orders, give idle machines back.

Source: portfolio scheduling (JSSPP 2013); spec/portfolio.md C.2.
"""

from __future__ import annotations

import math

from betimes.core.nodes.columns import NodesState, NodesView, view_of
from betimes.core.nodes.demands import demand_in
from betimes.core.nodes.machines.rented import RUNNING, paid_until_s, release, rent, see_ends
from betimes.core.nodes.passes.find_nodes import may_any_fit, show
from betimes.core.nodes.queue import all_waiting
from betimes.core.nodes.rules import NodesRules
from betimes.core.nodes.timers import TICK, set_policy_timer
from betimes.core.placements import CLOSED_SOON
from betimes.core.shares import keep_within_limits
from betimes.core.status import BAD_ORDERS, DONE, NEED_FATES, NEED_NODES, REFUSED
from betimes.kernels import kernel

NOT_DUE, DUE, ORDERED = range(3)

NO_ANSWER = -(1 << 62)
"""A policy's order without a number of machines: the run cannot go on."""


@kernel
def first_tick(tick_s: float, at_s: float) -> float:
    """The first tick that is no earlier than `at_s`."""
    number = math.floor(at_s / tick_s)
    while number * tick_s < at_s:
        number += 1
    return number * tick_s


@kernel
def holds_a_task(view: NodesView, offer: int, slot: int) -> bool:
    """Whether a machine of this offer may be rented for a task of the job, and holds it."""
    need, terms = view.needs[slot], view.offers[offer]
    if need.lasts_s > view.cluster[0].longest_run_s:
        return False
    gpu, cpu, memory = demand_in(view, need, terms.family)
    holds = gpu <= terms.gpu and cpu <= terms.cpu and memory <= terms.memory
    return holds and need.labels & ~terms.labels == 0


@kernel
def order_machines(state: NodesState, rules: NodesRules) -> int:
    """Rent the policy's orders for waiting jobs, and give back idle machines that are about to cost again.

    Returns DONE, REFUSED + why, or NEED_NODES or NEED_FATES: the same call then goes on. Sets the next tick.
    """
    cluster, now = state.cluster[0], state.pool[0].now
    see_ends(state)
    waiting = cluster.waiting  # those that may start
    if len(state.users) > 0:
        waiting = keep_within_limits(state, state.chosen, all_waiting(state, state.chosen))
    if cluster.ticks == DUE:
        for offer in range(len(state.offers)):
            state.orders[offer] = 0
        # With several types one may have to go for another, so that orders matter even where there is no room.
        if waiting > 0 and (_can_rent(state) or len(state.offers) > 1):
            count = keep_within_limits(state, state.chosen, all_waiting(state, state.chosen))
            if cluster.guarded == 1:
                show(state, state.nodes)
            rules.provision(view_of(state), now, state.chosen[:count], state.orders)
            for offer in range(len(state.offers)):
                if state.orders[offer] == NO_ANSWER:
                    state.pool[0].offender = state.chosen[0]
                    return REFUSED + BAD_ORDERS
        cluster.ticks = ORDERED
    first, is_short = _offer_to_begin_with(state, rules), False
    for k in range(-1, len(state.offers)):
        offer = k if k >= 0 else first
        while offer >= 0 and state.orders[offer] > 0:
            number = rent(state, offer)
            if number == NEED_NODES or number == NEED_FATES:
                return number
            is_short = is_short or (number < 0 and offer == first)
            state.orders[offer] = state.orders[offer] - 1 if number >= 0 else 0
    next_s = math.inf  # whatever else happens sets another tick
    if waiting > 0:
        next_s = max(now + rules.tick_s, cluster.select_s)
        if _can_rent(state) or may_any_fit(state):
            next_s = now + rules.tick_s
    for number in range(len(state.machines)):
        machine = state.machines[number]
        if machine.residents < 0 and machine.offer >= 0 and machine.state == RUNNING:  # most are busy
            until_s = paid_until_s(state, number)
            # One that has not been used yet was rented for jobs that still wait. Given back now, it would be rented
            # again at the next tick: under short billing steps without end, where machines come up one after another.
            # But it must not keep the job that is next from a machine that it fits on.
            is_for_waiting = (
                waiting > 0 and machine.task_s == 0.0 and not (is_short and machine.offer != first)
            )
            is_over = state.nodes[number].up == CLOSED_SOON  # its lease, for good
            if is_over or (until_s - now <= rules.tick_s and not is_for_waiting):
                release(state, number)
            else:
                next_s = min(
                    next_s, max(now + rules.tick_s, first_tick(rules.tick_s, until_s - rules.tick_s))
                )
    cluster.ticks = NOT_DUE
    set_policy_timer(state, next_s if next_s == math.inf else first_tick(rules.tick_s, next_s), TICK)
    return DONE


@kernel
def _offer_to_begin_with(state: NodesState, rules: NodesRules) -> int:
    """The offer of the next job, if the quota does not allow for all orders: it holds up all others.

    -1: there is one offer only, all may be rented, or none holds the job.
    """
    cluster, wanted = state.cluster[0], 0
    for offer in range(len(state.offers)):
        wanted += max(0, state.orders[offer])
    if len(state.offers) < 2 or cluster.waiting == 0 or cluster.rented + wanted <= cluster.quota:
        return -1
    count = keep_within_limits(state, state.chosen, all_waiting(state, state.chosen))
    if count == 0:
        return -1
    view, next_one = view_of(state), 0
    if rules.dynamic and len(state.users) == 0:  # they stand in any order
        rules.rank(view, state.pool[0].now, state.chosen[:count], state.score[:count])
        for k in range(1, count):
            if state.score[k] < state.score[next_one] or (
                state.score[k] == state.score[next_one]
                and state.jobs[state.chosen[k]].seq < state.jobs[state.chosen[next_one]].seq
            ):
                next_one = k
    best = -1
    for offer in range(len(state.offers)):
        if state.orders[offer] > 0 and holds_a_task(view, offer, state.chosen[next_one]):
            if best < 0 or state.offers[offer].usd_per_h < state.offers[best].usd_per_h:
                best = offer
    return best


@kernel
def _can_rent(state: NodesState) -> bool:
    """Whether there is any machine to be rented."""
    if state.cluster[0].rented >= state.cluster[0].quota:
        return False
    for offer in range(len(state.offers)):
        if state.offers[offer].rented < state.offers[offer].capacity:
            return True
    return False
