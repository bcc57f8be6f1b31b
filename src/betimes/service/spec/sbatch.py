"""Batch scripts of Slurm: their `#SBATCH` lines and the options of `sbatch` and `srun`, as fields of a job.

Uses nothing but a small part of the standard library, so that the command line is quick. An option that cannot be kept
is an error that names it, unless it is one of `HARMLESS` or `NOTED`. Source: the manual pages of sbatch and srun, Slurm
24.11.
"""

from __future__ import annotations

import os
import re
import shlex
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby
from pathlib import Path
from typing import Any, NamedTuple

from betimes.errors import InputError, JobFileError, nearest
from betimes.service.spec.environments import in_terminal
from betimes.service.spec.spelling import (
    CLUSTERS,
    MAIL_TYPES,
    checked_address,
    exported,
    mail_types,
    parse_begin,
    parse_resources,
)

SHORT = {
    "A": "account", "B": "extra-node-info", "C": "constraint", "D": "chdir", "G": "gpus", "H": "hold", "J": "job-name",
    "L": "licenses", "M": "clusters", "N": "nodes", "O": "overcommit", "Q": "quiet", "S": "core-spec", "W": "wait",
    "a": "array", "b": "begin", "c": "cpus-per-task", "d": "dependency", "e": "error", "i": "input", "k": "no-kill",
    "m": "distribution", "n": "ntasks", "o": "output", "p": "partition", "q": "qos", "s": "oversubscribe", "t": "time",
    "v": "verbose", "w": "nodelist", "x": "exclude",
}  # fmt: skip
OTHER_NAMES = {"share": "oversubscribe", "tasks-per-node": "ntasks-per-node"}
SWITCHES = frozenset(
    {"contiguous", "hold", "ignore-pbs", "no-requeue", "overcommit", "oversubscribe", "parsable", "quiet", "requeue",
     "spread-job", "test-only", "use-min-nodes", "verbose", "wait"}
)  # fmt: skip
MAY_HAVE_VALUE = frozenset({"exclusive", "get-user-env", "nice", "no-kill", "propagate"})
LABELS = ("partition", "account", "qos", "wckey", "comment", "reservation")
"""Kept as labels of the job, to find it by; a service with queues takes the partition for one of them."""
OF_SLURM = "slurm"
"""The command of a job that is seen in Slurm, and the label with its number there."""
HARMLESS = frozenset(
    {"acctg-freq", "contiguous", "core-spec", "cores-per-socket", "cpu-bind", "cpu-freq", "delay-boot", "distribution",
     "extra-node-info", "get-user-env", "gpu-bind", "gpu-freq", "gres-flags", "hint", "ignore-pbs",
     "kill-on-invalid-dep", "mcs-label", "mem-bind", "network", "no-kill", "ntasks-per-core",
     "ntasks-per-socket", "oversubscribe", "parsable", "power", "prefer", "profile", "propagate", "quiet",
     "sockets-per-node", "spread-job", "switches", "thread-spec", "threads-per-core", "use-min-nodes", "verbose",
     "wait-all-nodes"}
)  # fmt: skip
"""Placement within a machine, accounting and talkativeness: a script does the same without them."""
NOTED = {
    "exclusive": "other jobs may run on the same machine; the job's cores and memory are its own",
}
"""Not done, and the job runs all the same; users get a note."""
_EVERYWHERE = """
    ACCOUNT ACCTG_FREQ BURST_BUFFER=bb CLUSTERS CONSTRAINT CONTAINER CORE_SPEC CPU_FREQ_REQ=cpu-freq CPUS_PER_GPU
    DEBUG=verbose DELAY_BOOT EXCLUSIVE GPU_BIND GPU_FREQ GPUS GPUS_PER_NODE GPUS_PER_SOCKET GPUS_PER_TASK GRES
    GRES_FLAGS HINT MEM_BIND MEM_PER_CPU MEM_PER_GPU MEM_PER_NODE=mem NETWORK NO_KILL OVERCOMMIT PARTITION POWER PROFILE
    QOS REQ_SWITCH=switches RESERVATION SIGNAL SPREAD_JOB THREADS_PER_CORE THREAD_SPEC TIMELIMIT=time USE_MIN_NODES
    WCKEY
"""
_VARIABLES = {
    "SBATCH_": """
        SLURM_CLUSTERS SLURM_HINT ARRAY_INX=array BATCH DISTRIBUTION ERROR EXPORT GET_USER_ENV IGNORE_PBS INPUT JOB_NAME
        NO_REQUEUE OPEN_MODE OUTPUT REQUEUE WAIT WAIT_ALL_NODES
    """,
    "SALLOC_": "SLURM_CLUSTERS SLURM_HINT BELL IMMEDIATE KILL_CMD=kill-command NO_BELL WAIT_ALL_NODES",
    "SLURM_": """
        BCAST BCAST_EXCLUDE COMPRESS CPU_BIND DEPENDENCY DISABLE_STATUS DISTRIBUTION EPILOG EXACT EXPORT_ENV=export
        SRUN_EXPORT_ENV=export IMMEDIATE JOB_NAME NNODES=nodes JOB_NUM_NODES=nodes KILL_BAD_EXIT=kill-on-bad-exit
        LABELIO=label MPI_TYPE=mpi NPROCS=ntasks NTASKS NTASKS_PER_CORE NTASKS_PER_GPU NTASKS_PER_NODE NTASKS_PER_SOCKET
        OPEN_MODE OVERLAP PROLOG REMOTE_CWD=chdir WORKING_DIR=chdir RESV_PORTS SEND_LIBS SRUN_CPUS_PER_TASK
        SRUN_MULTI=multi-prog STDERRMODE=error STDINMODE=input STDOUTMODE=output STEP_GRES=gres TASK_EPILOG TASK_PROLOG
        THREADS UNBUFFEREDIO=unbuffered WAIT
    """,
}
"""Variables of the environment that stand for options of sbatch, salloc and srun: behind the prefix, or with that of
another, and the option if its name is another; of two for one option the later prevails.
"""
_OF_A_JOB = """
    SLURM_CPUS_PER_GPU SLURM_GPUS SLURM_GPUS_PER_NODE SLURM_GPUS_PER_TASK SLURM_JOB_NAME SLURM_JOB_NUM_NODES
    SLURM_MEM_PER_CPU SLURM_MEM_PER_GPU SLURM_MEM_PER_NODE SLURM_NNODES SLURM_NPROCS SLURM_NTASKS SLURM_NTASKS_PER_NODE
"""
"""Those that describe a job within it, where they are no options."""
MOST_SHOWN = 40
AFTER = {"afterok": "", "afterany": ":any", "afternotok": ":fail", "after": ":start", "aftercorr": ":corr"}
"""Kinds of dependency, and how `after` of a job has them."""
RUN = (
    "sh",
    "-c",
    'script="$BETIMES_RUN_DIR/slurm_script" && cat >"$script" && chmod 700 "$script" && exec "$script" "$@" </dev/null',
)
"""A script is the input of its job, and a file of each run: as with Slurm, later changes to it do not matter."""
_JOIN = '[ "$RANK" = 0 ] || exec srun --helper; srun --helper'
RUN_NODES = (
    *RUN[:2],
    RUN[2].replace("exec ", f'{{ [ "${{WORLD_SIZE:-1}}" = 1 ] || {{ {_JOIN}; }}; }} </dev/null && exec ', 1),
)
"""The same of a script of several nodes: on the first machine it begins once a helper has come on every other one."""
_TO_BYTES = ('cat >"$script"', 'base64 -d >"$script"')
RUN_BYTES, RUN_BYTES_NODES = ((*each[:2], each[2].replace(*_TO_BYTES)) for each in (RUN, RUN_NODES))
"""The same of scripts that are no text in UTF-8: their interpreter gets the bytes."""

