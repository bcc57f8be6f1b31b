"""Common to Slurm's commands: how they find jobs, and its words for their state, number and times."""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

from betimes.errors import BetimesError, InputError, NotAllowed
from betimes.printing import report
from betimes.slurm.hostlist import as_list

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from betimes.client.calls import Conditions
    from betimes.client.plain import PlainClient

RECENT_S = 300.0  # finished jobs stay in `squeue -t all` for so long, as with Slurm's MinJobAge
SPECS_AT_ONCE = 100  # each has a script and an environment
PARTITION = "betimes"
VERSION = "24.11.0"  # whose options and output these are
_STATES = {
    "held": "PENDING",
    "blocked": "PENDING",
    "queued": "PENDING",
    "running": "RUNNING",
    "stopping": "COMPLETING",
    "finished": "COMPLETED",
    "failed": "FAILED",
    "cancelled": "CANCELLED",
}
_WHY = {"time-limit": "TIMEOUT", "out-of-memory": "OUT_OF_MEMORY", "node-lost": "NODE_FAIL",
        "suspended": "SUSPENDED"}  # fmt: skip
REASONS = {
    "compiling": "None", "held": "JobHeldUser", "begin": "BeginTime", "dependency": "Dependency",
    "dependency-failed": "DependencyNeverSatisfied", "array-limit": "JobArrayTaskLimit", "resource": "Licenses",
    "retry-delay": "BeginTime", "maintenance": "ReqNodeNotAvail", "user-limit": "AssociationResourceLimit",
    "no-room": "Resources", "turn": "Priority", "cut": "Resources", "claimed": "Priority", "withheld": "Priority",
    "booting": "Resources", "speculated": "Priority", "budget": "AssocGrpBillingMinutes", "lease-ended": "NodeDown",
    "not-rented": "Resources", "lease": "ReqNodeNotAvail", "queue-empty": "None", "reserved": "Priority",
    "nominated": "Resources",
    "leaving": "Resources", "no-nodes": "ReqNodeNotAvail", "no-label": "ReqNodeNotAvail",
    "no-family": "ReqNodeNotAvail", "preempted": "Priority", "resized": "Resources", "suspended": "None",
    "requeued": "None", "set": "Resources", "trials": "NonZeroExitCode", "cancelled": "None", "node-lost": "NodeDown",
    "reclaimed": "NodeDown", "lost": "SystemFailure", "stopped": "SystemFailure", "exit-code": "NonZeroExitCode",
    "signal": "RaisedSignal", "time-limit": "TimeLimit", "out-of-memory": "OutOfMemory",
    "start-failed": "JobLaunchFailure", "prolog-failed": "Prolog", "profiled": "None", "observed": "None",
}  # fmt: skip
"""Slurm's word for each code of a reason (`service.scheduling.reasons.CODES`)."""
SHORT = {
    "PENDING": "PD", "RUNNING": "R", "COMPLETING": "CG", "COMPLETED": "CD", "FAILED": "F", "CANCELLED": "CA",
    "SUSPENDED": "S", "TIMEOUT": "TO", "OUT_OF_MEMORY": "OOM", "NODE_FAIL": "NF",
}  # fmt: skip
WAITING = ("held", "blocked", "queued")
ACTIVE = (*WAITING, "running", "stopping")

Job = Any  # an answer of the service, with the attributes of `JobView`


class SharedAnswers:
    """Answers that many jobs of a list share, asked for when first needed: nodes, and specifications."""

    def __init__(self, service: PlainClient) -> None:
        self.service = service
        self._which: Conditions = {}
        self._numbers: list[int] = []
        self._specs: dict[int, Any] = {}

    def listed(self, which: Conditions) -> list[Job]:
        """All jobs that meet the conditions, newest first."""
        from betimes.cli.live.jobs.ids import every_job

        found = every_job(self.service, which)
        self._which, self._numbers = which, [job.job_id for job in found]
        return found

    def spec(self, job: Job) -> Any:
        """The job's specification; null: it was not listed. Raises NotAllowed: only its user and operators read it."""
        number = job.job_id
        if number not in self._specs and number in self._numbers:
            at = self._numbers.index(number)
            some = self._numbers[at - at % SPECS_AT_ONCE :][:SPECS_AT_ONCE]
            which: Conditions = {**self._which, "after": some[0] + 1, "limit": len(some), "spec": True}
            found: list[Any] = self.service.jobs(**which).items
            self._specs |= {each.job_id: each.get("spec") for each in found}
        if number in self._specs and self._specs[number] is None:
            raise NotAllowed(
                f"job {number} is {job.user}'s; what was submitted is for them and for operators"
            )
        return self._specs.get(number)

    @cached_property
    def by_job(self) -> dict[int, list[str]]:
        """Their names by the job's number."""
        found: dict[int, list[str]] = {}
        for node in self.service.nodes():
            for job_id in node.jobs:
                found.setdefault(job_id, []).append(node.name)
        return found


