"""Partial Reconfiguration: new tasks, and those on machines that are not worth their price, are packed anew; all else
stays. Source: Eva, section 4.5, and as released.
"""

from __future__ import annotations

from betimes.policies.packing.filling import Waiting, top_up
from betimes.policies.packing.plan import Bin
from betimes.policies.packing.planners.full_reconfiguration import (
    DownSizing,
    FillRunning,
    keep,
    kept_bins,
    pack,
)
from betimes.policies.packing.problem import Machine, Problem
from betimes.policies.packing.valuation import Valuation, level


def partial_reconfiguration(
    valuation: Valuation,
    *,
    fill_running: FillRunning = "never",
    down_sizing: DownSizing = "never",
    refill: bool = True,
    beside: Valuation | None = None,
    moves: bool = True,
) -> tuple[Bin, ...]:
    """Machines that are worth their price stay with their tasks, and may get more; Algorithm 1 packs the others.

    `beside` values what is on machines, if not `valuation`; without `moves` all machines with tasks stay, whatever they
    are worth; the other arguments are those of full_reconfiguration.
    """
    problem = valuation.problem
    staying = {
        each.id
        for each in problem.machines
        if (_stays(beside or valuation, problem, each) if moves else problem.residents[each.id])
    }
    waiting = Waiting(valuation, (task for task in problem.tasks if task.machine not in staying))
    stays = keep(beside or valuation, staying, lambda _: True)
    if fill_running != "never":
        top_up(waiting, stays, fill_running == "cost-test")
    free = [each for each in problem.machines if each.running and each.id not in staying]
    bins = pack(valuation, waiting, free if refill else (), down_sizing)
    return (*kept_bins(stays), *bins)


def _stays(valuation: Valuation, problem: Problem, machine: Machine) -> bool:
    """Whether a machine has a pinned task, or is worth its price, or is the one that sets its only task's price."""
    tasks = problem.residents[machine.id]
    if machine.id in problem.pinned or not tasks:
        return bool(tasks)
    place = problem.catalogue.place[machine.type]
    if valuation.holding(place, tasks).level >= level(problem.catalogue.types[place].usd_per_h):
        return True
    return len(tasks) == 1 and valuation.groups[valuation.group_of[tasks[0]]].price_type == place
