"""Eva's planning alone: the cost of Full Reconfiguration's plans (table 4), and its run time (table 5)."""

from __future__ import annotations

import random
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from betimes_papers.eva.compositions import KINDS
from betimes_papers.eva.runs import UNITS, published
from betimes_papers.experiment import Experiment, Progress, Row

if TYPE_CHECKING:
    from betimes.policies.packing import Problem

_TRIALS, _TASKS = 10, 200
_PUBLISHED_TRIALS = 30
_COUNTS = (1000, 2000, 4000, 8000)


def drawn(count: int, seed: int) -> Problem:
    """`count` waiting tasks, drawn uniformly from the workloads."""
    from betimes.cluster import read_cluster
    from betimes.policies.packing import Catalogue, Demand, Problem, Task
    from betimes_papers.workloads.profiles import read_profiles

    profiles = read_profiles()
    demands = {name: Demand.of(profiles[name].demand) for name in set(KINDS)}
    draw = random.Random(seed)
    kinds = [draw.choice(KINDS) for _ in range(count)]
    tasks = tuple(Task(number, number, kind, demands[kind]) for number, kind in enumerate(kinds))
    return Problem(Catalogue.of(read_cluster("ec2-2023").offers), tasks)


def _table4(parts: tuple[str, ...] = ()) -> Experiment:
    trials = max(int(part) for part in parts or (str(_TRIALS),))

    def run(_data: Path | None, progress: Progress) -> list[Row]:
        from betimes.policies.packing import Exact, NoPacking, Plan, Round, ThroughputTable
        from betimes.policies.packing.planners.reconfiguration import full_reconfiguration
        from betimes.policies.packing.valuation import Valuation

        shares: dict[str, list[float]] = {"No-Packing": [], "Full Reconfiguration": [], "ILP": []}
        for trial in range(trials):
            progress(f"trial {trial + 1} of {trials}", trial, trials)
            tasks = drawn(_TASKS, trial)
            full = full_reconfiguration(Valuation(tasks, ThroughputTable(1.0)), down_sizing="reuse")
            round_ = Round(0.0, tasks)
            plans = (NoPacking().plan(round_), Plan(full), Exact().plan(round_))
            costs = [plan.usd_per_h(tasks.catalogue) for plan in plans]
            for values, cost in zip(shares.values(), costs, strict=True):
                values.append(100.0 * cost / costs[-1])
        progress("done", trials, trials)
        return [
            Row(
                name,
                "cost",
                published("eva-table4", name, "cost"),
                sum(values) / trials,
                "% of the optimum",
                f"{min(values):.1f} to {max(values):.1f} over {trials} trials",
            )
            for name, values in shares.items()
        ]

    return Experiment(
        f"eva-table4:{'+'.join(parts)}" if parts else "eva-table4",
        "What Full Reconfiguration of 200 tasks costs against the optimum, without interference",
        (),
        run,
        (str(_TRIALS), str(_PUBLISHED_TRIALS)),
        _table4,
        alone="its solver is a separate process, which plans one trial after the other",
    )


def _table5() -> Experiment:
    def run(_data: Path | None, progress: Progress) -> list[Row]:
        from betimes.policies.packing import ThroughputTable
        from betimes.policies.packing.planners.reconfiguration import full_reconfiguration
        from betimes.policies.packing.valuation import Valuation

        rows: list[Row] = []
        for at, count in enumerate(_COUNTS):
            progress(f"{count:,} tasks", at, len(_COUNTS))
            took: list[float] = []
            for seed in range(3):
                tasks = drawn(count, seed)
                began = time.process_time()
                full_reconfiguration(Valuation(tasks, ThroughputTable(1.0)), down_sizing="reuse")
                took.append(time.process_time() - began)
            known = published("eva-table5", str(count), "planning")
            rows.append(
                Row(str(count), "planning", known, median(took), UNITS["planning"], "CPU, median of 3")
            )
        progress("done", len(_COUNTS), len(_COUNTS))
        return rows

    return Experiment(
        "eva-table5",
        "How long Full Reconfiguration of 1,000 to 8,000 tasks takes",
        (),
        run,
        alone="it measures how long one process takes",
    )


EXPERIMENTS = (_table4(), _table5())
