"""Slurm's `srun`: within a job it starts tasks; elsewhere it submits a job, prints its output, and ends as it does.

Steps of a job that run at once share its cores and GPUs as with Slurm: each takes as many as it asks for, and waits
until they are free. Source: the manual page of srun, Slurm 24.11.
"""

from __future__ import annotations

import fcntl
import os
import queue
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from betimes.cli.live.following import Left
from betimes.errors import BetimesError, InputError
from betimes.printing import report
from betimes.service.spec.sbatch import (
    HARMLESS,
    LABELS,
    LAUNCHING,
    SALLOC,
    SRUN,
    Given,
    from_environment,
    gpu_number,
    gres,
    read_program,
    split_command,
)
from betimes.service.spec.spelling import exported, file_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    News = tuple[int | None, int]  # a task and its exit code, or a signal that came

BY_SIGNAL = 128  # and the signal's number is the exit code of a task that a signal has ended
CANNOT_START = 2
LOOK_S = 0.1  # for cores that other steps have
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
    job = os.environ
    asked = {each.name: each.value for each in given}
    for each in given:
        if each.name not in _WITHIN:
            hint = {
                "time": "write timeout 10m PROGRAM",
                "jobid": "leave it out: a step is of the job that it runs in",
            }
            otherwise = "unset it" if each.variable else "leave it out"
            raise InputError(f"{each.label}: cannot be kept within a job; {hint.get(each.name, otherwise)}")
    here = job.get("SLURM_JOB_NODELIST", socket.gethostname()).split(",")
    if _number(asked, "nodes", 1) > len(here):
        raise InputError(f"--nodes={asked['nodes']}: the job has {len(here)}; write --nodes={len(here)}")
    if not set(filter(None, asked.get("nodelist", "").split(","))) <= {
        *here,
        "localhost",
        socket.gethostname(),
    }:
        raise InputError(f"--nodelist={asked['nodelist']}: the job is on {','.join(here)}; leave it out")
    per_node = _number(asked, "ntasks-per-node", int(job.get("SLURM_NTASKS", "1")))
    tasks = _number(asked, "ntasks", per_node)
    step = _Step(asked, tasks)
    if tasks == 1 and "label" not in asked and asked.get("input", "all") in ("all", "0"):
        env, outputs = step.environment(0), step.outputs(0)
        for file, number in zip(outputs, (1, 2), strict=True):
            if file is not None:
                os.dup2(file.fileno(), number)
        os.chdir(step.folder)
        _become(command, env)
    if code := step.run(command):
        raise Left(code)


def _number(asked: Mapping[str, str], name: str, default: int) -> int:
    """A whole number of 1 or more; of a range the least. Raises InputError."""
    text = asked.get(name)
    if text is None:
        return default
    number = text.partition("-")[0]
    if not number.isdecimal() or int(number) < 1:
        raise InputError(f"--{name}={text}: is not a number of 1 or more")
    return int(number)


def _become(command: list[str], env: Mapping[str, str]) -> None:
    try:
        os.execvpe(command[0], command, env)
    except OSError as error:
        raise _cannot_start(command, error) from None


def _cannot_start(command: list[str], error: OSError) -> BetimesError:
    text = f"{command[0]}: {error.strerror}; name a program that is there, or its full path"
    report("srun: error", text)
    return Left(CANNOT_START)


