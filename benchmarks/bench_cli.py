"""Client verbs are cheap: CPU seconds of each verb from start to end, beside Slurm's where that is installed.

Every figure is the median of new processes, on a service with 200 jobs; `submit --each-line` is one for all of its
lines. The client as one file is called unpacked and as it is. Those of Slurm itself are measured where slurmctld,
slurmd and munged are installed, on a cluster started here.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from measuring import ROOT, Table, arguments, introduce

sys.path.insert(0, str(ROOT))
from tests.slurm.real_slurm import NoSlurm, real_slurm

BETIMES = (sys.executable, "-m", "betimes")
JOBS = 200
PATIENCE_S = 300.0  # until the service has compiled its policy
VERBS = (
    *("submit --estimate 1s -- true", "quote -- true", "jobs", "jobs --json", "job 1", "logs 1", "wait 1"),
    *("status 1", "events", "nodes", "policy", "fleet", "portfolio", "hold 150", "release 150", "cancel 151"),
)
SLURM = ("sbatch --wrap true", "squeue", "scancel 1", "sinfo")


def timed(command: tuple[str, ...], env: dict[str, str]) -> tuple[float, float]:
    """CPU and wall-clock seconds of a command in a new process, whatever comes of it."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env)
    wall_s, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall_s


def main() -> None:
    given = arguments(__doc__)
    introduce(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        env |= {"BETIMES_STATE": str(Path(folder) / "state")}
        lines = Path(folder) / "lines"
        lines.write_text("".join(f"sleep {number}\n" for number in range(20 * JOBS)))
        service = subprocess.Popen(
            [*BETIMES, "up", "--policy", "fifo"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=env,
        )
        try:
            wait = (*BETIMES, "submit", "--wait", "--estimate", "1s", "--", "true")
            give_up = time.monotonic() + PATIENCE_S
            while subprocess.run(wait, check=False, capture_output=True, env=env).returncode:
                if time.monotonic() > give_up:
                    raise SystemExit("the service did not come up")
                time.sleep(1.0)
            many = (*BETIMES, "submit", "--array", f"1-{JOBS}", "--estimate", "1h", "--", "sleep", "3600")
            subprocess.run(many, check=True, stdout=subprocess.DEVNULL, env=env)
            table = Table("command", "CPU s", "wall s", "x of Python's CPU", first=44)
            python_s = 0.0
            made = Path(folder) / "slurm-bin"
            subprocess.run([*BETIMES, "slurm-commands", made], check=True, capture_output=True, env=env)
            commands = {"python -c pass": (sys.executable, "-c", "pass")}
            commands |= {f"betimes {verb}": (*BETIMES, *verb.split()) for verb in VERBS}
            commands |= {
                f"{text}, of Betimes": (f"{made}/{text.split()[0]}", *text.split()[1:]) for text in SLURM
            }
            file = f"{folder}/client.pyz"
            subprocess.run([*BETIMES, "client-file", file], check=True, capture_output=True, env=env)
            env["XDG_CACHE_HOME"] = f"{folder}/cache"
            packed = ("env", f"XDG_CACHE_HOME={os.devnull}", sys.executable, "-I", "-S", file)
            for verb in VERBS[:3:2]:
                commands[f"client.pyz {verb}"] = (sys.executable, "-I", "-S", file, *verb.split())
                commands[f"client.pyz {verb}, never unpacked"] = (*packed, *verb.split())

            def measure(name: str, command: tuple[str, ...], env: dict[str, str]) -> None:
                nonlocal python_s
                taken = [timed(command, env) for _ in range(given.repeats)]
                cpu_s, wall_s = (statistics.median(column) for column in zip(*taken, strict=True))
                python_s = python_s or cpu_s
                table.line(name, cpu_s, wall_s, cpu_s / python_s)

            for name, command in commands.items():
                measure(name, command, env)
            real = Path(folder) / "slurm"
            real.mkdir()
            try:
                with real_slurm(real, env) as slurm_env:
                    for text in SLURM:
                        measure(f"{text}, of Slurm", tuple(text.split()), slurm_env)
            except NoSlurm as reason:
                print(f"Slurm's own are left out: {reason}")
            cpu_s, wall_s = timed((*BETIMES, "submit", "--estimate", "1s", "--each-line", str(lines)), env)
            table.line(f"betimes submit --each-line, {20 * JOBS:,} lines", cpu_s, wall_s, cpu_s / python_s)
            print(f"\n{20 * JOBS / wall_s:,.0f} jobs a second, with the service on the same machine")
        finally:
            subprocess.run([*BETIMES, "cancel", "--all", "--yes"], check=False, capture_output=True, env=env)
            service.terminate()
            service.wait()


if __name__ == "__main__":
    main()
