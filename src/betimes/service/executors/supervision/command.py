"""The start of a run's command: a new process becomes it, or says why it cannot; the files of its output."""

from __future__ import annotations

import errno
import os
import time

from .files import INPUT, LOST
from .processes import become_user, die_with, signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from .processes import Memory

READY = b"+"  # sent; at the gate: begin
_YEAR_S = 365 * 86_400
READY_LIMITED = b"-"  # at the gate: begin, under a resource limit for want of a control group


def become_command(
    launch: dict[str, Any], shim: int, output: int, report: int, gate: int, memory: Memory
) -> NoReturn:
    """Become the command: send READY, and begin when the gate opens. On failure the pipe carries why, after READY or
    instead of it.

    What the job names (folder, output, program) is looked at and opened as the job's owner only.
    """
    step = "session"
    try:
        os.setsid()
        _forget_signals()
        die_with(shim)
        for descriptor, number in ((output, 1), (output, 2)):
            os.dup2(descriptor, number)
        step = "stdin"
        os.dup2(_input(launch), 0)
        if launch.get("owner") is not None:
            step = "owner"
            import warnings  # noqa: F401  # by `execvpe`; the user may not be able to read Python's modules

            become_user(**launch["owner"], streams=(output, 0) if launch["stdin"] is not None else (output,))
            die_with(shim)  # which the kernel forgets when the user changes
            step = "checkpoint_dir"
            if not launch["keeps_checkpoints"]:
                os.makedirs(encoded(launch["checkpoint_dir"]), 0o700, exist_ok=True)
        step = "workdir"
        os.chdir(encoded(launch["workdir"]))
        step = "output"
        _redirect(launch, output)
        os.write(report, READY)
        word = os.read(gate, 1)
        if not word:
            os._exit(0)
        step = "command"
        command = [encoded(argument) for argument in launch["command"]]
        variables = launch["env"]
        if "SLURM_JOB_ID" in variables:
            variables = variables | _of_slurm_process(variables, launch["time_limit_s"])
        env = {encoded(name): encoded(value) for name, value in variables.items()}
        if word == READY_LIMITED:
            step = "memory"
            memory.limit_self()
            step = "command"
        os.execvpe(command[0], command, env)
    except OSError as error:
        why = describe(step, error.errno or 0, str(error.strerror), launch)
        os.write(report, why.encode("utf-8", "backslashreplace"))
    except BaseException as error:
        os.write(report, describe(step, 0, repr(error), launch).encode("utf-8", "backslashreplace"))
    os._exit(127)


def _of_slurm_process(variables: dict[str, str], limit_s: float | None) -> dict[str, str]:
    """Variables of a Slurm batch script about its process; without a limit its end is a year away, as with Slurm."""
    names = variables.get("BETIMES_NODES", variables["SLURM_JOB_NODELIST"])
    nodes, start_s = names.split(","), int(time.time())
    return {
        "SLURMD_NODENAME": nodes[int(variables.get("RANK", "0"))],
        "SLURM_JOB_UID": str(os.getuid()),
        "SLURM_JOB_GID": str(os.getgid()),
        "SLURM_TASK_PID": str(os.getpid()),
        "SLURM_JOB_START_TIME": str(start_s),
        "SLURM_JOB_END_TIME": str(start_s + int(limit_s or _YEAR_S)),
    }


