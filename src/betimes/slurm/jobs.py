"""Rows of `squeue` as jobs, and why the end of some cannot be foreseen."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from betimes.errors import InputError
from betimes.printing import printable
from betimes.slurm.hostlist import hostnames
from betimes.workload.readers.sacct import ENDED, clock_s

WAITING = frozenset({"PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "RESV_DEL_HOLD", "SPECIAL_EXIT"})
RUNNING = frozenset(
    {"RUNNING", "CONFIGURING", "COMPLETING", "RESIZING", "SIGNALING", "STAGE_OUT", "SUSPENDED", "STOPPED"}
)
STANDING_STILL = frozenset({"SUSPENDED", "STOPPED"})
OVER = frozenset({*ENDED, "RECONFIG_FAIL"})
_HELD = {"REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT"}
_NOTHING = frozenset({"", "(null)", "N/A", "None", "Unknown", "NONE"})
_FIELDS = 18
_ID = re.compile(r"(\d{1,10})(?:_(\d{1,10}))?(?:\+(\d{1,6}))?", re.ASCII)
_AFTER = re.compile(
    r"(after|afterok|afterany|aftercorr):(\d{1,10}(?:_(?:\d{1,10}|\*))?)(?:\+(\d{1,9}))?(?:\(unfulfilled\))?",
    re.ASCII,
)
_COUNT = re.compile(r"(\d{1,12})(?:\.\d+)?([KM]?)(?:-\d+[KM]?)?", re.ASCII)
_FACTOR = {"": 1, "K": 1024, "M": 1024**2}
_WHY = (
    ("JobHeld", "it is held"),
    ("DependencyNeverSatisfied", "a job that it waits for has not ended as it should"),
    ("BeginTime", "it is to begin later"),
    ("JobArrayTaskLimit", "its array runs as many elements as it may at once"),
    ("Assoc", "a limit of its account is reached"),
    ("QOS", "a limit of its QOS is reached"),
    ("MaxCpuPerAccount", "a limit of its account is reached"),
    ("MaxGRESPerAccount", "a limit of its account is reached"),
    ("MaxJobsPerAccount", "a limit of its account is reached"),
    ("MaxNodePerAccount", "a limit of its account is reached"),
    ("MaxMemPerAccount", "a limit of its account is reached"),
    ("Licenses", "it waits for licences"),
    ("BurstBuffer", "it waits for a burst buffer"),
    ("ReqNodeNotAvail", "a node that it needs is not available"),
    ("Nodes required for job are DOWN", "a node that it needs is not available"),
    ("NodeDown", "a node that it needs is down"),
    ("Reservation", "it waits for a reservation"),
    ("PartitionDown", "its partition is down"),
    ("PartitionInactive", "its partition is down"),
    ("PartitionTimeLimit", "its time limit is longer than its partition allows"),
    ("PartitionNodeLimit", "it asks for more nodes than its partition has"),
    ("BadConstraints", "no node meets what it asks for"),
    ("Invalid", "its account or QOS is not valid"),
    ("Prolog", "its node is being prepared"),
    ("Cleaning", "it is being cleaned up"),
    ("JobHold", "it is held"),
    ("launch_failed", "its launch failed, and it is held"),
)
"""Beginnings of the reasons of Slurm that no play-out of CPUs can foresee, and what they mean."""


class After(NamedTuple):
    """The end of a job for which another waits, or its start, and so many seconds more; 4_*: all of array 4."""

    job: str
    is_start: bool
    delay_s: float


@dataclass(frozen=True, slots=True)
class SlurmJob:
    """A job, or an element of an array, as `squeue` shows it; instants are seconds since 1970, NaN: unknown.

    start_at, end_at: of a job that waits, those that Slurm plans, if it has looked at it. limit_s: infinity where it
    has none, NaN where its partition's counts. partitions: it goes into any of them. is_exclusive: it
    gets whole nodes.
    """

    id: str
    user: str
    name: str
    state: str
    submit_at: float
    start_at: float
    end_at: float
    limit_s: float
    cpus: int
    nodes: int
    partitions: tuple[str, ...]
    priority: float
    reason: str
    hosts: tuple[str, ...]
    dependency: str
    gres: str
    features: str
    is_exclusive: bool

    @property
    def waits(self) -> bool:
        """Whether it waits to be started."""
        return self.state in WAITING

    @property
    def runs(self) -> bool:
        """Whether it has nodes."""
        return self.state in RUNNING

    @property
    def is_over(self) -> bool:
        """Whether it will not run any more."""
        return self.state in OVER

    @property
    def why_unforeseen(self) -> str | None:
        """Why its end cannot be foreseen, in words; null: it can, as far as its row says."""
        if self.state in STANDING_STILL:
            return "it is suspended"
        if "+" in self.id:
            return "it is a part of a heterogeneous job"
        if not self.waits:
            return None
        if self.state in _HELD:
            return "it is held"
        for beginning, why in _WHY:
            if self.reason.startswith(beginning):
                return why
        if self.after is None or (self.reason == "Dependency" and not self.after):
            return (
                f"it waits for other jobs{f' ({kind})' if (kind := printable(self.dependency)[:60]) else ''}"
            )
        if self.gres:
            return f"it asks for {printable(self.gres)[:60]}, and only CPUs are modelled"
        if self.features:
            return f"it asks for nodes with {printable(self.features)[:60]}, which are not modelled"
        return None

    @property
    def after(self) -> tuple[After, ...] | None:
        """All that it waits for; null: that is not understood, or hangs on how others end, or on one of several."""
        found = list[After]()
        _, index = parts_of(self.id.partition("+")[0])
        for text in filter(None, self.dependency.split(",")):
            each = _AFTER.fullmatch(text)
            if each is None or (each[1] == "aftercorr" and index is None):
                return None
            job = each[2].replace("_*", f"_{index}") if each[1] == "aftercorr" else each[2]
            found.append(After(job, each[1] == "after", 60.0 * int(each[3] or 0)))
        return tuple(found)


def read_jobs(text: str, mark: str) -> tuple[dict[str, SlurmJob], list[str]]:
    """The jobs of what `squeue` printed, by id, and the rows that are not understood.

    mark: with which each row begins; what stands between two of them belongs to the name before.
    """
    jobs, not_understood = dict[str, SlurmJob](), list[str]()
    before, *rows = ("\n" + text.removesuffix("\n")).split(f"\n{mark}")
    if before.strip():
        not_understood.append(before.strip())
    for row in rows:
        job = _job(row)
        if job is None:
            not_understood.append(row)
        else:
            jobs[job.id] = job
    return jobs, not_understood


def _job(row: str) -> SlurmJob | None:
    cells = row.split("|", _FIELDS - 1)
    if len(cells) != _FIELDS:
        return None
    number, user, state, submit, start, end, limit, cpus, nodes, partitions, priority, reason = cells[:12]
    hosts, dependency, gres, features, sharing, name = cells[12:]
    try:
        job = SlurmJob(
            number,
            user,
            name,
            state,
            instant(submit),
            instant(start),
            instant(end),
            limit_s(limit),
            count(cpus),
            max(1, count(nodes)),
            tuple(filter(None, partitions.split(","))),
            float(priority),
            reason,
            tuple(hostnames("" if hosts in _NOTHING else hosts)),
            *map(_optional, (dependency, gres, features)),
            is_exclusive=sharing in ("NO", "EXCLUSIVE"),
        )
    except (ValueError, InputError):
        return None
    is_known = job.waits or job.runs or job.is_over
    is_sound = _ID.fullmatch(number) and user and math.isfinite(job.submit_at) and math.isfinite(job.priority)
    if not (is_known and is_sound and job.cpus > 0 and job.partitions):
        return None
    return None if job.runs and (math.isnan(job.start_at) or not job.hosts) else job


def _optional(text: str) -> str:
    return "" if text in _NOTHING else text


def parts_of(job_id: str) -> tuple[int, int | None]:
    """The number of a job, and the index of an element of an array. Raises ValueError for what is no id of a job."""
    found = _ID.fullmatch(job_id)
    if found is None:
        raise ValueError(job_id)
    return int(found[1]), None if found[2] is None else int(found[2])


def instant(text: str) -> float:
    """Seconds since 1970 with SLURM_TIME_FORMAT=%s; NaN: none. Raises ValueError."""
    if text in _NOTHING:
        return math.nan
    if not re.fullmatch(r"\d{1,11}", text, re.ASCII):
        raise ValueError(text)
    return float(text) if float(text) > 0 else math.nan


def limit_s(text: str) -> float:
    """Seconds of a time limit; infinity: none, NaN: that of the partition. Raises ValueError."""
    if text == "UNLIMITED":
        return math.inf
    if text in _NOTHING or text in ("NOT_SET", "INVALID", "Partition_Limit"):
        return math.nan
    return clock_s(text)


def count(text: str) -> int:
    """A number of CPUs or nodes; 4K is 4096, and of a range the least counts. Raises ValueError."""
    found = _COUNT.fullmatch(text)
    if found is None:
        raise ValueError(text)
    return int(found[1]) * _FACTOR[found[2]]


def in_order(jobs: Iterable[SlurmJob], tiers: dict[str, int]) -> list[SlurmJob]:
    """Jobs in the order in which Slurm looks at them: tier of their partition, priority, age."""
    return sorted(
        jobs,
        key=lambda job: (
            -max((tiers.get(name, 1) for name in job.partitions), default=1),
            -job.priority,
            job.submit_at,
            *(part or 0 for part in parts_of(job.id)),
        ),
    )