class Partition:
    """A queue of the service as Slurm shows it, with its nodes of these; view: null where jobs may name none."""

    def __init__(self, view: Any, nodes: Sequence[Any]) -> None:
        self.name = PARTITION if view is None else view.name
        self.is_default = view is None or view.default
        self.names = {node.name for node in nodes} if view is None else set(view.nodes)
        self.nodes = [node for node in nodes if node.name in self.names]
        self.default_s, self.longest_s = (
            (None, None) if view is None else (view.time_limit_s, view.max_time_s)
        )
        self.users, self.priority = ([], None) if view is None else (view.users, view.priority)


def partitions(service: PlainClient) -> list[Partition]:
    """The queues; where none is the default, also one of all nodes, for jobs that name none."""
    nodes, queues = service.nodes(), service.queues()
    others = [] if any(each.default for each in queues) else [None]
    return [Partition(each, nodes) for each in [*queues, *others]]


class Listed:
    """A job in a list, with all attributes of `JobView`; what else is known of it is asked for when it is needed.

    It may stand for the waiting elements of an array, `indices`, as in `1,3-5`. unit: of memory, as --units has it.
    tells_start: how sure its start is stands with its reason.
    """

    def __init__(
        self, view: Job, there: SharedAnswers, indices: str = "", unit: str = "", *, tells_start: bool = False
    ) -> None:
        self.view, self.there, self.indices, self.unit = view, there, indices, unit
        self.tells_start = tells_start

    def __getattr__(self, name: str) -> Any:
        return getattr(self.view, name)

    @cached_property
    def story(self) -> Any:
        """Everything about it. Raises NotAllowed: only its user and operators read that."""
        return self.there.service.job(self.view.job_id)

    @property
    def spec(self) -> Any:
        """The job's specification. Raises NotAllowed."""
        found = self.there.spec(self.view)
        return self.story.spec if found is None else found

    @cached_property
    def started_at(self) -> float | None:
        """The start of its present or last run; of a job of others that was requeued, of its first run."""
        runs: Sequence[Any] = ()
        if self.view.attempt > 1 and self.view.status not in WAITING:
            with suppress(NotAllowed):
                runs = self.story.runs
        return start_of(self.view, runs)

    @property
    def nodes(self) -> list[str]:
        """The nodes on which it runs, or has run. Raises NotAllowed for a job of others that is over."""
        if self.view.status in ("running", "stopping"):
            return self.there.by_job.get(self.view.job_id, [])
        is_waiting = self.view.status in WAITING or self.view.started_at is None
        runs = [] if is_waiting else self.story.runs[-1:]
        return [place.node for run in runs for place in run.places]

    @property
    def batch_host(self) -> str:
        """The node on which its script runs, or has run; empty: none. Raises NotAllowed."""
        found = self.nodes
        return self.story.runs[-1].places[0].node if len(found) > 1 else "".join(found)

    @property
    def node_count(self) -> int:
        """How many nodes it has, as its script counts them, or asks for."""
        spec = {}
        if self.view.max_units > 1:
            with suppress(NotAllowed):
                spec = self.spec
        return node_count(spec, self.nodes)


def node_count(spec: Any, nodes: Sequence[str]) -> int:
    """How many nodes a job asks for, if it names a number, each of its units being one; else how many it has.

    Two of these may be on one machine (`launches.py`).
    """
    return int(spec.get("env", {}).get("SLURM_NNODES") or max(1, len(set(nodes))))


def node_list(names: Iterable[str]) -> str:
    """Nodes in the order of their names and numbers, each once and in short, as in `gpu[1-3],login`."""
    return as_list(sorted(set(names), key=name_order))