_KNOWN = frozenset(
    {*SHORT.values(), *SWITCHES, *MAY_HAVE_VALUE, *LABELS, *HARMLESS, *NOTED, "cpus-per-gpu", "export", "gpus-per-node",
     "gpus-per-task", "gres", "mem", "mem-per-cpu", "mem-per-gpu", "ntasks-per-gpu", "ntasks-per-node", "open-mode",
     "signal", "time-min", "wrap", "mincpus", "tmp", "deadline", "priority",
     "mail-type", "mail-user"}
)  # fmt: skip


class Grammar(NamedTuple):
    """The options of a command: by their letters, those without a value, those that may have one, and all of them."""

    command: str
    short: Mapping[str, str]
    switches: frozenset[str]
    may_have_value: frozenset[str]
    known: frozenset[str]


SBATCH = Grammar("sbatch", SHORT, SWITCHES, MAY_HAVE_VALUE, _KNOWN)
_STEP = frozenset(
    {
        "disable-status",
        "exact",
        "label",
        "multi-prog",
        "overlap",
        "preserve-env",
        "pty",
        "quit-on-interrupt",
        "unbuffered",
    }
)
LAUNCHING = frozenset({"compress", "msg-timeout", "resv-ports", "send-libs", "threads"})
"""Options by which srun reaches nodes and copies programs there; there is nothing to reach or to copy."""
SRUN = Grammar(
    "srun",
    SHORT
    | {"K": "kill-on-bad-exit", "X": "disable-status", "l": "label", "r": "relative", "u": "unbuffered"},
    SWITCHES - {"parsable", "wait"} | _STEP,
    MAY_HAVE_VALUE | {"compress", "kill-on-bad-exit", "resv-ports", "send-libs"},
    _KNOWN - {"array", "parsable", "wrap"}
    | _STEP
    | LAUNCHING
    | {"het-group", "jobid", "kill-on-bad-exit", "mpi", "relative"},
)
SALLOC = SRUN._replace(
    command="salloc", switches=SRUN.switches | {"bell", "no-bell"}, known=SRUN.known | {"bell", "no-bell"}
)
_MINUTES = re.compile(r"(?:(\d{1,9})-)?(\d{1,9})(?::(\d{1,9}))?(?::(\d{1,9}))?")
_MEMORY = re.compile(r"(\d{1,12}(?:\.\d{1,12})?)([KMGT]?)B?", re.IGNORECASE)
_GRES = re.compile(r"(?:gres[:/])?gpu(?:[:/=](?P<kind>[A-Za-z][\w.+-]*))?(?:[:/=](?P<number>\d{1,9}))?")
_GPUS = re.compile(r"(?:(?P<kind>[A-Za-z][\w.+-]*):)?(?P<number>\d{1,9})")
_SIGNAL = re.compile(r"(?:R?B?:)?(?:SIG)?(?P<signal>[A-Z0-9]+)(?:@(?P<s>\d{1,9}))?", re.IGNORECASE)
_INDICES = "N(-N(:N)?)?(,N(-N(:N)?)?)*(%[1-9](N)?)?".replace("N", r"\d{1,9}")
_SIGNALS = {"1": "HUP", "2": "INT", "10": "USR1", "12": "USR2", "15": "TERM"}
_MIB = 1.0 / 1024.0


