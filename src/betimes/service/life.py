"""The life of a live job, as a table of legal moves.

The log's events move a job from one status to the next; whatever the table lacks is refused. The documentation draws
its diagram from it.
"""

from __future__ import annotations

from enum import StrEnum

from betimes.errors import IllegalMove
from betimes.service.views import Status


class Step(StrEnum):
    """What can happen to a live job."""

    SUBMIT = "submit"
    HOLD = "hold"
    RELEASE = "release"
    BLOCK = "block"  # it has to wait for something that is not the policy's affair
    QUEUE = "queue"
    START = "start"
    STOP = "stop"  # it is told to stop, for whatever reason
    WAIT = "wait"  # it has stopped, or lost its node, and is to go on later
    FINISH = "finish"
    FAIL = "fail"
    CANCEL = "cancel"


_S = Status
LEGAL: dict[tuple[Status | None, Step], Status] = {
    (None, Step.SUBMIT): _S.BLOCKED,
    (_S.BLOCKED, Step.QUEUE): _S.QUEUED,
    (_S.BLOCKED, Step.HOLD): _S.HELD,
    (_S.BLOCKED, Step.CANCEL): _S.CANCELLED,
    (_S.QUEUED, Step.START): _S.RUNNING,
    (_S.QUEUED, Step.HOLD): _S.HELD,
    (_S.QUEUED, Step.CANCEL): _S.CANCELLED,
    (_S.HELD, Step.RELEASE): _S.BLOCKED,
    (_S.HELD, Step.CANCEL): _S.CANCELLED,
    (_S.RUNNING, Step.STOP): _S.STOPPING,
    (_S.RUNNING, Step.WAIT): _S.QUEUED,
    (_S.RUNNING, Step.FINISH): _S.FINISHED,
    (_S.RUNNING, Step.FAIL): _S.FAILED,
    (_S.RUNNING, Step.BLOCK): _S.BLOCKED,
    (_S.RUNNING, Step.CANCEL): _S.CANCELLED,
    (_S.STOPPING, Step.STOP): _S.STOPPING,
    (_S.STOPPING, Step.WAIT): _S.QUEUED,
    (_S.STOPPING, Step.FINISH): _S.FINISHED,
    (_S.STOPPING, Step.FAIL): _S.FAILED,
    (_S.STOPPING, Step.BLOCK): _S.BLOCKED,
    (_S.STOPPING, Step.CANCEL): _S.CANCELLED,
}
"""(status, step) -> next status. ``None``: the job does not exist yet. A new job is blocked until it may queue."""


def next_status(status: Status | None, step: Step) -> Status:
    """The status after `step`; raises IllegalMove naming both where the table forbids it."""
    try:
        return LEGAL[status, step]
    except KeyError:
        allowed = ", ".join(s.value for before, s in LEGAL if before is status) or "nothing"
        name = "absent" if status is None else status.value
        raise IllegalMove(f"a job that is {name} cannot {step.value}; it can {allowed}") from None


def diagram() -> str:
    """The table as a Mermaid state diagram."""
    lines = ["stateDiagram-v2"]
    for (source, step), target in LEGAL.items():
        start = "[*]" if source is None else source.value
        lines.append(f"    {start} --> {target.value}: {step.value}")
    lines += [f"    {status.value} --> [*]" for status in Status if status.is_over]
    return "\n".join(lines) + "\n"
