"""Slurm's `scontrol`: what it shows of jobs, nodes and the service, and what it changes.

Source: the manual page of scontrol, Slurm 24.11, and its output.
"""

from __future__ import annotations

import os
import shlex
import signal
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from betimes.cli.live.jobs.ids import waited_for
from betimes.cli.slurm_jobs import (
    PARTITION,
    RECENT_S,
    VERSION,
    Partition,
    by_number,
    clock,
    cores,
    elapsed,
    final_code,
    full_clock,
    instant,
    name_order,
    node_count,
    node_list,
    partitions,
    reason_of,
    resources,
    service_here,
    start_of,
    state_of,
    time_limit,
    tres,
)
from betimes.cli.slurm_options import Asked
from betimes.cli.slurm_values import dependencies, features, reason_of_node, state_of_node
from betimes.errors import BetimesError, InputError
from betimes.printing import printable
from betimes.service.spec.sbatch import Given, parse_time, read_program
from betimes.service.spec.spelling import file_name
from betimes.slurm.hostlist import as_list, hostnames

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
_NODE = ("nodename", "node")
_FIELDS = ("name", "time_limit_s", "after", "begin_at", "priority", "labels")


def scontrol(words: Sequence[str]) -> None:
    """Carry out one subcommand. Raises InputError, also for one that cannot be kept."""
    asked = Asked("scontrol", words)
    verb, *rest = asked.rest or [""]
    if asked.has("json") and verb != "show":
        raise InputError(f"--json: {verb} prints nothing; leave it out")
    if verb in ("hold", "uhold", "release", "requeue", "suspend", "resume"):
        _steer(verb.removeprefix("u"), rest)
    elif verb == "update":
        _update(rest)
    elif verb == "ping":
        with service_here() as service:
            service.health()
        print(f"Slurmctld(primary) at {socket.gethostname()} is UP")
    elif verb == "show":
        _show(rest, asked)
    elif verb == "version":
        print(f"slurm {VERSION}")
    else:
        known = "show, hold, release, requeue, suspend, resume, update, ping, version"
        raise InputError(f"{printable(verb) or 'nothing'}: is not known; of {known}")


def _steer(verb: str, words: Sequence[str]) -> None:
    """Hold, release, requeue, suspend or resume jobs: `41`, `41,42_3`, `jobid=41`."""
    if not words:
        raise InputError(f"no job is given; write scontrol {verb} 41")
    if verb == "requeue":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # that of its own job, which asks for this
    with service_here() as service:
        jobs = _jobs(service, ",".join(word.lower().removeprefix("jobid=") for word in words))
        getattr(service, verb)([job.job_id for job in jobs], where_possible=len(jobs) > 1)


def _update_nodes(text: str, given: dict[str, str]) -> None:
    """Drain nodes, or use them again: `NodeName=n[1-3] State=DRAIN Reason="bad fan"`."""
    names, state, reason = hostnames(text), given.pop("state", "").lower(), given.pop("reason", "")
    if given:
        raise InputError(f"update: {next(iter(given))} of a node cannot be changed; only State and Reason")
    if state == "drain" and not reason:
        raise InputError("update: You must specify a reason when DRAINING a node; write Reason=TEXT")
    if state not in ("drain", "resume", "undrain"):
        raise InputError("update: write scontrol update NodeName=n1 State=DRAIN Reason=TEXT, or State=RESUME")
    with service_here() as service:
        for name in names:
            if state == "drain":
                service.drain(name, reason)
            else:
                service.undrain(name)


def _update(words: Sequence[str]) -> None:
    """Change a job: `JobId=41 TimeLimit=2:00:00 Dependency=afterok:40`; the options of sbatch read the values."""
    if len(words) > 1 and words[0].lower() in _JOB and "=" not in words[1]:  # `update job 41 TimeLimit=20`
        words = [f"JobId={words[1]}", *words[2:]]
    given = {key.lower(): value for key, _, value in (word.partition("=") for word in words)}
    if node := next((key for key in _NODE if key in given), None):
        _update_nodes(given.pop(node), given)
        return
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
    if "dependency" in given:  # those given, in the place of those that it has
        changes |= {"after": fields.get("after", []), "singleton": fields.get("singleton", False)}
    if not {"name", "jobname"} & given.keys():
        del changes["name"]  # that of the program
    with service_here() as service:
        jobs = _jobs(service, text)
        if changes.get("after"):
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


