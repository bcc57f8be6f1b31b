"""Common to Slurm's commands: how they find jobs, and its words for their state, number and times."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

from betimes.errors import BetimesError, InputError, NotAllowed
from betimes.printing import report

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from betimes.client.plain import PlainClient

RECENT_S = 300.0  # finished jobs stay in `squeue -t all` for so long, as with Slurm's MinJobAge
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
_REASONS = {
    "maintenance": "ReqNodeNotAvail", "held": "JobHeldUser", "begin": "BeginTime", "dependency": "Dependency",
    "dependency-failed": "DependencyNeverSatisfied",
    "array-limit": "JobArrayTaskLimit", "turn": "Priority", "reserved": "Priority", "exit-code": "NonZeroExitCode",
    "signal": "RaisedSignal", "time-limit": "TimeLimit", "out-of-memory": "OutOfMemory", "node-lost": "NodeDown",
}  # fmt: skip
SHORT = {
    "PENDING": "PD", "RUNNING": "R", "COMPLETING": "CG", "COMPLETED": "CD", "FAILED": "F", "CANCELLED": "CA",
    "SUSPENDED": "S", "TIMEOUT": "TO", "OUT_OF_MEMORY": "OOM", "NODE_FAIL": "NF",
}  # fmt: skip
ACTIVE = ("held", "blocked", "queued", "running", "stopping")

Job = Any  # an answer of the service, with the attributes of `JobView`


def service_here() -> PlainClient:
    """The service that the environment names."""
    from betimes.cli.live.connection import connect

    return connect(None)


def by_number(service: PlainClient, text: str) -> Iterator[Job]:
    """Jobs `41`, elements `41_3` and `41_[3-5]`, and all elements of an array `41`. Unknown numbers are left out."""
    from betimes.cli.live.jobs.ids import every_job
    from betimes.errors import Unknown

    for part in re.findall(r"[^,\[]+(?:\[[^\]]*\])?", text):
        match = re.fullmatch(r"(\d+)(?:_(?:(\d+)|\[([\d,-]+)(?:%\d+)?\]))?(?:\.(\w+))?", part.strip())
        if match is None:
            raise InputError(f"job {part[:40]!r}: give a number, as in 41, or 41_3 of an array")
        if match[4] not in (None, "0", "batch"):  # steps are not listed; the first stands for the job
            continue
        elements = every_job(service, {"array_id": int(match[1])})[::-1]
        if not elements:
            try:
                yield service.job(int(match[1])).job
            except Unknown:
                continue
        indices = {int(match[2])} if match[2] else set(_indices(match[3])) if match[3] else None
        yield from (job for job in elements if indices is None or job.array_index in indices)


def _indices(text: str) -> Iterator[int]:
    for part in text.split(","):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def place(service: PlainClient, jobs: Sequence[Job]) -> None:
    """Note the nodes on which jobs run, as `nodes`."""
    on: dict[int, list[str]] = {}
    for node in service.nodes() if any(job.status in ("running", "stopping") for job in jobs) else []:
        for job_id in node.jobs:
            on.setdefault(job_id, []).append(node.name)
    for job in jobs:
        job["nodes"] = on.get(job.job_id, [])


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


def state_of(job: Job) -> str:
    """The long name of its state."""
    code = job.reason.code if job.reason is not None and job.status in ("failed", "running") else ""
    return _WHY.get(code, _STATES[job.status])


def reason_of(job: Job) -> str:
    """Why it waits or has failed, as a word of Slurm."""
    if job.reason is None:
        return "None"
    waits = "Resources" if job.status in ("queued", "blocked") else job.reason.code
    return _REASONS.get(job.reason.code, waits)


def number_of(job: Job) -> str:
    """`41`, or `41_3` of an array."""
    return f"{job.job_id}" if job.array_id is None else f"{job.array_id}_{job.array_index}"


def elapsed(job: Job) -> str:
    """How long it has run: `1:05`, `2:01:05`, `1-02:01:05`."""
    return clock(ran_s(job))


def ran_s(job: Job) -> float:
    """Seconds that its present run has run, or the last one of a job that is over; 0 while it waits."""
    waits = job.status in ("held", "blocked", "queued")
    return 0.0 if waits else job.ran_s or 0.0


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


def cores(story: Any) -> int:
    """The cores that a job asks for."""
    return round(story.spec.get("cpu", 1.0) * story.job.max_units)


def amount(gib: float) -> str:
    """Memory as `200M` or `16G`; none as `0`."""
    mib = round(gib * 1024)
    return f"{mib}M" if mib % 1024 else f"{mib // 1024}G" if mib else "0"


def tell(service: PlainClient, jobs: Sequence[Job]) -> None:
    """Note what was asked for and the runs of each, as `story`; null: only its user and operators read that."""
    for job in jobs:
        try:
            job["story"] = service.job(job.job_id)
        except NotAllowed:
            job["story"] = None


def of_story(written: Callable[[Any], str]) -> Callable[[Job], str]:
    """A field that is made of a job's story."""
    return lambda job: "N/A" if job["story"] is None else written(job["story"])


def instant(at: float | None) -> str:
    """A time as `2026-11-27T18:00:00`."""
    return "N/A" if at is None else time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(at))


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
