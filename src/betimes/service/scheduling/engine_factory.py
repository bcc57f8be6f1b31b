"""Makes of jobs what engines receive, builds engines, and a stand-in for one whose kernels are not compiled yet.

The stand-in keeps accounts, and decides nothing: jobs keep what they hold. Ends of runs, vanished nodes and progress
are recorded as under an engine; new jobs wait with the scheduler until there is one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

import numpy as np

from betimes.cluster import Offer
from betimes.cluster.resources import Amounts
from betimes.cluster.shapes import Shapes, distinct_shapes
from betimes.core.shares import HELD
from betimes.errors import ClusterError, Unavailable
from betimes.foresight.engines import NODES, POOL
from betimes.policies import parse_nodes_policy, parse_policy
from betimes.service.engines.dedicated_machines import shapes_of
from betimes.service.engines.messages import (
    Allocation,
    Alone,
    Decisions,
    Expected,
    Inputs,
    JobRequest,
    Play,
    Restored,
    Sharing,
)
from betimes.service.engines.named_policies import check_live, kind_of, shared_offers
from betimes.service.engines.nodes import LiveNodes
from betimes.service.engines.pool import Contention, LivePool
from betimes.service.engines.pool_machines import PoolMachines
from betimes.service.engines.rented_machines import RentedMachines
from betimes.service.engines.speedups import speed
from betimes.service.machines.budgets import Budgets, FleetLimits
from betimes.service.scheduling.job import SPECULATED, Job, held_by
from betimes.service.scheduling.node import BOOTING, UP, Node
from betimes.service.spec.groups import Groups
from betimes.service.spec.job_spec import Curve, JobSpec
from betimes.service.spec.queues import Queue
from betimes.twin.account import Account
from betimes.twin.nodes.renting import CHOICES


def request_for(job_id: int, spec: JobSpec, runtime_estimate_s: float, user: str = "") -> JobRequest:
    """The request of a job to an engine; runtime_estimate_s: run time on max_units.

    A limit is one of each trial in a set, which has none itself.
    """
    return JobRequest(
        job=job_id,
        min_units=spec.min_units,
        max_units=spec.max_units,
        curve=spec.title if isinstance(spec.curve, Curve) else spec.curve,
        runtime_estimate_s=runtime_estimate_s,
        gpu=spec.gpu,
        cpu=spec.cpu,
        memory_gib=spec.memory_gib,
        units_per_task=spec.task_choice,
        trial=spec.qos == "trial",
        priority=spec.priority,
        grace_s=spec.grace_s,
        choice=CHOICES[spec.rent],
        may_restart=spec.requeue,
        require=spec.required,
        by_family=spec.unit.by_family,
        limit_s=0.0 if spec.time_limit_s is None or spec.as_one else spec.time_limit_s + spec.grace_s,
        user=user,
        speeds=spec.unit.speeds,
        workload=spec.workload or "",
        table=_row(spec.curve.speedup, spec.max_units) if isinstance(spec.curve, Curve) else (),
    )


def request_of(job: Job) -> JobRequest:
    """The request of a job of the ledger to an engine."""
    request = request_for(job.job_id, job.spec, job.runtime_estimate_s, job.user)
    if job.alone_per_s is not None:
        request = replace(request, profiled=True)
    return request if job.trials is None else replace(request, max_units=job.trials.width, limit_s=0.0)


def at_width(request: JobRequest, units: int) -> JobRequest:
    """The same job, rigid at the width that it has now: nodes do not change a job's width."""
    return request if units == request.max_units else replace(request, min_units=units, max_units=units)


def _row(speedup: dict[int, float], widest: int) -> tuple[float, ...]:
    """Speed-ups on 1, 2, ... units: linear between what the table knows, flat beyond it."""
    known = {1: 1.0, **speedup}
    points = sorted(known)
    row: list[float] = []
    for units in range(1, min(widest, points[-1]) + 1):
        below = max(point for point in points if point <= units)
        above = min(point for point in points if point >= units)
        share = (units - below) / (above - below) if above > below else 0.0
        row.append(known[below] + share * (known[above] - known[below]))
    return tuple(row)


SIZES_WITHOUT_JOBS = (3600.0,)  # the workload assumed where there are no jobs


