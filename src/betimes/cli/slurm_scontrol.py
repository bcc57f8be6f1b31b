"""Slurm's `scontrol`: what it shows of jobs, nodes and the service, and what it changes.

Source: the manual page of scontrol, Slurm 24.11, and its output.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from betimes.cli.live.jobs.ids import waited_for
from betimes.cli.slurm_jobs import (
    PARTITION,
    RECENT_S,
    VERSION,
    by_number,
    cores,
    elapsed,
    final_code,
    full_clock,
    instant,
    reason_of,
    service_here,
    start_of,
    state_of,
    time_limit,
    tres,
)
from betimes.cli.slurm_values import dependencies
from betimes.errors import BetimesError, InputError
from betimes.printing import printable
from betimes.service.spec.sbatch import Given, parse_time, read_program
from betimes.service.spec.spelling import file_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from betimes.client.plain import PlainClient

Fields = list[list[tuple[str, Any]]]  # of an entity, by lines

_CHANGES = {
    "timelimit": "time", "jobname": "job-name", "name": "job-name", "dependency": "dependency", "starttime": "begin",
    "priority": "priority", "nice": "nice", "partition": "partition", "account": "account", "comment": "comment",
}  # fmt: skip
"""Fields that `update` changes, and the option of sbatch that reads its value."""
_JOB = ("jobid", "job")
_FIELDS = ("name", "time_limit_s", "after", "begin_at", "priority", "labels")


_CHANGE_NOTHING = """
    -d -dd --details -Q --quiet -a --all -v -vv --verbose -F --future --hide --local --federation --sibling
"""
"""Options of Slurm's that are taken and change nothing."""


def scontrol(words: Sequence[str]) -> None:
    """Carry out one subcommand. Raises InputError, also for one that cannot be kept."""
    switches = [word for word in words if word.startswith("-")]
    one_line = False
    for word in switches:
        if word in ("-o", "--oneliner"):
            one_line = True
        elif word not in _CHANGE_NOTHING.split():
            raise InputError(f"{word}: scontrol of Betimes does not know this option; leave it out")
    verb, *rest = [word for word in words if not word.startswith("-")] or [""]
    if verb in ("hold", "uhold", "release", "requeue", "suspend", "resume"):
        _steer(verb.removeprefix("u"), rest)
    elif verb == "update":
        _update(rest)
    elif verb == "ping":
        with service_here() as service:
            service.health()
        print(f"Slurmctld(primary) at {socket.gethostname()} is UP")
    elif verb == "show":
        _show(rest, one_line)
    else:
        raise InputError(
            f"{verb or 'nothing'}: is not known; of show, hold, release, requeue, suspend, resume, update, ping"
        )


def _steer(verb: str, words: Sequence[str]) -> None:
    """Hold, release, requeue, suspend or resume jobs: `41`, `41,42_3`, `jobid=41`."""
    if not words:
        raise InputError(f"no job is given; write scontrol {verb} 41")
    if verb == "requeue":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # that of its own job, which asks for this
    with service_here() as service:
        jobs = _jobs(service, ",".join(word.lower().removeprefix("jobid=") for word in words))
        getattr(service, verb)([job.job_id for job in jobs], where_possible=len(jobs) > 1)


def _update(words: Sequence[str]) -> None:
    """Change a job: `JobId=41 TimeLimit=2:00:00 Dependency=afterok:40`; the options of sbatch read the values."""
    if len(words) > 1 and words[0].lower() in _JOB and "=" not in words[1]:  # `update job 41 TimeLimit=20`
        words = [f"JobId={words[1]}", *words[2:]]
    given = {key.lower(): value for key, _, value in (word.partition("=") for word in words)}
    text = next((given.pop(key) for key in _JOB if key in given), "")
    if not text or not given:
        raise InputError("update: write scontrol update JobId=41 TimeLimit=2:00:00")
    unknown = next((key for key in given if key not in _CHANGES), None)
    if unknown is not None:
        raise InputError(f"update: {unknown} cannot be changed; of {', '.join(_CHANGES)}")
    more_s = _more_time(given)
    options = [Given(_CHANGES[key], value, None) for key, value in given.items()]
    fields = read_program(["true"], options).fields
    changes = {name: fields[name] for name in _FIELDS if name in fields}
    if given.get("dependency") == "":  # waits for none any more
        changes["after"] = []
    if "singleton" in fields:
        raise InputError("update: singleton cannot be added to a job; submit it with --dependency=singleton")
    if not {"name", "jobname"} & given.keys():
        del changes["name"]  # that of the program
    with service_here() as service:
        jobs = _jobs(service, text)
        if "after" in changes:
            changes["after"] = waited_for(service, changes["after"])
        if more_s is None:
            service.edit([job.job_id for job in jobs], where_possible=len(jobs) > 1, **changes)
            return
        for job in jobs:
            story: Any = service.job(job.job_id)
            limit_s = story.spec.get("time_limit_s")
            if limit_s is None:
                raise InputError(f"update: job {job.job_id} has no time limit; write TimeLimit=2:00:00")
            service.edit([job.job_id], **changes, time_limit_s=limit_s + more_s)


