"""A list of jobs is placed once, so that a job costs little more in the last of several long lists than in the first.

Lists of jobs of one core and one name are submitted, one after the other, to a service in this process, with its store,
under `fifo`, to a pool of nodes: first with room for all jobs, then with room for one in twenty. The processor time
from a submission to its answer has everything in it: admission, the decision, promises, commit, and where one is due a
snapshot. The last column is that of the last list over that of the first.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from pathlib import Path

from measuring import Table, introduce

from betimes.service.engines.named_policies import compile_policy
from betimes.service.machines.machine import Machine
from betimes.service.runtime.clock import VirtualClock
from betimes.service.spec.job_spec import JobSpec
from betimes.service.startup.in_memory import assembled

POLICY = "fifo"
LISTS = 5
CORES = 100  # of a node


async def lists(size: int, nodes: int) -> list[float]:
    """Processor time of each of the lists, ms a job."""
    spec = JobSpec(command=["x"], workdir="/", name="sweep", estimate_s=3600.0)
    machines = [Machine(f"n-{k}", "virtual", "rack", float(CORES), 512.0, 0.0) for k in range(nodes)]
    found = list[float]()
    with tempfile.TemporaryDirectory(prefix="betimes-bench-") as folder:
        async with assembled(machines, POLICY, Path(folder), clock=VirtualClock(1.7e9, 0.0)) as service:
            await service.backend.submit([spec], "ann")
            for _ in range(LISTS):
                began = time.process_time()
                await service.backend.submit([spec] * size, "ann")
                await service.settle()
                found.append(1000.0 * (time.process_time() - began) / size)
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="shorter lists: a look, not a measurement")
    size = 400 if parser.parse_args().quick else 2000
    introduce(__doc__)
    compile_policy(POLICY)
    table = Table("ms a job", *(f"{n * size + 1:,} on" for n in range(LISTS)), "ratio", first=32)
    whole = -(-(LISTS * size + 1) // CORES)
    for what, nodes in (("room for all", whole), ("room for one in twenty", max(1, whole // 20))):
        found = asyncio.run(lists(size, nodes))
        table.line(what, *found, found[-1] / found[0])


if __name__ == "__main__":
    main()