class Observation(Protocol):
    """The stand-in for an engine where others decide, and jobs are only watched."""

    @property
    def is_blind(self) -> bool:
        """Whether nothing can be foreseen now."""
        ...

    def foresee(self, epoch_at: float, expected: Expected) -> Play:
        """A play-out of what was seen last, instants from `epoch_at` on. Raises Unavailable with the reason."""
        ...


@dataclass
class Settings:
    """An operator's settings for the engines."""

    restart_s: float = 0.0  # lost whenever a job's units change
    measures_restarts: bool = False  # restart_s is measured, once there was a restart
    resize_interval_s: float = 0.0  # a job's width does not change again within so many seconds
    resize_gain: bool = False  # a resize must pay, restart included
    seed: int = 0  # of random decisions
    half_life_s: float | None = None  # of fair shares; null: users do not share
    level: float = 0.8  # probability with which a job is done within the interval that it is promised
    offers: tuple[Offer, ...] = ()  # of machines that policies may rent
    quota: int | None = None  # of these at once; null: any number
    plans_aside: bool = False  # planners answer in a thread, in a later turn, and not at the instant itself
    resources: dict[str, int] = field(default_factory=dict[str, int])  # that are counted, besides machines
    queues: tuple[Queue, ...] = ()
    groups: Groups = field(default_factory=Groups)
    budgets: Budgets = field(default_factory=Budgets)
    fleet: FleetLimits = field(default_factory=FleetLimits)
    observation: Observation | None = None  # what is decided elsewhere, and watched here

    @property
    def counted(self) -> Mapping[str, int]:
        """How much there is of all that is counted: resources, and what groups may have."""
        return {**self.resources, **self.groups.counted} if self.groups.counted else self.resources


@dataclass
class Built:
    """An engine, or its stand-in, and its nodes by number."""

    engine: LivePool | LiveNodes | Standby
    kind: str  # pool or nodes
    nodes: dict[int, tuple[str, Amounts]]
    """Those that do not come and go by its decisions, and their capacity."""
    kinds: dict[str, int]  # of their types
    accounts: dict[int, Account]  # of the jobs that it has taken over, in its unit of work
    offered: tuple[Offer, ...] = ()  # machines that it may rent for several jobs
    is_shared: bool = False  # it knows users
    machines: dict[int, tuple[str, int]] = field(default_factory=dict[int, tuple[str, int]])
    """Names and generations of these rented machines, by number."""

    def take_over(self, nodes: dict[str, Node], jobs: dict[int, Job], now_s: float) -> list[int] | None:
        """Let the engine go on with these nodes; returns the jobs that are no longer bound to nodes.

        Returns None (rebuild) for a stand-in, a pool without nodes or with other classes, a node whose capacity,
        labels or family changed, or a removed node that is still occupied.
        """
        engine, kept = self.engine, kept_nodes(nodes, self.offered)
        if isinstance(engine, Standby) or (isinstance(engine, LivePool) and not engine.places_units):
            return None
        if isinstance(engine, LivePool):
            engine.pass_wakeups(now_s)
        had = {name: (number, capacity) for number, (name, capacity) in self.nodes.items()}
        for name, (at, capacity) in had.items():
            if name in kept and kept[name].capacity != capacity:
                return None
            if (
                name in kept
                and isinstance(engine, LiveNodes)
                and not engine.jobs.is_alike(at, kept[name].shape)
            ):
                return None
        for name in had.keys() - kept.keys():
            number, _ = had[name]
            if not engine.remove_node(number):
                return None
            del self.nodes[number]
        if isinstance(engine, LivePool):
            engine.driver.make_room(len(kept.keys() - had.keys()))
        for name, node in kept.items():
            if name in had:
                number = had[name][0]
            else:
                number = self._add(engine, node)
                self.nodes[number] = name, node.capacity
            engine.open_node(number, node.status == UP)
        if isinstance(engine, LiveNodes):
            return engine.jobs.fit_to(_shapes(kept, self.offered), now_s)
        fits = engine.set_units(max(1, pool_units(kept, (jobs[number] for number in engine.held))))
        return [] if fits else None

    def _add(self, engine: LivePool | LiveNodes, node: Node) -> int:
        if isinstance(engine, LivePool):
            return engine.add_node(node.capacity)
        kind = self.kinds.setdefault(node.machine.type, len(self.kinds))
        return engine.add_node(node.shape, kind)

    def name(self, number: int) -> str:
        """The name of a node, or of a rented machine, by its number."""
        found = self.nodes.get(number) or self.machines.get(number)
        return ordered_name(number) if found is None else found[0]


