"""Values that Slurm's commands print of jobs and nodes: a text for each that the tables of `slurm_fields` name.

An empty text means unknown: the table has what Slurm prints then.
"""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from betimes.cli.slurm_jobs import (
    PARTITION,
    SHORT,
    VERSION,
    amount,
    clock,
    cores,
    elapsed,
    elapsed_s,
    final_code,
    full_clock,
    instant,
    node_list,
    number_of,
    reason_of,
    state_of,
    tres,
)
from betimes.service.spec.spelling import file_name
from betimes.units import within

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from betimes.cli.slurm_jobs import Listed, Partition

LONG_STATES = {"mix": "mixed", "drng": "draining", "drain": "drained", "alloc": "allocated"}

# --- of a job ---


def file_of(job: Listed, name: str) -> str:
    """The file of its output or error, in full; empty: none, as the output is in the service's log."""
    pattern = job.spec.get(name) or job.spec.get("output")
    if pattern is None:
        return ""
    number = str(job.job_id)
    known = {"j": number, "J": number, "A": str(job.array_id or number), "a": str(job.array_index or 0),
             "u": job.user, "x": job.name, **({"N": job.batch_host} if job.nodes else {})}  # fmt: skip
    return str(Path(job.spec.get("workdir") or "/", file_name(pattern, known)))


def account_here(user: str) -> Any:
    """The entry of a user on this machine; null: none of that name."""
    import pwd

    try:
        return pwd.getpwnam(user)
    except KeyError:
        return None


def group_of(user: str) -> str:
    """The name of a user's group on this machine; empty: not known."""
    import grp

    found = account_here(user)
    if found is None:
        return ""
    try:
        return grp.getgrgid(found.pw_gid).gr_name
    except KeyError:
        return str(found.pw_gid)


def _uid(job: Listed, what: str) -> str:
    found = account_here(job.user)
    return "" if found is None else str(getattr(found, what))


def _command(job: Listed) -> str:
    from betimes.service.spec.sbatch import script_of  # whose patterns take time

    command = job.spec["command"]
    script = script_of(command)
    return shlex.join(command if script is None else script)


def _dependency(job: Listed) -> str:
    return dependencies(job, job.spec) if state_of(job) == "PENDING" else ""


def dependencies(job: Any, spec: Any) -> str:
    """The dependencies that a job waits for, as Slurm writes them; empty: it waits for none."""
    if state_of(job) != "PENDING" or (job.reason is not None and job.reason.code != "dependency"):
        return ""
    from betimes.service.spec.sbatch import AFTER

    kinds = {end.removeprefix(":") or "ok": kind for kind, end in AFTER.items()}
    named = [after.partition(":") for after in spec.get("after", [])]
    texts = [f"{kinds[end or 'ok']}:{number}(unfulfilled)" for number, _, end in named]
    return ",".join([*texts, *(["singleton(unfulfilled)"] if spec.get("singleton") else [])])


def _final_code(job: Listed) -> str:
    had_runs = job.status == "failed" or (job.status == "cancelled" and job.started_at is not None)
    return final_code(job, job.story.runs if had_runs else ())


def _why(job: Listed) -> str:
    reason = job.reason.text if job.reason is not None else "None"
    reason = reason.replace(", ", "; ").replace(",", "")  # programs split lines at commas
    return (
        f"({reason}{_start_within(job)})"
        if state_of(job) in ("PENDING", "FAILED", "TIMEOUT", "NODE_FAIL")
        else node_list(job.nodes)
    )


def _start_within(job: Listed) -> str:
    """The interval of a start, where one is to be told beside its expected instant, as by `squeue --start`."""
    found = job.estimate
    if not job.tells_start or found is None or found["start_low_at"] == found["start_high_at"]:
        return ""
    ends: tuple[float, float] = (found["start_low_at"], found["start_high_at"])
    return f"; starts {within(*ends, found['as_of_at'], found['level'], instant, alone=True)}"


def limit_s(job: Listed) -> float | None:
    """Its time limit; null: none."""
    return job.spec.get("time_limit_s")


def expected_start(job: Listed) -> float | None:
    """The start of a job, or the expected one: the median where the promise has an interval."""
    at, found = job.started_at, job.estimate
    if at is not None or found is None:
        return at
    median_at = found["start_median_at"] if job.tells_start else None
    return found["start_at"] if median_at is None else median_at


def planned_s(job: Listed) -> int:
    """The time for which it waited, or has."""
    return max(0, round((job.view.started_at or job.finished_at or time.time()) - job.submitted_at))


def most(job: Listed, what: str) -> Any:
    """Of the last run that is over; null: not known."""
    known = [getattr(run, what) for run in job.story.runs if getattr(run, what) is not None]
    return known[-1] if known else None


