"""Error texts for policies whose decisions the core refuses."""

from __future__ import annotations

from betimes.core.status import (
    ABOVE_MAXIMUM,
    BAD_COUNT,
    BAD_GROUP,
    BAD_KEY,
    BAD_ORDERS,
    BAD_PLACE,
    BAD_VICTIM,
    BAD_WAIT,
    BAD_WAKEUP,
    BAD_WRITE,
    BELOW_MINIMUM,
    NAMED_TWICE,
    NOT_ACTIVE,
    NOT_POSITIVE,
    NOT_WHOLE,
    TOO_MANY_UNITS,
)
from betimes.errors import PolicyViolation

REASONS = {
    TOO_MANY_UNITS: "granted more units than the pool has",
    NOT_POSITIVE: "granted a number of units that is not positive",
    BELOW_MINIMUM: "granted fewer units than the job's minimum",
    ABOVE_MAXIMUM: "granted more units than the job can use",
    NOT_WHOLE: "granted a fraction of a unit in a pool of whole units",
    NAMED_TWICE: "named a job twice in one decision",
    NOT_ACTIVE: "named a slot that holds no active job",
    BAD_COUNT: "returned a number of grants below zero or above the number of active jobs",
    BAD_WAKEUP: "asked to be woken up at a time that is not in the future",
    BAD_GROUP: "put a job into a group that does not exist",
    BAD_KEY: "ranked a job with a key that is not a number, or with none",
}
"""A text for each reason why the core refuses a decision."""


NODES_REASONS = {
    BAD_KEY: "ranked a waiting job with a key that is not a number, or with none",
    BAD_PLACE: "gave a node a score that is not a number, or none, for this job",
    BAD_VICTIM: "gave a running job, as one that might make room, a score that is not a number, or none",
    BAD_WRITE: "changed what nodes have or what this job needs, so that there would be no room for it",
    BAD_WAIT: "let this job wait until a time that is not a number",
    BAD_ORDERS: "gave no number of machines to rent while this job waits",
}
"""A text for each reason why the answer of a policy for nodes cannot be used."""


def nodes_violation(policy: str, reason: int, job: object, time_s: float, ahead: bool) -> PolicyViolation:
    """The error for an answer of a policy for nodes that cannot be used, naming policy, job and time (`violation`)."""
    when = f"playing forward from {time_s:g} s" if ahead else f"at {time_s:g} s"
    return PolicyViolation(f"policy {policy} {when}, job {job}: {NODES_REASONS[reason]}")


def violation(policy: str, reason: int, job: object, time_s: float, ahead: bool) -> PolicyViolation:
    """The error for a refused decision, naming policy, job and time; `ahead`: while playing forward from there."""
    about = f", job {job}" if job is not None else ""
    when = f"playing forward from {time_s:g} s" if ahead else f"at {time_s:g} s"
    return PolicyViolation(f"policy {policy} {when}{about}: {REASONS[reason]}; nothing was changed")