def build(
    policy: str,
    nodes: dict[str, Node],
    jobs: dict[int, Job],
    before: str | None,
    now_s: float,
    settings: Settings,
    sizes: tuple[float, ...] = (),
    epoch_at: float = 0.0,
    is_compiled: bool = True,
    member: str | None = None,
    contention: Contention | None = None,
    sharing: Sharing | None = None,
    taught: Sequence[Offer] | None = None,
) -> Built:
    """The engine of `policy` with all jobs of the engine of policy `before` (null: the same policy).

    It places jobs on the shared nodes. Engines count seconds from `epoch_at`. A policy that is not compiled yet gets a
    stand-in. member: the one that decides in a portfolio; null: its first.
    contention: seen by jobs until now; null: as in their accounts. sharing: the users, with what their jobs hold and
    have held; null: they do not share. taught: the offers with speeds that were measured; null: as stated.

    Raises PolicyError, ClusterError.
    """
    check_live(policy, settings.offers)
    offered = shared_offers(policy, settings.offers)
    rented = {name: node for name, node in nodes.items() if node.by_policy} if offered else {}
    nodes = kept_nodes(nodes, offered)
    kind, text = kind_of(policy)
    numbers = {name: at for at, name in enumerate((*nodes, *rented))}
    live = sorted((job for job in jobs.values() if job.account is not None), key=_seq)
    capacity = np.array([node.capacity for node in nodes.values()], dtype=np.int64).reshape(-1, 3)
    kinds = {type: at for at, type in enumerate(dict.fromkeys(node.machine.type for node in nodes.values()))}  # noqa: A001
    engine: LivePool | LiveNodes | Standby
    if not is_compiled:
        engine = Standby(kind)
    elif settings.observation is not None:
        engine = Observed(settings.observation, epoch_at)
    elif kind == POOL:
        known = tuple(_work_of(job, before or policy) for job in live) + sizes
        engine = LivePool(
            parse_policy(text),
            max(1, pool_units(nodes, live)),  # without any, nothing finds room
            capacity,
            restart_s=settings.restart_s,
            resize_interval_s=settings.resize_interval_s,
            resize_gain=settings.resize_gain,
            sizes=known or SIZES_WITHOUT_JOBS,
            shared=sharing is not None,
            offers=offered,
            quota=settings.quota,
            unit_of=pool_resource(nodes.values()),
        )
    else:
        engine = LiveNodes(
            parse_nodes_policy(text),
            tuple(node.shape for node in nodes.values()),
            np.array([kinds[node.machine.type] for node in nodes.values()], dtype=np.int64),
            shapes=_shapes(nodes, offered),
            units=float(max(1, pool_units(nodes, ()))),
            restart_s=settings.restart_s,
            seed=settings.seed,
            offers=settings.offers if taught is None else taught,
            quota=settings.quota,
            lease_s=settings.fleet.takes_jobs_s,
            longest_run_s=settings.fleet.longest_run_s(settings.offers),
            member=member,
            plans_aside=settings.plans_aside,
            shared=sharing is not None,
        )
    if rented and (machines_of := renting(engine)) is not None:
        for name, node in rented.items():
            numbers[name] = resume_machine(machines_of, node, settings.offers, now_s, epoch_at)
    victims: dict[int, list[Job]] = {}
    for job in live:
        if job.makes_room_for is not None and job.run is not None:
            victims.setdefault(job.makes_room_for, []).append(job)
    carried = [
        _still_owed(
            replace(
                _seeing(_carried(job, kind, before or policy, numbers, epoch_at), contention),
                alone=_alone(job, settings.offers, epoch_at),
                keeps_wait=before is None or before == policy,
            ),
            victims,
            numbers,
            nodes | rented,
        )
        for job in live
    ]
    if sharing is not None:
        engine.share(sharing.idle())
    for one in carried:
        engine.restore(one, now_s)
    engine.settle(carried)
    # What users hold and have held is in the log; but nodes keep a job as wide as a pool has made it, and count it so.
    if sharing is not None:
        is_counted = isinstance(engine, LiveNodes)
        engine.share(sharing.holding(engine.state.users, HELD) if is_counted else sharing)
    for name, node in (nodes | rented).items():
        if node.status not in ((UP, BOOTING) if name in rented else (UP,)):
            engine.open_node(numbers[name], False)
    accounts = {one.request.job: engine.account(one.request.job) for one in carried}
    machines = {numbers[name]: (name, _generation(engine, numbers[name])) for name in rented}
    owned = {numbers[name]: (name, node.capacity) for name, node in nodes.items()}
    return Built(engine, kind, owned, kinds, accounts, offered, sharing is not None, machines)