def name_order(name: str) -> list[tuple[int, str]]:
    """The rank of a node's name: numbers within it by their size."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)]


def service_here() -> PlainClient:
    """The service that the environment names."""
    from betimes.cli.live.connection import connect

    return connect(None)


def by_number(service: PlainClient, text: str, *, intervals: bool = False) -> Iterator[Job]:
    """Jobs `41`, elements `41_3` and `41_[3-5]`, and all elements of an array `41`, each once. Unknown numbers are left
    out.
    """
    named: set[int] = set()
    for job in _by_number(service, text, intervals):
        if job.job_id not in named:
            named.add(job.job_id)
            yield job


def _by_number(service: PlainClient, text: str, intervals: bool) -> Iterator[Job]:
    from betimes.cli.live.jobs.ids import every_job
    from betimes.errors import Unknown

    for part in re.findall(r"[^,\[]+(?:\[[^\]]*\])?", text):
        match = re.fullmatch(
            r"(\d{1,18})(?:_(?:(\d{1,9})|\[([\d,-]+)(?:%\d+)?\]))?(?:\.(\w+))?", part.strip()
        )
        if match is None:
            raise InputError(f"job {part[:40]!r}: give a number, as in 41, or 41_3 of an array")
        if match[4] not in (None, "0", "batch"):  # steps are not listed; the first stands for the job
            continue
        elements = every_job(service, {"array_id": int(match[1]), "intervals": intervals})[::-1]
        if not elements:
            try:
                yield service.job(int(match[1])).job
            except Unknown:
                continue
        indices = match[2] or match[3]
        yield from (job for job in elements if not indices or _is_among(job.array_index, indices))


def _is_among(index: int | None, text: str) -> bool:
    """Whether an index is among `1,3-5`. Raises InputError."""
    for part in text.split(","):
        match = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", part)
        if match is None:
            raise InputError(f"{part[:40]!r}: give indices of an array, as in 41_[3-5,9]")
        if index is not None and int(match[1]) <= index <= int(match[2] or match[1]):
            return True
    return False


def check_known(service: PlainClient, job: str) -> None:
    """Raise BetimesError if there is no job of this number."""
    if not list(by_number(service, job)):
        raise BetimesError(f"Invalid job id specified: {job}")


def exit_code(runs: Sequence[Any]) -> str:
    """Code and signal of the last run, as in `1:0`."""
    last = runs[-1] if runs else None
    if last is None or not (last.exit_code or last.signal):
        return "1:0"
    return f"{last.exit_code or 0}:{last.signal or 0}"


def final_code(job: Job, runs: Sequence[Any]) -> str:
    """Code and signal of a job: of one that was cancelled as it ran, those of its end."""
    if job.status == "failed":
        return exit_code(runs)
    was_ended = job.status == "cancelled" and runs and (runs[-1].exit_code or runs[-1].signal)
    return exit_code(runs) if was_ended else "0:0"


def state_of(job: Job) -> str:
    """The long name of its state."""
    code = job.reason.code if job.reason is not None and job.status in ("failed", "running") else ""
    return _WHY.get(code, _STATES[job.status])


def reason_of(job: Job) -> str:
    """Why it waits or has failed, as a word of Slurm."""
    unknown = "Resources" if job.status in ("queued", "blocked") else "None"  # to this version of the command
    return "None" if job.reason is None else REASONS.get(job.reason.code, unknown)


def start_of(job: Job, runs: Sequence[Any]) -> float | None:
    """The start of its present or last run, s since 1970; null while it waits."""
    if job.status in WAITING or job.started_at is None:
        return None
    return runs[-1].started_at if runs else job.started_at


def number_of(job: Listed) -> str:
    """`41`, or `41_3` of an array, `41_[3-5]` of waiting elements of one."""
    if job.array_id is None:
        return f"{job.job_id}"
    return f"{job.array_id}_{f'[{job.indices}]' if job.indices else job.array_index}"


def elapsed_s(job: Job) -> int:
    """Whole seconds that its present run has run, or the last one of a job that is over; 0 while it waits."""
    return 0 if job.status in WAITING else round(job.ran_s or 0.0)


def elapsed(job: Job) -> str:
    """The time for which it has run: `1:05`, `2:01:05`, `1-02:01:05`."""
    return clock(elapsed_s(job))


def clock(span_s: float) -> str:
    """A span as `1:05`, `2:01:05`, `1-02:01:05`; of less than 0 as 0."""
    minutes, seconds = divmod(max(0, round(span_s)), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    text = f"{hours}:{minutes:02}:{seconds:02}" if hours or days else f"{minutes}:{seconds:02}"
    return f"{days}-{text.zfill(8)}" if days else text


def full_clock(text: str) -> str:
    """`1:05` as `00:01:05`; what is no span as it is."""
    if ":" not in text:
        return text
    days, dash, text = text.rpartition("-")
    hours = text if text.count(":") == 2 else f"0:{text.zfill(5)}"
    return f"{days}{dash}{hours.zfill(8)}"


def time_limit(story: Any) -> str:
    """A job's time limit, as `clock` writes it."""
    limit_s = story.spec.get("time_limit_s")
    return "UNLIMITED" if limit_s is None else clock(limit_s)


