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
    row: int  # in the log, of the job
    node: int  # -1: none
    generation: int  # of the node's machine
    tasks: int  # of the job on the node
    offer: int  # -1: none
    value: float  # of RESERVE its start, of PREEMPT the end of its grace period; else 0
    other: int  # in the log the job that this one is preempted for, -1: none; else the order of submission of `job`
    verdict: int  # `instructions.DONE`, or why it cannot be carried out
