"""The demand of a task on a machine: the same on all machines, or that on the machine's family (`DemandRows`).

`Need.demands` tells the two apart, so that jobs of one demand cost no more than that look. Where demands differ, `Need`
has the least that a task needs of each resource on any family: enough to show that it fits nowhere, as the directory of
the queue does, and never that it fits. On a family on which a job cannot run it needs `NOWHERE`, more than any machine
has.
"""

from __future__ import annotations

from betimes.cluster.resources import NOWHERE, Amounts
from betimes.core.nodes.columns import Need, NodesState, NodesView, TaskDemand
from betimes.core.placements import Free, Node, fits, give, how_many_within, take, takes
from betimes.kernels import Records, blank, kernel

Needed = tuple[tuple[Amounts, float], ...]
"""A task's demand on each family, in the order of their numbers, and its speed; `NOWHERE` where it cannot run."""


class DemandRows:
    """`State.demands`: a table with room for so many different demands, each on `families` families."""

    def __init__(self, families: int, room: int) -> None:
        self.table: Records[TaskDemand] = blank(TaskDemand, families * (1 + room))
        self._families = families
        self._first_of: dict[Needed, int] = {}

    def knows(self, needed: Needed, least: Amounts) -> bool:
        """Whether a job's demand has a row, or needs none."""
        return set(needed) == {(least, 1.0)} or needed in self._first_of

    def first_of(self, needed: Needed, least: Amounts) -> int | None:
        """`Need.demands` of a job with this demand, 0 where it is `least` everywhere; null: there is no room for it."""
        if set(needed) == {(least, 1.0)}:
            return 0
        found = self._first_of.get(needed)
        if found is not None:
            return found
        first = self._families * (1 + len(self._first_of))
        if first == len(self.table):
            return None
        for at, ((gpu, cpu, memory), speed) in enumerate(needed, first):
            row = self.table[at]
            row.gpu, row.cpu, row.memory, row.speed = gpu, cpu, memory, speed
        return self._first_of.setdefault(needed, first)


@kernel
def demand_in(state: NodesState | NodesView, need: Need, family: int) -> tuple[int, int, int]:
    """A task's demand on machines of a family: thousandths of GPUs, thousandths of cores, MiB."""
    if need.demands == 0:
        return need.gpu, need.cpu, need.memory
    demand = state.demands[need.demands + family]
    return demand.gpu, demand.cpu, demand.memory


@kernel
def demand_on(state: NodesState | NodesView, need: Need, number: int) -> tuple[int, int, int]:
    """A task's demand on a machine: thousandths of GPUs, thousandths of cores, MiB."""
    return demand_in(state, need, state.machines[number].family)


@kernel
def runs_in(state: NodesState | NodesView, need: Need, family: int) -> bool:
    """Whether the job can run on machines of a family at all, room aside."""
    return need.demands == 0 or state.demands[need.demands + family].cpu < NOWHERE


@kernel
def task_fits(state: NodesState | NodesView, nodes: Records[Node], number: int, need: Need) -> bool:
    """Whether a node takes a task of the job, and has room for one."""
    if need.demands == 0:
        return fits(nodes[number], need)
    return tasks_that_fit(state, nodes, number, need) > 0


@kernel
def tasks_that_fit(state: NodesState | NodesView, nodes: Records[Node], number: int, need: Need) -> int:
    """The number of the job's tasks that a node takes and has room for."""
    return tasks_within(state, nodes[number], number, need) if takes(nodes[number], need) else 0


@kernel
def tasks_within(state: NodesState | NodesView, free: Free, number: int, need: Need) -> int:
    """The number of the job's tasks that fit into the free resources of a machine, if it takes any."""
    return room_within(state, free, number, need, need.tasks)


@kernel
def room_within(state: NodesState | NodesView, free: Free, number: int, need: Need, most: int) -> int:
    """The number of tasks like the job's, at most `most`, that fit into the free resources of a machine."""
    if need.demands == 0:
        return how_many_within(free, need, most)
    demand = state.demands[need.demands + state.machines[number].family]
    return how_many_within(free, demand, most)


@kernel
def take_on(state: NodesState | NodesView, free: Free, number: int, need: Need, tasks: int) -> None:
    """Take the demand of `tasks` of the job's tasks from the free resources of a machine."""
    if need.demands == 0:
        take(free, need, tasks)
    else:
        take(free, state.demands[need.demands + state.machines[number].family], tasks)


@kernel
def give_on(state: NodesState | NodesView, node: Node, number: int, need: Need, tasks: int) -> None:
    """Add the demand of `tasks` of the job's tasks to the free resources of a machine."""
    if need.demands == 0:
        give(node, need, tasks)
    else:
        give(node, state.demands[need.demands + state.machines[number].family], tasks)


@kernel
def count_held(state: NodesState, need: Need, number: int, tasks: int, held_s: float) -> None:
    """Count the use of tasks that leave a machine after `held_s`, if the job's demand differs by family."""
    if need.demands == 0:
        return
    count_in(state, need, state.machines[number].family, tasks * held_s)


@kernel
def count_in(state: NodesState, need: Need, family: int, task_s: float) -> None:
    """Count the use of a job's tasks on machines of a family for `task_s`, summed over the tasks."""
    gpu, cpu, memory = demand_in(state, need, family)
    cluster = state.cluster[0]
    cluster.held_gpu_s += gpu * task_s
    cluster.held_cpu_s += cpu * task_s
    cluster.held_memory_s += memory * task_s