def cores(job: Job) -> int:
    """The cores that a job asks for."""
    return round(job.cpu * job.max_units)


def amount(gib: float, unit: str = "") -> str:
    """Memory as `200M` or `16G`, or in a unit of K, M, G, T and P; none as `0`."""
    mib = round(gib * 1024)
    if unit and mib:
        return f"{mib * 1024 / 1024 ** 'KMGTP'.index(unit):.2f}".removesuffix(".00") + unit
    return f"{mib}M" if mib % 1024 else f"{mib // 1024}G" if mib else "0"


def tres(job: Job, spec: Any) -> str:
    """The resources that a job asks for, as in `cpu=2,mem=1536M,node=1,billing=2,gres/gpu=1`."""
    memory_gib, gpu = (spec.get(name, 0.0) * job.max_units for name in ("memory_gib", "gpu"))
    return resources(cores(job), memory_gib, gpu, nodes=node_count(spec, ()))


def resources(cpu: float, memory_gib: float, gpu: float, *, nodes: int = 0) -> str:
    """Amounts as in `cpu=2,mem=1536M,node=1,billing=2,gres/gpu=1`, those of 0 left out."""
    amounts = (("cpu", cpu), ("mem", memory_gib), ("node", nodes), ("billing", cpu), ("gres/gpu", gpu))
    return ",".join(
        f"{name}={amount(count) if name == 'mem' else f'{count:g}'}" for name, count in amounts if count
    )


def ranges(indices: Iterable[int]) -> str:
    """Indices as `1,3-5`, cut as Slurm does, by SLURM_BITSTR_LEN characters (64; 0: none is cut)."""
    spans: list[list[int]] = []
    for index in sorted(indices):
        if spans and index == spans[-1][-1] + 1:
            spans[-1][1:] = [index]
        else:
            spans.append([index])
    text = ",".join("-".join(map(str, span)) for span in spans)
    given = os.environ.get("SLURM_BITSTR_LEN", "")
    most = int(given) if re.fullmatch(r"\d{1,9}", given) else 64
    return f"{text[:most].rpartition(',')[0]},..." if most and len(text) > most else text


def instant(at: float | None) -> str:
    """A time as `2026-11-27T18:00:00`, or as SLURM_TIME_FORMAT says; empty: not known."""
    if at is None:
        return ""
    form, when = os.environ.get("SLURM_TIME_FORMAT", "standard"), time.localtime(at)
    if form == "relative":
        form = _relative(when)
    return time.strftime("%Y-%m-%dT%H:%M:%S" if form in ("", "standard") else form, when)


def _relative(when: time.struct_time) -> str:
    """Slurm's relative form of a time: by its distance from today."""
    from datetime import date

    days = (date(*when[:3]) - date.today()).days
    near = {0: "%H:%M:%S", 1: "Tomorr %H:%M", -1: "Ystday %H:%M"}
    if days in near or 1 < days < 7:
        return near.get(days, "%a %H:%M")
    return "%-d %b %H:%M" if when.tm_year == time.localtime().tm_year else "%-d %b %Y"


def say_start(command: str, fields: dict[str, Any], quote: Any) -> None:
    """The promise, in the words of `sbatch --test-only`, on standard error as there. Raises BetimesError: never."""
    if quote.start_at is None:
        raise BetimesError(
            f"allocation failure: {quote.reason.text if quote.reason else 'it would never start'}"
        )
    partition = fields.get("labels", {}).get("partition", PARTITION)
    report(
        command,
        f"Job 0 to start at {instant(quote.start_at)} using {fields['cpu']:g} processors on nodes any in partition "
        f"{partition}, and to end at {instant(quote.finish_at)}",
    )
