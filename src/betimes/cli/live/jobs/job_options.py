"""The options that describe a job, one for every field of a job file, and their conversion to fields."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from betimes.cli.verbs import Option, Several
from betimes.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


def _option(kind: Any, flags: str, metavar: str | None, text: str) -> Any:
    return Annotated[kind | None, Option(*flags.split(), metavar=metavar, help=text, show_default=False)]


OPTIONS: dict[str, Any] = {
    "name": _option(
        str,
        "--name",
        "NAME",
        "What to call it; jobs of one name are expected to take as long. By default the program's name, and then "
        "only the same command in the same folder is.",
    ),
    "workdir": _option(str, "--workdir --chdir", "DIR", "The folder in which it runs. By default the current one."),
    "upload": _option(
        str, "--upload", "DIR", "Send this directory along, and run the job in a copy of it, on whatever machine."
    ),
    "env": _option(
        list[str], "--env", "K[=V]", "A variable of its environment; K alone takes the value it has here. Repeatable."
    ),
    "export": _option(
        str, "--export", "ALL|NONE|NAMES", "Variables that it gets from here: all (the default for a script of "
        "Slurm), none (for a command), or those named, by commas; NAME=VALUE sets one.",
    ),
    "output": _option(
        str, "--output", "FILE", "Where its output goes, instead of what `betimes logs` shows; %j is its number, %A "
        "that of its array, %a its index, %x its name, %u the user.",
    ),
    "error": _option(
        str, "--error", "FILE", "Where its standard error goes. By default that is where its output goes."
    ),
    "conda": _option(
        str, "--conda", "NAME|PATH", "The environment of conda in which it runs, activated there; a path begins with "
        "/, ./ or ~."
    ),
    "venv": _option(str, "--venv", "DIR", "The virtual environment in which it runs."),
    "image": _option(
        str, "--image", "IMAGE", "The container in which it runs, with apptainer, podman or docker, the first that is "
        "installed: python:3.12, or an image file that begins with /, ./ or ~. GPUs, its folder and the home are there."
    ),
    "cpu": _option(float, "--cpu --cpus", "N", "Cores of a unit. By default 1."),
    "memory": _option(
        str, "--memory --mem", "SIZE", "Memory of a unit, as in 4GiB or 512MiB, which it cannot exceed. By default no "
        "limit.",
    ),
    "gpu": _option(float, "--gpu --gpus", "N", "GPUs of a unit. By default none."),
    "demand": _option(
        list[str],
        "--demand",
        "FAMILY:gpu=N,cpu=N,memory=SIZE,speed=N",
        "What a unit needs on machines of a family instead, under a policy for nodes, and how fast the job works there "
        "(its run time is that at speed 1); it then runs only on the families that are named. Repeatable.",
    ),
    "workload": _option(
        str,
        "--workload",
        "NAME",
        "What kind of work it is, as in resnet18. Types of rented machines run workloads at different speeds, as the "
        "cluster file states or as other jobs of the workload have shown.",
    ),
    "units": _option(
        str, "--units", "N|MIN-MAX", "Units that it holds; 1-8: from 1 to 8, resized as it runs. By default 1."
    ),
    "units_per_task": _option(
        str,
        "--units-per-task",
        "pack|spread|N",
        "Units that stay together on a node, under a policy for nodes: as many as fit (pack, the default), one "
        "(spread), or N.",
    ),
    "curve": _option(
        str,
        "--curve",
        "CURVE",
        "How much faster on more units: linear (the default), amdahl:F, power:A, or measured as in 1=1,2=1.9,4=3.5.",
    ),
    "qos": _option(
        Literal["trial", "best-effort"], "--qos", None, "For a trial others may have to make room. By default "
        "best-effort.",
    ),
    "trial": _option(bool, "--trial", None, "The same as --qos trial."),
    "rent": _option(
        Literal["auto", "never", "now"], "--rent", None, "Whether to rent a machine for this job: auto (the policy "
        "decides, the default), never, or now.",
    ),
    "priority": _option(int, "--priority", "N", "Higher goes first, where the policy minds. By default 0."),
    "grace": _option(
        str, "--grace", "TIME", "Time from the signal to stop (SIGTERM) until it is killed. By default 30s."
    ),
    "estimate": _option(str, "--estimate", "TIME", "How long it will run on all of its units, as in 2h or 1h30m."),
    "steps": _option(int, "--steps", "N", "Instead of --estimate, with --step-s: how many steps it takes."),
    "step": _option(str, "--step-s", "TIME", "How long a step takes on all of its units, as in 0.8 or 2m."),
    "time_limit": _option(
        str, "--time-limit --time", "TIME", "The longest a run may take: then it is stopped, and after the grace "
        "killed.",
    ),
    "warn": _option(str, "--warn", "TIME", "Time before the limit at which it gets a signal. By default 60s."),
    "warn_signal": _option(
        Literal["USR1", "USR2", "TERM", "INT", "HUP"], "--warn-signal", None, "The signal of --warn. By default USR1."
    ),
    "checkpoint_dir": _option(
        str, "--checkpoint-dir", "DIR", "Where it keeps what it resumes from. By default a folder for this job alone."
    ),
    "array": _option(
        str, "--array", "INDICES", "Run it once for each index: 1-100, 0,3,8-20:4, or 1-100%10 for at most 10 at once."
    ),
    "as_one": _option(
        bool, "--as-one", None, "The array is one elastic job: the policy decides how many of its elements run at "
        "once, a unit each.",
    ),
    "after": _option(
        list[str], "--after", "JOB[:any|fail|start|corr]", "Start once that job has finished; with :any, however it "
        "has ended; with :fail, if it fails or is cancelled; with :start, once it has started; with :corr, each "
        "element of an array after the same one of that array. A number, a range as in 41-45, or a name; in a file "
        "also that of a job before it. Repeatable.",
    ),
    "singleton": _option(
        bool, "--singleton", None, "Start once all of your jobs of the same name that came before are over."
    ),
    "begin": _option(
        str, "--begin", "TIME", "Not before: +2h, 16:00, tomorrow 9:00 or 2026-11-27T16:00, in local time."
    ),
    "hold": _option(bool, "--hold", None, "Keep it from starting until `betimes release` lets it."),
    "retries": _option(int, "--retries", "N", "Runs after the first, if that fails. By default none."),
    "backoff": _option(
        str, "--backoff", "TIME", "Time before the first retry, doubled before each further one. By default 10s."
    ),
    "requeue": _option(
        bool, "--requeue/--no-requeue", None, "Start it again after it was preempted, resized, or lost with its node; "
        "otherwise it has failed then. By default yes.",
    ),
    "notify": _option(
        str, "--notify", "URL|COMMAND", "Who is notified when it starts, ends or fails, or breaks its promise: "
        "a URL gets JSON by POST, a command runs on the service's machine with that as its standard input.",
    ),
    "mail_type": _option(
        str, "--mail-type", "TYPES", "About what you get mail, of BEGIN, END, FAIL and ALL, joined by commas; of an "
        "array one about all of it, with ARRAY_TASKS one about each element.",
    ),
    "mail_user": _option(
        str, "--mail-user", "ADDRESS", "Where that mail goes; by default to your name at the service's domain."
    ),
    "queue": _option(
        str, "--queue", "NAME", "One of the service's queues (`betimes queues`), which Slurm calls partitions. By "
        "default that with the star."
    ),
    "labels": _option(list[str], "--label", "K=V", "A label, to find it by. Repeatable."),
    "resources": _option(
        list[str], "--resource", "NAME[=N]", "So many of what the service counts besides machines, as licences "
        "(`betimes up --resource`); the job waits until they are free. Repeatable.",
    ),
    "require": _option(
        list[str], "--require", "K=V", "A label that its nodes must have, under a policy for nodes. Repeatable."
    ),
}  # fmt: skip
"""By the field's name in a job file. None: not given, so that a file's value, or the default, applies."""

Job = Annotated[dict[str, Any], Several(OPTIONS)]

_FLAGS = {"step": "--step-s", "labels": "--label", "resources": "--resource"}
_TABLES = ("env", "labels")
_FOLDERS = ("workdir", "checkpoint_dir", "upload", "venv")
_NOT_FIELDS = ("trial", "export")


def given_fields(job: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of `JobSpec` given by options. Raises InputError naming the option."""
    from betimes.service.spec.spelling import SPELLINGS, is_path

    fields: dict[str, Any] = {}
    for name, value in job.items():
        if value is None or name in _NOT_FIELDS:
            continue
        try:
            if name in SPELLINGS:
                read = SPELLINGS[name].read(value)
                fields |= zip(
                    SPELLINGS[name].fields, read if isinstance(read, tuple) else (read,), strict=True
                )
            elif name in _TABLES:
                fields[name] = dict(_pair(one, from_here=name == "env") for one in value)
            elif name == "resources":
                from betimes.service.spec.spelling import parse_resources

                fields[name] = parse_resources(value)
            elif name == "demand":
                from betimes.service.spec.family_demand import parse_demand

                fields[name] = _once(map(parse_demand, value))
            elif name in _FOLDERS or is_path(name, value):
                fields[name] = str(Path(value).expanduser().absolute())
            elif name == "units_per_task" and value.isdecimal():
                fields[name] = int(value)
            elif name == "curve" and "=" in value:
                fields[name] = {"speedup": _speedup(value)}
            else:
                fields[name] = value
        except (ValueError, RuntimeError) as error:
            raise InputError(f"{flag(name)}: {error}") from None
    if (export := job.get("export")) is not None:
        fields["env"] = {**_exported(export), **fields.get("env", {})}
    if job.get("trial") and fields.setdefault("qos", "trial") != "trial":
        raise InputError(f"--trial: --qos {fields['qos']} contradicts it; leave one of them out")
    return fields


