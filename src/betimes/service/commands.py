"""Whether a job's command is there: one that this machine does not have is refused when it is submitted."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from betimes.errors import Refused
from betimes.service.executors.supervision.command import describe
from betimes.service.node import LOST, Node
from betimes.service.spec import JobSpec


def can_be_known(nodes: Iterable[Node]) -> bool:
    """Whether every node is this machine, so that what is not here will not be found anywhere."""
    there = [node for node in nodes if node.status != LOST]
    return bool(there) and all(node.machine.kind == "local" for node in there)


def check_commands(specs: Sequence[JobSpec], kept: Mapping[str, str]) -> None:
    """Raise Refused for a command that does not exist or may not be executed.

    `kept`: what a job gets of the service's own environment. A job that follows another is taken as it is: the other
    may make its command.
    """
    known: set[tuple[str, str, str]] = set()
    for spec in specs:
        env = {**kept, **spec.env}
        program, workdir, path = spec.command[0], spec.workdir or "/", env.get("PATH", os.defpath)
        if spec.after or (program, workdir, path) in known:
            continue
        number = _trouble(program, workdir, path)
        if number:
            launch = {"command": spec.command, "workdir": workdir, "env": env}
            raise Refused(describe("command", number, os.strerror(number), launch), "command")
        known.add((program, workdir, path))


def _trouble(program: str, workdir: str, path: str) -> int:
    """The error that starting the program would end with; 0: none that can be foreseen."""
    if "/" not in program:
        folders = os.pathsep.join(str(Path(workdir) / folder) for folder in path.split(os.pathsep))
        return 0 if shutil.which(program, path=folders) else errno.ENOENT
    file = Path(workdir) / program
    try:
        is_file = stat.S_ISREG(file.stat().st_mode)
    except OSError as error:
        return error.errno or errno.ENOENT
    return 0 if is_file and os.access(file, os.X_OK) else errno.EACCES
