"""Inputs and outputs of an engine, by job number: the same for a pool and for nodes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, Protocol, cast

import numpy as np

from betimes.cluster.labels import NONE, Labels
from betimes.cluster.resources import Amounts, Natural, UnitDemand, demand_amounts
from betimes.cluster.tasks import PACK, SPREAD
from betimes.core.nodes.columns import AUTO
from betimes.core.pool.columns import User
from betimes.core.shares import idle
from betimes.foresight.run_times import GRID
from betimes.kernels import Floats, FloatTable, Records, as_array
from betimes.service.engines.plans import ExpectedSaving
from betimes.twin.account import Account
from betimes.twin.nodes.planner_rounds import Plan


class Asked(NamedTuple):
    """The parts of a job that decide its split into tasks."""

    unit: UnitDemand
    units: int
    units_per_task: int
    require: Labels


@dataclass(frozen=True)
class JobRequest:
    """A job as an engine sees it. Amounts are per unit: GPUs, cores, GiB."""

    job: int
    min_units: int
    max_units: int
    curve: str
    runtime_estimate_s: float  # run time on max_units
    gpu: float = 0.0
    cpu: float = 1.0
    memory_gib: float = 0.0
    units_per_task: int = PACK
    trial: bool = False
    priority: int = 0
    grace_s: float = 0.0
    table: tuple[float, ...] = ()  # a measured speed-up on 1, 2, ... units, where the curve is one
    work_s: float | None = None  # believed, seconds on one unit; None: from runtime_estimate_s
    choice: int = AUTO  # whether a machine may be rented for it alone: `AUTO`, `NEVER` or `NOW`
    may_restart: bool = True  # else it is not run speculatively
    profiled: bool = False  # its throughput alone is known
    require: Labels = NONE  # labels that its nodes must have
    limit_s: float = 0.0  # the longest that a run may take, until it is killed; 0: it may go on
    # A unit's demand on each family instead; the job runs on these only.
    by_family: tuple[tuple[str, Natural], ...] = ()
    user: str = ""
    speeds: tuple[float, ...] = ()  # how fast it works on each of these, empty: 1 on all
    workload: str = ""  # the kind of work, for which offers may have speeds; empty: none

    @cached_property
    def unit(self) -> UnitDemand:
        """A unit's demand."""
        return UnitDemand((self.gpu, self.cpu, self.memory_gib), self.by_family, self.speeds)

    @cached_property
    def asked(self) -> Asked:
        """Its request to the nodes."""
        return Asked(self.unit, self.max_units, self.units_per_task, self.require)

    @property
    def demand(self) -> Amounts:
        """A pool unit's demand, the same everywhere: thousandths of a GPU and of a core, MiB."""
        return demand_amounts(self.gpu, self.cpu, self.memory_gib)


class Sharing(NamedTuple):
    """Users who share, or have limits: their rows by name, and their records; the last is of those without a row."""

    rows: dict[str, int]
    users: Records[User]

    def idle(self) -> Sharing:
        """The same users, whose jobs hold nothing and have held nothing."""
        return Sharing(self.rows, idle(self.users))

    def holding(self, counted: Records[User], columns: Sequence[str]) -> Sharing:
        """The same users with what an engine has counted, in these columns, of the first of them."""
        users = cast("Records[User]", as_array(self.users).copy())
        known = min(len(counted), len(users)) - 1
        for column in columns:
            as_array(users)[column][:known] = as_array(counted)[column][:known]
        return Sharing(self.rows, users)


@dataclass(frozen=True, slots=True)
class Allocation:
    """Units of a job on a node, by the node's number."""

    node: int
    units: int


@dataclass(frozen=True, slots=True)
class Grant:
    """From now on a job holds exactly so many units; 0: it is preempted at once.

    moves: it has lost those that it held, with their machine, so that its run starts anew wherever it now has some.
    """

    job: int
    before: int
    units: int
    places: tuple[Allocation, ...] = ()
    units_per_task: int = SPREAD  # at most; a pool gives units one by one
    moves: bool = False


