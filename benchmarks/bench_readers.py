"""Reading is streaming: the 447,794 jobs of RICC-2010 in about a second, in a small multiple of their columns.

Compared in the same run with what one would write first: a loop over the lines that splits them into floats,
and numpy.loadtxt. Neither checks anything; the reader validates every field and builds a workload. Each runs in
a process of its own; memory is the peak beyond what the imports took.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from measuring import Table, arguments, introduce, traces_at

LOG = "swf/RICC-2010-2.swf.gz"
MIB = 2**20


def with_betimes(path: Path) -> tuple[int, int]:
    from betimes.workload import read_trace
    from betimes.workload.columns import CANONICAL_NAMES

    workload = read_trace(path)
    held = sum(getattr(workload, name).nbytes for name in CANONICAL_NAMES)
    return len(workload), held + sum(column.nbytes for column in workload.extra.values())


def with_a_loop(path: Path) -> tuple[int, int]:
    import gzip

    import numpy as np

    rows: list[list[float]] = []
    with gzip.open(path, "rt") as lines:
        for line in lines:
            if not line.startswith(";") and line.strip():
                rows.append([float(field) for field in line.split()])
    columns = np.array(rows)
    return len(columns), columns.nbytes


def with_loadtxt(path: Path) -> tuple[int, int]:
    import numpy as np

    columns = np.loadtxt(path, comments=";")
    return len(columns), columns.nbytes


READERS: dict[str, Callable[[Path], tuple[int, int]]] = {
    "betimes.read_trace": with_betimes,
    "loop and split": with_a_loop,
    "numpy.loadtxt": with_loadtxt,
}


def peak_mib() -> float:
    """The most memory this process has held so far."""
    status = Path("/proc/self/status")
    if status.exists():  # ru_maxrss would count what the parent held before this process was born
        found = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(found.split()[1]) / 1024
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (MIB if sys.platform == "darwin" else 1024)


def child(name: str, path: str) -> None:
    import time

    import numpy as np

    import betimes.workload.readers.registry  # so that imports are not counted

    assert np is not None
    assert betimes is not None
    before_mib, started = peak_mib(), time.process_time()
    jobs, held = READERS[name](Path(path))
    cpu_s = time.process_time() - started
    print(json.dumps({"jobs": jobs, "held": held, "cpu_s": cpu_s, "mib": peak_mib() - before_mib}))


def main() -> None:
    given = arguments(__doc__)
    introduce(__doc__)
    folder = traces_at(given.data, LOG)
    if folder is None:
        return
    table = Table(
        "reader", "jobs", "CPU s", "jobs/s", "columns MiB", "peak MiB", "peak/columns", "CPU / ours"
    )
    ours_s = 0.0
    for name in READERS:
        times = given.repeats if name == "betimes.read_trace" else min(given.repeats, 3)
        command = (sys.executable, str(Path(__file__).resolve()), "--child", name, str(folder / LOG))
        runs = [
            json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            for _ in range(times)
        ]
        cpu_s, mib = (statistics.median(run[key] for run in runs) for key in ("cpu_s", "mib"))
        ours_s = ours_s or cpu_s
        jobs, held_mib = runs[0]["jobs"], runs[0]["held"] / MIB
        table.line(name, jobs, cpu_s, jobs / cpu_s, held_mib, mib, mib / held_mib, cpu_s / ours_s)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(*sys.argv[2:])
    else:
        main()
