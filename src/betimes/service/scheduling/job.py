"""A live job as the service keeps it in memory: specification, state, and the account of its work.

Records of a job's parts stand beside it: its run, its rented machines, the trials of a set, and the costs of its last
preemption and its moves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from pydantic import Field, TypeAdapter

from betimes.cluster.resources import Amounts, UnitDemand, demand_amounts
from betimes.cluster.tasks import job_tasks
from betimes.service.engines.plans import alone_usd_per_h
from betimes.service.scheduling.job_states import Status
from betimes.service.scheduling.node import Node
from betimes.service.spec.job_spec import JobSpec
from betimes.twin.account import Account
from betimes.units import S_PER_H


@dataclass
class TrialSet:
    """The state of a set's trials in total; each trial is a job without an account."""

    count: int
    runtime_estimate_s: Annotated[float, Field(alias="told_s")]  # believed run time of a trial
    most: int  # units that the set may use at once
    width: int  # and that it can use now: no more than it has trials left
    running: int = 0  # trials with a run
    finished: int = 0
    failed: int = 0
    cancelled: int = 0
    taken_s: float = 0.0  # by those that finished, together

    @property
    def left(self) -> int:
        """Trials that are not over."""
        return self.count - self.finished - self.failed - self.cancelled

    @property
    def end(self) -> str:
        """The end of the set once no trial is left: it finishes if all have."""
        if self.cancelled:
            return "cancelled"
        return "failed" if self.failed else "finished"


@dataclass(frozen=True)
class Preemption:
    """A preempted run. Null: not known yet, or it never came to that."""

    run: int
    by: list[int]  # the jobs that take its nodes; empty: no particular one
    policy: str
    told_at: float
    grace_s: float
    nodes: float  # that it held
    had_frac: float | None = None  # of its work, as it had reported when it left
    left_at: float | None = None
    vacating_node_s: float | None = None  # held from the request to leave until it had left
    resumed_at: float | None = None
    restart_node_s: float | None = None  # held by the next run before its work goes on
    lost_node_s: float | None = None  # of work since its last checkpoint, to be repeated

    def left(self, now_at: float, had_frac: float | None, worked_on: bool) -> Preemption:
        """The run has ended; worked_on: by itself, so that no time was wasted."""
        vacating = 0.0 if worked_on else self.nodes * (now_at - self.told_at)
        return replace(self, left_at=now_at, had_frac=had_frac, vacating_node_s=vacating)

    def resumed(self, now_at: float, restart_s: float, nodes: float) -> Preemption:
        """The job's next run begins on so many nodes."""
        return replace(self, resumed_at=now_at, restart_node_s=nodes * restart_s)

    def goes_on(self, frac: float, whole_s: float, nodes: float) -> Preemption:
        """The next run reports progress for the first time; all of the work would take it whole_s."""
        lost_frac = max(0.0, (self.had_frac or 0.0) - frac)
        return replace(self, lost_node_s=lost_frac * whole_s * nodes)


def nodes_held(places: Iterable[tuple[str, int]], unit: UnitDemand, nodes: Mapping[str, Node]) -> float:
    """The number of nodes that units amount to: the largest share of any resource, added up over nodes."""
    return sum(units * share_held(unit, nodes[name]) for name, units in places)


def share_held(unit: UnitDemand, node: Node) -> float:
    """The largest share that a unit takes of any resource of a node."""
    demand = unit.amounts_on(node.family) or (0, 0, 0)
    return max(need / room if room > 0 else 0.0 for need, room in zip(demand, node.capacity, strict=True))


def demand_of(spec: JobSpec) -> Amounts:
    """Demand of a unit of a pool: thousandths of GPUs and cores, MiB; rounded up, so that nothing is missing."""
    return demand_amounts(*spec.unit.everywhere)


def held_by(
    spec: JobSpec, places: Sequence[tuple[str, int]], units_per_task: int, nodes: Mapping[str, Node]
) -> list[tuple[str, Amounts]]:
    """Amounts that a job holds on each node, in tasks of at most `units_per_task` units."""
    unit, units = spec.unit, [units for _, units in places]
    tasks = job_tasks(unit, sum(units), units_per_task, ()) if units_per_task > 1 and units else None
    counts = None if tasks is None else tasks.tasks_in(units)
    held = list[tuple[str, Amounts]]()
    for (name, _), n in zip(places, counts or units, strict=True):
        family = nodes[name].family
        demand = tasks.demand_on(family) if tasks is not None and counts else unit.amounts_on(family)
        gpu, cpu, memory = demand or (0, 0, 0)  # a job is nowhere where it cannot run
        held.append((name, (n * gpu, n * cpu, n * memory)))
    return held