@dataclass(frozen=True, slots=True)
class Preempt:
    """A job must leave its nodes within its grace period, to make room for another."""

    job: int
    leave_by_s: float
    makes_room_for: int | None


@dataclass(frozen=True, slots=True)
class Bind:
    """A job is bound to nodes, and starts when its victims have left."""

    job: int
    places: tuple[Allocation, ...]
    owed: tuple[tuple[int, int, int], ...]  # still to be given up by victims at each place


@dataclass(frozen=True, slots=True)
class Migrate:
    """A running job goes to other nodes: it leaves at once, or with `keep` once these are up and have room."""

    job: int
    places: tuple[Allocation, ...]
    keep: bool
    expected: ExpectedSaving | None = None  # null: no planner has decided it


@dataclass(frozen=True, slots=True)
class Reserve:
    """A waiting job is promised nodes from an instant on."""

    job: int
    start_s: float
    places: tuple[Allocation, ...]


@dataclass(frozen=True, slots=True)
class Outrun:
    """A job has worked for longer than was believed: the belief is doubled."""

    job: int
    size_s: float  # believed work in all, seconds on one unit


@dataclass(frozen=True, slots=True)
class Rent:
    """A job is to run on machines rented for it alone."""

    job: int
    offer: int
    units: tuple[int, ...]  # on each of the machines
    units_per_task: int
    speculates_until_s: float  # once they are up as expected; infinity: it runs to its end


@dataclass(frozen=True, slots=True)
class StopSpeculating:
    """A job's speculative run is over: it leaves its machines, and starts anew later."""

    job: int


@dataclass(frozen=True, slots=True)
class RentMachine:
    """A machine is to be rented for several jobs; the engine's number and generation name it."""

    machine: int
    generation: int
    offer: int


@dataclass(frozen=True, slots=True)
class ReleaseMachine:
    """A machine rented by the policy is to be given back, as soon as nothing runs on it."""

    machine: int
    generation: int


@dataclass(frozen=True, slots=True)
class Alone:
    """Machines rented for one job alone."""

    offer: int
    count: int
    began_s: float  # when they were asked for
    are_up: bool
    speculates_until_s: float = math.inf


@dataclass(frozen=True)
class Restored:
    """A job as one engine hands it to another, or as in the log: what it holds, and its progress."""

    request: JobRequest
    account: Account
    units: int = 0
    places: tuple[Allocation, ...] = ()
    units_per_task: int = SPREAD  # of what it holds; at most
    leave_by_s: float = math.inf  # infinity: it need not leave
    makes_room_for: int | None = None
    bound: tuple[Allocation, ...] = ()  # it will get these
    owed: tuple[tuple[int, int, int], ...] = ()  # by victims, at each of these; empty: it is a reservation
    start_s: float = math.inf  # of the reservation
    alone: Alone | None = None  # its rented machines
    keeps_wait: bool = True  # the policy is the same: it waits as long as it would have


JobInstruction = Grant | Preempt | Migrate | Bind | Reserve | Outrun | Rent | StopSpeculating

Instruction = JobInstruction | RentMachine | ReleaseMachine
"""A decision of the policy, to be carried out; `Outrun` is no decision, but follows from a belief."""


@dataclass(frozen=True, slots=True)
class Decisions:
    """The instructions of one look of the policy, in the order in which they can be carried out; perhaps none."""

    at_s: float
    instructions: tuple[Instruction, ...]


@dataclass
class Inputs:
    """Outside events at one instant."""

    done: list[int] = field(default_factory=list[int])  # jobs that leave the engine for any reason
    gone: list[int] = field(default_factory=list[int])  # stopped jobs that have left
    believed: list[tuple[int, float]] = field(default_factory=list[tuple[int, float]])
    """Job, seconds left on one unit."""
    widths: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    """Job, units that it can use from now on."""
    requests: list[JobRequest] = field(default_factory=list[JobRequest])
    plan: Plan | None = None  # a planner's answer to an earlier question
    look: bool = False  # the policy is to look even without events


