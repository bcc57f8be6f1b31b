"""The same scripts and calls by Slurm itself and by our commands: output, states and exit codes agree.

Slurm's daemons run on this machine, in a folder of the test; where they are missing, or the test is not run by root,
it is left out.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from betimes.cli.slurm_fields import fields_of
from tests.service.serving import PATIENCE_S
from tests.slurm.conftest import Served
from tests.slurm.real_slurm import NoSlurm, real_slurm

SCRIPTS = Path(__file__).parents[1] / "service/spec/slurm_scripts"
RUN = (
    *("comments", "exports_some", "folder", "held", "indices", "late_line", "mail", "nextflow", "no_mail"),
    *("no_options", "one_index", "parsl", "r_report", "relative_folder", "tonight"),
)
"""Of the fifty, those that fit this machine, with another body."""
REFUSED = (
    "no_interpreter",
    "wrong_array",
    "wrong_memory",
    "wrong_number",
    "wrong_time",
    "unknown_option",
    "no_value",
)
BODY = """
for name in JOB_NAME ARRAY_TASK_ID NTASKS NTASKS_PER_NODE TASKS_PER_NODE CPUS_PER_TASK CPUS_ON_NODE MEM_PER_NODE \
    JOB_NUM_NODES NNODES JOB_NODELIST PROCID LOCALID NODEID SUBMIT_DIR SUBMIT_HOST RESTART_COUNT JOB_PARTITION \
    ARRAY_TASK_COUNT ARRAY_TASK_MIN ARRAY_TASK_MAX ARRAY_TASK_STEP JOB_UID JOB_GID; do
  eval "echo $name=\\${SLURM_$name-none}"