class Given(NamedTuple):
    """An option as given: its long name, its value (empty for a switch), and its line; null: on the command line, or
    by this variable of the environment.
    """

    name: str
    value: str
    line: int | None
    variable: str = ""

    @property
    def label(self) -> str:
        """The option in a message, with the variable that stands for it."""
        return f"{self.variable} in the environment: --{self.name}" if self.variable else f"--{self.name}"


class Batch(NamedTuple):
    """A batch script as a job: fields as sent to the service, what users should know about options that are not carried
    out, and all options by name, the last of each.
    """

    fields: dict[str, Any]
    notes: list[str]
    options: dict[str, str]


def is_script(text: str) -> bool:
    """Whether a text is a script: its first line names an interpreter."""
    return text.startswith("#!")


def read_script(
    text: str,
    path: str,
    *,
    options: Sequence[Given] = (),
    arguments: Sequence[str] = (),
    environ: Mapping[str, str] = os.environ,
    workdir: str | None = None,
    name: str | None = None,
) -> Batch:
    """A script as a job; `options`, as of `sbatch`, prevail over its lines.

    path: as given by the user, for messages. arguments: of the script. environ: of the submitter. workdir: that of the
    submitter by default. name: of the job without `--job-name`, by default the file's. Raises JobFileError with the
    line, or InputError for an option of `options`.
    """
    lines, notes = _script_lines(text, path)
    given = [*lines, *options]
    reader = _Reader(path, given, environ, workdir or str(Path.cwd()), is_script=True)
    fields, more = reader.fields()
    title = name or path.rsplit("/", 1)[-1]
    named = {each.name: each.value for each in reader.given.values()}
    path_there = fields["env"].get("PATH", "")  # empty: --export leaves it out
    spans = reader.nodes > 1
    if (spans or re.search(r"^\s*srun\b", text, re.MULTILINE)) and not _has_our_srun(path_there):
        more.append(
            f"{path}: it {'has several nodes, and needs' if spans else 'calls'} srun, "
            + (
                "and that of Betimes is not first in your PATH; `betimes slurm commands DIR` puts it into a folder"
                if path_there
                else "which is found by PATH, and --export leaves that out; write --export=PATH"
            )
        )
    fields.setdefault("name", title)
    shell = "bash" if "bash" in text.partition("\n")[0] else RUN[0]  # others lose functions such as `module`
    run, script = RUN_NODES if spans else RUN, text
    if not text.isascii() and (data := text.encode("utf-8", "surrogateescape")) != text.encode(
        "utf-8", "replace"
    ):
        from base64 import encodebytes  # for few scripts only

        run, script = RUN_BYTES_NODES if spans else RUN_BYTES, encodebytes(data).decode("ascii")
    command = [shell, *run[1:], title, *arguments]
    return Batch({**fields, "command": command, "stdin": script}, [*notes, *more], named)


def read_request(
    text: str | None, path: str, options: Sequence[Given] = ()
) -> tuple[dict[str, Any], list[str]]:
    """The request of a script to a Slurm, as fields of a job that is quoted and not run here, and notes.

    text: null: there is none, and the options alone count. path, options: as in `read_script`. Raises JobFileError or
    InputError.
    """
    lines, notes = ([], []) if text is None else _script_lines(text, path)
    fields = _Reader(path, [*lines, *options], {}, "/").request()
    fields.setdefault("name", path.rsplit("/", 1)[-1])
    return {"command": ["sbatch"], **fields}, notes


def script_text(data: bytes) -> str:
    """The text of a script, whatever its encoding, for `read_script`."""
    return data.decode("utf-8", "surrogateescape")


