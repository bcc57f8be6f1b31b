"""Synergy, extended to rent: a new task goes where worth over price is highest, and then stays.

Source: Mohan et al. (OSDI'22), as Eva's evaluation extends it (section 6, baseline).
"""

from __future__ import annotations

from betimes.policies.packing.filling import Filled
from betimes.policies.packing.plan import Plan
from betimes.policies.packing.planners.reconfiguration import keep, kept_bins
from betimes.policies.packing.problem import Round
from betimes.policies.packing.throughput import DEFAULT_PAIR, Throughput, ThroughputTable
from betimes.policies.packing.valuation import Valuation, level, valued


class Synergy:
    """Best fit without migration, aware of interference; learns the same table as Eva, unless `known` is given."""

    def __init__(self, *, default_pair: float = DEFAULT_PAIR, known: Throughput | None = None) -> None:
        self.table = ThroughputTable(default_pair)
        self.throughput: Throughput = self.table if known is None else known
        self._valuation: Valuation | None = None

    def plan(self, round_: Round) -> Plan:
        """The machines to have from now on. Raises ClusterError for a task that fits no type."""
        problem = round_.problem
        self.table.observe_round(problem, round_.reports)
        changed = self.table.take_changed()
        self._valuation = valuation = valued(self._valuation, problem, self.throughput, "none", changed)
        busy = [machine for machine, tasks in problem.residents.items() if tasks]
        machines = keep(valuation, busy, lambda _: True)
        for task in problem.tasks:
            if task.machine is None:
                _place(task.id, machines, valuation)
        return Plan(kept_bins(machines), reason="synergy")


def _place(task: int, machines: list[Filled], valuation: Valuation) -> None:
    """Place a task where worth over price, then alignment, is highest, among machines then worth their price."""
    group = valuation.group_of[task]
    best: tuple[float, int] | None = None
    chosen: Filled | None = None
    worth = 0
    for machine in machines:
        usd_per_h = valuation.catalogue.types[machine.contents.type].usd_per_h
        found = machine.contents.adding(group)
        if found is not None and found[0] >= level(usd_per_h):
            key = (found[0] / usd_per_h, found[1])
            if best is None or key > best:
                best, chosen, worth = key, machine, found[0]
    if chosen is None:
        chosen = Filled(None, valuation.holding(valuation.groups[group].price_type, [task]))
        machines.append(chosen)
    else:
        chosen.contents = chosen.contents.plus(group, worth)
    chosen.tasks.append(task)