def ordered_name(number: int) -> str:
    """The name of an ordered machine that the cloud has not named yet."""
    return f"ordered-{number}"


def shared(nodes: dict[str, Node]) -> dict[str, Node]:
    """The nodes on which the policy places jobs: all but those rented for one job alone."""
    return {name: node for name, node in nodes.items() if node.is_shared}


def kept_nodes(nodes: dict[str, Node], offered: Sequence[Offer]) -> dict[str, Node]:
    """The shared nodes that do not come and go by the policy's decisions; offered: what it may rent."""
    return {name: node for name, node in shared(nodes).items() if not (offered and node.by_policy)}


def renting(engine: LivePool | LiveNodes | Standby) -> RentedMachines | PoolMachines | None:
    """The machines that an engine rents for several jobs; null: it rents none so."""
    return None if isinstance(engine, Standby) else engine.machines


def resume_machine(
    machines: RentedMachines | PoolMachines,
    node: Node,
    offers: Sequence[Offer],
    now_s: float,
    epoch_at: float,
) -> int:
    """The number, in a new engine, of a machine rented before by the policy. Raises ClusterError."""
    machine = node.machine
    at = _offer_of(machine.type, offers, f"node {machine.name} is")
    up_s = None if node.up_at is None else node.up_at - epoch_at
    return machines.resume(at, now_s, (node.rented_at or epoch_at) - epoch_at, up_s)


def _generation(engine: LivePool | LiveNodes | Standby, number: int) -> int:
    machines = renting(engine)
    return 0 if machines is None else machines.generation(number)


def _offer_of(type: str, offers: Sequence[Offer], what: str) -> int:  # noqa: A002
    types = [offer.type for offer in offers]
    if type not in types:
        raise ClusterError(
            f"{what} a rented machine of type {type}, which is not offered any more; put the offer back into the "
            "cluster file"
        )
    return types.index(type)


def _shapes(nodes: dict[str, Node], offered: Sequence[Offer]) -> Shapes:
    owned = [node.shape for node in shared(nodes).values() if node.takes_work]
    return distinct_shapes([*owned, *shapes_of(offered)])


def _alone(job: Job, offers: Sequence[Offer], epoch_at: float) -> Alone | None:
    """The machines rented for a job alone. Raises ClusterError if their type is no longer offered."""
    rental = job.rental
    if rental is None:
        return None
    until_s = math.inf if rental.speculates_until_s is None else rental.speculates_until_s
    offer = _offer_of(rental.type, offers, f"job {job.job_id} is on")
    began_s = rental.asked_at - epoch_at
    return Alone(offer, rental.count, began_s, rental.is_up, until_s)


def _seeing(carried: Restored, contention: Contention | None) -> Restored:
    """A job with its contention in a pool until now."""
    seen = contention.get(carried.request.job) if contention is not None else None
    if seen is None:
        return carried
    return replace(carried, account=replace(carried.account, seen_events=seen[0], seen_active=seen[1]))


def _still_owed(
    carried: Restored, victims: dict[int, list[Job]], numbers: dict[str, int], nodes: dict[str, Node]
) -> Restored:
    """Drop what is owed by victims that have left since the job was nominated."""
    if not carried.owed:
        return carried
    held: dict[int, Amounts] = {}
    for victim in victims.get(carried.request.job, ()):
        places = victim.run.places if victim.run is not None else []
        for node, amounts in held_by(victim.spec, places, victim.units_per_task, nodes):
            whole = held.get(numbers[node], (0, 0, 0))
            held[numbers[node]] = whole[0] + amounts[0], whole[1] + amounts[1], whole[2] + amounts[2]
    owed = tuple(
        tuple(map(min, before, held.get(place.node, (0, 0, 0))))
        for place, before in zip(carried.bound, carried.owed, strict=True)
    )
    return replace(carried, owed=owed)