done
echo $SLURMD_NODENAME $((SLURM_TASK_PID - $$))
pwd
exit ${SLURM_ARRAY_TASK_ID:-3}
"""
CALLS = (
    ("sbatch", "--parsable", "--wrap=true"),
    ("sbatch", "missing.sh"),
    ("sbatch", "--foo", "--wrap=true"),
    ("sbatch", "--wrap=true", "missing.sh"),
    ("sbatch", "--wait", "-o", "none", "--wrap=exit 5"),
    ("sbatch", "--wait", "-Q", "-o", "none", "--wrap=srun -n1 sh -c 'exit 6'"),
    ("scancel", "99999"),
    ("scancel",),
    ("squeue", "-j", "99999"),
    ("squeue", "-h", "-j", "99998,99999"),
    ("squeue", "-t", "X"),
    ("squeue", "--foo"),
    ("squeue", "-h", "-u", "nobody"),
    ("squeue", "-n", "none"),
    ("squeue", "--start", "-n", "none"),
    ("squeue", "--noheader", "-n", "none", "-o", "%i %t", "-t", "all"),
    ("scontrol", "show", "job", "99999"),
    ("scontrol", "ping"),
    ("scontrol", "show", "hostnames", "a[1-3,07],b"),
    ("scontrol", "foo"),
    ("sinfo",),
    ("sinfo", "-h", "-o", "%P %a %D %N"),
    ("sinfo", "-s"),
    ("sinfo", "-p", "nosuch"),
    ("squeue", "-n", "none", "-o", "%.3i|%5P%.2j"),
    ("squeue", "-n", "none", "-O", "JobID:.9,Name:|,State"),
    ("srun", "-l", "-n2", "echo", "hello"),
    ("srun", "-n2", "sh", "-c", "exit 7"),
    ("srun", "sh", "-c", "kill -9 $$"),
    ("srun", "-n1", "-l", "nosuch"),
    ("srun",),
)
TOMORROW = (datetime.now() + timedelta(days=1)).date().isoformat()
"""What begins "tonight" is still waiting when the others are over, whenever the tests run."""
FIELDS = ("JobName", "JobState", "Reason", "Requeue", "Restarts", "BatchFlag", "ExitCode", "NumNodes", "NumTasks",
          "CPUs/Task", "WorkDir", "StdOut", "Partition", "UserId", "Dependency")  # fmt: skip

NOT_OF_22_05 = {"ContainerID", "PlannedNodes", "ResvName", "Priority", "CPUFreq", "Nodes", "ResvPort", "StepID",
                "StepName", "StepState", "tres-per-step", "ExcNodes"}  # fmt: skip
"""Fields that Slurm 22.05 lacks, or has of steps only."""
OWN = {"AccrueTime", "AllocNodes", "AllocSID", "Command", "Container", "Deadline", "DelayBoot", "EligibleTime",
       "EndTime",
       "LastSchedEval", "MaxCPUs", "MaxNodes", "MinCpus", "PendingTime", "PriorityLong", "QOS", "ReasonList", "Requeue",
       "StartTime",
       "STDERR", "STDOUT", "SubmitTime", "tres-alloc"}  # fmt: skip
"""Those of which a value depends on when, where and under which policy a job waits."""
OWN_NODES = {"CPUs", "CPUsLoad", "CPUsState", "FreeMem", "Memory", "NodeAddr", "NodeHost", "NodeList", "Port",
             "Sockets",
             "SocketCoreThread", "Version", "AllocMem", "Disk"}  # fmt: skip


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment in which Slurm's commands are its own."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("BETIMES_", "SLURM_"))}
    with ExitStack() as running:
        try:
            env = running.enter_context(real_slurm(tmp_path_factory.mktemp("real"), ours))
        except NoSlurm as reason:
            pytest.skip(str(reason))
        yield env


def _call(env: dict[str, str], folder: Path, *words: str, stdin: str = "") -> tuple[int, str, str]:
    done = subprocess.run(
        words,
        env=env,
        cwd=folder,
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    return done.returncode, done.stdout, done.stderr


def _story(env: dict[str, str], folder: Path) -> dict[str, Any]:
    """What comes of all scripts and calls."""
    told: dict[str, Any] = {}
    for name in ("flow/ab/cdef", "runinfo", "runs", "sub"):
        (folder / name).mkdir(parents=True)
    jobs: dict[str, str] = {}
    for name in (*RUN, *REFUSED):
        lines = (SCRIPTS / f"{name}.sbatch").read_text()
        for place, instead in (("/u/me/", ""), ("/scratch/project", "runs"), ("2026-11-27", TOMORROW)):
            lines = lines.replace(place, instead)
        script = "".join(
            line
            for line in lines.splitlines(keepends=True)
            if line.startswith("#") and "--exclusive" not in line
        )
        script = script.replace("#!/usr/bin/env Rscript", "#!/bin/sh")
        (folder / name).write_text(script + BODY if name not in REFUSED else lines)
        code, out, err = _call(env, folder, "sbatch", name)
        told[f"sbatch {name}"] = bool(code), re.sub(r"\d+", "N", out), bool(err) if code else ""
        if code == 0:
            jobs[name] = out.split()[-1]
    until_at = time.monotonic() + PATIENCE_S
    while (
        len(_call(env, folder, "squeue", "-h", "-r", "-o", "%i", "-j", ",".join(jobs.values()))[1].split())
        > 2
    ):
        assert time.monotonic() < until_at
        time.sleep(0.2)
    names = {job: name for name, job in jobs.items()}
    for name, job in jobs.items():
        squeue = ("squeue", "-h", "-r", "-t", "all", "-j", job, "-o", "%i|%j|%t|%T|%D|%P|%r")
        found = _call(env, folder, *squeue)[1]
        told[f"squeue {name}"] = sorted(re.sub(rf"(?m)^{job}(?!\d)", "JOB", found).splitlines())
        if len(told[f"squeue {name}"]) == 1:
            shown = _call(env, folder, "scontrol", "-o", "show", "job", job)[1]
            fields = {key: value for key, _, value in (part.partition("=") for part in shown.split())}
            told[f"scontrol {name}"] = [
                os.path.normpath(fields[field]).replace(f"slurm-{job}", "slurm-JOB") for field in FIELDS
            ]
    for path in (path for path in folder.rglob("*") if path.suffix in (".out", ".log", ".stdout")):
        title = path.relative_to(folder).as_posix()
        title = re.sub(r"slurm-(\d+)", lambda number: names.get(number[1], "other"), title)
        told[f"file {title}"] = path.read_text().splitlines()
    for call in CALLS:
        code, out, err = _call(env, folder, *call)
        lines = sorted(out.replace("local", socket.gethostname()).splitlines())
        if call[0] == "srun":  # what a job writes to its standard error is among its output with us
            told[" ".join(call)] = code, [line for line in lines if not line.startswith("srun: error")]
            continue
        if call[0] == "sbatch":
            lines = [re.sub(r"\d+$", "N", line) for line in lines]
        told[" ".join(call)] = min(code, 1) if "--foo" in call else code, lines, bool(err)
    return told


@pytest.mark.slow
def test_scripts_and_calls_beside_slurm(served: Served, slurm: dict[str, str], tmp_path: Path) -> None:
    folders = [tmp_path / "one/here", tmp_path / "two/here"]
    for folder in folders:
        folder.mkdir(parents=True)
    theirs, ours = _story(slurm, folders[0]), _story(served.env, folders[1])
    plain = [
        {call: str(found).replace(str(folder), "HERE") for call, found in each.items()}
        for each, folder in zip((theirs, ours), folders, strict=True)
    ]
    differing = {
        call: (ours, theirs) for call, theirs in plain[0].items() if (ours := plain[1][call]) != theirs
    }
    assert not differing, "\n".join(
        f"{call}\n  ours   {one}\n  theirs {two}" for call, (one, two) in differing.items()
    )


@pytest.mark.slow
def test_fields_beside_slurm(served: Served, slurm: dict[str, str], tmp_path: Path) -> None:
    """Each field is known to Slurm, under the head that it has there, and what is not known is printed alike."""
    told: list[dict[str, list[str]]] = []
    for env in (slurm, served.env):
        job = _call(
            env, tmp_path, "sbatch", "--parsable", "--hold", "--comment=why", "-J", "held", "--wrap=true"
        )
        found: dict[str, list[str]] = {}
        for command in ("squeue", "sinfo"):
            fields = [each for each in fields_of(command) if each.name not in NOT_OF_22_05]
            choice = ("-j", job[1].strip()) if command == "squeue" else ()
            for option, names in (("-O", [f"{each.name}:200" for each in fields]),
                                  ("-o", [f"%200{each.letter}" for each in fields if each.letter])):  # fmt: skip
                code, out, err = _call(env, tmp_path, command, *choice, option, ",".join(names))
                assert (code, err) == (0, ""), err
                heads, line = out.splitlines()
                width = 200 if option == "-O" else 201  # the comma is printed
                for at, name in enumerate(names):
                    cells = [text[at * width : at * width + 200].strip() for text in (heads, line)]
                    kept = cells[:1] if name.partition(":")[0] in OWN | OWN_NODES or option == "-o" else cells
                    found[f"{command} {name}"] = [each.replace(job[1].strip(), "JOB") for each in kept]
        _call(env, tmp_path, "scancel", job[1].strip())
        told.append(found)
    theirs, ours = told
    assert ours == theirs