def _more_time(given: dict[str, str]) -> float | None:
    """By how much `TimeLimit=+10` or `-10` changes the limit, which is taken out, s; null: not in this way."""
    text = given.get("timelimit", "")
    if text[:1] not in ("+", "-"):
        return None
    try:
        by_s = parse_time(text[1:])
    except ValueError as error:
        raise InputError(f"update: TimeLimit: {error}") from None
    if by_s is None:
        raise InputError(f"update: TimeLimit={text}: adds nothing; write +10, in minutes")
    del given["timelimit"]
    return by_s if text[0] == "+" else -by_s


def _jobs(service: PlainClient, text: str) -> list[Any]:
    jobs = list(by_number(service, text))
    if not jobs:
        raise BetimesError(f"Invalid job id specified: {text}")
    return jobs


def _show(words: Sequence[str], one_line: bool) -> None:
    """Show entities; as with Slurm, what they are called may be cut short: `part`, `hostname`."""
    what, name = (*words, "", "")[:2]
    what, equals, value = what.lower().partition("=")
    name = value if equals else name
    kinds: dict[str, Callable[[PlainClient, str], list[Fields]]] = {
        "jobs": _of_jobs, "jobid": _of_jobs, "nodes": _of_nodes, "partitions": _of_partition,
    }  # fmt: skip
    lists = {"hostnames": _names, "hostlist": _list, "hostlistsorted": _sorted_list}
    kind = next((each for each in (*kinds, *lists, "config") if what and each.startswith(what)), None)
    if kind in lists:
        print("\n".join(lists[kind](name)))
    elif kind == "config":
        with service_here() as service:
            service.health()
        for key, each in _CONFIG.items():
            print(f"{key:<23} = {each}")
    elif kind is not None:
        with service_here() as service:
            entities = kinds[kind](service, name)
        for lines in entities:
            texts = [" ".join(f"{key}={printable(str(each))}" for key, each in line) for line in lines]
            print(" ".join(texts) if one_line else "\n   ".join(texts) + "\n")
    else:
        raise InputError(
            f"show {what}: is not known; of job, node, partition, config, hostnames, hostlist, hostlistsorted"
        )


_CONFIG = {
    "ClusterName": PARTITION,
    "MinJobAge": f"{RECENT_S:.0f} sec",
    "KillWait": "30 sec",
    "MaxArraySize": 1_000_001,
    "SLURM_VERSION": VERSION,
}


def _nodelist() -> str:
    found = os.environ.get("SLURM_JOB_NODELIST")
    if found is None:
        raise InputError(
            "show hostnames: name the nodes, as in node[1-3]; $SLURM_JOB_NODELIST is not set here"
        )
    return found


def hostnames(text: str) -> list[str]:
    """`gpu[1-2,07],b` as gpu1, gpu2, gpu07, b."""
    found: list[str] = []
    for part in re.findall(r"(?:[^,\[]|\[[^\]]*\])+", text):
        match = re.fullmatch(r"([^\[]*)\[([\d,-]+)\](.*)", part)
        if match is None:
            found.append(part)
            continue
        for span in match[2].split(","):
            first, _, last = span.partition("-")
            for number in range(int(first), int(last or first) + 1):
                found += hostnames(f"{match[1]}{number:0{len(first)}}{match[3]}")
    return found