def script_of(command: Sequence[str]) -> Sequence[str] | None:
    """The script that a job's command starts, and its arguments; null: it starts none."""
    starts = [each[1:] for each in (RUN, RUN_BYTES, RUN_NODES, RUN_BYTES_NODES)]
    is_script = tuple(command[1 : len(RUN)]) in starts
    return command[len(RUN) :] if is_script else None


def _has_our_srun(path: str) -> bool:
    from shutil import which

    found = which("srun", path=path)
    if found is None or not os.access(found, os.R_OK):
        return False
    with Path(found).open("rb") as file:
        return b"betimes" in file.read(4096)


def split_command(words: Sequence[str], grammar: Grammar = SBATCH) -> tuple[list[Given], list[str]]:
    """The options of a call of `sbatch` or `srun`, and the script or program with its arguments. Raises InputError."""
    rest: list[str] = []
    return _parsed(list(words), None, grammar.command, rest, grammar), rest


def read_program(command: Sequence[str], options: Sequence[Given]) -> Batch:
    """A program with options of `srun` as a job in the current folder and environment. Raises InputError."""
    ours = SBATCH.known - {"wait"}  # of a step, and no option of a job
    reader = _Reader("srun", [each for each in options if each.name in ours], os.environ, str(Path.cwd()))
    fields, notes = reader.fields()
    fields.setdefault("name", command[0].rsplit("/", 1)[-1])
    return Batch({**fields, "command": list(command)}, notes, {each.name: each.value for each in options})


def command_line(command: Sequence[str]) -> str:
    """A job's command as it could be typed; of a batch script the script and its arguments, without what starts it."""
    if (script := script_of(command)) is not None:
        return f"batch script {shlex.join(script)}"
    if (typed := in_terminal(command)) is not None:
        return f"{shlex.join(typed)} (in a terminal)"
    return shlex.join(command)


def of_slurm(command: Sequence[str], labels: Mapping[str, str], is_over: bool) -> str | None:
    """Where a job that is seen in Slurm runs, and the command that tells the rest; null: it is not Slurm's."""
    if list(command) != [OF_SLURM] or OF_SLURM not in labels:
        return None
    number, partition = labels[OF_SLURM], labels.get("partition")
    where = f", partition {partition}" if partition else ""
    told_by = f"sacct -j {number}" if is_over else f"scontrol show job {number}"
    return f"job {number}{where}; its command and output are Slurm's: {told_by}"


def from_environment(
    prefix: str, environ: Mapping[str, str] = os.environ, *, grammar: Grammar = SBATCH
) -> list[Given]:
    """Options by variables such as SBATCH_ACCOUNT, of a prefix such as `SBATCH_`. Raises InputError.

    grammar: of the command, whose options the variables stand for.
    """
    given: list[Given] = []
    is_in_job = "SLURM_JOB_ID" in environ
    for each in (*_EVERYWHERE.split(), *_VARIABLES[prefix].split()):
        ending, _, name = each.partition("=")
        other = re.match("(SLURM|SRUN)_", ending)
        variable = ending if other else prefix + ending
        name = name or ending.removeprefix(other[0] if other else "").lower().replace("_", "-")
        if variable not in environ or (is_in_job and variable in _OF_A_JOB.split()):
            continue
        value = environ[variable]
        if name not in grammar.known:
            raise InputError(f"{variable} in the environment: --{name} cannot be kept; unset it")
        if name in grammar.switches:
            if value and value.lower() != "yes" and not re.fullmatch("-?0*[1-9][0-9]*", value):
                continue
            value = ""
        elif not value and name not in grammar.may_have_value:
            continue
        given.append(Given(name, value, None, variable))
    return given


def evenly(tasks: int, nodes: int) -> list[int]:
    """How many tasks each node gets, of the first ones one more where that does not come out even."""
    each, more = divmod(tasks, nodes)
    return [each + (number < more) for number in range(nodes)]


def tasks_per_node(counts: Iterable[int]) -> str:
    """Numbers of tasks as SLURM_TASKS_PER_NODE has them: `8(x2),7`."""
    runs = [(count, len(list(same))) for count, same in groupby(counts)]
    return ",".join(f"{count}(x{times})" if times > 1 else str(count) for count, times in runs)


def parse_time(text: str) -> float | None:
    """A time limit of Slurm, s: minutes, min:s, h:min:s, d-h, d-h:min, d-h:min:s; None: no limit. Raises ValueError."""
    if text.upper() in ("UNLIMITED", "INFINITE", "0"):
        return None
    found = _MINUTES.fullmatch(text)
    if found is None:
        raise ValueError(
            f"{short(text)!r} is not a time; write minutes, or 2:30:00, 1-12 or 1-12:00:00 (days-hours:min:s)"
        )
    days, *parts = (None if part is None else int(part) for part in found.groups())
    numbers = [part for part in parts if part is not None]
    if days is not None:
        numbers = [*numbers, 0, 0][:3]
    elif len(numbers) < 3:  # minutes, or minutes and seconds
        numbers = [0, *numbers, 0][:3]
    hours, minutes, seconds = numbers
    return float(((days or 0) * 24 + hours) * 3600 + minutes * 60 + seconds)


