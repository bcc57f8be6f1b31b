"""Slurm's commands over the client of the command line: sbatch, squeue, scancel, sacct, sinfo, and how all are called.

`betimes slurm commands DIR` puts them there, with `srun` and `scontrol`, which are in other modules. Options and
output are those that scripts and clients use (submitit, dask-jobqueue, parsl, Snakemake, Nextflow); an option that is
not known is an error that names it. Source: the manual pages of Slurm 24.11.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from betimes.cli.slurm_jobs import (
    ACTIVE,
    PARTITION,
    VERSION,
    by_number,
    clock,
    cores,
    exit_code,
    final_code,
    full_clock,
    number_of,
    say_start,
    service_here,
    state_of,
)
from betimes.cli.verbs import Argument
from betimes.errors import BetimesError, InputError
from betimes.printing import printable, report
from betimes.service.spec.spelling import signal_name, signal_number

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from betimes.cli.slurm_jobs import Listed
    from betimes.cli.slurm_options import Asked


# --- the commands ---


def sbatch(words: Sequence[str]) -> None:
    """Submit a script: of a file, of standard input, or of --wrap."""
    from betimes.cli.live.connection import connect
    from betimes.cli.live.following import Left
    from betimes.cli.live.jobs.submit import INPUT, with_numbers
    from betimes.cli.live.jobs.wait import wait_for
    from betimes.service.spec.sbatch import from_environment, read_script, script_text, split_command

    options, rest = split_command(words)
    options = [*from_environment("SBATCH_"), *options]
    asked = {each.name: each.value for each in options}
    if rest:
        path, name = rest[0], None
        try:
            text = script_text(Path(path).read_bytes())
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    else:
        path, name, text = INPUT, "sbatch", ""
    if "wrap" in asked and rest:
        raise InputError("--wrap: a script is given as well; leave one of them out")
    if "wrap" in asked:
        name, text = "wrap", f"#!/bin/sh\n{asked['wrap']}\n"
    elif not rest:
        text = script_text(sys.stdin.buffer.read())
    batch = read_script(text, path, options=options, arguments=rest[1:], name=name)
    for note in batch.notes:
        report("sbatch: note", note)
    fields, asked = batch.fields, batch.options
    fields.setdefault("output", "slurm-%A_%a.out" if "array" in fields else "slurm-%j.out")
    with connect(None, waits="wait" in asked) as service:
        fields = with_numbers(service, fields)
        if "test-only" in asked:
            say_start("sbatch", fields, service.quote(fields))
            return
        job_ids = service.submit(fields).job_ids
        if "parsable" in asked:
            print(job_ids[0])
        elif "quiet" not in asked:
            print(f"Submitted batch job {job_ids[0]}")
        if "wait" in asked:
            sys.stdout.flush()
            over = [job for job in wait_for(service, job_ids) if job.status != "finished"]
            codes = [int(exit_code(service.job(job.job_id).runs).partition(":")[0]) for job in over]
            if codes:
                raise Left(max(codes) or 1)


def squeue(words: Sequence[str]) -> None:
    """List jobs; without conditions those that wait or run."""
    from betimes.cli.slurm_listing import squeue

    squeue(words)


def sacct(words: Sequence[str]) -> None:
    """List jobs, also those that are over: without conditions your own since midnight."""
    from betimes.cli.slurm_listing import sacct

    sacct(words)


def sinfo(words: Sequence[str]) -> None:
    """List the nodes by their partition, which is a queue, and their state."""
    from betimes.cli.slurm_listing import sinfo

    sinfo(words)


def scancel(words: Sequence[str]) -> None:
    """Cancel jobs by number, or those of a user, name or state; those that are over are skipped.

    With --signal, jobs that run get that signal and are left to it; KILL ends them as well.
    """
    from betimes.cli.slurm_listing import chosen
    from betimes.cli.slurm_options import Asked

    asked = Asked("scancel", words)
    signal = asked.value("signal")
    try:
        name = None if signal is None else signal_name(signal)
    except ValueError as error:
        raise InputError(f"--signal: {error}") from None
    conditions = "jobs user me name jobname state partition account qos reservation nodelist"
    if not any(asked.has(name) for name in conditions.split()):
        raise InputError("no job is given; write scancel 41, or --me for all of yours")
    to = "all" if asked.has("full") or name == "KILL" else "command" if asked.has("batch") else "steps"
    with service_here() as service:
        found = list(chosen(service, asked, recent=False))
        jobs = [job for job in found if job.status in ACTIVE]
        numbers = [job.job_id for job in jobs]
        if asked.has("verbose"):
            done = "Terminating"
            if name is not None:
                which = {"all": "full ", "command": "batch "}.get(to, "") if name != "KILL" else ""
                done = f"Signal {signal_number(name)} to {which}".rstrip()
            _say_what_becomes(asked, found, done)
        if numbers and name in (None, "KILL"):
            service.cancel(numbers, where_possible=True)
        if numbers and name is not None:
            service.signal(numbers, name, to=to, where_possible=len(numbers) > 1 or name == "KILL")


def _say_what_becomes(asked: Asked, found: Sequence[Listed], done: str) -> None:
    """Print as `scancel -v` does: a line for each job, and for each number of none."""
    for job in found:
        number = number_of(job)
        report("scancel", f"{done} job {number}")
        if job.status not in ACTIVE:
            text = "Job/step already completing or completed"
            report("scancel: error", f"Kill job error on job id {number}: {text}")
    known = {str(number) for job in found for number in (job.job_id, job.array_id)}
    for word in (asked.value("jobs") or "").split(","):
        if word.isdecimal() and word not in known:
            text = f"Kill job error on job id {word}: Invalid job id specified"
            report("scancel", f"{done} job {word}")
            report("scancel: error", text)


def srun(words: Sequence[str]) -> None:
    """Start tasks within a job; elsewhere submit a job and end as it does."""
    from betimes.cli.slurm_srun import srun

    srun(words)


def scontrol(words: Sequence[str]) -> None:
    """Show jobs, nodes and the service; hold and release jobs."""
    from betimes.cli.slurm_scontrol import scontrol

    scontrol(words)


def salloc(words: Sequence[str]) -> None:
    """Start a shell, or the program that is named, in a new job with this terminal, as `srun --pty` does."""
    from betimes.cli.slurm_srun import salloc

    salloc(words)


def sacctmgr(words: Sequence[str]) -> None:
    """List accounts, users or associations: the groups of the service's settings, and their users."""
    from betimes.cli.slurm_accounts import sacctmgr

    sacctmgr(words)