def pool_units(nodes: dict[str, Node], jobs: Iterable[Job]) -> int:
    """The units of the pool on nodes that take work: GPUs where any node has some, else cores.

    Units that jobs still hold on nodes that take no new work count, too; other nodes than these do not.
    """
    nodes = shared(nodes)
    at = pool_resource(nodes.values())
    ups = sum(node.capacity[at] for node in nodes.values() if node.status == UP) // 1000
    return ups + sum(
        units
        for job in jobs
        if job.units
        for name, units in job.places
        if name in nodes and nodes[name].status != UP
    )


def pool_resource(nodes: Iterable[Node]) -> int:
    """The resource that is a pool's unit, as an index of amounts: GPUs (0) where any node has some, else cores (1)."""
    return 0 if any(node.capacity[0] >= 1000 for node in nodes if node.is_there) else 1


def _seq(job: Job) -> int:
    return job.account.seq if job.account else 0


def _work_of(job: Job, policy: str) -> float:
    """Total believed work, seconds on one unit."""
    return 0.0 if job.account is None else job.account.size_s * work_factor(job, POOL, kind_of(policy)[0])


def work_factor(job: Job, kind: str, was: str) -> float:
    """What work of a job in an engine's unit is multiplied by for one of another kind that takes it over.

    Work is in seconds on one unit in a pool, on nodes in seconds on the units that the job has.
    """
    if kind == was:
        return 1.0
    request = request_of(job)
    faster = speed(request, _units_on_nodes(job) or request.max_units)
    return faster if kind == POOL else 1.0 / faster


def _units_on_nodes(job: Job) -> int:
    """The units of a job's run; one that leaves rented machines is the job's no more."""
    run = job.run
    return run.units if run is not None and run.launched and run.stopping != SPECULATED else job.units


def _carried(job: Job, kind: str, before: str, numbers: dict[str, int], epoch_at: float) -> Restored:
    """A job as the new engine takes it over."""
    account, request, was = job.account, request_of(job), kind_of(before)[0]
    if account is None:
        raise ValueError(f"internal: job {job.job_id} is in no engine")
    run = job.run
    if job.rental is not None:
        return Restored(request, account)
    # That run leaves rented machines; the job's places are others by now.
    if run is not None and run.stopping == SPECULATED:
        run = None
    places = tuple(
        Allocation(numbers[node], units)
        for node, units in (run.places if run and run.launched else job.places)
    )
    units, factor = _units_on_nodes(job), work_factor(job, kind, was)
    account = replace(account, left_s=account.left_s * factor, size_s=account.size_s * factor)
    if kind == POOL:
        leaving = was == NODES and run is not None and run.stopping is not None
        units = 0 if leaving else job.units
        where = job.places or (run.places if run is not None else [])
        return Restored(
            request, account, units, tuple(Allocation(numbers[node], held) for node, held in where if units)
        )
    if units and not places:
        units = 0  # granted by a pool, and not started yet
    if units:
        request = at_width(request, units)
        leave_by_s = run.stop_by_at - epoch_at if run is not None and run.stop_by_at is not None else math.inf
        return Restored(request, account, units, places, job.units_per_task, leave_by_s, job.makes_room_for)
    bound = job.binding or {}
    if was != NODES or any(node not in numbers for node, _ in bound.get("places", ())):
        bound = {}
    return Restored(
        request,
        account,
        bound=tuple(Allocation(numbers[node], held) for node, held in bound.get("places", ())),
        owed=tuple((gpu, cpu, memory) for gpu, cpu, memory in bound.get("owed", ())),
        start_s=bound.get("start_s", math.inf),
    )


@dataclass
class _Work:
    """A job's work: its account, and its rate since then."""

    account: Account
    units: int
    rate: float  # work a second, once the stall is over

    def at(self, now_s: float) -> Account:
        """The account as of now."""
        before = self.account
        passed_s = max(0.0, now_s - before.since_s)
        worked_s = max(0.0, passed_s - before.stall_s)
        return replace(
            before,
            since_s=max(now_s, before.since_s),
            left_s=max(0.0, before.left_s - self.rate * worked_s),
            attained=before.attained + self.units * passed_s,
            stall_s=max(0.0, before.stall_s - passed_s),
        )