class _Step:
    """A step of this job: its number, its cores and GPUs, and its tasks."""

    def __init__(self, asked: Mapping[str, str], tasks: int) -> None:
        self.asked, self.tasks = asked, tasks
        self.folder = str(Path(asked.get("chdir", "")).absolute())
        self.files: dict[str, BinaryIO] = {}
        self.gpus_each = self._gpus("gpus-per-task")
        gpus = tasks * (self.gpus_each or 0) or self._gpus("gpus", "gpus-per-node", "gres")
        self.number, self.gpus = self._taken(tasks * _number(asked, "cpus-per-task", 1), gpus)

    def _gpus(self, *names: str) -> int | None:
        for name in names:
            if name in self.asked:
                try:
                    return (gres if name == "gres" else gpu_number)(self.asked[name])[0]
                except ValueError as error:
                    raise InputError(f"--{name}: {error}") from None
        return None

    def _taken(self, cpus: int, gpus: int | None) -> tuple[int, list[str] | None]:
        """The step's number and its GPUs, null for all of the job's, once as many cores and GPUs are free.

        What is taken is locked by open files, so that it is free when the step's last process has ended.
        """
        job = os.environ
        folder = Path(job["BETIMES_RUN_DIR"], "srun")
        folder.mkdir(exist_ok=True)
        cores = int(job.get("SLURM_CPUS_ON_NODE", "0"))
        devices = [each for each in job.get("CUDA_VISIBLE_DEVICES", "").split(",") if each]
        is_within_step = "SLURM_STEP_ID" in job  # which has taken what it needs
        shares = "overlap" in self.asked or "overcommit" in self.asked or is_within_step or not cores
        wanted = [] if shares else [([f"core-{number}" for number in range(cores)], cpus)]
        wanted += [] if gpus is None else [([f"gpu-{number}" for number in range(len(devices))], gpus)]
        for there, count in wanted:
            if count > len(there):
                kind = "GPUs" if count == gpus and there[:1] != ["core-0"] else "processors"
                raise InputError(
                    f"more {kind} requested than permitted: {count}, and the job has {len(there)}; ask for more in "
                    "the job, or for less here (--overlap to share cores)"
                )
        reported = False
        while True:
            with (folder / "step").open("a+") as counter:
                fcntl.flock(counter, fcntl.LOCK_EX)
                found = _locked(folder, wanted, alone=not is_within_step)
                if found is not None:
                    counter.seek(0)
                    number = int(counter.read() or "0")
                    counter.truncate(0)
                    counter.write(str(number + 1))
                    return number, None if gpus is None else [devices[int(name[4:])] for name in found[-1]]
            if not reported:
                reported = True
                report("srun", "step waits until others of this job are over")
            time.sleep(LOOK_S)

    def environment(self, task: int) -> dict[str, str]:
        """The variables of a task."""
        job = os.environ
        kept = {name: value for name, value in job.items() if name.startswith(("BETIMES_", "SLURM_"))}
        try:
            env = kept | exported(self.asked["export"], job) if "export" in self.asked else dict(job)
        except ValueError as error:
            raise InputError(f"--export: {error}") from None
        known = {
            "STEP_ID": self.number, "STEPID": self.number, "NTASKS": self.tasks, "NPROCS": self.tasks,
            "STEP_NUM_TASKS": self.tasks, "STEP_NUM_NODES": 1, "STEP_TASKS_PER_NODE": self.tasks,
            "TASKS_PER_NODE": self.tasks, "PROCID": task, "LOCALID": task, "NODEID": 0, "NNODES": 1,
            "STEP_NODELIST": job.get("SLURM_JOB_NODELIST", socket.gethostname()),
        }  # fmt: skip
        if "cpus-per-task" in self.asked:
            known["CPUS_PER_TASK"] = self.asked["cpus-per-task"]
        if self.gpus is not None:
            each = self.gpus_each
            own = self.gpus if each is None else self.gpus[task * each : (task + 1) * each]
            env["CUDA_VISIBLE_DEVICES"] = ",".join(own)
        return env | {f"SLURM_{name}": str(value) for name, value in known.items()}

    def outputs(self, task: int) -> tuple[BinaryIO | None, BinaryIO | None]:
        """The files of a task's standard output and error; null: those of this command."""
        out = self._file("output", task)
        return out, self._file("error", task) if "error" in self.asked else out

    def _file(self, option: str, task: int) -> BinaryIO | None:
        pattern = self.asked.get(option, "all")
        if pattern == "all" or pattern == str(task):
            return None
        job = os.environ
        number = job["BETIMES_JOB_ID"]
        known = {
            "j": number, "J": f"{number}.{self.number}", "A": job.get("BETIMES_ARRAY_ID", number),
            "a": job.get("BETIMES_ARRAY_INDEX", "0"), "t": str(task), "n": "0", "N": socket.gethostname().split(".")[0],
            "s": str(self.number), "u": job.get("USER", ""), "x": job.get("BETIMES_JOB_NAME", ""),
        }  # fmt: skip
        is_other = pattern == "none" or pattern.isdecimal()
        path = os.devnull if is_other else str(Path(self.folder, file_name(pattern, known)))
        if path not in self.files:
            appends = self.asked.get("open-mode") == "append" or job.get("BETIMES_ATTEMPT", "1") != "1"
            try:
                self.files[path] = Path(path).open("ab")  # noqa: SIM115
                if not appends and not is_other:
                    self.files[path].truncate(0)
            except OSError as error:
                raise InputError(
                    f"--{option}={pattern}: {path} cannot be written ({error.strerror})"
                ) from None
        return self.files[path]

    def run(self, command: list[str]) -> int:
        """Start all tasks and wait for them; signals are passed on. The worst of their exit codes."""
        processes: list[subprocess.Popen[bytes]] = []
        copies: list[threading.Thread] = []
        news: queue.SimpleQueue[News] = queue.SimpleQueue()
        lock = threading.Lock()

        def send(number: int) -> None:
            for process in processes:
                if process.poll() is None:
                    os.killpg(process.pid, number)

        def heed(number: int, _: object) -> None:
            news.put((None, number))

        numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
        before = {number: signal.signal(number, heed) for number in numbers}
        try:
            for task in range(self.tasks):
                process = self._started(command, task, copies, lock)
                processes.append(process)
                threading.Thread(target=_await, args=(task, process, news), daemon=True).start()
            self._feed(processes)
            worst, left = 0, self.tasks
            while left:
                task, number = news.get()
                if task is None:
                    send(number)
                    continue
                left, worst = left - 1, max(worst, number)
                if number:
                    how = f"Exited with exit code {number}"
                    report("srun: error", f"{socket.gethostname()}: task {task}: {how}")
                if number and self.asked.get("kill-on-bad-exit", "0") != "0":
                    send(signal.SIGTERM)
            for copy in copies:
                copy.join()
        except BaseException:
            send(signal.SIGKILL)
            raise
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        return worst

    def _started(
        self, command: list[str], task: int, copies: list[threading.Thread], lock: threading.Lock
    ) -> subprocess.Popen[bytes]:
        is_labelled = "label" in self.asked
        files = self.outputs(task)
        given = [file or (subprocess.PIPE if is_labelled else None) for file in files]
        path = self.asked.get("input", "all")
        try:
            process = subprocess.Popen(
                command,
                cwd=self.folder,
                env=self.environment(task),
                stdin=subprocess.PIPE if self._reads(task) else _opened(path),
                stdout=given[0],
                stderr=given[1],
                start_new_session=True,  # a signal to the job's group comes here, and is passed on once
            )
        except OSError as error:
            raise _cannot_start(command, error) from None
        mark = f"{task:>{len(str(self.tasks - 1))}}: ".encode()
        for source, to in ((process.stdout, sys.stdout.buffer), (process.stderr, sys.stderr.buffer)):
            if source is not None:
                copies.append(threading.Thread(target=_copy, args=(source, to, mark, lock)))
                copies[-1].start()
        return process

    def _reads(self, task: int) -> bool:
        """Whether a task gets this command's standard input."""
        wanted = self.asked.get("input", "all")
        return wanted in ("all", str(task)) and not stat.S_ISCHR(os.fstat(0).st_mode)

    def _feed(self, processes: Sequence[subprocess.Popen[bytes]]) -> None:
        """Copy standard input to the tasks that read it, aside."""
        readers = [process.stdin for process in processes if process.stdin is not None]
        if readers:
            threading.Thread(target=_broadcast, args=(readers,), daemon=True).start()


