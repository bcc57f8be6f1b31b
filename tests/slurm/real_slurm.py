"""Slurm itself: its daemons on this machine, in a folder, as a cluster of one node, or of several beside each other."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

STARTS_WITHIN_S = 20.0
ENDS_WITHIN_S = 60.0


class NoSlurm(Exception):
    """Slurm cannot be started here; the message says why."""


FAST = """
MessageTimeout=3000
SlurmdTimeout=0
AuthInfo=socket={folder}/socket,ttl=3600
MinJobAge=20000
SchedulerParameters=bf_continue,bf_yield_interval=10000000,bf_interval=60,sched_min_interval=0
"""
"""Settings for a clock that is fast: what takes a second takes minutes by it."""


@contextmanager
def fast_clock(times: float, environ: Mapping[str, str], folder: Path) -> Iterator[dict[str, str]]:
    """Inside, the environment in which programs see time pass so many times as fast. Raises NoSlurm."""
    if shutil.which("faketime") is None:
        raise NoSlurm("faketime is needed for a fast clock")
    shown = folder / "environment"
    words = [
        "faketime",
        "-f",
        f"+0d x{times:g}",
        "sh",
        "-c",
        f"env -0 > {shown}.new; mv {shown}.new {shown}; cat",
    ]
    env = {**environ, "FAKETIME_DONT_RESET": "1"}
    holder = subprocess.Popen(words, env=env, stdin=subprocess.PIPE)  # all share the start of its clock
    try:
        until_s = time.monotonic() + STARTS_WITHIN_S
        while not shown.exists():
            if time.monotonic() > until_s:
                raise NoSlurm("faketime does not start a program here")
            time.sleep(0.05)
        yield dict(each.split("=", 1) for each in shown.read_text().split("\0") if "=" in each)
    finally:
        holder.communicate()


@contextmanager
def real_slurm(
    folder: Path, environ: Mapping[str, str], nodes: int = 0, settings: str = ""
) -> Iterator[dict[str, str]]:
    """Inside, the daemons run; the environment in which Slurm's commands reach them. Raises NoSlurm.

    nodes: so many of 4 CPUs, n1, n2, ..., in partition `batch`, the first two of them in `short`, too; 0: one of 8
    CPUs. settings: further lines of the configuration, of which a later one counts.
    """
    path = f"/usr/sbin:/sbin:{environ['PATH']}"
    missing = [
        name for name in ("munged", "slurmctld", "slurmd", "sbatch") if shutil.which(name, path=path) is None
    ]
    if missing or os.geteuid() != 0:
        raise NoSlurm(f"Slurm is needed for this, started by root; missing: {', '.join(missing) or 'root'}")
    for name in ("munge", "spool", "save"):
        (folder / name).mkdir(mode=0o700)
    key = folder / "munge/key"
    key.write_bytes(secrets.token_bytes(1024))
    key.chmod(0o400)
    (folder / "slurm.conf").write_text(_configuration(folder, nodes) + settings)
    env = {**environ, "PATH": path, "SLURM_CONF": str(folder / "slurm.conf")}
    # munged alone stamps and checks credentials: its clock is the usual one.
    usual = {name: value for name, value in env.items() if name != "LD_PRELOAD"}
    files = [f"--{name}={folder}/munge/{name[:4]}" for name in ("pid-file", "log-file", "seed-file")]
    daemons: list[subprocess.Popen[bytes]] = []
    try:
        for call in (
            ["munged", "--foreground", "--force", f"--socket={folder}/socket", f"--key-file={key}", *files],
            ["slurmctld", "-D"],
            *([["slurmd", "-D", "-N", f"n{number}"] for number in range(1, nodes + 1)] or [["slurmd", "-D"]]),
        ):
            daemons.append(
                subprocess.Popen(
                    call,
                    env=usual if call[0] == "munged" else env,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
            )
            time.sleep(0.2)
        until_s = time.monotonic() + STARTS_WITHIN_S
        asked = ("sinfo", "-h", "-o", "%t")
        while (
            b"idle" not in (found := subprocess.run(asked, env=env, capture_output=True, check=False)).stdout
        ):
            if time.monotonic() > until_s:
                raise NoSlurm(f"Slurm does not start here: {found}")
            time.sleep(0.1)
        yield env
    finally:
        for daemon in daemons[::-1]:
            daemon.terminate()
            daemon.wait(ENDS_WITHIN_S)


def end_jobs(env: Mapping[str, str], within_s: float) -> None:
    """End all jobs of a Slurm that runs for a test, and wait until it shows none."""
    subprocess.run(("scancel", "-u", "root"), env=env, check=False)
    until_s = time.monotonic() + within_s
    while subprocess.run(("squeue", "-h"), env=env, capture_output=True, check=False).stdout:
        assert time.monotonic() < until_s
        time.sleep(0.2)


def _configuration(folder: Path, nodes: int) -> str:
    ports: list[int] = []
    with ExitStack() as opened:
        for each in [opened.enter_context(closing(socket.socket())) for _ in range(2 + nodes)]:
            each.bind(("127.0.0.1", 0))
            ports.append(each.getsockname()[1])
    name = socket.gethostname()
    at = f"NodeHostname={name} NodeAddr=127.0.0.1"
    of_node = "-%n" if nodes else ""
    if nodes:
        machines = "\n".join(
            [
                f"NodeName=n{n} {at} Port={port} CPUs=4 RealMemory=4000 State=UNKNOWN"
                for n, port in enumerate(ports[2:], 1)
            ]
            + ["PartitionName=batch Nodes=ALL Default=YES MaxTime=INFINITE State=UP"]
            + ["PartitionName=short Nodes=n[1-2] MaxTime=60 PriorityTier=2 State=UP"]
        )
    else:
        machines = f"""NodeName={name} NodeAddr=127.0.0.1 CPUs=8 RealMemory=64000 State=UNKNOWN
PartitionName=betimes Nodes=ALL Default=YES MaxTime=INFINITE State=UP"""
    return f"""
ClusterName=betimes
SlurmctldHost={name}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser=root
AuthInfo=socket={folder}/socket
StateSaveLocation={folder}/save
SlurmdSpoolDir={folder}/spool{of_node}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd{of_node}.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd{of_node}.log
ProctrackType=proctrack/linuxproc
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=1,bf_interval=1,sched_min_interval=0
SlurmdParameters=config_overrides
{machines}
"""
