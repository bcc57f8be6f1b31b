"""The life of a live job, as a table of legal moves.

The log's events move a job from one status to the next; a move that is not in the table is refused. The documentation
draws the table.
"""

from __future__ import annotations

from enum import StrEnum

from betimes.errors import IllegalMove


class Status(StrEnum):
    """The state of a job in its life."""

    HELD = "held"  # by a user, until it is released
    BLOCKED = "blocked"
    """Waits for another job, its turn in an array, the delay before a retry, or to begin later."""
    QUEUED = "queued"  # the policy may start it
    RUNNING = "running"
    STOPPING = "stopping"  # asked to stop; still holds its units
    FINISHED = "finished"  # its command exited with 0
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_over(self) -> bool:
        """Whether nothing more will happen to the job."""
        return self in _OVER


_OVER = (Status.FINISHED, Status.FAILED, Status.CANCELLED)


class Transition(StrEnum):
    """The steps of a live job."""

    SUBMIT = "submit"
    HOLD = "hold"
    RELEASE = "release"
    BLOCK = "block"  # it must wait for something other than the policy
    QUEUE = "queue"
    START = "start"
    STOP = "stop"  # it is asked to stop, for any reason
    WAIT = "wait"  # it has stopped, or lost its node, and is to go on later
    FINISH = "finish"
    FAIL = "fail"
    CANCEL = "cancel"


_S = Status
LEGAL: dict[tuple[Status | None, Transition], Status] = {
    (None, Transition.SUBMIT): _S.BLOCKED,
    (_S.BLOCKED, Transition.QUEUE): _S.QUEUED,
    (_S.BLOCKED, Transition.HOLD): _S.HELD,
    (_S.BLOCKED, Transition.CANCEL): _S.CANCELLED,
    (_S.QUEUED, Transition.START): _S.RUNNING,
    (_S.QUEUED, Transition.HOLD): _S.HELD,
    (_S.QUEUED, Transition.BLOCK): _S.BLOCKED,
    (_S.QUEUED, Transition.CANCEL): _S.CANCELLED,
    (_S.HELD, Transition.RELEASE): _S.BLOCKED,
    (_S.HELD, Transition.CANCEL): _S.CANCELLED,
    (_S.RUNNING, Transition.STOP): _S.STOPPING,
    (_S.RUNNING, Transition.WAIT): _S.QUEUED,
    (_S.RUNNING, Transition.FINISH): _S.FINISHED,
    (_S.RUNNING, Transition.FAIL): _S.FAILED,
    (_S.RUNNING, Transition.BLOCK): _S.BLOCKED,
    (_S.RUNNING, Transition.CANCEL): _S.CANCELLED,
    (_S.STOPPING, Transition.STOP): _S.STOPPING,
    (_S.STOPPING, Transition.WAIT): _S.QUEUED,
    (_S.STOPPING, Transition.FINISH): _S.FINISHED,
    (_S.STOPPING, Transition.FAIL): _S.FAILED,
    (_S.STOPPING, Transition.BLOCK): _S.BLOCKED,
    (_S.STOPPING, Transition.CANCEL): _S.CANCELLED,
}
"""(status, step) -> next status. ``None``: the job does not exist yet. A new job is blocked until it may queue."""


def next_status(status: Status | None, step: Transition) -> Status:
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
