"""Planners: policies in Python that are asked at times, read a snapshot of the cluster, and answer with decisions.

The same planner serves the twin and the service. It owns no clock and changes nothing: its decisions are checked
against the state of that moment (`core.nodes.instructions`), and those that cannot be carried out are refused and
reported.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple, Protocol

LEAST_ALONE_S = 60.0
"""Seconds of reported progress alone on its machines, after which a job's throughput alone is known."""


class JobPhase(IntEnum):
    """The phase of a job."""

    WAITS = 0
    BOUND = 1  # to machines that are not up, or that others have still to leave
    RUNS = 2
    LEAVES = 3  # stop signalled: it holds its machines until it has left


class MachinePhase(IntEnum):
    """The phase of a machine; the codes are those of `core.nodes.machines.rented`."""

    BOOTING = 1
    SETTING_UP = 2
    UP = 3
    DRAINING = 4
    GOING = 5


class Place(NamedTuple):
    """A number of tasks of a job on a machine; `machine` may be `new(k)` in a decision."""

    machine: int
    tasks: int = 1


ByFamily = tuple[tuple[int, int, int] | None, ...]
"""The demand of each task of a job on each of `Cluster.families`, None where it cannot run; empty: one for all."""


Speeds = tuple[tuple[str, float], ...]
"""Of workloads on machines of an offer; of others it is 1."""


class JobSnapshot(NamedTuple):
    """A job that waits or runs."""

    job: int  # its number for decisions, unique for as long as it lives
    row: int  # of the workload
    seq: int  # its order of submission: no other job ever has it
    submit_s: float
    phase: JobPhase
    tasks: int
    demand: tuple[int, int, int]  # of each task: thousandths of GPUs, thousandths of cores, MiB
    kind: str  # jobs of one kind disturb alike
    places: tuple[Place, ...]  # held
    bound: tuple[Place, ...]  # places that it is bound to
    left_s: float  # believed remaining work, seconds alone on its machines
    speed: float  # its throughput now, 1 alone; 0: it makes no progress
    launched: bool  # it contends with its neighbours
    launch_s: float  # what it takes until then
    init_s: float  # and until it works
    stop_s: float  # and until it has left
    # Since when, or from when on if it is alone now, its throughput alone is known:
    profiled_s: float = -math.inf
    by_family: ByFamily = ()  # where it is not empty, `demand` is the least of any family
    speeds: tuple[float, ...] = ()  # on each of `Cluster.families`, where `by_family` is not empty
    work_s: float = 0.0  # the whole job's, as believed: seconds on one unit
    lasts_s: float = 0.0  # what a run takes at most: by its time limit, else as believed before it

    def demand_on(self, family: int) -> tuple[int, int, int] | None:
        """Each task's demand on a family, by its place among `Cluster.families`; None: it cannot run there."""
        return self.by_family[family] if self.by_family else self.demand


class MachineSnapshot(NamedTuple):
    """A machine, owned (`offer` -1) or rented."""

    machine: int
    generation: int
    offer: int
    phase: MachinePhase
    is_open: bool  # takes new tasks
    capacity: tuple[int, int, int]
    free: tuple[int, int, int]
    requested_s: float
    up_s: float  # infinity: not yet
    paid_until_s: float
    family: int = 0  # which of `Cluster.families`
    open_s: float = math.inf  # how long it still takes jobs: it takes those that are over by then

    def outlasts(self, job: JobSnapshot) -> bool:
        """Whether it stays until a job that starts there now is done."""
        return job.lasts_s <= self.open_s


class Snapshot(NamedTuple):
    """A planner's view: all live jobs in order of submission, and all machines by number.

    Where users share (`is_ordered`), jobs that wait come last, by their users' shares: that order decides who has what
    there is not enough of. Jobs that their users' limits keep from running are left out.
    """

    now_s: float
    jobs: tuple[JobSnapshot, ...]
    machines: tuple[MachineSnapshot, ...]
    rentable: tuple[int, ...]  # of each offer, how many more machines can be rented
    finished: tuple[tuple[int, float], ...]  # jobs by `seq`, and when they ended, since the snapshot before
    speeds: tuple[Speeds, ...] = ()  # of workloads on each offer; empty: as the cluster has them
    longest_run_s: float = math.inf  # nothing is rented for a job that takes longer (`JobSnapshot.lasts_s`)
    is_ordered: bool = False


class Rent(NamedTuple):
    """Ask for a machine of an offer; other decisions of the same answer call it `new(k)`, k the place of this one."""

    offer: int


class Release(NamedTuple):
    """Give a machine back as soon as it is empty; it takes no new tasks from now on."""

    machine: int


class Start(NamedTuple):
    """Start a waiting job at once."""

    job: int
    places: tuple[Place, ...]


class Bind(NamedTuple):
    """Start a waiting job once its machines are up and have room."""

    job: int
    places: tuple[Place, ...]


class Migrate(NamedTuple):
    """Move a running job: it leaves at once, or with `keep` only when the other machines are up and have room."""

    job: int
    places: tuple[Place, ...]
    keep: bool = False


class Preempt(NamedTuple):
    """Let a running job leave and wait."""

    job: int


Decision = Rent | Release | Start | Bind | Migrate | Preempt


def new(k: int) -> int:
    """The number, in decisions, of the machine that decision number `k` of the same answer rents."""
    return -2 - k


class Planner(Protocol):
    """Decides about jobs and machines every `period_s` seconds, at multiples of it, and perhaps with the first job."""

    @property
    def period_s(self) -> float:
        """Seconds between two rounds."""
        ...

    @property
    def every_round(self) -> bool:
        """Whether the planner is asked also when nothing has happened since the last round."""
        ...

    def plan(self, snapshot: Snapshot) -> Sequence[Decision]:
        """The decisions of this round."""
        ...


@dataclass(frozen=True)
class Refusal:
    """A decision that could not be carried out."""

    decision: Decision
    reason: str
    at_s: float
    row: int = -1  # of the workload: the job that it is about, -1: none

    def __str__(self) -> str:
        return f"at {self.at_s:g} s: {self.decision}: {self.reason}"
