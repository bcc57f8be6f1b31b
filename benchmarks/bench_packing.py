"""Eva plans 8,000 tasks in a tenth of a second, since it weighs groups of equal tasks, not tasks.

Tasks are those of Eva's table 4 (ten workloads, nine kinds, physical cores), all waiting, at t = 1 and t = 0.95; the
planner is Full Reconfiguration by the released rules, beside a direct transcription of it up to 400 tasks, whose plans
must be the same. The transcription is written to be obvious: the published code takes 0.4 to 0.8 s for 200 tasks.
Then a whole round of improved Eva on machines that run: both reconfigurations, matching and the choice.
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace

from measuring import ROOT, Table, arguments, introduce

from betimes.policies.packing.plan import Bin, Plan
from betimes.policies.packing.planners.eva import Eva
from betimes.policies.packing.planners.reconfiguration import full_reconfiguration
from betimes.policies.packing.problem import Machine, Problem, Round
from betimes.policies.packing.throughput import ThroughputTable
from betimes.policies.packing.valuation import Valuation

sys.path.insert(0, str(ROOT))
from tests.policies.packing.cases import published_tasks
from tests.reference import packing_direct

SIZES = (200, 400, 1000, 2000, 4000, 8000)
MOST_DIRECT = 400
PUBLISHED_S = {200: 0.378, 1000: 0.40, 2000: 1.50, 4000: 5.53, 8000: 22.06}  # Eva, tables 4 and 5


def cpu_s(run: Callable[[], object], repeats: int) -> float:
    """The median of the CPU seconds of a call."""
    took: list[float] = []
    for _ in range(repeats):
        began = time.process_time()
        run()
        took.append(time.process_time() - began)
    return statistics.median(took)


def grouped(tasks: Problem, table: ThroughputTable) -> tuple[Bin, ...]:
    """The plan, from nothing that is known of the problem before."""
    fresh = Problem(tasks.catalogue, tasks.tasks, tasks.machines)
    return full_reconfiguration(Valuation(fresh, table, "own"), down_sizing="new")


def direct(tasks: Problem, table: ThroughputTable) -> tuple[Bin, ...]:
    """The same, task by task."""
    return tuple(
        packing_direct.full(
            tasks, table, penalty="own", beside="own", fill_running="never", down_sizing="new"
        )
    )


def running(tasks: Problem, seed: int) -> Problem:
    """Two hours later: a tenth of the tasks has ended, and as many wait; the machines of the others run."""
    table = ThroughputTable(0.95)
    bins = full_reconfiguration(Valuation(tasks, table))
    draw = random.Random(seed)
    where = {task: number for number, each in enumerate(bins) for task in each.tasks}
    placed = [replace(task, machine=where[task.id]) for task in tasks.tasks if draw.random() < 0.9]
    new = [
        replace(task, id=task.id + 10**6, job=task.job + 10**6)
        for task in draw.sample(tasks.tasks, len(where) - len(placed))
    ]
    machines = tuple(Machine(number, each.type) for number, each in enumerate(bins))
    return Problem(tasks.catalogue, (*placed, *new), machines)


def main() -> None:
    """Print the tables."""
    given = arguments(__doc__)
    introduce(__doc__)
    sizes = SIZES[:3] if given.quick else SIZES
    for default in (1.0, 0.95):
        print(f"Full Reconfiguration, t = {default:g}: CPU seconds")
        table = Table(
            "tasks", "grouped", "direct", "direct / grouped", "published", "USD an hour", "machines"
        )
        for count in sizes:
            tasks, known = published_tasks(count, 0), ThroughputTable(default)
            bins = grouped(tasks, known)
            ours = cpu_s(lambda tasks=tasks, known=known: grouped(tasks, known), given.repeats)
            slow = None
            if count <= MOST_DIRECT:
                assert direct(tasks, known) == bins, "the transcription plans something else"
                slow = cpu_s(lambda tasks=tasks, known=known: direct(tasks, known), 1)
            table.line(
                f"{count:,}",
                ours,
                slow,
                slow / ours if slow else None,
                PUBLISHED_S.get(count),
                f"{Plan(bins).usd_per_h(tasks.catalogue):,.3f}",
                len(bins),
            )
        print()
    print("A round of improved Eva on machines that run: CPU seconds")
    table = Table("tasks", "machines", "round", "times the row before")
    before = None
    for count in sizes if given.quick else (500, 2000, 8000):
        tasks = running(published_tasks(count, 0), 1)
        took = cpu_s(lambda tasks=tasks: round_of(tasks), given.repeats)
        table.line(f"{count:,}", len(tasks.machines), took, took / before if before else None)
        before = took


def round_of(tasks: Problem) -> Plan:
    """A planner's first round."""
    fresh = Problem(tasks.catalogue, tasks.tasks, tasks.machines)
    return Eva("improved").plan(Round(0.0, fresh))


if __name__ == "__main__":
    main()