@dataclass(frozen=True, slots=True)
class LeaseAhead:
    """Machines that are to be rented for one job alone, s; several boot together. is_last: the job ends on them."""

    offer: int
    count: int
    requested_s: float
    booted_s: float
    ended_s: float
    is_last: bool


@dataclass(frozen=True)
class Foreseen:
    """Starts and finishes of jobs if nothing more is submitted, s; NaN: never, as things stand."""

    job: list[int]
    start_s: Floats
    finish_s: Floats
    leases: Sequence[LeaseAhead] = ()  # of the job that was added, in the order of their ends
    preempted: Sequence[int] = ()  # in a pool, which takes it that they leave at once
    believed_s: Floats | None = None
    """Finishes in a play-out in which all that the policy believes comes true, s; null: none was made."""

    def of(self, job: int) -> tuple[float, float]:
        """Start and finish of a job; NaN for one that is not there."""
        if job not in self.job:
            return math.nan, math.nan
        at = self.job.index(job)
        return float(self.start_s[at]), float(self.finish_s[at])


@dataclass(frozen=True)
class Opening:
    """A booting node is expected to take work from an instant on, s; units: of the pool by then."""

    at_s: float
    node: int
    units: int


Closings = Sequence[tuple[int, float, float, int]]
"""Nodes, by number, the instants, s, from when until when each takes no jobs, and the bit of those that are exempt
(`core.closings`)."""


class Exempt(NamedTuple):
    """The bits of closings that do not concern jobs: of jobs to come by user, of others by number."""

    by_user: Mapping[str, int]
    by_job: Mapping[int, int]


Expected = Mapping[int, Floats]
"""(foresight.run_times.GRID,) quantiles of the run times of some jobs on max_units, s, by job."""
NOTHING_EXPECTED: Expected = {}


def expected_table(expected: Expected, job_of: Mapping[int, int], slots: int) -> FloatTable:
    """As `core.*.snapshot.expect_ends` wants them, by slot; NaN: as believed."""
    table: FloatTable = np.full((slots, GRID), np.nan)
    for slot, job in job_of.items():
        if (grid := expected.get(job)) is not None:
            table[slot] = grid
    return table


Play = Callable[[], Foreseen]
"""A copy of the state, ready to be played forward in any thread."""


class Engine(Protocol):
    """A live cluster under a policy. Instants never go back; none of the methods looks at a clock."""

    def next_timer_s(self) -> float:
        """The instant to call it again if nothing happens before, s; infinity: never."""
        ...

    def catch_up(self, now_s: float) -> list[Decisions]:
        """Let the timers before `now_s` go off; the policy decides as they do."""
        ...

    def believed_left(self, job: int, now_s: float) -> float:
        """Believed work left of a job now."""
        ...

    def happen(self, now_s: float, what: Inputs) -> list[Decisions]:
        """Let everything happen up to `now_s`, then `what`; the policy decides as it goes."""
        ...

    def set_closings(self, closings: Closings, exempt: Exempt, now_s: float) -> None:
        """Nodes close at these times, and at no others; `happen` lets the policy look."""
        ...

    def set_limit(self, job: int, limit_s: float) -> None:
        """Set the longest that a run of a job may take from now on, as `JobRequest.limit_s`."""
        ...

    def first_waiting(self) -> int | None:
        """The job that is next under the policy; None: no job waits for a decision."""
        ...

    def account(self, job: int) -> Account:
        """The account of a job."""
        ...

    def sure_to_keep(self, job: int, expected: Expected = NOTHING_EXPECTED) -> tuple[float, float] | None:
        """Start and finish, s, of a job that has just taken units which it keeps to its end by the policy's rules.

        None: it has not, or only a play-out can tell; an answer equals that of the play-out. expected: as of `foresee`.
        """
        ...

    def foresee(
        self,
        now_s: float,
        more: JobRequest | None = None,
        openings: Sequence[Opening] = (),
        expected: Expected = NOTHING_EXPECTED,
    ) -> Play:
        """A copy to be played forward, with one more job, submitted at `now_s`, if one is given.

        openings: expected of booting nodes, earliest first. expected: those jobs end there when they are expected to,
        all others as believed; the policy sees beliefs of all.
        """
        ...