def memory_of(spec: JobSpec, places: Sequence[tuple[str, int]], nodes: Mapping[str, Node]) -> float:
    """The memory of a job on these nodes, GiB; where it depends on the nodes, those that are gone do not count."""
    if not spec.demand:
        return spec.memory_gib * sum(units for _, units in places)
    unit = spec.unit
    on = ((unit.on(nodes[name].family), units) for name, units in places if name in nodes)
    return sum(needed[2] * units for needed, units in on if needed is not None)


@dataclass(frozen=True)
class MoveRecord:
    """A move that a planner has decided. Null: not known yet, or it never came to that."""

    decided_at: float
    before_usd_per_h: float  # price of machines it alone would keep if it stayed
    after_usd_per_h: float  # of those it alone needs after it, as planned
    expected_cost_usd: float  # of its pause, and of the boot of new machines
    left_at: float | None = None
    resumed_at: float | None = None
    paid_usd: float = 0.0  # for machines it alone has kept since
    paid_until_at: float = 0.0

    @property
    def expected_saving_usd_per_h(self) -> float:
        """As planned."""
        return self.before_usd_per_h - self.after_usd_per_h

    @property
    def hours(self) -> float:
        """Counted duration of the run after the move."""
        return 0.0 if self.resumed_at is None else (self.paid_until_at - self.resumed_at) / S_PER_H

    @property
    def saving_usd_per_h(self) -> float | None:
        """The actual saving: the price before less the mean price since; null: no run since."""
        return self.before_usd_per_h - self.paid_usd / self.hours if self.hours > 0 else None

    @property
    def cost_usd(self) -> float | None:
        """Cost of the pause at the price before; null: it is not over."""
        if self.left_at is None or self.resumed_at is None:
            return None
        return (self.resumed_at - self.left_at) / S_PER_H * self.before_usd_per_h

    def left(self, at: float) -> MoveRecord:
        """The run that the move ends is over."""
        return replace(self, left_at=at)

    def resumed(self, at: float) -> MoveRecord:
        """The run that follows is launched."""
        return replace(self, resumed_at=at, paid_until_at=at)

    def paid(self, usd_per_h: float, until_at: float) -> MoveRecord:
        """Count this price of the machines that the job alone kept since the last count."""
        usd = usd_per_h * (until_at - self.paid_until_at) / S_PER_H
        return replace(self, paid_usd=self.paid_usd + usd, paid_until_at=until_at)


def paid_until(
    paying: Sequence[Job], jobs: Mapping[int, Job], nodes: Mapping[str, Node], at: float
) -> Iterable[tuple[Job, MoveRecord]]:
    """The records of these jobs' moves, counted up to an instant."""
    if not paying:
        return []
    prices = {name: node.machine.usd_per_h or 0.0 for name, node in nodes.items()}
    held = {
        job.job_id: [name for name, _ in job.run.places]
        for job in jobs.values()
        if job.run is not None and job.run.launched
    }
    return [
        (job, job.move.paid(alone_usd_per_h(job.job_id, held[job.job_id], held, prices), at))
        for job in paying
        if job.move is not None and job.job_id in held
    ]


Places = list[tuple[str, int]]  # units on a node, by the node's name

SPECULATED = "speculated"
"""Why a run is stopped that has used rented machines for as long as a short job may."""

NODE_GOES = "node-goes"
"""Why a run is stopped whose node is going to be taken away or given back."""


@dataclass
class Run:
    """One time that a job's command is started."""

    number: int
    units: int
    places: Places
    decided_at: float
    launched: bool = False  # the executor was asked to start it
    started_at: float | None = None
    stopping: str | None = None  # why it is stopping: preempted, resized, cancelled, requeued, node-goes
    stop_by_at: float | None = None
    stopping_at: float | None = None  # since when: its work is not expected to go on from then
    suspended_at: float | None = None  # by a user; null: it goes on
    suspended_s: float = 0.0  # in all, before that
    left_s: float | None = None  # that it was believed to have left then; null: unknown
    asleep_s: float = 0.0  # for which its machine slept
    resumed_frac: float | None = None  # progress in its first report, where an earlier run had reported any

    def correct_clock(self, by_s: float) -> None:
        """The clock by which it has begun, and stands still, was behind by so much."""
        self.decided_at += by_s
        if self.started_at is not None:
            self.started_at += by_s
        if self.stopping_at is not None:
            self.stopping_at += by_s
        if self.suspended_at is not None:
            self.suspended_at += by_s

    @property
    def stood_s(self) -> float:
        """Seconds for which it stood still before it was last suspended."""
        return self.suspended_s + self.asleep_s

    def paused_s(self, now_at: float) -> float:
        """Seconds for which it stood still: suspended, or its machine asleep."""
        return self.stood_s + (0.0 if self.suspended_at is None else now_at - self.suspended_at)

    def ran_s(self, now_at: float) -> float:
        """Seconds that it has run by now, without those."""
        return 0.0 if self.started_at is None else max(0.0, now_at - self.started_at - self.paused_s(now_at))