def _exported(text: str) -> dict[str, str]:
    import os

    from betimes.service.spec.spelling import exported

    try:
        return exported(text, os.environ)
    except ValueError as error:
        raise InputError(f"--export: {error}") from None


def wrong_option(field: str | None, text: str) -> InputError:
    """The error for a refused field that an option gave."""
    from betimes.service.spec.spelling import SPELLINGS

    name, inner = field or "", ""
    for mark in ".[":
        name, found, rest = name.partition(mark)
        inner = f" {rest.rstrip(']')}" if found and mark == "." else inner
    spelt = next((each for each, one in SPELLINGS.items() if name in one.fields), name)
    if not spelt:
        return InputError(text)
    return InputError(f"{flag(spelt) if spelt in OPTIONS else spelt}{inner}: {text}")


def flag(name: str) -> str:
    """The option of a field: `--time-limit` of `time_limit`."""
    return _FLAGS.get(name, "--" + name.replace("_", "-"))


def pairs(words: Sequence[str], option: str) -> dict[str, str]:
    """Read several K=V; raises InputError."""
    try:
        return dict(_pair(word, from_here=False) for word in words)
    except ValueError as error:
        raise InputError(f"{option}: {error}") from None


def _pair(text: str, *, from_here: bool) -> tuple[str, str]:
    import os

    name, equals, value = text.partition("=")
    if name and equals:
        return name, value
    if from_here and name:
        if name not in os.environ:
            raise ValueError(f"{name} is not set here; write {name}=VALUE")
        return name, os.environ[name]
    raise ValueError(f"{text[:40]!r} is not NAME=VALUE")


def _once(demands: Iterable[tuple[str, dict[str, Any]]]) -> dict[str, dict[str, Any]]:
    """Demands by family. Raises ValueError for two on one."""
    found = dict[str, dict[str, Any]]()
    for family, needed in demands:
        if family in found:
            raise ValueError(f"family {family} is named twice; leave one of them out")
        found[family] = needed
    return found


def _speedup(text: str) -> dict[str, float]:
    table: dict[str, float] = {}
    for part in text.split(","):
        number, equals, speedup = part.partition("=")
        try:
            value = float(speedup)
        except ValueError:
            equals, value = "", 0.0
        if not equals or number.strip() in table:
            raise ValueError(
                f"{text[:40]!r} is not a table; write units=speed-up, each once, as in 1=1,2=1.9,4=3.5"
            )
        table[number.strip()] = value
    return table
