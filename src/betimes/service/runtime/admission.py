"""Checks before a job or a node is accepted: commands and folders, kinds of nodes, parts of a unit."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path

from betimes.cluster.resources import PER_UNIT
from betimes.errors import Conflict, Refused
from betimes.foresight.engines import NODES, POOL, engines_of
from betimes.service.engines.named_policies import kind_of
from betimes.service.executors.supervision.command import describe
from betimes.service.machines.machine import HERE, REAL, Kind, Machine
from betimes.service.scheduling.engine_factory import pool_resource
from betimes.service.scheduling.job import demand_of
from betimes.service.scheduling.node import LOST, Node
from betimes.service.spec.environments import CONTAINERS
from betimes.service.spec.job_spec import JobSpec
from betimes.service.uploads.archive import DamagedArchive, trouble_of

MOST_SHEBANG = 255  # bytes that the kernel reads of a first line


def can_be_known(nodes: Iterable[Node]) -> bool:
    """Whether every node is on this machine, so that a file missing here is missing everywhere."""
    there = [node for node in nodes if node.status != LOST]
    return bool(there) and all(node.machine.kind in HERE for node in there)


def check_launchable(specs: Sequence[JobSpec], kept: Mapping[str, str]) -> None:
    """Raise Refused for a command, a folder or an environment with which no run could start.

    `kept`: the part of the service's environment that jobs get. A job that follows another is not checked: the other
    may make its command and its folders.
    """
    known: set[tuple[str | bool | None, ...]] = set()
    for place, spec in enumerate(specs):
        env = {**kept, **spec.env}
        program, workdir, path = spec.command[0], spec.workdir or "/", env.get("PATH", os.defpath)
        if spec.venv is not None:
            path = f"{spec.venv}/bin{os.pathsep}{path}"
        within = (spec.conda, spec.venv, spec.image)
        asked = (program, workdir, path, spec.checkpoint_dir, spec.upload is None, *within)
        if spec.after or asked in known:
            continue
        try:
            _check_start(spec, workdir, path, env)
        except Refused as error:
            raise error.among(len(specs), place) from None
        known.add(asked)


def _check_start(spec: JobSpec, workdir: str, path: str, env: Mapping[str, str]) -> None:
    """Raise Refused for a job that could not start there, with programs from `path`."""
    program, launch = spec.command[0], {"command": spec.command, "workdir": workdir, "env": env}
    _check_environment(spec, path)
    in_copy = spec.upload is not None and _is_seen_from_workdir(program, path)
    is_elsewhere = in_copy or spec.conda is not None or spec.image is not None
    for field, number in (
        ("workdir", _trouble_of_folder(workdir)),
        ("command", 0 if is_elsewhere else _trouble(program, workdir, path)),
    ):
        if number:
            raise Refused(describe(field, number, os.strerror(number), launch), field)
    if spec.checkpoint_dir is not None:
        _check_can_be_made(Path(spec.checkpoint_dir))


def _check_environment(spec: JobSpec, path: str) -> None:
    """Raise Refused for a virtual environment that is not there, or for an image that nothing here can run."""
    if spec.venv is not None and not os.access(f"{spec.venv}/bin/python", os.X_OK):
        raise Refused(
            f"{spec.venv!r} is no virtual environment, as it has no bin/python; make one with `python3 -m venv`, or "
            "name another",
            "venv",
        )
    if spec.image is not None and not any(shutil.which(each, path=path) for each in CONTAINERS):
        raise Refused(
            f"none of {', '.join(CONTAINERS)} is installed on the machine that runs the job; install one, or leave "
            "the image out",
            "image",
        )


def check_sent(specs: Sequence[JobSpec], archive_of: Callable[[str], Path]) -> None:
    """Raise Refused for a command that is not in the directory sent with its job, or cannot be executed.

    archive_of: where the archive of a directory is, by its SHA-256.
    """
    for upload, program in dict.fromkeys((spec.upload, spec.command[0]) for spec in specs):
        if upload is None or "/" not in program or program.startswith("/"):
            continue
        try:
            number = trouble_of(archive_of(upload), program)
        except (DamagedArchive, OSError) as error:
            raise Refused(
                f"{archive_of(upload)} {error}; remove it, and send the directory again", "upload"
            ) from None
        if number == errno.EACCES:
            raise Refused(
                f"the command {program!r} is not executable in the directory that was sent; make it so (chmod +x) and "
                "send that, or give it to its interpreter",
                "command",
            )
        if number:
            raise Refused(f"the command {program!r} is not in the directory that was sent", "command")


def _trouble_of_folder(workdir: str) -> int:
    """The errno of entering the folder; 0: no error can be foreseen."""
    try:
        is_folder = stat.S_ISDIR(Path(workdir).stat().st_mode)
    except OSError as error:
        return error.errno or errno.ENOENT
    if not is_folder:
        return errno.ENOTDIR
    return 0 if os.access(workdir, os.X_OK) else errno.EACCES


def _check_can_be_made(folder: Path) -> None:
    """Raise Refused for a folder that neither exists nor can be made."""
    there = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
    why = ""
    if not there.is_dir():
        why = "is no folder"
    elif there != folder and not os.access(there, os.W_OK | os.X_OK):
        why = "may not be written"
    if why:
        made = "" if there == folder else f"{str(folder)!r} cannot be made, since "
        raise Refused(f"{made}{str(there)!r} {why}; name another", "checkpoint_dir")


def _is_seen_from_workdir(program: str, path: str) -> bool:
    """Whether a program's name depends on the working directory: a copy that is yet to be made."""
    found_in = [program] if "/" in program else path.split(os.pathsep)
    return not all(each.startswith("/") for each in found_in)


