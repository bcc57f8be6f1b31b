"""How a job goes on after a run, as a table: why the run was stopping, and how it ended, give what follows.

The documentation draws the table.
"""

from __future__ import annotations

from enum import StrEnum

from betimes.service.scheduling.events import ENDS, Ended
from betimes.service.scheduling.job import NODE_GOES, SPECULATED

STOPS = {
    None: "nobody asked it to stop",
    "preempted": "for other jobs",
    "resized": "to start again on another number of units",
    NODE_GOES: "its node goes, or is needed for maintenance",
    SPECULATED: "it has used rented machines for as long as a short job may",
    "requeued": "a user requeued its job",
    "cancelled": "a user cancelled its job",
}
"""Why a run is stopping; none: it is not."""

HOW = {
    "succeeded": "its command exited with 0",
    "failed": "its command exited with another code, or was ended by a signal",
    **{why: meaning for why, meaning in ENDS.items() if why != "exited"},
}
"""How a run has ended: where its command has ended, by its exit code."""


class Next(StrEnum):
    """The job's next step after a run."""

    FINISHED = "finished"
    FAILED = "failed"
    RETRIED = "retried, while it has retries left; then failed"
    RETRIED_IF_ASKED = "retried, where it may be requeued and has retries left; else failed"
    CANCELLED = "cancelled"
    STOPPED = "queued again, at once on the units that it has been granted meanwhile"
    REQUEUED = "queued again"
    MOVED = "queued again, away from its node"
    SPECULATED = "queued again, on the units that it has been granted meanwhile"
    NOT_BEGUN = (
        "queued again, also where it may not be requeued, as its command has not begun, unless ten runs in a row have "
        "not; then failed"
    )
    LOST = "queued again, unless machines were lost under ten runs in a row; then failed"


_BY_ITSELF = {
    "succeeded": Next.FINISHED,
    "failed": Next.RETRIED,
    "out-of-memory": Next.RETRIED,
    "time-limit": Next.FAILED,
    "start-failed": Next.FAILED,
}
"""A run that ended before it could be stopped counts as one that nobody asked to stop."""


def _stopped(follows: Next) -> dict[str, Next]:
    """A run that was stopped, or was stopping when it was lost."""
    return {**_BY_ITSELF, **dict.fromkeys(("stopped", "prolog-failed", "node-lost", "lost"), follows)}


TABLE: dict[str | None, dict[str, Next]] = {
    None: {
        **_BY_ITSELF,
        "stopped": Next.STOPPED,
        "prolog-failed": Next.NOT_BEGUN,
        "node-lost": Next.LOST,
        "lost": Next.RETRIED_IF_ASKED,
    },
    "preempted": _stopped(Next.STOPPED),
    "resized": _stopped(Next.STOPPED),
    NODE_GOES: _stopped(Next.MOVED),
    SPECULATED: _stopped(Next.SPECULATED),
    "requeued": _stopped(Next.REQUEUED),
    "cancelled": dict.fromkeys(HOW, Next.CANCELLED),
}
"""The next step, by why the run was stopping and how it ended: a job that may not be requeued has failed instead."""


def how_ended(report: Ended) -> str:
    """The way in which a run has ended, as in `HOW`."""
    if report.why == "exited":
        return "succeeded" if report.exit_code == 0 else "failed"
    return report.why


def what_follows(report: Ended, stopping: str | None) -> Next:
    """The job's next step; stopping: why its run was stopping."""
    return TABLE[stopping][how_ended(report)]
