"""A decision as data: logged by the engines, and handed in by planners."""

from __future__ import annotations

START, RESIZE, PREEMPT, MIGRATE, BIND, RESERVE, RENT, RELEASE, OPEN, CLOSE, DOUBLE = range(11)
NAMES = (
    "start",
    "resize",
    "preempt",
    "migrate",
    "bind",
    "reserve",
    "rent",
    "release",
    "open",
    "close",
    "double",
)
"""`DOUBLE` is no decision: a job has outrun its belief, which is twice as much from then on."""


class Instruction:
    """A decision about a job or a machine, to be carried out or carried out already."""

    what: int
    at_s: float
    job: int  # its slot, -1: of no job
    seq: int  # the job's order of submission; another job may have its slot by now
    row: int  # in the log, of the job
    node: int  # -1: none
    generation: int  # of the node's machine
    tasks: int  # of the job on the node
    offer: int  # of the node's machine, or of those that are rented for the job alone; -1: none
    count: int  # of machines that are rented for the job alone
    # When a rented machine is up; until when one runs a job alone speculatively (infinity: to its end); of RESERVE its
    # start, of PREEMPT the end of its grace period, of DOUBLE all believed work; of MIGRATE 1: it waits for room.
    value: float
    other: int  # the job that this one is preempted for, -1: none
    owed_gpu: int  # to a job that is bound to the node: what others are still to give up there
    owed_cpu: int
    owed_memory: int
    verdict: int  # `instructions.DONE`, or why it cannot be carried out