def parse_memory(text: str) -> float:
    """An amount of memory of Slurm, GiB; a plain number is MiB. Raises ValueError."""
    found = _MEMORY.fullmatch(text)
    if found is None:
        raise ValueError(f"{short(text)!r} is not an amount of memory; write MiB, or 512M, 16G, 1T")
    unit = found[2].upper() or "M"
    return float(found[1]) * {"K": 2.0**-20, "M": 2.0**-10, "G": 1.0, "T": 2.0**10}[unit]


def _script_lines(text: str, path: str) -> tuple[list[Given], list[str]]:
    """The options of the `#SBATCH` lines before the first command, and a note about those behind it."""
    if not is_script(text):
        raise JobFileError(
            "the first line names no interpreter; begin with a line such as #!/bin/bash", path, 1
        )
    before, break_of_dos, _ = text.partition("\r\n")
    if break_of_dos:
        raise JobFileError(
            "the line ends as in DOS (\\r\\n), which would be a part of its command;"
            " remove that: sed -i 's/\\r$//' FILE",
            path,
            before.count("\n") + 1,
        )
    given: list[Given] = []
    late: list[int] = []
    has_begun = False
    for number, line in enumerate(text.splitlines(), 1):
        if not line.startswith("#"):
            has_begun = has_begun or bool(line.strip())
        elif line.startswith("#SBATCH") and has_begun:
            late.append(number)
        elif re.match(r"#SBATCH(\s|$)", line):
            try:
                words = shlex.split(line.removeprefix("#SBATCH"), comments=True)
            except ValueError as error:
                raise JobFileError(f"{str(error).lower()}; close it", path, number) from None
            if words in (["hetjob"], ["packjob"]):
                raise JobFileError(
                    f"{words[0]}: a job has one kind of unit; submit several scripts, joined by --dependency",
                    path,
                    number,
                )
            given += _parsed(words, number, path)
    notes = [f"{path}, line {number}: #SBATCH after the first command is not read" for number in late[:1]]
    return given, notes


def _parsed(
    words: list[str],
    line: int | None,
    path: str,
    rest: list[str] | None = None,
    grammar: Grammar = SBATCH,
) -> list[Given]:
    """Options with their values. Raises JobFileError or InputError for what is none, unless it goes to `rest`."""
    given: list[Given] = []
    left: Iterator[str] = iter(words)

    def fail(text: str) -> InputError:
        return _error(text, path, line)

    for word in left:
        name, equals, value = word.partition("=")
        if name.startswith("--") and len(name) > 2:
            name = _full_name(name[2:], grammar)
        elif re.fullmatch(r"-[A-Za-z].*", word, re.DOTALL):
            name, attached = grammar.short.get(word[1], word[:2]), word[2:]
            if name in grammar.switches and attached:  # `-lu`
                left, attached = chain([f"-{attached}"], left), ""
            equals, value = attached and "=", attached.removeprefix("=")
        elif rest is not None:
            rest += [word, *left]
            break
        else:
            raise fail(f"{word!r} is no option of {grammar.command}; write --NAME=VALUE")
        if name not in grammar.known:
            near = nearest(name, grammar.known)
            hint = f"did you mean --{near[0]}?" if near else "leave it out"
            raise fail(f"{word.partition('=')[0]} is no option that Betimes knows; {hint}")
        if name in grammar.switches or (name in grammar.may_have_value and not equals):
            if equals:
                raise fail(f"--{name} takes no value; write --{name}")
        elif not equals:
            value = next(left, "")
            if not value:
                raise fail(f"--{name} needs a value; write --{name}=VALUE")
        given.append(Given(name, value, line))
    return given


def _full_name(given: str, grammar: Grammar) -> str:
    """The name of an option that is cut, where that is clear, or has another name; else as given."""
    if given in grammar.known:
        return given
    named = {each: each for each in grammar.known} | OTHER_NAMES
    found = {name for each, name in named.items() if each.startswith(given)}
    return found.pop() if len(found) == 1 else given


def _error(text: str, path: str, line: int | None) -> InputError:
    return InputError(text) if line is None else JobFileError(text, path, line)