def sshare(words: Sequence[str]) -> None:
    """List the shares of groups, and of their users, with what they have used of late."""
    from betimes.cli.slurm_accounts import sshare

    sshare(words)


def seff(words: Sequence[str]) -> None:
    """Show what jobs used of what they asked for, in the lines of Slurm's contributed program of that name."""
    if not words:
        raise InputError("no job is given; write seff 41")
    with service_here() as service:
        found = list(by_number(service, ",".join(word for word in words if not word.startswith("-"))))
        if not found:
            raise BetimesError(f"Job not found: {words[-1]}")
        for at, job in enumerate(found):
            print(*[""] * (at > 0), *_efficiency(service.job(job.job_id)), sep="\n", end="\n")


def _efficiency(story: Any) -> list[str]:
    """The lines of `seff`, of the last run."""
    from betimes.cli.slurm_values import group_of

    job, run = story.job, story.runs[-1] if story.runs else None
    count, wall_s = cores(story.job), 0.0 if run is None else run.ran_s
    cpu_s, core_s = (0.0 if run is None else run.cpu_s or 0.0), wall_s * cores(story.job)
    used_gib = 0.0 if run is None else run.max_rss_gib or 0.0
    asked_gib = story.spec.get("memory_gib", 0.0) * job.max_units

    def share(part: float, whole: float) -> str:
        return f"{100 * part / whole if whole else 0.0:.2f}%"

    state = state_of(job)
    has_ended = state not in ("PENDING", "RUNNING", "COMPLETING", "SUSPENDED")
    code = f" (exit code {final_code(job, story.runs).partition(':')[0]})" if has_ended else ""
    array = [] if job.array_id is None else [f"Array Job ID: {job.array_id}_{job.array_index}"]
    warning = "WARNING: Efficiency statistics can only be obtained after the job has ended"
    return [
        f"Job ID: {job.job_id}",
        *array,
        f"Cluster: {PARTITION}",
        f"User/Group: {printable(job.user)}/{group_of(job.user) or 'N/A'}",
        f"State: {state}{code}",
        *([f"Cores: {count}"] if count == 1 else ["Nodes: 1", f"Cores per node: {count}"]),
        f"CPU Utilized: {full_clock(clock(cpu_s))}",
        f"CPU Efficiency: {share(cpu_s, core_s)} of {full_clock(clock(core_s))} core-walltime",
        f"Job Wall-clock time: {full_clock(clock(wall_s))}",
        f"Memory Utilized: {_megabytes(used_gib)}",
        f"Memory Efficiency: {share(used_gib, asked_gib)} of {_megabytes(asked_gib)}",
        *([] if has_ended else [warning]),
    ]