def _names(text: str) -> list[str]:
    return hostnames(text or _nodelist())


def _list(text: str) -> list[str]:
    """`a1,a2,b` as `a[1-2],b`; of a file, named by its full path, its names. Raises InputError."""
    if text.startswith("/"):
        try:
            text = ",".join(Path(text).read_text(encoding="utf-8").split())
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(
                f"{text}: cannot be read ({getattr(error, 'strerror', None) or error})"
            ) from None
    return [_as_list(_names(text))]


def _sorted_list(text: str) -> list[str]:
    def by_number(name: str) -> list[tuple[int, str]]:
        return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)]

    return [_as_list(sorted(hostnames(_list(text)[0]), key=by_number))]


def _as_list(names: Sequence[str]) -> str:
    """Names side by side that differ in the number at their end alone, as one with the numbers in brackets."""
    groups: list[
        tuple[str, int, list[int]]
    ] = []  # what stands before the number, its digits, and the numbers
    for name in names:
        match = re.fullmatch(r"(.*?)(\d{1,18})", name)
        before, digits = (match[1], match[2]) if match is not None else (name, "")
        width = len(digits) if digits.startswith("0") else 0
        is_like = groups and digits and groups[-1][2] and groups[-1][0] == before
        if is_like and groups[-1][1] in (width, len(digits)):
            groups[-1][2].append(int(digits))
        else:
            groups.append((before, width, [int(digits)] if digits else []))
    return ",".join(before + _numbers(width, numbers) for before, width, numbers in groups)