def _show(words: Sequence[str], asked: Asked) -> None:
    """Show entities; as with Slurm, what they are called may be cut short: `part`, `hostname`."""
    what, name = (*words, "", "")[:2]
    what, equals, value = what.lower().partition("=")
    name = value if equals else name
    kinds: dict[str, Callable[[PlainClient, str], list[Fields]]] = {
        "jobs": _of_jobs, "jobid": _of_jobs, "nodes": _of_nodes, "partitions": _of_partition,
        "reservations": _of_reservations,
    }  # fmt: skip
    lists = {"hostnames": _names, "hostlist": _list, "hostlistsorted": _sorted_list}
    kind = next(
        (each for each in (*kinds, *lists, "config", *_NOT_SHOWN) if what and each.startswith(what)), None
    )
    if asked.has("json"):
        if kind not in ("jobs", "jobid"):
            raise InputError(f"--json: is kept for jobs only; write scontrol show {printable(what)}")
        return _as_json(name)
    if kind in lists:
        for line in lists[kind](name):
            print(line)
    elif kind == "config":
        with service_here() as service:
            service.health()
        for key, each in _CONFIG.items():
            print(f"{key:<23} = {each}")
    elif kind in kinds:
        with service_here() as service:
            entities = kinds[kind](service, name)
        for lines in entities:
            texts = [" ".join(f"{key}={printable(str(each))}" for key, each in line) for line in lines]
            print(" ".join(texts) if asked.has("oneliner") else "\n   ".join(texts) + "\n")
    elif kind is not None:
        raise InputError(f"show {kind}: {_NOT_SHOWN[kind]}")
    else:
        known = "job, node, partition, reservation, config, hostnames, hostlist, hostlistsorted"
        raise InputError(f"show {printable(what)}: is not known; of {known}")
    return None


_NO_SUCH = "there is nothing of this kind here"
_NOT_SHOWN = {
    "aliases": f"{_NO_SUCH}; write show node",
    "assoc_mgr": "there are no associations; `betimes users list` shows users and their limits",
    "bbstat": _NO_SUCH,
    "burstbuffer": _NO_SUCH,
    "daemons": "there is one service; write ping",
    "dwstat": _NO_SUCH,
    "federation": _NO_SUCH,
    "frontend": _NO_SUCH,
    "licenses": "how many are taken is not listed; `betimes job 41` shows which jobs have what it waits for",
    "slurmd": "there is no daemon on the nodes; write show node",
    "steps": "steps are not listed; write show job",
    "topology": _NO_SUCH,
    "users": "write `betimes users list`",
}
"""Entities that Slurm shows and Betimes does not, and what to do instead."""


def _as_json(text: str) -> None:
    """Jobs in the shape of `squeue --json`, which is Slurm's for them too."""
    from betimes.cli.slurm_json import document
    from betimes.cli.slurm_listing import chosen

    with service_here() as service:
        if text:
            _jobs(service, text)
        wanted = Asked("squeue", ["--jobs", text] if text else [])
        print(document("squeue", list(chosen(service, wanted, recent=not text))))


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
    return [as_list(_names(text))]


def _sorted_list(text: str) -> list[str]:
    return [as_list(sorted(hostnames(_list(text)[0]), key=name_order))]


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
        [("NodeList", node_list(places) if job.started_at is not None else "(null)")],
        *([[("BatchHost", places[0])]] if places else []),
        [
            ("NumNodes", node_count(spec, places)),
            ("NumCPUs", cpus),
            ("NumTasks", env.get("SLURM_NTASKS", 1)),
            ("CPUs/Task", env.get("SLURM_CPUS_PER_TASK", 1)),
        ],
        [("TRES", tres(story.job, story.spec))],
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


_STATES = {"alloc": "ALLOCATED", "drng": "MIXED+DRAIN", "drain": "IDLE+DRAIN", "mix": "MIXED"}


def _of_nodes(service: PlainClient, name: str) -> list[Fields]:
    """Nodes, in the order of Slurm's fields, which programs read by their places."""
    found = [node for node in service.nodes() if not name or node.name in hostnames(name)]
    if not found:
        raise BetimesError(f"Node {name} not found")
    there = partitions(service)
    return [_of_node(node, [each.name for each in there if node.name in each.names]) for node in found]


