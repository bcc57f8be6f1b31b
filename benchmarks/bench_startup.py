"""Starting is quick: `betimes --help`, and the first and later simulations of a new installation.

Every figure is a new process, from start to exit. The first simulation compiles into an empty cache; later ones
find compiled code there. The ratio is to a Python that imports numpy and does nothing.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

from measuring import Table, arguments, introduce

BETIMES = (sys.executable, "-c", "import sys; from betimes.cli.main import program; sys.exit(program())")
FIFO = (*BETIMES, "simulate", "demo:jobs=3000", "--json", "--policy", "fifo")
SIMULATE = (*BETIMES, "simulate", "demo:jobs=200", "--units", "64", "--policy", "wfq", "--predict", "--json")


def timed(command: tuple[str, ...], cache: str) -> tuple[float, float]:
    """Wall-clock and CPU seconds of a command in a new process; raises where it fails."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(
        command,
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=os.environ | {"BETIMES_CACHE_DIR": cache},
    )
    wall_s, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall_s, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    given = arguments(__doc__)
    introduce(__doc__)
    repeats = given.repeats
    with tempfile.TemporaryDirectory() as cache:
        baseline = (sys.executable, "-c", "import numpy")
        timed(baseline, cache)  # the files are in memory from here on
        table = Table("command", "wall s", "CPU s", "x of numpy's CPU", first=44)
        numpy_s = 0.0
        for name, command, times in (
            ("python -c 'import numpy'", baseline, repeats),
            ("python -c 'import betimes'", (sys.executable, "-c", "import betimes"), repeats),
            ("betimes --help", (*BETIMES, "--help"), repeats),
            ("betimes policies", (*BETIMES, "policies"), repeats),
            ("betimes simulate, cold cache (compiles)", SIMULATE, 1),
            ("betimes simulate, warm cache", SIMULATE, repeats),
            ("python -c 'import numba'", (sys.executable, "-c", "import numba"), repeats),
            ("fifo on a pool, 3,000 jobs, cold cache", FIFO, 1),
            ("fifo on a pool, 3,000 jobs, warm cache", FIFO, repeats),
            ("fifo on nodes, 3,000 jobs, cold cache", (*FIFO, "--engine", "nodes"), 1),
            ("fifo on nodes, 3,000 jobs, warm cache", (*FIFO, "--engine", "nodes"), repeats),
        ):
            taken = [timed(command, cache) for _ in range(times)]
            wall_s, cpu_s = (statistics.median(column) for column in zip(*taken, strict=True))
            numpy_s = numpy_s or cpu_s
            table.line(name, wall_s, cpu_s, cpu_s / numpy_s)
    print("\nThe simulation is of 200 generated jobs under wfq with a promise at every arrival.")


if __name__ == "__main__":
    main()