def _trouble(program: str, workdir: str, path: str) -> int:
    """The errno of starting the program; 0: no error can be foreseen."""
    if "/" not in program:
        folders = os.pathsep.join(str(Path(workdir) / folder) for folder in path.split(os.pathsep))
        return 0 if shutil.which(program, path=folders) else errno.ENOENT
    file = Path(workdir) / program
    try:
        is_file = stat.S_ISREG(file.stat().st_mode)
    except OSError as error:
        return error.errno or errno.ENOENT
    if not is_file or not os.access(file, os.X_OK):
        return errno.EACCES
    interpreter = _interpreter_of(file)
    return 0 if interpreter is None or (Path(workdir) / interpreter).exists() else errno.ENOENT


def _interpreter_of(file: Path) -> str | None:
    """The program that a script's first line names; None: it names none, or may not be read."""
    try:
        with file.open("rb") as script:
            line = script.readline(MOST_SHEBANG)
    except OSError:  # an executable file need not be readable
        return None
    words = line.removeprefix(b"#!").split() if line.startswith(b"#!") else []
    end = "\r" if line.endswith(b"\r\n") else ""  # part of the name to the kernel, or to `env`
    return f"{os.fsdecode(words[0])}{end}" if words else None


def kind_to_add(asked: Kind | None, nodes: Iterable[Node]) -> Kind:
    """The kind of added nodes; virtual if none was named.

    Raises Conflict if none was named and the service runs commands.
    """
    nodes = list(nodes)
    real = [name for kind in REAL for name in _names(nodes, kind)]
    if asked is None and real:
        raise Conflict(
            f"this service runs commands on node {real[0]}; on a virtual node a job only takes time, and its "
            "command is not executed. `--kind virtual` adds one all the same"
        )
    return asked or "virtual"


def check_start(machines: Sequence[Machine], nodes: Iterable[Node]) -> None:
    """Raise Conflict where a service would start with the other kind of machines than it had."""
    nodes = list(nodes)
    real, virtual = _names(nodes, "local"), _names(nodes, "virtual")
    starts_real = any(machine.kind == "local" for machine in machines)
    _check_cluster(machines, real + virtual, _names(nodes, "ray"))
    if machines and real and not starts_real:
        raise Conflict(
            f"this service runs commands on node {real[0]}; start it without --nodes, or take another state "
            "directory for virtual nodes (--service)"
        )
    if starts_real and virtual and not real:
        raise Conflict(
            f"this service runs no commands: its nodes are virtual ({virtual[0]} is one); start it with --nodes, "
            "as last time, or take another state directory to run jobs on this machine (--service)"
        )


def _check_cluster(machines: Sequence[Machine], others: Sequence[str], of_ray: Sequence[str]) -> None:
    starts_ray = any(machine.kind == "ray" for machine in machines)
    if machines and of_ray and not starts_ray:
        raise Conflict(
            f"this service runs commands on a Ray cluster ({of_ray[0]} is a node of it); start it with --ray, as last "
            "time, or take another state directory (--service)"
        )
    if starts_ray and others and not of_ray:
        raise Conflict(
            f"this service has had node {others[0]}, which is not of a Ray cluster; start it without --ray, as last "
            "time, or take another state directory for the cluster (--service)"
        )


def _names(nodes: Iterable[Node], kind: Kind) -> list[str]:
    """The operator's own nodes of a kind."""
    return [
        node.machine.name
        for node in nodes
        if node.machine.kind == kind and node.rented_at is None and node.status != LOST
    ]


_NAMES = ("GPU", "core")


def spread_note(spec: JobSpec, nodes: Collection[Node], policy: str) -> str | None:
    """A note on how often a command is started whose units a pool may spread over machines; null: once."""
    several = sum(node.is_there and node.machine.kind in REAL for node in nodes) > 1
    if kind_of(policy)[0] != POOL or spec.max_units < 2 or not several or spec.as_one:
        return None
    return (
        f"under policy {policy} its units may be on several machines, and its command is then started once on each; "
        "one unit of more --cpu is on one machine"
    )


def rounding_note(spec: JobSpec, nodes: Collection[Node], policy: str) -> str | None:
    """A note on a unit's rounded size where the policy grants more than it needs; null: it does not."""
    kind, text = kind_of(policy)
    if kind != POOL or not nodes:
        return None
    at = pool_resource(nodes)
    need, name = demand_of(spec)[at], _NAMES[at]
    if need >= PER_UNIT[at]:
        return None
    plain = text.partition(":")[0]
    sharing = f"nodes:{plain}" if NODES in engines_of(plain) else "easy"
    return (
        f"policy {policy} gives out whole {name}s: each unit of this job counts as 1 {name}, though it needs "
        f"{need / PER_UNIT[at]:g}; `betimes policy set {sharing}` lets jobs share {name}s"
    )
