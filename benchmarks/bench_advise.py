"""Advice on the last seven days of real logs: seconds for each policy, and how many times the one in force alone.

`betimes advise` simulates every policy that fits, with the promises of 1,000 jobs and their intervals. Seconds are CPU
time of one process; those of the slowest policy are by the clock, as its share of the time is.
"""

from __future__ import annotations

import time

from measuring import Table, arguments, introduce, traces_at

from betimes.foresight.advice import Period, advise, candidates
from betimes.foresight.advice.candidates import Candidates
from betimes.twin.options import SimulationOptions
from betimes.workload import read_trace

LOGS = (
    "swf/KTH-SP2-1996-2.swf.gz",
    "swf/CTC-SP2-1996-derived.swf.gz",
    "swf/ALCF-Theta-2022.swf.gz",
    "swf/CEA-Curie-2011-2.1-cln.swf.gz",
    "swf/RICC-2010-2.swf.gz",
)
IN_FORCE = "easy"
WEEK_S = 7 * 86_400.0
BUDGET_S = 600.0


def main() -> None:
    given = arguments(__doc__)
    introduce(__doc__)
    logs = LOGS[:1] if given.quick else LOGS
    folder = traces_at(given.data, *logs)
    if folder is None:
        return
    table = Table(
        "log", "jobs", "policies", "left out", "advice s", f"{IN_FORCE} s", "ratio", "slowest", "clock s"
    )
    for log in logs:
        period = Period.last(read_trace(folder / log), WEEK_S)
        options = SimulationOptions(units=period.workload.machine_units)
        advise(period, options, IN_FORCE, Candidates((), ()), budget_s=1.0)  # loads what it needs
        began = time.process_time()
        advise(period, options, IN_FORCE, Candidates((), ()), budget_s=1.0)
        alone_s = time.process_time() - began
        fitting = candidates(period.workload, None)
        began = time.process_time()
        found = advise(period, options, IN_FORCE, fitting, budget_s=BUDGET_S)
        took_s = time.process_time() - began
        slowest = max(found.rows, key=lambda row: row.seconds)
        tried = sum(len(each.policies) for each in found.left_out if "--budget" in each.why)
        table.line(
            log.partition("/")[2].partition(".")[0],
            f"{found.jobs:,}",
            str(len(found.rows)),
            str(tried),
            f"{took_s:.1f}",
            f"{alone_s:.2f}",
            f"{took_s / alone_s:.1f}",
            slowest.policy.partition(":")[0],
            f"{slowest.seconds:.1f}",
        )


if __name__ == "__main__":
    main()
