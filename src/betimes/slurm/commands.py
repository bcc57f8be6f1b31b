"""Slurm's commands that read: how they are called, and what they print. No command that writes is known here."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from time import localtime, strftime

from betimes.errors import SlurmError
from betimes.printing import one_line

TIMEOUT_S = 20.0
"""Twice Slurm's own (MessageTimeout): a command that takes longer than that hangs."""
COLUMNS = "%i|%u|%T|%V|%S|%e|%l|%C|%D|%P|%Q|%r|%N|%E|%b|%f|%h|%j"
"""Of `squeue`; the name last, as it may hold anything."""
HISTORY = "JobIDRaw,User,Submit,Start,ElapsedRaw,TimelimitRaw,AllocCPUS,ReqCPUS,State,Partition,JobName"
_OF_THE_USER = ("SQUEUE_", "SACCT_", "SCONTROL_", "SINFO_", "SDIAG_")
"""Variables by which a user's own choices would change what is printed."""
_LONGEST_MESSAGE = 200


class Commands:
    """`squeue`, `scontrol show`, `sdiag` and `sacct` of a folder, or of PATH. All raise SlurmError on failure."""

    def __init__(self, folder: Path | None = None, timeout_s: float = TIMEOUT_S) -> None:
        self.folder, self.timeout_s = folder, timeout_s

    def squeue(self) -> tuple[str, str]:
        """All jobs, a row each, and the mark with which each row begins: a name cannot forge a row, as it is random."""
        mark = f"{secrets.token_hex(8)}|"
        asked = ("-h", "-a", "-r", "--local", "-t", "all", "-o", mark + COLUMNS)
        return self._run("squeue", asked), mark

    def show(self, what: str) -> str:
        """All nodes, partitions or reservations as `scontrol` shows them, a line each, or the configuration."""
        return self._run("scontrol", ("-o", "-a", "show", what))

    def sdiag(self) -> str:
        """The counts of the controller."""
        return self._run("sdiag", ())

    def version(self) -> str:
        """That of the commands, which the controller's may differ from."""
        return self._run("squeue", ("-V",))

    def history(self, since_at: float) -> str:
        """Accounting of all jobs since an instant (seconds since 1970), as `read_trace` reads it."""
        since = strftime("%Y-%m-%dT%H:%M:%S", localtime(since_at))
        return self._run("sacct", ("-a", "-X", "-P", "-S", since, "-E", "now", "-o", HISTORY))

    def ends(self, jobs: Sequence[str]) -> str:
        """The ends of these jobs, lines of `id|state|start|end`, as far as accounting has them."""
        asked = ("-a", "-X", "-P", "-n", "-j", ",".join(jobs), "-o", "JobID,State,Start,End")
        return self._run("sacct", asked)

    def _path(self, name: str) -> str | None:
        return shutil.which(name, path=None if self.folder is None else str(self.folder))

    def _run(self, name: str, asked: Sequence[str]) -> str:
        path = self._path(name)
        if path is None:
            where = "PATH" if self.folder is None else str(self.folder)
            raise SlurmError(
                f"there is no {name} in {where}; give the directory of Slurm's commands (--slurm-bin DIR)"
            )
        env = {key: value for key, value in os.environ.items() if not key.startswith(_OF_THE_USER)}
        env.pop("SLURM_CLUSTERS", None)
        env |= {"SLURM_TIME_FORMAT": "%s", "LC_ALL": "C"}
        try:
            done = subprocess.run(
                (path, *asked),
                env=env,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=self.timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise SlurmError(
                f"{name} has not answered within {self.timeout_s:g} s; slurmctld is away or slow"
            ) from None
        except OSError as error:
            raise SlurmError(f"{path} cannot be run: {error.strerror}") from None
        if done.returncode:
            why = one_line(done.stderr.decode(errors="replace"))[:_LONGEST_MESSAGE]
            raise SlurmError(f"{name} failed: {why or f'exit code {done.returncode}'}")
        return done.stdout.decode(errors="replace")