class Standby:
    """An engine of a kind without a pass: it counts work as that does, and decides nothing."""

    def __init__(self, kind: Literal["pool", "nodes"]) -> None:
        self.kind = kind
        self._jobs: dict[int, _Work] = {}

    stands_by = True
    """Whether an engine that decides is to follow."""

    @property
    def slot_of(self) -> Mapping[int, _Work]:
        """The jobs that it knows."""
        return self._jobs

    def restore(self, carried: Restored, now_s: float) -> None:
        """Take over a job as it stands."""
        rate, units = 0.0, carried.units
        if carried.alone is not None:
            rate, units = 1.0, carried.request.max_units
        elif carried.units and self.kind == "pool":
            rate = speed(carried.request, carried.units)
        elif carried.units and carried.leave_by_s == float("inf"):
            # A job that is to leave its nodes works no more.
            rate = 1.0
        self._jobs[carried.request.job] = _Work(carried.account, units, rate)

    def next_timer_s(self) -> float:
        """Never: nothing happens by itself."""
        return math.inf

    def catch_up(self, now_s: float) -> list[Decisions]:
        """Nothing goes off."""
        return []

    def happen(self, now_s: float, what: Inputs) -> list[Decisions]:
        """Let everything but submissions happen; nothing is decided."""
        for number in what.gone:
            self._rest(number, now_s)
        for number in what.done:
            del self._jobs[number]
        for number, left_s in what.believed:
            self._believe(number, left_s, now_s)
        return []

    def lose(self, job: int, now_s: float, _: float = 0.0) -> None:
        """A job has lost what it held, without a decision."""
        if not self._jobs[job].units:
            return
        work = self._rest(job, now_s)
        if self.kind == "pool":  # on nodes it is counted when the job is asked to leave
            work.account = replace(work.account, preemptions=work.account.preemptions + 1)

    refuse_machines = lose

    def ignore(self, *_: object) -> None:
        """Nothing: the engine that follows gets it with the jobs and nodes."""

    share = settle = open_node = set_closings = set_limit = sure_to_keep = ignore

    def account(self, job: int) -> Account:
        """The account of a job's work, true when its units last changed."""
        return self._jobs[job].account

    def believed_left(self, job: int, now_s: float) -> float:
        """Work believed to be left now."""
        return self._jobs[job].at(now_s).left_s

    def first_waiting(self) -> int | None:
        """Null: there is no order yet."""
        return None

    def _rest(self, number: int, now_s: float) -> _Work:
        """A job holds nothing from now on."""
        work = self._jobs[number]
        work.account = replace(work.at(now_s), stall_s=0.0)
        work.units, work.rate = 0, 0.0
        return work

    def _believe(self, number: int, left_s: float, now_s: float) -> None:
        work = self._jobs[number]
        if work.rate > 0.0:
            work.account = work.at(now_s)
        size_s = work.account.size_s + left_s - work.account.left_s
        work.account = replace(work.account, size_s=size_s, left_s=left_s)


class Observed(Standby):
    """Stands for a scheduler that decides elsewhere: it counts work as that is seen to go on, and decides nothing."""

    stands_by = False
    heeds_beliefs = False
    foresees = False

    def __init__(self, observation: Observation, epoch_at: float) -> None:
        super().__init__("nodes")
        self._observation, self._epoch_at = observation, epoch_at
        self._entered = 0

    def happen(self, now_s: float, what: Inputs) -> list[Decisions]:
        """As before; those that are submitted wait."""
        for request in what.requests:
            self.enter(request.job, request.runtime_estimate_s, now_s)
        return super().happen(now_s, what)

    def believed_left(self, job: int, now_s: float) -> float:
        """Work believed to be left now; below 0: it has run for longer, as its end was noticed late."""
        work = self._jobs[job]
        return work.account.left_s - work.rate * max(0.0, now_s - work.account.since_s)

    def enter(self, number: int, size_s: float, now_s: float) -> None:
        """A job waits for nodes; size_s: its work as believed."""
        self._entered += 1
        self._jobs[number] = _Work(Account(now_s, size_s, size_s, 0.0, 0.0, now_s, self._entered), 0, 0.0)

    def begin(self, number: int, units: int, since_s: float) -> Account:
        """A job is seen to run since an instant; its account from then on."""
        work = self._jobs[number]
        work.account = replace(work.account, since_s=since_s)
        work.units, work.rate = units, 1.0
        return work.account

    def foresee(self, now_s: float, more: JobRequest | None, _: object, expected: Expected) -> Play:
        """A play-out of what was seen last. Raises Unavailable for one more job, and where nothing is seen."""
        if more is not None:
            raise Unavailable("a job that Slurm does not have is promised nothing yet; submit it with sbatch")
        return self._observation.foresee(self._epoch_at, expected)