@dataclass
class Rental:
    """Machines that are rented for one job alone."""

    type: str
    units: list[int]  # on each of them
    units_per_task: int
    asked_at: float
    speculates_until_s: float | None = None  # null: it runs to its end there
    expected_usd: float = 0.0  # their cost if the job takes its believed run time
    nodes: list[str] = field(default_factory=list[str])  # those given out by the cloud
    is_up: bool = False

    @property
    def count(self) -> int:
        """The number of machines."""
        return len(self.units)


@dataclass(slots=True)  # a dictionary of so many attributes takes four times the room
class Job:
    """A job that is not over, or has just ended."""

    job_id: int
    spec: JobSpec
    user: str
    submitted_at: float
    runtime_estimate_s: Annotated[float, Field(alias="believed_s")]  # run time on max_units
    basis: str
    array_id: int | None = None
    array_index: int | None = None
    set_id: int | None = None  # of a trial: the set that it belongs to, which alone the policy knows
    trials: TrialSet | None = None  # of a set
    ran_s: float = 0.0  # by its earlier runs, together, since its last try: as far as their work was kept
    lost_s: float = 0.0  # and the rest: of work that is done again
    leaving_s: float = 0.0  # part of `ran_s`: in which these runs were told to stop, and no work was expected
    last_ran_s: float | None = None  # by the last of them; of a set, from its first start to its end
    array_most: int = 0  # elements of the array that may be queued or running at once; 0: any number
    status: Status = Status.BLOCKED
    units: int = 0  # granted by the policy
    places: Places = field(default_factory=list[tuple[str, int]])
    units_per_task: int = 1
    """At most, of the tasks in which it holds its places; in a pool units are held one by one."""
    attempt: int = 0
    preemptions: int = 0
    resizes: int = 0
    failures: int = 0
    losses: int = 0  # runs that vanished, or were not begun, one after the other
    not_before_at: float = 0.0
    started_at: float | None = None
    finished_at: float | None = None
    left_at: float | None = None
    """Its last run has ended, before the service knew; null: when the service knew."""
    restarting_since_at: float | None = None  # stopped to go on at once at another width; null: it gets on
    progress_frac: float | None = None
    alone_per_s: float | None = None  # reported throughput with its machines to itself, steps a second
    alone_on: tuple[str, ...] = ()  # the types of these machines; empty: of old, unknown
    promised_finish_at: float | None = None
    promised_within: dict[str, float] | None = None  # its interval: `promises.INTERVAL`; null: none
    quoted: dict[str, Any] | None = None
    """Its latest promise: number, instant, start and end; null: it has none."""
    judged: dict[str, Any] | None = None  # the promise that is judged: `promises.judged`; null: none
    broken_until_at: float | None = None
    """The last instant at which the last broken one could be kept; null: none was broken."""
    slurm_start_at: float | None = None
    """The start that Slurm, which is watched, planned for it first; null: none so far, or nothing is watched."""
    reason: dict[str, Any] | None = None
    account: Account | None = None  # while an engine has it
    run: Run | None = None
    makes_room_for: int | None = None
    cancelled_by: str | None = None  # the cause of the event that asked for its end
    preemption: Preemption | None = None  # the last one
    next_move: MoveRecord | None = None  # that is decided, and not yet made
    move: MoveRecord | None = None  # after which it runs now
    binding: dict[str, Any] | None = None
    """Nodes that it will have: when its victims have left, or from start_s on."""
    rental: Rental | None = None  # machines that are rented for it alone
    logged_at: float | None = None
    """The instant of its submission by the log, whose clock was wrong; null: as `submitted_at`."""

    @property
    def counted_units(self) -> int:
        """The units that count as its user's: those that it holds, or will on machines that boot for it alone."""
        rental = self.rental
        return self.units if rental is None or rental.is_up else sum(rental.units)

    def correct_clock(self, by_s: float) -> None:
        """The clock by which it has begun so far was behind by so much."""
        if self.logged_at is None:
            self.logged_at = self.submitted_at
        self.submitted_at += by_s
        if self.started_at is not None:
            self.started_at += by_s
        if self.restarting_since_at is not None:
            self.restarting_since_at += by_s
        if self.run is not None:
            self.run.correct_clock(by_s)

    def settle(self, account: dict[str, Any]) -> None:
        """Take over the engine's account of its work."""
        before = self.account or Account(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0)
        self.account = Account(**account)
        self.preemptions += self.account.preemptions - before.preemptions
        self.resizes += self.account.resizes - before.resizes

    def has_run_s(self, now_at: float) -> float:
        """Total seconds of its runs whose work counts."""
        return self.ran_s + (self.run.ran_s(now_at) if self.run is not None else 0.0)

    def has_worked_s(self, now_at: float) -> float:
        """As `has_run_s`, without the seconds in which earlier runs were told to stop."""
        return self.has_run_s(now_at) - self.leaving_s

    def delays_retry(self, at: float) -> bool:
        """Whether it waits for the end of the delay before its next try, not for an instant that its user named."""
        is_delay = self.failures > 0 and self.not_before_at != self.spec.begin_at
        return self.status is Status.BLOCKED and is_delay and self.not_before_at > at

    @property
    def is_nominated(self) -> bool:
        """Whether it starts on the nodes that it is bound to, once there is room."""
        return self.binding is not None and "owed" in self.binding

    @property
    def is_suspended(self) -> bool:
        """Whether its run stands still at a user's request, or did so when it was stopped."""
        return self.run is not None and self.run.suspended_at is not None

    @property
    def run_limit_s(self) -> float | None:
        """The time limit of its run from the start, longer by the time for which that was suspended."""
        limit_s = self.spec.time_limit_s
        return limit_s if limit_s is None or self.run is None else limit_s + self.run.suspended_s

    def copied(self) -> Job:
        """The same apart from this one: the parts that change in place are copied, all others are replaced whole."""
        found = copy(self)
        found.places = [*self.places]
        found.account = replace(self.account) if self.account else None
        found.trials = replace(self.trials) if self.trials else None
        found.run = replace(self.run, places=[*self.run.places]) if self.run else None
        found.rental = replace(self.rental, nodes=[*self.rental.nodes]) if self.rental else None
        return found

    @property
    def lacks_new_promise(self) -> bool:
        """Whether its promise was broken, and it has had no new one with an interval since."""
        return self.judged is None and self.broken_until_at is not None

    def row(self) -> dict[str, Any]:
        """The row of table `jobs`."""
        within = self.promised_within or {}
        return {
            "job_id": self.job_id,
            "array_id": self.array_id,
            "array_index": self.array_index,
            "name": self.spec.title,
            "user": self.user,
            "status": self.status.value,
            "qos": self.spec.qos,
            "units": self.units if self.trials else self.run.units if self.run else 0,
            "min_units": self.spec.min_units,
            "max_units": self.spec.max_units,
            "submitted_at": self.submitted_at,
            "started_at": self.started_at,
            "finished_at": self.finished_at,
            "ran_s": self.last_ran_s,
            "attempt": self.attempt,
            "preemptions": self.preemptions,
            "resizes": self.resizes,
            "progress_frac": self.progress_frac,
            "reason": self.reason,
            "promised_finish_at": self.promised_finish_at,
            "promised_low_at": within.get("finish_low_at"),
            "promised_median_at": within.get("finish_median_at"),
            "promised_high_at": within.get("finish_high_at"),
            "promised_level": within.get("level"),
            "slurm_start_at": self.slurm_start_at,
            "labels": self.spec.labels,
            "spec": spec_text(self.spec),
        }


def spec_text(spec: JobSpec) -> dict[str, Any]:
    """A specification as events have it."""
    return spec.model_dump(mode="json", exclude_defaults=True)


def shared_spec(spec: JobSpec, before: Job | None) -> JobSpec:
    """The job's specification, or the equal one of the job before it: the elements of an array keep one together."""
    return before.spec if before is not None and before.spec == spec else spec


JOBS = TypeAdapter(list[Job])
"""Jobs in a snapshot, which leaves out what is as by default."""