class _Reader:
    """Makes fields of options; of several with one name the last counts."""

    def __init__(
        self,
        path: str,
        given: Iterable[Given],
        environ: Mapping[str, str],
        workdir: str,
        *,
        is_script: bool = False,
    ) -> None:
        self.path, self.environ, self.workdir, self.is_script = path, environ, workdir, is_script
        self.given = {each.name: each for each in given}

    @property
    def nodes(self) -> int:
        """How many nodes are asked for. Raises JobFileError or InputError for what is no number."""
        return self._count("nodes") or 1

    def fields(self) -> tuple[dict[str, Any], list[str]]:
        """The fields, and notes. Raises JobFileError or InputError."""
        fields: dict[str, Any] = {"workdir": self._folder()}
        for option, field, read in (
            ("output", "output", str),
            ("error", "error", str),
            ("nice", "priority", lambda text: -_whole(text or "100")),
            ("priority", "priority", _whole),
            ("mail-type", "mail_type", _mail_types),
            ("mail-user", "mail_user", checked_address),
        ):
            if (value := self._read(option, read)) is not None:
                fields[field] = value
        for name in ("requeue", "no-requeue"):
            if name in self.given:
                fields["requeue"] = name == "requeue"
        fields |= self._resources() | self._wishes() | self._signal()
        self._refuse()
        fields["env"] = self._environment(fields)
        notes = [
            self._where(name) + f"--{name}: {text}" for name, text in NOTED.items() if self._is_wanted(name)
        ]
        return fields, notes

    def request(self) -> dict[str, Any]:
        """The request to a Slurm: CPUs in all, nodes and partition as labels, a limit, and what else it waits for.

        Nothing of what is run, and how. Raises JobFileError or InputError.
        """
        for name in ("nodelist", "exclude"):
            if name in self.given:
                raise self._fail(name, "which nodes a job names is not modelled; leave it out")
        nodes, per_node = self._count("nodes"), self._count("ntasks-per-node") or 1
        tasks = self._count("ntasks") or per_node * (nodes or 1)
        units = tasks * (self._count("cpus-per-task") or 1)
        gpus, kind = self._gpus()
        if "gpus" not in self.given and nodes:
            gpus *= nodes
        require = self._read("constraint", _features) or {}
        if kind is not None:
            require["gpu_kind"] = kind
        wishes = self._wishes()
        labels = wishes.pop("labels", {})
        if nodes is not None:
            labels["nodes"] = str(nodes)
        if "exclusive" in self.given:
            labels["exclusive"] = self.given["exclusive"].value or "yes"
        return {
            "min_units": units,
            "max_units": units,
            **wishes,
            **({"gpu": gpus / units} if gpus else {}),
            **({"require": require} if require else {}),
            **({"labels": labels} if labels else {}),
        }

    def _wishes(self) -> dict[str, Any]:
        """Name, limit, array, licences and labels, and what it waits for."""
        fields: dict[str, Any] = {}
        for option, field, read in (
            ("job-name", "name", str),
            ("time", "time_limit_s", parse_time),
            ("array", "array", self._array),
            ("begin", "begin_at", parse_begin),
        ):
            if (value := self._read(option, read)) is not None:
                fields[field] = value
        fields |= self._licences() | self._labels()
        after = self._read("dependency", self._after) or []
        if "singleton" in after:
            fields["singleton"] = True
        if waited_for := [each for each in after if each != "singleton"]:
            fields["after"] = waited_for
        if "hold" in self.given:
            fields["hold"] = True
        return fields

    def _is_wanted(self, name: str) -> bool:
        return name in self.given and self.given[name].value.upper() != "NONE"

    def _where(self, name: str) -> str:
        line = self.given[name].line
        return "" if line is None else f"{self.path}, line {line}: "

    def _read(self, name: str, read: Any) -> Any:
        """The value of an option; None: not given. A value that cannot be read is an error with the option's name."""
        if name not in self.given:
            return None
        try:
            return read(self.given[name].value)
        except ValueError as error:
            raise self._fail(name, str(error)) from None

    def _fail(self, name: str, text: str) -> InputError:
        given = self.given[name]
        return _error(f"{given.label}: {text}", self.path, given.line)

    def _count(self, name: str) -> int | None:
        """A whole number of 1 or more, of which a range has the least."""

        def read(text: str) -> int:
            number = _whole(text.partition("-")[0])
            if number < 1:
                raise ValueError(f"{short(text)} is less than 1")
            return number

        return self._read(name, read)

    def _folder(self) -> str:
        given = self.given.get("chdir")
        return os.path.normpath(Path(self.workdir, given.value if given else ""))

    def _resources(self) -> dict[str, Any]:
        """Demand of a node, which is a unit of the job: of the tasks there, all on one machine."""
        nodes = self.nodes
        if nodes > 1 and not self.is_script:
            raise self._fail(
                "nodes",
                f"{nodes} machines are for a script alone; write --nodes=1, or sbatch a script that calls srun",
            )
        tasks, (gpus, kind) = -(-(self._tasks() or nodes) // nodes), self._gpus()
        cpus = self._count("cpus-per-task") or 1
        per_gpu = self._count("cpus-per-gpu")
        cpu = per_gpu * gpus if per_gpu and gpus else tasks * cpus
        cpu = max(cpu, self._count("mincpus") or 1)
        memory = self._read("mem", parse_memory)
        if memory is None:
            memory = (self._read("mem-per-cpu", parse_memory) or 0.0) * cpu
        if not memory:
            memory = (self._read("mem-per-gpu", parse_memory) or 0.0) * gpus
        require = self._read("constraint", _features) or {}
        if kind is not None:
            require["gpu_kind"] = kind
        return {
            "cpu": float(cpu),
            **({"gpu": float(gpus)} if gpus else {}),
            **({"memory_gib": memory} if memory else {}),
            **({"require": require} if require else {}),
            **({"min_units": nodes, "max_units": nodes, "units_per_task": "spread"} if nodes > 1 else {}),
        }

    def _tasks(self) -> int | None:
        """The number of tasks that are asked for; null: as many as there are nodes."""
        stated, per_gpu = self._stated_tasks(), self._count("ntasks-per-gpu")
        return stated if stated or not per_gpu else per_gpu * self._gpus()[0] * self.nodes or None

    def _stated_tasks(self) -> int | None:
        per_node = self._count("ntasks-per-node")
        return self._count("ntasks") or (per_node and per_node * self.nodes)

    def _gpus(self) -> tuple[int, str | None]:
        """The number of GPUs of a node, and their kind, if given."""
        tasks, per_gpu, nodes = self._stated_tasks(), self._count("ntasks-per-gpu"), self.nodes
        for name, times in (("gpus", 1), ("gpus-per-node", nodes), ("gpus-per-task", tasks or nodes)):
            found = self._read(name, gpu_number)
            if found is not None:
                total = found[0] * times
                if total % nodes:
                    raise self._fail(
                        name, f"{total} GPUs are no multiple of {nodes} nodes; write --gpus-per-node"
                    )
                return total // nodes, found[1]
        found = self._read("gres", gres)
        if found is None and tasks and per_gpu:
            return -(-tasks // (per_gpu * nodes)), None
        return found if found is not None else (0, None)

    def _licences(self) -> dict[str, Any]:
        def read(text: str) -> dict[str, int]:
            return parse_resources(re.sub(r"[:*]", "=", part) for part in re.split("[,;]", text))

        found = self._read("licenses", read)
        return {"resources": found} if found else {}

    def _labels(self) -> dict[str, Any]:
        labels = {name: self.given[name].value for name in LABELS if name in self.given}
        return {"labels": labels} if labels else {}

    def _signal(self) -> dict[str, Any]:
        def read(text: str) -> dict[str, Any]:
            found = _SIGNAL.fullmatch(text)
            name = "" if found is None else found["signal"].upper()
            name = _SIGNALS.get(name, name)
            if found is None or name not in _SIGNALS.values():
                raise ValueError(
                    f"{short(text)!r} cannot be kept; write USR1@SECONDS, or USR2, TERM, INT, HUP"
                )
            return {"warn_signal": name, "warn_s": float(found["s"] or 60)}

        return self._read("signal", read) or {}

    def _array(self, text: str) -> str:
        if bracketed := re.fullmatch(r"\[(.*)\](%.*)?", text):  # as Slurm prints it, and takes it too
            text = bracketed[1] + (bracketed[2] or "")
        if not re.fullmatch(_INDICES, text):
            raise ValueError(
                f"{short(text)!r} is not an array; write indices as in 0-15, 1,3,5-9:2 or 0-99%10 (10 at once)"
            )
        return text

    def _after(self, text: str) -> list[str]:
        """`afterok:1:2_3,afterany:4` as jobs to wait for: `1_[*]`, `2_[3]`, `4_[*]:any`; and `singleton`.

        The number of an array means all of it (`cli.live.jobs.ids.waited_for`). Raises ValueError.
        """
        if "?" in text:
            raise ValueError("`?` (one of several) cannot be kept; separate by a comma, for all of them")
        found: list[str] = []
        for part in filter(None, text.split(",")):
            kind, *jobs = part.split(":")
            if part == "singleton":
                found.append(part)
                continue
            if not jobs and re.fullmatch(r"\d{1,18}(_\d{1,9})?", kind):
                kind, jobs = "afterany", [kind]
            end = AFTER.get(kind)
            if end is None:
                raise ValueError(
                    f"{kind!r} cannot be kept; of {', '.join(AFTER)}, each with :JOB, and singleton"
                )
            for job in jobs:
                number = re.fullmatch(r"([1-9]\d{0,17})(?:_(\d{1,9}))?", job)
                first, plus, delay = job.partition("+")
                if number is None and plus and re.fullmatch(r"\d{1,18}(_\d{1,9})?\+\d{1,9}", job):
                    instead = f"write {kind}:{first}, and begin the script with: sleep {delay}m"
                    raise ValueError(f"{short(job)!r}: a delay of {delay} min cannot be kept; {instead}")
                if number is None:
                    raise ValueError(
                        f"{short(job)!r} is not the number of a job; write {kind}:41, or {kind}:41_3"
                    )
                found.append(f"{number[1]}_[{number[2] or '*'}]{end}")
            if not jobs:
                raise ValueError(f"{part!r} names no job; write {kind}:41")
        return found

    def _refuse(self) -> None:
        """Raise for an option that has no counterpart."""
        hints = {
            "nodelist": "write --constraint for machines with a label",
            "exclude": "write --constraint for machines with a label",
            "clusters": "there is one service; leave it out",
            "input": "let the script read the file: PROGRAM < FILE",
            "overcommit": "ask for the cores that the tasks need",
            "deadline": "see --time and `betimes submit --by`",
            "time-min": "leave it out, or write --time",
            "tmp": "leave it out, and see that the disk has room",
        }
        for name, hint in hints.items():
            if name in self.given and (name != "clusters" or self.given[name].value not in CLUSTERS):
                raise self._fail(name, f"cannot be kept; {hint}")
        if "wrap" in self.given and self.given["wrap"].line is not None:
            raise self._fail("wrap", "a script cannot hold it; write the command as a line of its own")
        if "open-mode" in self.given:
            mode = self.given["open-mode"].value
            files = [self.given[name].value for name in ("output", "error") if name in self.given]
            if mode != "truncate" and not (mode == "append" and all("%" in file for file in files)):
                raise self._fail(
                    "open-mode",
                    f"{mode!r} cannot be kept: the first run of a job begins its file anew, later ones append to it; "
                    "leave it out, and write %j into the file's name",
                )

    def _environment(self, fields: Mapping[str, Any]) -> dict[str, str]:
        """The variables that are exported, and those that a script reads about its request."""
        env = self._read("export", lambda text: exported(text, self.environ))
        if env is None:
            env = exported("ALL", self.environ)
        tasks = self._tasks()  # null: not set, as with Slurm
        known: dict[str, object] = {
            "SUBMIT_DIR": self.workdir,
            "SUBMIT_HOST": socket.gethostname(),
            "CLUSTER_NAME": "betimes",
            "NNODES": self.nodes if self.nodes > 1 else None,  # for `launches`, where the nodes are known
            "NTASKS": tasks,
            "NPROCS": tasks,
            "NTASKS_PER_NODE": self._count("ntasks-per-node"),
            "CPUS_PER_TASK": self._count("cpus-per-task"),
            "GPUS": int(fields.get("gpu", 0)) * self.nodes or None,
            "MEM_PER_NODE": _mib(self._read("mem", parse_memory)),
            "MEM_PER_CPU": _mib(self._read("mem-per-cpu", parse_memory)),
            "TASKS_PER_NODE": tasks_per_node(evenly(tasks or self.nodes, self.nodes)),
            "JOB_PARTITION": self._read("partition", str) or "betimes",
            "JOB_ACCOUNT": self._read("account", str),
            "JOB_QOS": self._read("qos", str),
        }
        return env | {f"SLURM_{name}": str(value) for name, value in known.items() if value is not None}


def _whole(text: str) -> int:
    if not re.fullmatch(r"[+-]?\d{1,9}", text):
        raise ValueError(f"{short(text)!r} is not a whole number")
    return int(text)


def short(text: str) -> str:
    """The beginning of a text, for a message."""
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."


def _mib(gib: float | None) -> int | None:
    return None if gib is None else round(gib / _MIB)


def gpu_number(text: str) -> tuple[int, str | None]:
    """`2`, `a100:2`. Raises ValueError."""
    found = _GPUS.fullmatch(text)
    if found is None:
        raise ValueError(f"{short(text)!r} is not a number of GPUs; write 2, or a100:2")
    return int(found["number"]), found["kind"]


def gres(text: str) -> tuple[int, str | None]:
    """`gpu`, `gpu:2`, `gpu:a100:2`. Raises ValueError for other resources."""
    if text.lower() == "none":
        return 0, None
    found = _GRES.fullmatch(text)
    if found is None:
        raise ValueError(
            f"{short(text)!r} cannot be kept: GPUs are the only such resource; write gpu:2 or gpu:a100:2"
        )
    return int(found["number"] or 1), found["kind"]


def _mail_types(text: str) -> list[str] | None:
    """`END,FAIL`; of Slurm's others, such as TIME_LIMIT_80, there is no mail. Raises ValueError."""
    unsent = re.compile("REQUEUE|STAGE_OUT|INVALID_DEPEND|TIME_LIMIT(_[589]0)?")
    words = [word for word in text.upper().split(",") if not unsent.fullmatch(word.strip())]
    found = [str(each) for each in mail_types(",".join(words) or "NONE")]
    if unknown := next((name for name in found if name not in MAIL_TYPES), None):
        raise ValueError(f"{short(unknown)!r} is no type; write {', '.join(MAIL_TYPES)} or ALL")
    return found or None


def _features(text: str) -> dict[str, str]:
    """`avx512&nvme` as labels that the nodes must have. Raises ValueError."""
    parts = text.split("&")
    if not all(re.fullmatch(r"[A-Za-z0-9][\w.-]*(=[\w.-]+)?", part) for part in parts):
        raise ValueError(
            f"{short(text)!r} cannot be kept; write one feature, or several that are all needed, as in a100&nvme"
        )
    pairs = (part.partition("=") for part in parts)
    return {key: value if equals else "yes" for key, equals, value in pairs}