def _of_limit(job: Listed, written: Callable[[float], str]) -> str:
    limit = limit_s(job)
    return "" if limit is None else written(limit)


def _of_most(job: Listed, what: str, written: Callable[[float], str]) -> str:
    found = most(job, what)
    return "" if found is None else written(found)


def _label(name: str) -> Callable[[Listed], str]:
    return lambda job: job.labels.get(name, "")


def _asked(name: str) -> Callable[[Listed], str]:
    return lambda job: job.spec.get("env", {}).get(f"SLURM_{name}", "")


def gpus(job: Listed) -> float:
    """The GPUs that it asks for."""
    return job.spec.get("gpu", 0.0) * job.max_units


def _memory(job: Listed) -> str:
    return amount(job.spec.get("memory_gib", 0.0), job.unit)


def _rss(gib: float) -> str:
    return f"{round(gib * 2**20)}K"


OF_JOB: dict[str, Callable[[Listed], str]] = {
    "account": _label("account"),
    "alloc_node": _asked("SUBMIT_HOST"),
    "array_id": lambda job: str(job.array_id or job.job_id),
    "batch_flag": lambda job: "1" if job.spec.get("stdin") is not None else "0",
    "batch_host": lambda job: job.batch_host,
    "cluster": lambda _: PARTITION,
    "command": _command,
    "comment": _label("comment"),
    "cores": lambda job: str(cores(job)),
    "cpu_time": lambda job: full_clock(clock(elapsed_s(job) * cores(job))),
    "cpu_time_s": lambda job: str(elapsed_s(job) * cores(job)),
    "cpus_per_task": _asked("CPUS_PER_TASK"),
    "dependency": _dependency,
    "elapsed": lambda job: full_clock(elapsed(job)),
    "elapsed_s": lambda job: str(elapsed_s(job)),
    "eligible": lambda job: (
        "" if job.status == "held" else instant(job.spec.get("begin_at") or job.submitted_at)
    ),
    "end": lambda job: instant(job.finished_at or (job.estimate and job.estimate["finish_at"])),
    "ended": lambda job: instant(job.finished_at),
    "exit_code": _final_code,
    "exit_number": lambda job: _final_code(job).partition(":")[0],
    "features": lambda job: "&".join(
        key if value == "yes" else f"{key}={value}" for key, value in job.spec.get("require", {}).items()
    ),
    "full_limit": lambda job: _of_limit(job, lambda limit: full_clock(clock(limit))),
    "gid": lambda job: _uid(job, "pw_gid"),
    "gres": lambda job: f"gres/gpu:{gpus(job):g}" if gpus(job) else "",
    "group": lambda job: group_of(job.user),
    "image": lambda job: job.spec.get("image") or "",
    "job_id": lambda job: str(job.job_id),
    "left": lambda job: _of_limit(job, lambda limit: clock(limit - elapsed_s(job))),
    "licenses": lambda job: ",".join(
        f"{name}:{count}" for name, count in job.spec.get("resources", {}).items()
    ),
    "limit": lambda job: _of_limit(job, clock),
    "limit_minutes": lambda job: _of_limit(job, lambda limit: str(round(limit / 60))),
    "max_rss": lambda job: _of_most(job, "max_rss_gib", _rss),
    "memory": _memory,
    "name": lambda job: job.name,
    "nice": lambda job: str(-job.spec.get("priority", 0)),
    "node_count": lambda job: str(job.node_count),
    "nodes": lambda job: node_list(job.nodes),
    "number": number_of,
    "partition": lambda job: job.labels.get("partition", PARTITION),
    "pending_s": lambda job: str(planned_s(job)),
    "planned": lambda job: full_clock(clock(planned_s(job))),
    "planned_cpu": lambda job: full_clock(clock(planned_s(job) * cores(job))),
    "planned_cpu_s": lambda job: str(planned_s(job) * cores(job)),
    "priority": lambda job: "0" if job.status == "held" else str(job.spec.get("priority", 0)),
    "qos": lambda job: job.labels.get("qos", job.qos),
    "reason": reason_of,
    "requeue": lambda job: str(int(job.spec.get("requeue", True))),
    "reservation": _label("reservation"),
    "restarts": lambda job: str(max(0, job.attempt - 1)),
    "short_state": lambda job: SHORT[state_of(job)],
    "start": lambda job: instant(expected_start(job)),
    "started": lambda job: instant(job.started_at),
    "state": state_of,
    "stderr": lambda job: file_of(job, "error"),
    "stdin": lambda _: "/dev/null",
    "stdout": lambda job: file_of(job, "output"),
    "submit": lambda job: instant(job.submitted_at),
    "task_id": lambda job: job.indices or ("" if job.array_index is None else str(job.array_index)),
    "tasks": _asked("NTASKS"),
    "tasks_per_node": _asked("NTASKS_PER_NODE"),
    "total_cpu": lambda job: _of_most(job, "cpu_s", lambda used_s: full_clock(clock(used_s))),
    "tres": lambda job: tres(job, job.spec),
    "uid": lambda job: _uid(job, "pw_uid"),
    "used": elapsed,
    "user": lambda job: job.user,
    "wckey": _label("wckey"),
    "why": _why,
    "workdir": lambda job: job.spec.get("workdir") or "/",
}