def _opened(path: str) -> int | BinaryIO:
    """The standard input of a task that has its own."""
    if path in ("all", "none") or path.isdecimal():
        return subprocess.DEVNULL
    try:
        return Path(path).open("rb")
    except OSError as error:
        raise InputError(f"--input={path}: cannot be read ({error.strerror})") from None


def _locked(
    folder: Path, wanted: Sequence[tuple[Sequence[str], int]], *, alone: bool
) -> list[list[str]] | None:
    """Of each kind so many names; null: there are too few.

    alone: which no other process has locked; they are locked then, as long as this process and its successor live.
    """
    taken: list[int] = []
    found: list[list[str]] = []
    for there, count in wanted:
        names: list[str] = []
        for name in there:
            if len(names) == count:
                break
            descriptor = os.open(folder / name, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                if alone:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
                continue
            os.set_inheritable(descriptor, True)
            taken.append(descriptor)
            names.append(name)
        found.append(names)
    if all(len(names) == count for names, (_, count) in zip(found, wanted, strict=True)):
        return found
    for descriptor in taken:
        os.close(descriptor)
    return None


def _await(task: int, process: subprocess.Popen[bytes], news: queue.SimpleQueue[News]) -> None:
    code = process.wait()
    news.put((task, code if code >= 0 else BY_SIGNAL - code))


def _copy(source: BinaryIO, to: BinaryIO, mark: bytes, lock: threading.Lock) -> None:
    for line in source:
        with lock:
            to.write(mark + line + (b"" if line.endswith(b"\n") else b"\n"))
            to.flush()


def _broadcast(readers: list[BinaryIO]) -> None:
    while readers and (piece := os.read(0, 1 << 16)):
        for reader in [*readers]:
            try:
                reader.write(piece)
                reader.flush()
            except BrokenPipeError:
                readers.remove(reader)
    for reader in readers:
        try:
            reader.close()
        except BrokenPipeError:
            continue
