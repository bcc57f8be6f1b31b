"""No-Packing: every task has its own machine, and stays there. Source: Eva, section 6 (baseline)."""

from __future__ import annotations

from betimes.policies.packing.boxes import Box, bins, standing
from betimes.policies.packing.plan import Plan
from betimes.policies.packing.problem import Round
from betimes.policies.packing.reservation_price import ReservationPrices


class NoPacking:
    """A new machine of the cheapest type that holds it for each task without one."""

    def plan(self, round_: Round) -> Plan:
        """The machines to have from now on. Raises ClusterError for a task that fits no type."""
        problem = round_.problem
        prices = ReservationPrices(problem.catalogue)
        new = [
            Box(problem.catalogue.types[prices.of(task).type], None, [task])
            for task in problem.tasks
            if task.machine is None
        ]
        return Plan(bins([*standing(problem), *new]), reason="no-packing")
