"""Provisioning policies: how many machines to rent for the jobs that wait, decided at ticks.

Machines are those of the first offer. Source: Deng et al., portfolio scheduling (JSSPP 2013); spec/portfolio.md C.3.
"""

from __future__ import annotations

from typing import Any

from betimes.core.nodes.believed_ends import believed_end
from betimes.core.nodes.columns import NodesView
from betimes.core.nodes.demands import demand_in
from betimes.core.nodes.machines.rented import BOOTING, RUNNING, SETTING_UP, paid_until_s
from betimes.core.placements import Node
from betimes.core.work import believed_left
from betimes.kernels import Floats, Ints, Records, kernel
from betimes.policies.hooks import Parameter
from betimes.policies.nodes.hooks import ORDER, NodesPolicy

LEAST_RUN_S = 10.0  # of bounded slowdown
URGENT = 2.0  # bounded slowdown from which on machines are rented for a job, under odx

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
    """Place: by the number, or by the time left that is paid for; the first parameter says which."""
    score_by_paid_time(view, fitting, score, int(view.params[0]))


@kernel
def score_by_paid_time(view: NodesView, fitting: Ints, score: Floats, which: int) -> None:
    """The score of each node under the choice of `PAID_TIME` that has this number."""
    for k in range(len(fitting)):
        score[k] = float(fitting[k])
        if which > FIRST and view.machines[fitting[k]].offer >= 0:
            left_s = paid_until_s(view, fitting[k]) - view.pool[0].now
            score[k] = left_s if which == BEST else -left_s


@kernel
def machines_wanted(view: NodesView, slot: int) -> int:
    """Machines that a job needs: one for each task; none if those of the offer do not hold one."""
    need, terms = view.needs[slot], view.offers[0]
    gpu, cpu, memory = demand_in(view, need, terms.family)
    holds_one = gpu <= terms.gpu and cpu <= terms.cpu and memory <= terms.memory
    return need.tasks if holds_one and need.labels & ~terms.labels == 0 else 0


@kernel
def wanted(view: NodesView, waiting: Ints) -> int:
    """Machines that all waiting jobs together need."""
    count = 0
    for k in range(len(waiting)):
        count += machines_wanted(view, waiting[k])
    return count


@kernel
def not_busy(view: NodesView) -> int:
    """Rented machines that are idle, or on their way."""
    count = 0
    for number in range(len(view.machines)):
        machine = view.machines[number]
        if machine.offer >= 0 and (
            machine.state in (BOOTING, SETTING_UP) or (machine.state == RUNNING and machine.residents < 0)
        ):
            count += 1
    return count


@kernel
def order_for_all(view: NodesView, now: float, waiting: Ints, orders: Ints) -> None:
    """Provision: a machine for every task that waits."""
    orders[0] = wanted(view, waiting) - not_busy(view)


@kernel
def order_balance(view: NodesView, now: float, waiting: Ints, orders: Ints) -> None:
    """Provision: as many machines in all as tasks wait."""
    orders[0] = wanted(view, waiting) - view.cluster[0].rented


@kernel
def order_by_ends(view: NodesView, now: float, waiting: Ints, orders: Ints) -> None:
    """Provision: for every task that waits, less what is believed to end before a machine could be up."""
    soon_s, ending = now + view.offers[0].boot_s + view.offers[0].setup_s, 0
    for at in range(view.pool[0].holders):
        slot = view.holders[at]
        if believed_end(view, slot) <= soon_s:
            ending += view.needs[slot].tasks
    orders[0] = wanted(view, waiting) - not_busy(view) - ending


@kernel
def order_for_largest(view: NodesView, now: float, waiting: Ints, orders: Ints) -> None:
    """Provision: for the largest job that waits."""
    largest = 0
    for k in range(len(waiting)):
        largest = max(largest, machines_wanted(view, waiting[k]))
    orders[0] = largest - not_busy(view)


@kernel
def order_for_urgent(view: NodesView, now: float, waiting: Ints, orders: Ints) -> None:
    """Provision: for the jobs whose bounded slowdown is above `URGENT`, if they started now."""
    count = 0
    for k in range(len(waiting)):
        slot = waiting[k]
        run_s = max(believed_left(view, slot, now), LEAST_RUN_S)
        if (now - view.jobs[slot].submit_s + run_s) / run_s > URGENT:
            count += machines_wanted(view, slot)
    orders[0] = count - not_busy(view)


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
        "oda", "Rents for every job that waits.", "What if no job had to wait for a machine?", order_for_all
    ),
    _policy(
        "odb",
        "Rents until there are as many machines as the waiting jobs need.",
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
