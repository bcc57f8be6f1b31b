"""Slurm's `srun`: within a job it starts tasks; elsewhere it submits a job, prints its output, and ends as it does.

Source: the manual page of srun, Slurm 24.11.
"""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from betimes.cli.live.following import Left
from betimes.cli.slurm_helper import join, run_on
from betimes.cli.slurm_step import Allocation, Step, cannot_start, planned
from betimes.errors import InputError
from betimes.printing import report
from betimes.service.spec.sbatch import (
    HARMLESS,
    LABELS,
    LAUNCHING,
    SALLOC,
    SRUN,
    Given,
    from_environment,
    read_program,
    split_command,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

HELPER = "--helper"
"""Makes `srun` what a script of several nodes starts on each machine, before its first line."""
_STARTS_TASKS = ("cpus-per-task", "error", "gpus-per-task", "input", "kill-on-bad-exit", "label", "output")
_WITHIN = frozenset(
    {*_STARTS_TASKS, *HARMLESS, *LABELS, *LAUNCHING, "chdir", "disable-status", "exact", "exclusive", "export",
     "gpus", "gpus-per-node", "gres", "job-name", "mem", "mem-per-cpu", "mem-per-gpu", "mpi", "nodelist", "nodes",
     "ntasks", "ntasks-per-node", "open-mode", "overcommit", "overlap", "preserve-env", "pty", "quit-on-interrupt",
     "unbuffered"}
)  # fmt: skip
"""The options of a step. Memory is not set apart for one: all steps share the job's."""


def srun(words: Sequence[str]) -> None:
    """Start a program as the tasks of a job, or of this one. Raises Left with the exit code if that is not 0."""
    if list(words) == [HELPER]:
        join()
        return
    given, command = split_command(words, SRUN)
    if not command:
        raise InputError("no program is given; write srun -n 4 PROGRAM")
    _start([*from_environment("SLURM_", grammar=SRUN), *given], command)


def _start(given: Sequence[Given], command: list[str]) -> None:
    named = {each.name: each for each in given}
    if (several := named.get("multi-prog")) is not None:
        raise InputError(f"{several.label}: cannot be kept; let one program choose by $SLURM_PROCID")
    if (mpi := named.get("mpi")) is not None and mpi.value not in ("none", "list"):
        instead = "as tasks are not joined for MPI here; write mpirun -n N PROGRAM"
        raise InputError(f"{mpi.label}={mpi.value}: cannot be kept, {instead}")
    (_step if "BETIMES_JOB_ID" in os.environ else _job)(given, command)


def salloc(words: Sequence[str]) -> None:
    """Start a shell, or the program that is named, with this terminal, as `srun --pty` does. Raises Left."""
    given, command = split_command(words, SALLOC)
    given = [*from_environment("SALLOC_", grammar=SALLOC), *given, Given("pty", "", None)]
    _start(given, command or [os.environ.get("SHELL", "/bin/sh")])


# --- outside a job ---


def _job(given: Sequence[Given], command: list[str]) -> None:
    from betimes.cli.live.connection import connect
    from betimes.cli.live.jobs.logs import copy
    from betimes.cli.live.jobs.run import end_as, follow, show_terminal, terminal_for
    from betimes.cli.live.jobs.submit import with_input, with_numbers
    from betimes.cli.slurm_jobs import instant, say_start
    from betimes.service.spec.environments import with_terminal

    asked = {each.name: each.value for each in given}
    for name in ("jobid", "relative", "het-group"):
        if name in asked:
            raise InputError(f"--{name}: cannot be kept; leave it out")
    tasks = int(read_program(command, given).fields["env"].get("SLURM_NTASKS", "1"))
    has_terminal = "pty" in asked  # which is one task's: it has the cores of all
    if "label" in asked or (tasks > 1 and not has_terminal):  # a step of the job starts them
        ours = Path(sys.argv[0]).absolute()
        program = str(ours) if ours.name == "srun" else "srun"
        inner = [
            f"--{name}={asked[name]}" if asked[name] else f"--{name}"
            for name in _STARTS_TASKS
            if name in asked
        ]
        command = [program, f"--ntasks={tasks}", *inner, *command]
        given = [each for each in given if each.name not in ("output", "error", "input")]
    batch = read_program(command, given)
    for note in batch.notes:
        report("srun: note", note)
    with connect(None, waits=True) as service, ExitStack() as left:
        at = left.enter_context(terminal_for(service, {}, as_json=False)) if has_terminal else None
        if at is None:
            fields = with_input(batch.fields)
        else:
            typed = with_terminal(command, at.getsockname())
            fields = batch.fields | {"command": typed, "requeue": False}
        fields = with_numbers(service, fields)
        if "test-only" in asked:
            say_start("srun", fields, service.quote(fields))
            return
        taken = service.submit(fields)
        (job_id,) = taken.job_ids
        promise = taken.quote
        if promise is not None and promise.reason is not None and "quiet" not in asked:
            when = f"starts {instant(promise.start_at)}, done {instant(promise.finish_at)}"
            report("srun", f"job {job_id} queued and waiting for resources ({when})")

        def show() -> None:
            if at is None:
                copy(service.logs(job_id, follow=True))
            else:
                show_terminal(service, job_id, at)

        over, code = follow(service, job_id, None, show)
    end_as(over, code)


# --- within a job ---


def _step(given: Sequence[Given], command: list[str]) -> None:
    """Start the tasks of a step of this job, and wait for them; a single one takes this process's place."""
    asked = {each.name: each.value for each in given}
    for each in given:
        if each.name not in _WITHIN:
            hint = {
                "time": "write timeout 10m PROGRAM",
                "jobid": "leave it out: a step is of the job that it runs in",
            }
            otherwise = "unset it" if each.variable else "leave it out"
            raise InputError(f"{each.label}: cannot be kept within a job; {hint.get(each.name, otherwise)}")
    plan = planned(asked, Allocation.of_this_job())
    if any(node.machine for node in plan.nodes):
        code = run_on(plan, command)
    else:
        step = Step(plan, 0)
        if plan.tasks == 1 and "label" not in asked and asked.get("input", "all") in ("all", "0"):
            [task] = step.tasks
            env, outputs = step.environment(task), step.outputs(task)
            for file, number in zip(outputs, (1, 2), strict=True):
                if file is not None:
                    os.dup2(file.fileno(), number)
            os.chdir(plan.folder)
            _become(command, env)
        code = step.run(command)
    if code:
        raise Left(code)


def _become(command: list[str], env: Mapping[str, str]) -> None:
    try:
        os.execvpe(command[0], command, env)
    except OSError as error:
        raise cannot_start(command, error) from None
