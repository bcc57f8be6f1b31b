"""What goes into a simulation of nodes, and what comes out of it."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal, NamedTuple

# An int, a float or a Fraction: times are computed in whichever kind they are given.
Number = Any

# Thousandths of a GPU, thousandths of a core, MiB.
Resources = tuple[int, int, int]

# How many tasks of a job stand on which node: (node, tasks), by node.
Placement = tuple[tuple[int, int], ...]

TRIAL = 1
BEST_EFFORT = 0


@dataclass(frozen=True)
class Node:
    """One node and what it offers."""

    capacity: Resources
    labels: frozenset[str] = frozenset()
    family: str = ""


@dataclass(frozen=True)
class Job:
    """`tasks` identical tasks that start and end together. Times are seconds, `demand` is a task's."""

    submit: Number
    run: Number
    demand: Resources
    tasks: int = 1
    units: int = 1  # as the dynamic orders count them; not the number of tasks
    size: Number | None = None  # the believed run time; None: the truth
    grace: Number = 0
    qos: int = BEST_EFFORT
    priority: int = 0
    requires: frozenset[str] = frozenset()  # labels that its nodes must have
    by_family: tuple[tuple[str, Resources], ...] = ()  # instead of `demand`; it cannot run on other families

    def demand_on(self, family: str) -> Resources | None:
        """What a task needs on nodes of a family; None: it cannot run there."""
        return dict(self.by_family).get(family) if self.by_family else self.demand


@dataclass(frozen=True)
class Policy:
    """Who starts next, where, and who makes room."""

    order: Literal["fifo", "sjf", "ljf", "widest", "slowdown", "wfp3", "unicef"] = "fifo"
    backfilling: Literal["strict", "skip-over", "easy", "conservative"] = "strict"
    window: int = 0  # of skip-over: how many jobs may be passed over; 0: no limit
    placement: Literal["first", "best", "worst", "best-cores"] = "best"
    restart_s: Number = 0
    overrun: Literal["extend", "kill"] = "extend"
    grace_limit_s: Number = 3600

    preemption: Literal["none", "fitgpp", "lrtp", "rand", "youngest", "lowest-priority"] = "none"
    preemption_limit: int = 1  # P
    trim: bool = True
    grace_weight: Number = 4  # s of FitGpp
    fallback: Literal["rand", "none"] = "rand"  # of FitGpp
    # Of RAND: the place of a job (seq) in an order (number of the draw), smaller is taken first.
    draw: Callable[[int, int], Number] | None = None

    def __post_init__(self) -> None:
        if self.preemption != "none" and (self.order, self.backfilling) != ("fifo", "strict"):
            raise ValueError("policies that preempt have an order of their own, and are strict")
        if (self.preemption == "rand" or self.may_fall_back) and self.draw is None:
            raise ValueError("a random order needs a draw")

    @property
    def may_fall_back(self) -> bool:
        return self.preemption == "fitgpp" and self.fallback == "rand"


class State(StrEnum):
    """Where a job stands."""

    EXPECTED = "expected"  # not submitted yet
    REFUSED = "refused"
    WAITING = "waiting"
    NOMINATED = "nominated"  # bound to nodes, and owed what its victims still hold
    RUNNING = "running"
    VACATING = "vacating"  # told to leave
    FINISHED = "finished"
    KILLED = "killed"


class Start(NamedTuple):
    """One of a job's starts, the first or after a preemption."""

    time: Number
    nodes: Placement


class Absence(NamedTuple):
    """One preemption of a job."""

    job: int
    signal: Number
    vacate: Number
    resume: Number


class Event(NamedTuple):
    """Something that happened: submit, refuse, start, nominate, signal, vacate, outrun, finish or kill."""

    time: Number
    kind: str
    job: int
    nodes: Placement


class Reservation(NamedTuple):
    """What a pass promised a waiting job: EASY its head, conservative backfilling everyone."""

    made: Number
    job: int
    time: Number
    nodes: Placement


@dataclass(frozen=True)
class JobOutcome:
    """What came of one job; a refused one has neither starts nor a finish."""

    state: State
    starts: tuple[Start, ...]
    finish: Number | None
    preemptions: int

    @property
    def start(self) -> Number | None:
        return self.starts[0].time if self.starts else None


@dataclass(frozen=True)
class Outcome:
    """What came of all jobs, in order of submission."""

    jobs: list[JobOutcome]
    absences: list[Absence]  # by time of the signal, then in order of submission
    events: list[Event]
    reservations: list[Reservation]
