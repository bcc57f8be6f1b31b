"""The event log's lines, every input and every decision with an id, a time and a cause; and executors' reports of runs.

It imports nothing of Betimes: agents on other machines begin with it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened, or was decided. The log is append-only and the source of truth."""

    event_id: int  # 1, 2, 3, ... without gaps
    at_s: float  # seconds since 1970, by the service's clock, which never goes back
    kind: str
    cause: str  # user:NAME, executor, timer, policy, operator, recovery, or event:ID
    job: int | None = None
    node: str | None = None
    data: dict[str, Any] = field(default_factory=dict[str, Any])  # what JSON can hold


KINDS = {
    "opened": "the first start ever; engines count seconds from here",
    "recovered": "the service has started again and read its state from this log",
    "policy-set": "another policy decides from now on",
    "user-set": "a user was added or changed: role, weight, limits, and whether disabled, as they are now",
    "token-made": "a token of a user was made; nobody has its text but who was handed it",
    "token-revoked": "a token of a user is not accepted any more",
    "fair-share-set": "users share by weight and recent use from now on, or no more; the half-life of their past use",
    "tuning": "a search for a Pareto front on the recent workload has begun, and why",
    "tuning-stopped": "a user ends a search with the front so far",
    "tuned": "a search has ended with a front: how large it is, and what is proposed",
    "not-tuned": "a search has ended without a front, and why",
    "idle": "a decision started and stopped no job, for another reason than the last decision of that kind",
    "node-added": "a node is there from now on, or has come back with more or less than it had",
    "node-status": "a node is up, draining, drained or lost",
    "node-watched": "a node has sent its first heartbeat, and is lost if later ones do not arrive",
    "node-noticed": "the cloud will take a rented node away: what runs there is stopped in time",
    "node-gone": "a rented node was given back, reclaimed by the cloud, or never booted; or a node left its cluster",
    "node-billed": "the cloud's times for a rented machine that is gone: it has cost more or less than was counted",
    "maintenance-set": "no job starts on these nodes that would not be over when the maintenance begins, until its end",
    "maintenance-removed": "a maintenance is called off, or ended early",
    "maintenance-over": "a maintenance has ended: its nodes take jobs again",
    "not-rented": "the cloud refused a machine that the policy ordered, or nodes after it had accepted the request",
    "limit-reached": "a rented machine has to go by a limit of the operator's: nothing more starts there; without a "
    "node: a user's budget is spent",
    "selected": "the portfolio has chosen the member that decides from now on; the scores of those simulated",
    "not-selected": "a selection failed, or came too late; the member in force goes on deciding",
    "not-planned": "a planner failed, or answered too late; what it decided before holds",
    "instruction-refused": "an instruction of a planner is out of date: its job or machine is gone, or has no room",
    "ordered": "the policy has a machine rented that jobs can share",
    "rents": "the policy has a machine, or several, rented for a job alone",
    "unrented": "a job has none of its own any more: its speculative run is over, or the cloud lost or refused it",
    "submitted": "a job was accepted",
    "slept": "the machine of a run slept, or its clock was put forward: that is no time for which it ran",
    "queued": "a job is ready: it waits for the policy only",
    "blocked": "a job waits for something other than the policy: a dependency, a limit, a delay",
    "held": "a user holds a job",
    "released": "a user releases a held job",
    "edited": "a user has changed what a job asks for; what it was promised is void, unless only names were changed",
    "quoted": "a job was promised a start and an end",
    "promise-broken": "a job's end came after what was promised, or is sure to, as a node is away; a new one follows",
    "granted": "the policy gives a job a number of units, or none",
    "nominated": "a job is to start on these nodes, once other jobs have made room there, or machines are up",
    "migrating": "the policy moves a running job to other machines, at once or when these are up",
    "moved": "the run that followed a move is over: what the move was expected to save, and what it has saved",
    "unbound": "a job loses the nodes that were being vacated or reserved for it",
    "reserved": "the policy has reserved a later start for a job on these nodes",
    "parallelism-changed": "how many units a set of trials can use from now on: no more than it has trials left",
    "launched": "a run was handed to the executor",
    "started": "the executor reports that a run's command runs",
    "learnt": "the run-time estimates of live jobs follow the last finished jobs of the same user and name",
    "measured": "a job's throughput on machines that it has to itself, in steps a second of its reports; their types",
    "estimate-changed": "the work believed to be left of a job changed: by progress, an outrun estimate, a cancel",
    "restarted": "a job that was stopped for another number of units runs again: how long that took",
    "resized": "a running job has taken another number of units without a restart",
    "suspended": "a user suspends a run, which keeps its units; what its job was promised is void",
    "resumed": "a suspended run goes on",
    "signalled": "a user sends a signal to a run: to the tasks of its steps, to its command alone, or to all of it",
    "stopping": "a run is asked to stop: preempted, resized or cancelled, or its node goes",
    "preempts": "another job is preempted for this one; the cost stands in the other job's events",
    "clock-set": "the machine's clock was set, or the machine was suspended: how far its clock jumped, and how far the "
    "service's went with it. Delays of retries go on; promises that this changes by much are void",
    "set-aside": "an input, or a step of a turn, could not be carried out, with the traceback: the service goes on "
    "without it, and tries it again after the next start",
    "trouble": "the executor met a problem with a run; the message says which, and what follows",
    "ended": "a run has ended, and none of its processes is left",
    "work-lost": "the first run after a preemption reported its progress: the work lost since the last checkpoint",
    "requeued": "a job whose run was preempted, resized or lost is requeued",
    "retries": "a job failed, and will be retried",
    "cancel-requested": "a user asks for a job to be cancelled",
    "finished": "a job's command exited with 0",
    "failed": "a job has failed for good",
    "cancelled": "a job was cancelled by a user, or because a job that it depends on did not succeed",
}
"""Every kind of event, and its meaning."""


class RunId(NamedTuple):
    """One start of a job's command: the job, and 1, 2, ..."""

    job: int
    number: int


@dataclass(frozen=True)
class Started:
    """The command runs."""

    run: RunId
    at_s: float  # seconds since 1970, by the executor's clock
    adopted: bool = False  # it was running when the service came back
    ago_s: float = field(default=0.0, compare=False)  # run time when this is reported
    memory_limited_by: str | None = None  # null: it has no limit


@dataclass(frozen=True)
class Ended:
    """The command has ended, and no process of it is left."""

    run: RunId
    at_s: float
    exit_code: int | None  # null: ended by a signal, or never started
    signal: int | None = None
    why: str = "exited"  # one of ENDS
    message: str | None = None  # what a user can do about it
    max_rss_gib: float | None = None
    cpu_s: float | None = None
    log_lost_bytes: int | None = None  # of its output that is not kept
    ago_s: float = field(default=0.0, compare=False)  # time since its end when this is reported
    run_s: float | None = None  # run time, by a clock that stands still while its machine sleeps


ENDS = {
    "exited": "its command has ended, by itself or by a signal",
    "stopped": "it was asked to stop",
    "time-limit": "it reached its time limit",
    "out-of-memory": "it was killed for using more memory than its limit",
    "start-failed": "its command could not be started",
    "node-lost": "its node, or the machine itself, stopped while it ran",
    "lost": "its exit is unknown: its work may be done",
}
"""Why a run has ended."""


@dataclass(frozen=True)
class Trouble:
    """A problem of a run that neither starts nor ends it, for its job's story."""

    run: RunId
    at_s: float
    message: str


Report = Started | Ended | Trouble
