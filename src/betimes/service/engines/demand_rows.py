"""What tasks need on each family of machines, as live nodes have it: rows of `State.demands` that jobs share.

A table is only ever added to, so that copies of the state that are played forward can share it. Where it has no room
left, another takes its place, with the rows of the jobs that are there.
"""

from __future__ import annotations

from collections.abc import Collection

from betimes.cluster.resources import NOWHERE, Amounts
from betimes.cluster.tasks import JobTasks
from betimes.core.nodes.columns import TaskDemand
from betimes.kernels import Records, blank

Needed = tuple[Amounts, ...]
"""What a task needs on each family, in the order of their numbers; `NOWHERE` where it cannot run."""


def needed_on(tasks: JobTasks, families: Collection[str]) -> Needed:
    """What a job's tasks need on each of these families."""
    return tuple(tasks.demand_on(family) or (NOWHERE, NOWHERE, NOWHERE) for family in families)


class DemandRows:
    """A table with room for so many different demands, each on `families` families."""

    def __init__(self, families: int, room: int) -> None:
        self.table: Records[TaskDemand] = blank(TaskDemand, families * (1 + room))
        self._families = families
        self._first_of: dict[Needed, int] = {}

    def knows(self, needed: Needed, least: Amounts) -> bool:
        """Whether what a job needs has a row, or needs none."""
        return set(needed) == {least} or needed in self._first_of

    def first_of(self, needed: Needed, least: Amounts) -> int | None:
        """`Need.demands` of a job that needs this, 0 where it is `least` everywhere; null: there is no room for it."""
        if set(needed) == {least}:
            return 0
        found = self._first_of.get(needed)
        if found is not None:
            return found
        first = self._families * (1 + len(self._first_of))
        if first == len(self.table):
            return None
        for at, (gpu, cpu, memory) in enumerate(needed, first):
            row = self.table[at]
            row.gpu, row.cpu, row.memory = gpu, cpu, memory
        return self._first_of.setdefault(needed, first)
