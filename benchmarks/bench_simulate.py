"""Tables of results (`--out`) cost at most a quarter on top of a simulation from the command line.

Every figure is a new process on a whole public log, from start to exit, with compiled code from the cache. The ratio is
to the same command that only prints, run just before: a median over pairs of runs.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from measuring import Table, arguments, introduce, traces_at

BETIMES = (sys.executable, "-m", "betimes", "simulate")
LOGS = ("swf/KTH-SP2-1996-2.swf.gz", "swf/RICC-2010-2.swf.gz")
RUNS = (("fifo",), ("easy",), ("srsf", "--no-fair"))


def cpu_s(command: tuple[str, ...]) -> float:
    """CPU seconds of a command in a new process; raises where it fails."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    given = arguments(__doc__)
    introduce(__doc__)
    table = Table("log and policy", "alone s", "--out x", "--report x", first=36)
    for log in LOGS[:1] if given.quick else LOGS:
        folder = traces_at(given.data, log)
        if folder is None:
            continue
        for policy, *more in RUNS:
            with tempfile.TemporaryDirectory() as out:
                plain = (*BETIMES, str(folder / log), "--on-wide", "drop", "--policy", policy, *more)
                tables = (*plain, "--out", out)
                commands = (plain, tables, (*tables, "--report"))
                cpu_s(plain)  # compiles, and fills the caches of files
                taken = [[cpu_s(command) for command in commands] for _ in range(given.repeats)]
            ratios = (statistics.median(each[at] / each[0] for each in taken) for at in (1, 2))
            name = f"{Path(log).name.partition('.')[0]}, {policy}"
            table.line(name, statistics.median(each[0] for each in taken), *ratios)


if __name__ == "__main__":
    main()
