"""Provisioning policies: the number of machines to rent for waiting jobs, decided at ticks.

Each waiting task counts as a machine of the cheapest offer that holds it. Orders are counted per offer; a negative
order means surplus machines. Source: Deng et al., portfolio scheduling (JSSPP 2013); spec/portfolio.md C.3.
"""

from __future__ import annotations

from typing import Any

from betimes.core.nodes.believed_ends import believed_end
from betimes.core.nodes.columns import NodesView
from betimes.core.nodes.machines.provisioning import holds_a_task
from betimes.core.nodes.machines.rented import BOOTING, RUNNING, SETTING_UP, paid_until_s
from betimes.core.placements import Node, stays_open
from betimes.core.work import believed_left
from betimes.kernels import Floats, Ints, Records, kernel
from betimes.policies.hooks import Parameter
from betimes.policies.nodes.hooks import ORDER, NodesPolicy

LEAST_RUN_S = 10.0  # of bounded slowdown
URGENT = 2.0  # bounded slowdown above which machines are rented for a job, under odx

PAID_TIME = Parameter(
    "placement",
    "which idle machine: that with the lowest number, or the least or most time left that is paid for",
    "first",
    choices=("first", "best", "worst"),
)
FIRST, BEST, WORST = range(len(PAID_TIME.choices))

TICK_S = Parameter("tick", "seconds between two decisions", 20.0, low=1e-3, high=1e6, is_duration=True)


@kernel
def by_paid_time(view: NodesView, nodes: Records[Node], slot: int, fitting: Ints, score: Floats) -> None:
    """Place: by the node's number or by its remaining paid time, as the first parameter selects."""
    score_by_paid_time(view, fitting, score, int(view.params[0]))


@kernel
def score_by_paid_time(view: NodesView, fitting: Ints, score: Floats, which: int) -> None:
    """Write the score of each node under choice number `which` of `PAID_TIME`."""
    for k in range(len(fitting)):
        score[k] = float(fitting[k])
        if which > FIRST and view.machines[fitting[k]].offer >= 0:
            left_s = paid_until_s(view, fitting[k]) - view.pool[0].now
            score[k] = left_s if which == BEST else -left_s


@kernel
def cheapest_for(view: NodesView, slot: int, orders: Ints) -> int:
    """The cheapest offer that holds a task of the job and has machines left beyond `orders`; -1: none."""
    best = -1
    for offer in range(len(view.offers)):
        terms = view.offers[offer]
        if orders[offer] < terms.capacity - terms.rented and holds_a_task(view, offer, slot):
            if best < 0 or terms.usd_per_h < view.offers[best].usd_per_h:
                best = offer
    return best


@kernel
def order_for(view: NodesView, slot: int, orders: Ints) -> None:
    """Order a machine for each task of the job: from the cheapest offer while any are left, then from the next."""
    left = view.needs[slot].tasks
    while left > 0:
        offer = cheapest_for(view, slot, orders)
        if offer < 0:
            return
        terms = view.offers[offer]
        count = min(left, terms.capacity - terms.rented - orders[offer])
        orders[offer] += count
        left -= count


@kernel
def without_idle(view: NodesView, waiting: Ints, orders: Ints) -> None:
    """Subtract from each offer's orders the rented machines that are on their way, or idle for the next job."""
    for number in range(len(view.machines)):
        machine = view.machines[number]
        if machine.offer >= 0 and (
            machine.state in (BOOTING, SETTING_UP)
            or (machine.state == RUNNING and machine.residents < 0 and _is_of_use(view, number, waiting))
        ):
            orders[machine.offer] -= 1


@kernel
def _is_of_use(view: NodesView, number: int, waiting: Ints) -> bool:
    """Whether an idle machine is kept long enough for the next of the jobs that its offer holds.

    One that is not would keep that job from a new machine for as long as the old one is there.
    """
    if view.nodes[number].up <= 1:
        return True
    for k in range(len(waiting)):
        if holds_a_task(view, view.machines[number].offer, waiting[k]):
            return stays_open(view.nodes[number], view.needs[waiting[k]])
    return True


@kernel
def order_for_all(view: NodesView, now: float, waiting: Ints, orders: Ints) -> None:
    """Provision: a machine for every waiting task, whatever is idle or on its way, so again at each tick."""
    for k in range(len(waiting)):
        order_for(view, waiting[k], orders)


@kernel
def order_balance(view: NodesView, now: float, waiting: Ints, orders: Ints) -> None:
    """Provision: as many idle machines and machines on their way as there are waiting tasks."""
    without_idle(view, waiting, orders)
    for k in range(len(waiting)):
        order_for(view, waiting[k], orders)


@kernel
def order_by_ends(view: NodesView, now: float, waiting: Ints, orders: Ints) -> None:
    """Provision: for every waiting task, less tasks believed to end before a machine could be up."""
    without_idle(view, waiting, orders)
    for at in range(view.pool[0].holders):
        slot = view.holders[at]
        offer = max(0, cheapest_for(view, slot, orders))
        if believed_end(view, slot) <= now + view.offers[offer].boot_s + view.offers[offer].setup_s:
            orders[offer] -= view.needs[slot].tasks
    for k in range(len(waiting)):
        order_for(view, waiting[k], orders)


@kernel
def order_for_largest(view: NodesView, now: float, waiting: Ints, orders: Ints) -> None:
    """Provision: for the largest waiting job."""
    largest, tasks = -1, 0
    for k in range(len(waiting)):
        slot = waiting[k]
        if view.needs[slot].tasks > tasks and cheapest_for(view, slot, orders) >= 0:
            largest, tasks = slot, view.needs[slot].tasks
    without_idle(view, waiting, orders)
    if largest >= 0:
        order_for(view, largest, orders)


@kernel
def order_for_urgent(view: NodesView, now: float, waiting: Ints, orders: Ints) -> None:
    """Provision: for the jobs whose bounded slowdown is above `URGENT`, if they started now."""
    without_idle(view, waiting, orders)
    for k in range(len(waiting)):
        slot = waiting[k]
        run_s = max(believed_left(view, slot, now), LEAST_RUN_S)
        if (now - view.jobs[slot].submit_s + run_s) / run_s > URGENT:
            order_for(view, slot, orders)


def _policy(name: str, summary: str, question: str, hook: Any) -> NodesPolicy:
    return NodesPolicy(
        name=name,
        summary=summary,
        question=question,
        paper="portfolio scheduling (JSSPP 2013)",
        parameters=(PAID_TIME, ORDER, TICK_S),
        place=by_paid_time,
        provision=hook,
    )


PROVISIONING = (
    _policy(
        "oda",
        "Rents for every job that waits, again at each tick, whatever is on its way: the baseline.",
        "What if no job had to wait for a machine?",
        order_for_all,
    ),
    _policy(
        "odb",
        "Rents for every job that waits, less the machines that are idle or on their way.",
        "How many machines are in balance with the queue?",
        order_balance,
    ),
    _policy(
        "ode",
        "Rents for the jobs that wait, less what ends before a machine could be up.",
        "What do run times save on rents?",
        order_by_ends,
    ),
    _policy(
        "odm",
        "Rents for the largest job that waits.",
        "How few machines let every job start in turn?",
        order_for_largest,
    ),
    _policy(
        "odx",
        "Rents for the jobs that have waited for about as long as they run.",
        "Which jobs suffer enough to be worth a machine?",
        order_for_urgent,
    ),
)
