"""The life of a job, as a table of legal moves.

A job's state is not a column: it follows from other columns (`state_of`), so that the two cannot disagree. The table
lists the legal transitions; the invariants check it, and the documentation draws its diagram from it.
"""

from __future__ import annotations

from enum import IntEnum


class JobState(IntEnum):
    """Where a job is in its life."""

    WAITING = 0  # submitted, has never held units
    RUNNING = 1  # holds units
    PREEMPTED = 2  # has held units, holds none now
    FINISHED = 3
    NOMINATED = 4  # bound to nodes, and waits for its victims there to leave
    VACATING = 5  # stop signalled: holds its units until its grace period is over, and does no work


class Move(IntEnum):
    """An event in the life of a job."""

    SUBMIT = 0
    START = 1
    RESIZE = 2
    PREEMPT = 3
    RESUME = 4
    OUTRUN = 5  # the work done reaches the believed size: the belief is doubled
    FINISH = 6
    NOMINATE = 7
    TELL = 8  # to leave
    VACATE = 9


LEGAL: dict[tuple[JobState | None, Move], JobState] = {
    (None, Move.SUBMIT): JobState.WAITING,
    (JobState.WAITING, Move.START): JobState.RUNNING,
    (JobState.RUNNING, Move.RESIZE): JobState.RUNNING,
    (JobState.RUNNING, Move.PREEMPT): JobState.PREEMPTED,
    (JobState.RUNNING, Move.OUTRUN): JobState.RUNNING,
    (JobState.RUNNING, Move.FINISH): JobState.FINISHED,
    (JobState.PREEMPTED, Move.RESUME): JobState.RUNNING,
    (JobState.WAITING, Move.NOMINATE): JobState.NOMINATED,
    (JobState.PREEMPTED, Move.NOMINATE): JobState.NOMINATED,
    (JobState.NOMINATED, Move.START): JobState.RUNNING,
    (JobState.NOMINATED, Move.RESUME): JobState.RUNNING,
    (JobState.RUNNING, Move.TELL): JobState.VACATING,
    (JobState.VACATING, Move.VACATE): JobState.PREEMPTED,
    (JobState.VACATING, Move.FINISH): JobState.FINISHED,
}
"""(state, move) -> next state. Missing pairs are forbidden. ``None``: the job does not exist yet.

A pool preempts at once; on nodes a job gets a notice and vacates its nodes when its grace period is over.
"""


def state_of(has_held: bool, units: float) -> JobState:
    """The state of a live job that holds `units` now and has or has not held any before."""
    if units > 0:
        return JobState.RUNNING
    return JobState.PREEMPTED if has_held else JobState.WAITING


def state_on_nodes(has_held: bool, holds: bool, placed: bool, leaving: bool) -> JobState:
    """The state of a live job on nodes: whether it has held any before, holds them now, is bound to some, must go."""
    if holds:
        return JobState.VACATING if leaving else JobState.RUNNING
    if placed:
        return JobState.NOMINATED
    return JobState.PREEMPTED if has_held else JobState.WAITING


def diagram() -> str:
    """The table as a Mermaid state diagram."""
    lines = ["stateDiagram-v2"]
    for (source, move), target in LEGAL.items():
        start = "[*]" if source is None else source.name
        lines.append(f"    {start} --> {target.name}: {move.name.lower()}")
    lines.append("    FINISHED --> [*]")
    return "\n".join(lines) + "\n"
