"""On a Ray cluster a run starts in less time than `ray job submit` takes, which starts a driver for each job.

A cluster of simulated nodes on this machine, a service on it, and Ray's own job server in the same run. A job prints
the time: what passed between its submission and that line is the latency, of one job after the other. Then many jobs
of `true` are submitted at once, and the time from the first submission until all are over gives the starts a second.
The memory of a run is that of the process that it adds beside its command and, with Ray, its driver (private pages).
Needs `ray[default]`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import psutil
from measuring import Table, introduce

from betimes.client import Client

CORES = 4  # that each simulated node claims
TELL = ["sh", "-c", "date +%s.%N"]
MIB = 2**20


@contextmanager
def cluster(nodes: int) -> Iterator[tuple[str, str]]:
    """A cluster with a job server: its address and the server's."""
    head = {"num_cpus": CORES, "include_dashboard": True, "dashboard_port": 0}
    made = import_module("ray.cluster_utils").Cluster(initialize_head=True, head_node_args=head)
    try:
        for _ in range(nodes - 1):
            made.add_node(num_cpus=CORES)
        yield made.address, f"http://{made.webui_url}"
    finally:
        made.shutdown()


@contextmanager
def service(address: str) -> Iterator[Client]:
    """A service on the cluster."""
    with tempfile.TemporaryDirectory(prefix="betimes-bench-") as folder:
        command = [
            sys.executable,
            "-m",
            "betimes",
            "up",
            "--json",
            "--service",
            f"{folder}/state",
            "--ray",
            address,
        ]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ)
        try:
            assert process.stdout is not None
            json.loads(process.stdout.readline())
            with Client(state=Path(folder, "state")) as client:
                yield client
        finally:
            process.terminate()
            process.wait()


def by_betimes(client: Client, command: list[str], count: int) -> str:
    """Run a job, or an array of so many; what the first one has printed, once all are over."""
    array = f"0-{count - 1}" if count > 1 else None
    told = client.submit(command=command, cpu=0.5, estimate_s=1.0, array=array)
    first = told.job_id
    for number in range(first, first + count):
        client.wait(number)
    return b"".join(client.logs(first)).decode()


def by_ray(jobs: Any, command: list[str], count: int) -> str:
    """The same by Ray's job server, whose log has lines of its own before, and comes after the job's end."""
    line = " ".join(command[:2]) + f" '{command[2]}'" if len(command) > 1 else command[0]
    ids = [jobs.submit_job(entrypoint=line) for _ in range(count)]
    while any(not jobs.get_job_status(one).is_terminal() for one in ids):
        time.sleep(0.01)
    said: list[str] = []
    while len(command) > 1 and not said:
        said = [one for one in jobs.get_job_logs(ids[0]).splitlines() if one.replace(".", "", 1).isdigit()]
    return "".join(said)


def latency_ms(run: Callable[[list[str], int], str], repeats: int) -> float:
    """The median time from a submission to the line that the job prints."""
    took: list[float] = []
    for _ in range(repeats):
        began = time.time()
        took.append(1000.0 * (float(run(TELL, 1)) - began))
    return statistics.median(took)


def starts_a_second(run: Callable[[list[str], int], str], count: int) -> float:
    """Jobs a second, submitted at once."""
    began = time.perf_counter()
    run(["true"], count)
    return count / (time.perf_counter() - began)


def private_mib(name: str, has: str) -> float:
    """The private memory of the largest process whose command line begins like this and has that; 0: there is none."""
    found = 0.0
    for process in psutil.process_iter():
        try:
            line = process.cmdline()
            if line and line[0].startswith(name) and any(has in part for part in line):
                found = max(found, process.memory_full_info().uss / MIB)
        except psutil.Error:  # it has ended
            continue
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=[1, 3], help="sizes of the cluster")
    parser.add_argument("--jobs", type=int, default=100, help="that Betimes is given at once")
    parser.add_argument("--ray-jobs", type=int, default=10, help="that Ray's job server is given at once")
    parser.add_argument("--repeats", type=int, default=5, help="jobs behind a latency")
    given = parser.parse_args()
    introduce(__doc__)
    table = Table("jobs on a Ray cluster", "latency, ms", "starts/s", "MiB a run", "MiB a node", first=32)
    for nodes in given.nodes:
        with cluster(nodes) as (address, server):
            with service(address) as client:
                by_betimes(client, TELL, 1)  # the first job loads what the others find loaded
                late_ms = latency_ms(partial(by_betimes, client), given.repeats)
                rate = starts_a_second(partial(by_betimes, client), given.jobs)
                number = client.submit(command=["sleep", "600"], estimate_s=1.0).job_id
                while client.job(number).job.status != "running":
                    time.sleep(0.05)
                a_run, a_node = private_mib(sys.executable, "shim.py"), private_mib("ray::NodeAgent", "")
                client.cancel(number)
                client.wait(number)
                table.line(f"Betimes, {nodes} nodes", late_ms, rate, a_run, a_node)
            jobs = import_module("ray.job_submission").JobSubmissionClient(server)
            by_ray(jobs, TELL, 1)
            late_ms = latency_ms(partial(by_ray, jobs), given.repeats)
            rate = starts_a_second(partial(by_ray, jobs), given.ray_jobs)
            one = jobs.submit_job(entrypoint="sleep 600")
            while str(jobs.get_job_status(one)) != "RUNNING":
                time.sleep(0.05)
            a_run = private_mib("ray::JobSupervisor", "")
            jobs.stop_job(one)
            table.line(f"ray job submit, {nodes} nodes", late_ms, rate, a_run, 0.0)


if __name__ == "__main__":
    main()