def _megabytes(gib: float) -> str:
    return f"{gib:.2f} GB" if gib >= 1 else f"{gib * 1024:.2f} MB"


COMMANDS: dict[str, Callable[[Sequence[str]], None]] = {
    "sbatch": sbatch,
    "squeue": squeue,
    "scancel": scancel,
    "sacct": sacct,
    "srun": srun,
    "sinfo": sinfo,
    "scontrol": scontrol,
    "salloc": salloc,
    "sacctmgr": sacctmgr,
    "sshare": sshare,
    "seff": seff,
}


def main(command: str, words: Sequence[str]) -> int:
    """Carry out a command; returns the exit code. An error is a line on standard error, as with Slurm."""
    from betimes.cli.live.following import Left

    try:
        if list(words[:1]) in (["--version"], ["-V"]):
            print(f"slurm {VERSION}")
        elif list(words[:1]) in (["--help"], ["--usage"]):
            print(f"{command}: {' '.join((COMMANDS[command].__doc__ or '').split())}")
            print(_options_of(command))
            print('What is different from Slurm: see the page "From Slurm" of the documentation.')
        else:
            COMMANDS[command](words)
        sys.stdout.flush()
    except Left as left:
        return left.exit_code
    except BetimesError as error:
        report(f"{command}: error", str(error))
        return _code_of_error(command)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _code_of_error(command: str) -> int:
    """By SLURM_EXIT_ERROR, which those that start jobs obey, so that scripts know it from the codes of programs."""
    wanted = os.environ.get("SLURM_EXIT_ERROR", "")
    is_code = len(wanted) < 4 and wanted.isdecimal() and 0 < int(wanted) < 256
    return int(wanted) if is_code and command in ("sbatch", "srun", "salloc") else 1


def _options_of(command: str) -> str:
    from betimes.cli.slurm_options import GRAMMARS, help_of
    from betimes.service.spec.sbatch import SALLOC, SBATCH, SRUN

    if command in GRAMMARS:
        return help_of(command)
    known = {"sbatch": SBATCH, "srun": SRUN, "salloc": SALLOC}.get(command)
    return "" if known is None else f"Options: {' '.join(f'--{name}' for name in sorted(known.known))}"


def running_file() -> Path | None:
    """The one file that Betimes runs from, as `betimes service client-file` writes it; None where it is installed."""
    started = Path(getattr(sys.modules["__main__"], "__file__", None) or "")
    return started.parent if started.name == "__main__.py" and started.parent.is_file() else None


def slurm_commands(
    folder: Annotated[
        str,
        Argument(
            metavar="DIR", help="The folder, to be put in front of PATH; it is made.", show_default=False
        ),
    ],
) -> None:
    """Put Slurm's commands sbatch, squeue, scancel, sacct, srun, salloc, sinfo, scontrol and seff into a folder.

    They talk to the service that the environment names (BETIMES_URL, BETIMES_STATE), as `betimes` does.
    """
    target, this = Path(folder).expanduser().absolute(), running_file()
    try:
        target.mkdir(parents=True, exist_ok=True)
        for name in COMMANDS:
            file = target / name
            if this is None:
                run = f'from betimes.cli.slurm import main\n\nsys.exit(main("{name}", sys.argv[1:]))\n'
            else:
                called = f'sys.argv.insert(1, "{name}")\nrunpy.run_path({str(this.absolute())!r}, run_name="__main__")'
                run = f"import runpy\n\n{called}\n"
            file.write_text(f"#!{sys.executable}\nimport sys\n\n{run}", encoding="utf-8")
            file.chmod(0o755)
    except OSError as error:
        raise InputError(f"{target}: cannot be written ({error.strerror}); name another folder") from None
    print(f'{", ".join(COMMANDS)} are in {target}; use them with: export PATH="{target}:$PATH"')