def _of_node(node: Any, queues: list[str]) -> Fields:
    state, used, why = state_of_node(node), node.cpu - node.free_cpu, reason_of_node(node)
    labels = features(node) or "(null)"
    used_gib = node.memory_gib - node.free_memory_gib
    return [
        [("NodeName", node.name), ("CoresPerSocket", f"{node.cpu:g}")],
        [
            ("CPUAlloc", f"{used:g}"),
            ("CPUEfctv", f"{node.cpu:g}"),
            ("CPUTot", f"{node.cpu:g}"),
            ("CPULoad", "N/A"),
        ],
        [("AvailableFeatures", labels)],
        [("ActiveFeatures", labels)],
        [("Gres", f"gpu:{node.gpu:g}" if node.gpu else "(null)")],
        [("NodeAddr", node.name), ("NodeHostName", node.name), ("Version", VERSION)],
        [
            ("RealMemory", round(node.memory_gib * 1024)),
            ("AllocMem", round(used_gib * 1024)),
            ("FreeMem", "N/A"),
            ("Sockets", 1),
            ("Boards", 1),
        ],
        [
            ("State", _STATES.get(state, state.upper())),
            ("ThreadsPerCore", 1),
            ("TmpDisk", 0),
            ("Weight", 1),
            ("Owner", "N/A"),
            ("MCS_label", "N/A"),
        ],
        [("Partitions", ",".join(queues) or "(null)")],
        [("CfgTRES", resources(node.cpu, node.memory_gib, node.gpu))],
        [("AllocTRES", resources(used, used_gib, node.gpu - node.free_gpu))],
        *([[("Reason", f"{why} [{node.drained_by or 'Unknown'}@{instant(node.since_at)}]")]] if why else []),
    ]


def _of_partition(service: PlainClient, name: str) -> list[Fields]:
    found = [each for each in partitions(service) if name in ("", each.name)]
    if not found:
        raise BetimesError(f"Partition {name} not found")
    return [_partition(each) for each in found]


def _partition(queue: Partition) -> Fields:
    nodes = [node for node in queue.nodes if node.status == "up"]
    total = [sum(getattr(node, what) for node in nodes) for what in ("cpu", "memory_gib", "gpu")]
    default, longest = (
        unknown if limit_s is None else full_clock(clock(limit_s))
        for limit_s, unknown in ((queue.default_s, "NONE"), (queue.longest_s, "UNLIMITED"))
    )
    return [
        [("PartitionName", queue.name)],
        [("AllowGroups", ",".join(queue.users) or "ALL"), ("AllowAccounts", "ALL"), ("AllowQos", "ALL")],
        [("Default", "YES" if queue.is_default else "NO"), ("DefaultTime", default), ("Hidden", "NO")],
        [("MaxNodes", "UNLIMITED"), ("MaxTime", longest), ("MinNodes", 0)],
        [("Nodes", node_list(node.name for node in nodes))],
        *([] if queue.priority is None else [[("PriorityJobFactor", queue.priority)]]),
        [
            ("State", "UP"),
            ("TotalCPUs", f"{total[0]:g}"),
            ("TotalNodes", len(nodes)),
        ],
        [("TRES", resources(*total, nodes=len(nodes)))],
    ]


def _of_reservations(service: PlainClient, name: str) -> list[Fields]:
    """Windows of maintenance, by their numbers: Slurm has reservations for them."""
    windows = [window for window in service.maintenance() if name in ("", str(window.number))]
    if name and not windows:
        raise BetimesError(f"Reservation {name} not found")
    if not windows:
        print("No reservations in the system")
    now_at = time.time()
    return [
        [
            [
                ("ReservationName", window.number),
                ("StartTime", instant(window.from_at)),
                ("EndTime", instant(window.to_at)),
                ("Duration", full_clock(clock(window.to_at - window.from_at))),
            ],
            [
                ("Nodes", node_list(window.nodes) or "ALL"),
                ("Flags", ",".join(_flags_of(window)) or "(null)"),
                ("Comment", window.reason or "(null)"),
            ],
            [
                ("Users", ",".join(window.users) or window.user),
                ("State", "ACTIVE" if window.from_at <= now_at else "INACTIVE"),
            ],
        ]
        for window in windows
    ]


def _flags_of(window: Any) -> list[str]:
    return [*(() if window.users else ("MAINT",)), *(() if window.nodes else ("ALL_NODES",))]