# --- of nodes of one state, with that state ---


class Group(NamedTuple):
    """Nodes of one state, and a partition that they are in."""

    state: str
    by_name: dict[str, Any]
    partition: Partition

    @property
    def nodes(self) -> list[Any]:
        """In the order of the service."""
        return list(self.by_name.values())


def state_of_node(node: Any) -> str:
    """The short name of its state."""
    if node.status != "up":
        return {"draining": "drng", "drained": "drain"}.get(node.status, "down")
    return "idle" if not node.jobs else "mix" if node.free_cpu > 0 else "alloc"


def reason_of_node(node: Any) -> str:
    """The reason of its drain; empty: it takes jobs, or is down."""
    is_drained = node.status in ("draining", "drained")
    return (node.drain_reason or "drained by an operator") if is_drained else ""


def _least(numbers: Iterable[float]) -> str:
    """The least of these, with a `+` where not all are equal."""
    found = sorted(numbers)
    return f"{found[0]:g}{'+' if found[-1] > found[0] else ''}"


def _cpus(nodes: Sequence[Any]) -> str:
    """Cores: allocated/idle/other/total."""
    up = [node for node in nodes if node.status == "up"]
    total = sum(node.cpu for node in nodes)
    cpu, free = sum(node.cpu for node in up), sum(node.free_cpu for node in up)
    return f"{cpu - free:g}/{free:g}/{total - cpu:g}/{total:g}"


def _in_use(nodes: Sequence[Any]) -> str:
    """Nodes: allocated/idle/other/total."""
    up = [bool(node.jobs) for node in nodes if node.status == "up"]
    return f"{sum(up)}/{len(up) - sum(up)}/{len(nodes) - len(up)}/{len(nodes)}"


def _mib(gib: float) -> int:
    return round(gib * 1024)


def _gpus(count: str) -> str:
    return "" if count == "0" else f"gpu:{count}"


def _long_span(span_s: float | None) -> str:
    return "" if span_s is None else clock(span_s)


def features(node: Any) -> str:
    """The labels of a node."""
    return ",".join(key if value == "yes" else f"{key}={value}" for key, value in node.labels.items())


OF_QUEUE: dict[str, Callable[[Group], str]] = {
    "default_time": lambda found: _long_span(found.partition.default_s),
    "max_time": lambda found: _long_span(found.partition.longest_s),
    "partition": lambda found: found.partition.name,
    "partition_marked": lambda found: f"{found.partition.name}{'*' * found.partition.is_default}",
    "priority": lambda found: "" if found.partition.priority is None else str(found.partition.priority),
    "users": lambda found: ",".join(found.partition.users),
}

OF_NODES: dict[str, Callable[[Group], str]] = {
    **OF_QUEUE,
    "alloc_memory": lambda found: _least(
        _mib(node.memory_gib - node.free_memory_gib) for node in found.nodes
    ),
    "cpus": lambda found: _least(node.cpu for node in found.nodes),
    "cpus_by_state": lambda found: _cpus(found.nodes),
    "features": lambda found: ",".join(sorted({features(node) for node in found.nodes} - {""})),
    "free_memory": lambda found: _least(_mib(node.free_memory_gib) for node in found.nodes),
    "gres": lambda found: _gpus(_least(node.gpu for node in found.nodes)),
    "gres_used": lambda found: _gpus(_least(node.gpu - node.free_gpu for node in found.nodes)),
    "in_use": lambda found: "/".join(_in_use(found.nodes).split("/")[:2]),
    "long_state": lambda found: LONG_STATES.get(found.state, found.state),
    "memory": lambda found: _least(_mib(node.memory_gib) for node in found.nodes),
    "node_count": lambda found: str(len(found.nodes)),
    "nodes": lambda found: node_list(found.by_name),
    "nodes_by_state": lambda found: _in_use(found.nodes),
    "reason": lambda found: reason_of_node(found.nodes[0]),
    "reason_at": lambda found: instant(found.nodes[0].since_at) if reason_of_node(found.nodes[0]) else "",
    "reason_user": lambda found: found.nodes[0].drained_by or "",
    "sct": lambda found: f"{_least(node.cpu for node in found.nodes)}:1:1",
    "state": lambda found: found.state,
    "version": lambda _: VERSION,
}