def _numbers(width: int, numbers: Sequence[int]) -> str:
    """`[1-3,5]`; of one number that alone."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][-1] + 1:
            spans[-1][1:] = [number]
        else:
            spans.append([number])
    text = ",".join("-".join(f"{each:0{width}}" for each in span) for span in spans)
    return f"[{text}]" if len(numbers) > 1 else text


def _of_jobs(service: PlainClient, text: str) -> list[Fields]:
    if not text:
        from betimes.cli.live.jobs.ids import every_job
        from betimes.cli.slurm_jobs import ACTIVE
        from betimes.errors import NotAllowed

        entities: list[Fields] = []
        for job in every_job(service, {"status": ACTIVE})[::-1]:
            with suppress(NotAllowed):  # those of others are left out
                entities.append(_of_job(service.job(job.job_id)))
        return entities
    return [_of_job(service.job(job.job_id)) for job in _jobs(service, text)]


def _of_job(story: Any) -> Fields:
    """A job's fields, in the order of Slurm's."""
    job, spec, runs = story.job, story.spec, story.runs
    state = state_of(job)
    places = [place["node"] for place in runs[-1].places] if runs else []
    env = spec.get("env", {})
    cpus = cores(job)
    code = final_code(job, runs)
    array: list[tuple[str, Any]] = (
        [] if job.array_id is None else [("ArrayJobId", job.array_id), ("ArrayTaskId", job.array_index)]
    )
    estimate = job.estimate or {"start_at": None, "finish_at": None}
    after = dependencies(job, spec) or "(null)"
    out, error = (_file(spec.get(name), spec, job, places) for name in ("output", "error"))
    return [
        [("JobId", job.job_id), *array, ("JobName", job.name)],
        [("UserId", _user(job.user)), ("GroupId", "N/A"), ("MCS_label", "N/A")],
        [
            ("Priority", spec.get("priority", 0)),
            ("Nice", 0),
            ("Account", job.labels.get("account", "(null)")),
            ("QOS", job.labels.get("qos", "(null)")),
        ],
        [("JobState", state), ("Reason", reason_of(job)), ("Dependency", after)],
        [
            ("Requeue", int(spec.get("requeue", True))),
            ("Restarts", max(0, job.attempt - 1)),
            ("BatchFlag", int("SLURM_SUBMIT_DIR" in env)),
            ("Reboot", 0),
            ("ExitCode", code),
        ],
        [
            ("RunTime", full_clock(elapsed(job))),
            ("TimeLimit", full_clock(time_limit(story))),
            ("TimeMin", "N/A"),
        ],
        [
            ("SubmitTime", instant(job.submitted_at)),
            ("EligibleTime", instant(spec.get("begin_at") or job.submitted_at)),
        ],
        [
            ("StartTime", _known(start_of(job, runs) or estimate["start_at"])),
            ("EndTime", _known(job.finished_at or estimate["finish_at"])),
            ("Deadline", "N/A"),
        ],
        [
            ("Partition", job.labels.get("partition", PARTITION)),
            ("AllocNode:Sid", env.get("SLURM_SUBMIT_HOST", "N/A")),
        ],
        [("ReqNodeList", "(null)"), ("ExcNodeList", "(null)")],
        [("NodeList", ",".join(places) if job.started_at is not None else "(null)")],
        *([[("BatchHost", places[0])]] if places else []),
        [
            ("NumNodes", max(1, len(places))),
            ("NumCPUs", cpus),
            ("NumTasks", env.get("SLURM_NTASKS", 1)),
            ("CPUs/Task", env.get("SLURM_CPUS_PER_TASK", 1)),
        ],
        [("TRES", tres(story))],
        [("Command", shlex.join(spec["command"][-1:]))],
        [("WorkDir", spec.get("workdir") or "/")],
        [("StdErr", error or out or "(null)"), ("StdIn", "/dev/null"), ("StdOut", out or "(null)")],
    ]


def _user(name: str) -> str:
    """A user with the number that they have here, if they are known."""
    import pwd

    try:
        return f"{name}({pwd.getpwnam(name).pw_uid})"
    except KeyError:
        return name


def _file(pattern: str | None, spec: Any, job: Any, places: Sequence[str]) -> str | None:
    """The file of a pattern such as `slurm-%j.out`, in full."""
    if pattern is None:
        return None
    number = str(job.job_id)
    known = {"j": number, "J": number, "A": str(job.array_id or number), "a": str(job.array_index or 0),
             "u": job.user, "x": job.name, **({"N": places[0]} if places else {})}  # fmt: skip
    return str(Path(spec.get("workdir") or "/", file_name(pattern, known)))


def _known(at: float | None) -> str:
    return "Unknown" if at is None else instant(at)


def _of_nodes(service: PlainClient, name: str) -> list[Fields]:
    found = [node for node in service.nodes() if not name or node.name in hostnames(name)]
    if not found:
        raise BetimesError(f"Node {name} not found")
    states = {"draining": "MIXED+DRAIN", "drained": "IDLE+DRAIN"}
    return [
        [
            [
                ("NodeName", node.name),
                ("CPUAlloc", f"{node.cpu - node.free_cpu:g}"),
                ("CPUTot", f"{node.cpu:g}"),
            ],
            [("Gres", f"gpu:{node.gpu:g}" if node.gpu else "(null)")],
            [("NodeAddr", node.name), ("NodeHostName", node.name), ("Version", VERSION)],
            [
                ("RealMemory", round(node.memory_gib * 1024)),
                ("AllocMem", round((node.memory_gib - node.free_memory_gib) * 1024)),
            ],
            [
                (
                    "State",
                    ("MIXED" if node.jobs else "IDLE")
                    if node.status == "up"
                    else states.get(node.status, "DOWN"),
                ),
                ("ThreadsPerCore", 1),
            ],
            [("Partitions", PARTITION)],
        ]
        for node in found
    ]


def _of_partition(service: PlainClient, name: str) -> list[Fields]:
    if name not in ("", PARTITION):
        raise BetimesError(f"Partition {name} not found")
    nodes = [node for node in service.nodes() if node.status == "up"]
    return [
        [
            [("PartitionName", PARTITION)],
            [("AllowGroups", "ALL"), ("AllowAccounts", "ALL"), ("AllowQos", "ALL")],
            [("Default", "YES"), ("DefaultTime", "NONE"), ("Hidden", "NO")],
            [("MaxNodes", "UNLIMITED"), ("MaxTime", "UNLIMITED"), ("MinNodes", 0)],
            [("Nodes", ",".join(node.name for node in nodes))],
            [
                ("State", "UP"),
                ("TotalCPUs", f"{sum(node.cpu for node in nodes):g}"),
                ("TotalNodes", len(nodes)),
            ],
        ]
    ]
