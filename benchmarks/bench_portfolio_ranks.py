"""The portfolio is within a few per cent of the best of its 60 members on most stretches of four logs.

Each of the 60 runs by itself on each stretch, and what counts is the utility of the whole run: the gain over the best
of them, known only in hindsight, and the rank (1: none did better). The last line of a stretch is a selection that
knows the jobs of the next hour: what is to be had from foreseeing them.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
from betimes_papers.portfolio.runs import LOGS, Run, alone, figures_of, machines, simulates, stretch
from measuring import Table, arguments, introduce, traces_at
from numpy.typing import NDArray

from betimes.foresight.portfolio.arrivals import HORIZON_S, MOST_JOBS
from betimes.foresight.portfolio.driver import Portfolio, Settings
from betimes.kernels import as_array
from betimes.policies import parse_nodes_policy
from betimes.policies.nodes.portfolio import CANDIDATES
from betimes.processes import Do
from betimes.twin.nodes.simulation import NodesSimulation
from betimes.twin.options import SimulationOptions
from betimes.twin.sizes import Sizes
from betimes.workload import Workload

LONGER = 1_500
STRETCHES = (
    *(("kth-sp2", first, 1_000) for first in (0, 4_000, 12_000, 16_000)),
    *(("sdsc-sp2", first, 1_000) for first in (20_000, 30_000, 40_000)),
    *(("das2-fs1", first, 1_000) for first in (12_000, 16_000, 20_000, 30_000)),
    *(("lcg", first, 1_000) for first in (40_000, 60_000, 100_000, 140_000)),
    *((log, 8_000, LONGER) for log in ("kth-sp2", "sdsc-sp2", "das2-fs1")),
    ("lcg", 20_000, LONGER),
)
POLICIES = (
    "portfolio",
    "portfolio:period=8",
    "portfolio:rules=whole-run,period=8",
    "portfolio:rules=paper,period=8",
)


class Known:
    """The jobs that really come in the next hour."""

    def __init__(self, run: NodesSimulation) -> None:
        self._run = run

    def draw(self, past: NDArray[Any], now_s: float, *, to_confirm: bool = False) -> list[NDArray[Any]]:
        """As one scenario, whatever it is drawn for."""
        first, arrivals = int(self._run.row[0]), as_array(self._run.trace.arrivals)
        last = int(np.searchsorted(arrivals["submit_s"], now_s + HORIZON_S, side="right"))
        return [arrivals[first : max(first, min(last, first + MOST_JOBS))].copy()]


def knowing(workload: Workload) -> float:
    """The utility of the portfolio that knows the next hour."""
    chosen = parse_nodes_policy("portfolio:period=8")
    run = NodesSimulation(workload, chosen, SimulationOptions(cluster=machines(), sizes=Sizes("true")))
    members = list(chosen.policy.in_turn(chosen.values))
    Portfolio(run, members, Settings.of(chosen), print, arrivals=Known(run)).start()
    run.run()
    return figures_of(run.result())["utility"]


def main() -> None:
    given = arguments(__doc__)
    introduce(__doc__)
    for name, first, jobs in STRETCHES[:1] if given.quick else STRETCHES:
        log = replace(LOGS[name], first=first)
        folder = traces_at(given.data, log.file)
        if folder is None:
            continue
        workload = stretch(log, folder, 100 if given.quick else jobs)
        days = float(workload.submit_s[-1]) / 86_400
        run = simulates(workload)

        def utility(policy: str, run: Do = run) -> float:
            figures, _ = run(Run(policy, policy), lambda _: None)
            return figures["utility"]

        by_itself = {each: utility(alone(each)) for each in CANDIDATES}
        best = max(by_itself, key=lambda each: by_itself[each])
        print(f"{name} from job {first:,}: {len(workload):,} jobs in {days:.1f} days; best {best}")
        table = Table("", "utility", "gain %", "rank of 61", "CPU s", first=44)
        table.line("best member", by_itself[best], None, None, None)
        for policy in (*POLICIES, "the next hour is known, period=8"):
            begun_s = time.process_time()
            value = utility(policy) if policy in POLICIES else knowing(workload)
            rank = 1 + sum(other > value for other in by_itself.values())
            gain = 100 * (value / by_itself[best] - 1)
            table.line(policy, value, gain, rank, time.process_time() - begun_s)
        print()


if __name__ == "__main__":
    main()
