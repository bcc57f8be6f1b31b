"""The event log's lines: every input and every decision, with an id, a time and a cause."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


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
    "tuning": "a search for a Pareto front on the recent workload has begun, and why",
    "tuned": "a search has ended with a front: how large it is, and what is proposed",
    "not-tuned": "a search has ended without a front, and why",
    "idle": "a decision started and stopped nobody, for another reason than the last time that this was so",
    "node-added": "a node is there from now on, or has come back with more or less than it had",
    "node-is": "a node is up, draining, drained or lost",
    "node-watched": "a node has sent its first sign of life, and is lost if it does not go on to",
    "node-gone": "a rented node was given back, was reclaimed by the cloud, or never booted",
    "not-rented": "the cloud has refused a request for nodes that it had taken",
    "rents": "the policy has a machine, or several, rented for a job alone",
    "unrented": "a job has none of its own any more: its speculative run is over, or the cloud lost or refused it",
    "submitted": "a job was accepted",
    "queued": "a job has nothing to wait for any more but the policy",
    "blocked": "a job has to wait for something that is not the policy's affair",
    "held": "a user keeps a job from starting",
    "released": "a user lets a held job go on",
    "quoted": "a job was promised a start and an end",
    "granted": "the policy gives a job so many units, or none",
    "nominated": "the policy has others make room for a job, on these nodes",
    "unbound": "a job is no more to have the nodes that others were making room on, or that it was promised",
    "reserved": "the policy has promised a job a start on these nodes",
    "width": "a set of trials can use so many units from now on: no more than it has trials left",
    "launched": "a run was handed to the executor",
    "started": "the executor says that a run's command runs",
    "learnt": "jobs that wait or run are believed to take what the last ones of their user and name took",
    "believed": "the work that a job is believed to have left is another: by its progress, or because it outran it",
    "restarted": "a job that was stopped to go on at another width gets on: what that took",
    "resized": "a running job has taken another number of units without a restart",
    "told": "a run was told to stop: preempted, resized or cancelled",
    "displaces": "another job was told to make room for this one; what that costs stands in the other's events",
    "trouble": "the executor could not do with a run what it should, and what it does about it",
    "ended": "nothing of a run is left",
    "goes-on": "the run after a preemption has reported how far it is: what it lost since its last checkpoint",
    "waits": "a job whose run has ended is to go on later",
    "retries": "a job failed, and will be tried again",
    "cancel-asked": "a user wants a job ended",
    "finished": "a job's command exited with 0",
    "failed": "a job has failed for good",
    "cancelled": "a job was ended by a user, or waited in vain for another",
}
"""Every kind of event, and what it says."""
