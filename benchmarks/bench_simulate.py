"""Tables of results (`--out`) cost at most a quarter on top of a simulation, and a short one does not wait for its end.

Every figure is a new process, from start to exit, with compiled code from the cache. The ratio is to the same command
run just before: a median over pairs of runs. Whole public logs: to one that only prints. Short simulations: to one that
frees all it holds as Python ends.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from measuring import Table, arguments, introduce, traces_at

BETIMES = (sys.executable, "-c", "import sys; from betimes.cli.main import program; sys.exit(program())")
FREEING = (sys.executable, "-m", "betimes")
SHORT = (
    ("demo:jobs=3000", "--policy", "fifo"),
    ("demo:jobs=3000", "--policy", "fifo", "--engine", "nodes"),
    ("demo:jobs=3000", "--policy", "srsf", "--no-fair"),
)
LOGS = ("swf/KTH-SP2-1996-2.swf.gz", "swf/RICC-2010-2.swf.gz")
RUNS = (("fifo",), ("easy",), ("srsf", "--no-fair"))


def cpu_s(command: tuple[str, ...]) -> float:
    """CPU seconds of a command in a new process; raises where it fails."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def compared(plain: tuple[str, ...], *others: tuple[str, ...], repeats: int) -> tuple[float, list[float]]:
    """Median CPU seconds of a command, and of the ratio of each other command to it."""
    cpu_s(plain)  # compiles, and fills the caches of files
    taken = [[cpu_s(command) for command in (plain, *others)] for _ in range(repeats)]
    ratios = [statistics.median(each[at] / each[0] for each in taken) for at in range(1, 1 + len(others))]
    return statistics.median(each[0] for each in taken), ratios


def main() -> None:
    given = arguments(__doc__)
    introduce(__doc__)
    table = Table("short simulation", "freeing s", "ended x", first=44)
    for words in SHORT:
        freeing_s, (ratio,) = compared(
            (*FREEING, "simulate", *words), (*BETIMES, "simulate", *words), repeats=given.repeats
        )
        table.line(" ".join(words), freeing_s, ratio)
    print()
    table = Table("log and policy", "alone s", "--out x", "--report x", first=36)
    for log in LOGS[:1] if given.quick else LOGS:
        folder = traces_at(given.data, log)
        if folder is None:
            continue
        for policy, *more in RUNS:
            with tempfile.TemporaryDirectory() as out:
                plain = (
                    *BETIMES,
                    "simulate",
                    str(folder / log),
                    "--on-wide",
                    "drop",
                    "--policy",
                    policy,
                    *more,
                )
                tables = (*plain, "--out", out)
                alone_s, ratios = compared(plain, tables, (*tables, "--report"), repeats=given.repeats)
            table.line(f"{Path(log).name.partition('.')[0]}, {policy}", alone_s, *ratios)


if __name__ == "__main__":
    main()