def _input(launch: dict[str, Any]) -> int:
    """A descriptor of the command's input: a file that came with the job, or nothing."""
    if launch.get("stdin") is None:
        return os.open(os.devnull, os.O_RDONLY)
    file = os.open(os.path.join(launch["folder"], INPUT), os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    left = encoded(launch["stdin"])
    while left:
        left = left[os.write(file, left) :]
    os.lseek(file, 0, os.SEEK_SET)
    return file


def _redirect(launch: dict[str, Any], log: int) -> None:
    """Let standard output and error be the files that the job names; a line of the log names them.

    A job's first run begins a file anew, later runs append to it.
    """
    output, error = launch.get("output"), launch.get("error")
    is_anew = launch["run"][1] == 1
    opened: dict[str, int] = {}
    for path, numbers in ((output, (1, 2)), (error, (2,))):
        if path is None:
            continue
        if path not in opened:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | (os.O_TRUNC if is_anew else 0)
            opened[path] = os.open(encoded(path), flags, 0o666)
            os.write(log, b"betimes: output goes to " + encoded(path) + b"\n")
        for number in numbers:
            os.dup2(opened[path], number)


def _of_interpreter(path: str, program: str) -> str:
    """Why an existing script's interpreter is missing."""
    try:
        with open(encoded(path), "rb") as script:
            first = script.readline(4096)
    except OSError:  # not ours to read
        first = b""
    if first.endswith(b"\r\n"):
        return (
            "its first line ends with a carriage return, as on Windows, so that no such interpreter is found; "
            f"remove them: sed -i 's/\\r$//' {program}"
        )
    return "the interpreter that its first line names does not exist"


def encoded(text: str) -> bytes:
    """A text as the kernel takes it: UTF-8, whatever the service's locale; undecodable bytes as they came."""
    return text.encode("utf-8", "surrogateescape")


def _forget_signals() -> None:
    """Reset signals that Python, the shim or the service ignore or block."""
    for number in range(1, signal.NSIG):
        try:
            signal.signal(number, signal.SIG_DFL)
        except (OSError, ValueError):  # SIGKILL, SIGSTOP, and those reserved by the C library
            continue
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def describe(step: str, number: int, text: str, launch: dict[str, Any]) -> str:
    """Why a command did not start, and what to do about it."""
    program, workdir = launch["command"][0], launch["workdir"]
    if step == "workdir":
        found = {
            errno.ENOENT: "does not exist; create it or name another",
            errno.ENOTDIR: "is not a folder; name another",
            errno.EACCES: "may not be entered; name another or change its permissions",
        }
        return f"the working directory {workdir!r} {found.get(number, f'cannot be entered: {text}')}"
    if step == "checkpoint_dir":
        return f"its folder for checkpoints {launch['checkpoint_dir']!r} cannot be made: {text}; name another"
    if step == "output":
        files = " or ".join(repr(launch[name]) for name in ("output", "error") if launch[name] is not None)
        return f"its output file {files} cannot be written: {text}; name another, or create its folder"
    if step != "command":
        return f"the command {program!r} was not started: {step}: {text}"
    if number in (errno.ENOENT, errno.ENOTDIR):
        if "/" not in program:
            return (
                f"the command {program!r} does not exist: it is in none of the folders of PATH; name it by its full "
                "path, or hand over your PATH (--env PATH)"
            )
        if os.path.exists(encoded(os.path.join(workdir, program))):
            return f"the command {program!r} cannot run: {_of_interpreter(os.path.join(workdir, program), program)}"
        return f"the command {program!r} does not exist (seen from the working directory {workdir!r})"
    found = {
        errno.EACCES: "is not executable; make it so (chmod +x), or give it to its interpreter",
        errno.ENOEXEC: "is no program for this machine; a script needs a first line such as #!/bin/sh",
        errno.E2BIG: "cannot run: its arguments and environment are too long",
    }
    return f"the command {program!r} {found.get(number, f'cannot run: {text}')}"


# --- its output: `log`, and `log.1`, `log.2`, ..., ever older ---

# A FIFO that a job has put there blocks no one.
_AT_ONCE = os.O_NONBLOCK | os.O_CLOEXEC


class Log:
    """The newest `files` files of at most `most_bytes` each. Trouble with the disk loses output, never the job.

    owner: the user and group to whom the files belong; null: this process's.
    """

    def __init__(self, path: str, most_bytes: int, files: int, owner: tuple[int, int] | None = None) -> None:
        self.path, self.most_bytes, self.files, self.owner = path, most_bytes, files, owner
        self.dropped_bytes = 0  # of the oldest output, to make way for newer
        self.failed_bytes, self.trouble = 0, ""  # that could not be written, and why
        self._file: int | None = None
        self._size = 0

    @property
    def lost_bytes(self) -> int:
        """All bytes written but not kept."""
        return self.dropped_bytes + self.failed_bytes

    def write(self, chunk: bytes) -> None:
        """Append; a file that would grow too long is rotated, where possible at the end of a line.

        The first call makes the file, also with nothing to write.
        """
        view = memoryview(chunk)
        try:
            self._open()
            while view:
                view = view[self._append(view) :]
        except OSError as error:
            self.failed_bytes += len(view)
            self.trouble = error.strerror or str(error)

    def _open(self) -> int:
        if self._file is None:
            self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | _AT_ONCE, 0o600)
            if self.owner is not None:
                os.fchown(self._file, *self.owner)
            self._size = os.fstat(self._file).st_size
        return self._file

    def _append(self, view: memoryview) -> int:
        file = self._open()
        room = self.most_bytes - self._size
        if len(view) > room:
            line_end = bytes(view[: max(room, 0)]).rfind(b"\n") + 1
            room = line_end or (room if self._size == 0 else 0)
            if room <= 0:
                self._put_aside(file)
                return 0
        written = os.write(file, view[:room])
        self._size += written
        return written

    def _put_aside(self, file: int) -> None:
        self._file = None
        os.close(file)
        oldest = f"{self.path}.{self.files - 1}" if self.files > 1 else self.path
        dropped_bytes = os.stat(oldest).st_size if os.path.exists(oldest) else 0
        for number in range(self.files - 1, 0, -1):
            younger = f"{self.path}.{number - 1}" if number > 1 else self.path
            if os.path.exists(younger):
                os.replace(younger, f"{self.path}.{number}")
        if self.files == 1:
            os.unlink(self.path)
        if dropped_bytes:
            self.dropped_bytes += dropped_bytes
            self._report_lost()

    def _report_lost(self) -> None:
        """Write the bytes lost so far to a file: exit.json has them only at the end."""
        try:
            file = os.open(self.path + LOST, os.O_WRONLY | os.O_CREAT | _AT_ONCE, 0o600)
        except OSError:  # no room for a name: exit.json has them
            return
        try:
            os.write(file, b"%020d" % self.lost_bytes)  # always as long, so that it is written in place
        except OSError:  # no room
            return
        finally:
            os.close(file)
