"""The nodes, the jobs, and what may happen to them."""

from collections.abc import Sequence
from itertools import pairwise

from tests.reference.nodes.active import ActiveJob
from tests.reference.nodes.model import (
    Absence,
    Event,
    Job,
    JobOutcome,
    Node,
    Number,
    Outcome,
    Placement,
    Policy,
    Reservation,
    Resources,
    Start,
    State,
)
from tests.reference.nodes.orders import ranked
from tests.reference.nodes.placement import largest_of, place
from tests.reference.nodes.resources import NOTHING, fits, lesser, minus, plus, times


class Cluster:
    """Who holds what, at one instant; free resources are counted anew whenever someone asks."""

    def __init__(self, jobs: Sequence[Job], nodes: Sequence[Node], policy: Policy) -> None:
        if any(one.submit > other.submit for one, other in pairwise(jobs)):
            raise ValueError("jobs must stand in order of submission")
        self.policy = policy
        self.capacities = [node.capacity for node in nodes]
        self.labels = [node.labels for node in nodes]
        self.largest = largest_of(self.capacities)
        self.families = [node.family for node in nodes]
        self.jobs = [ActiveJob(seq, job, self.families) for seq, job in enumerate(jobs)]
        self.now: Number = 0
        self.plans = 0  # preemptions so far
        self.events: list[Event] = []
        self.reservations: list[Reservation] = []

    # --- what there is ---

    def those(self, *states: State) -> list[ActiveJob]:
        """The jobs in these states, in order of submission."""
        return [job for job in self.jobs if job.state in states]

    @property
    def queue(self) -> list[ActiveJob]:
        return ranked(self.those(State.WAITING), self.policy, self.now, self.largest)

    @property
    def free(self) -> list[Resources]:
        """What nobody holds, by node."""
        free = list(self.capacities)
        for job in self.jobs:
            for node, amount in job.held.items():
                free[node] = minus(free[node], amount)
        return free

    def place(self, job: ActiveJob, free: Sequence[Resources]) -> Placement | None:
        demands = [
            job.job.demand_on(family) if self.suits(job, node) else None
            for node, family in enumerate(self.families)
        ]
        return place(self.policy.placement, demands, job.job.tasks, free, self.largest)

    def need(self, job: ActiveJob, node: int, tasks: int) -> Resources:
        """What so many tasks of a job need on a node where it can run."""
        demand = job.job.demand_on(self.families[node])
        if demand is None:
            raise RuntimeError(f"job {job.seq} is on node {node}, where it cannot run")
        return times(tasks, demand)

    def suits(self, job: ActiveJob, node: int) -> bool:
        return job.job.requires <= self.labels[node]

    # --- what may happen ---

    def submit(self, job: ActiveJob) -> None:
        if job.job.grace > self.policy.grace_limit_s or self.place(job, self.capacities) is None:
            job.state = State.REFUSED
            self.log("refuse", job)
        else:
            job.state = State.WAITING
            self.log("submit", job)

    def start(self, job: ActiveJob, nodes: Placement) -> None:
        """A waiting or nominated job starts."""
        job.works_from = self.now + job.overhead(self.policy.restart_s)
        job.state = State.RUNNING
        job.nodes = nodes
        job.held = {node: self.need(job, node, count) for node, count in nodes}
        job.owed = {}
        for victim in self.those(State.VACATING):
            if victim.preemptor is job:
                victim.preemptor = None  # it leaves in vain: its resources will be anybody's
        job.starts.append(Start(self.now, nodes))
        self.log("start", job)

    def finish(self, job: ActiveJob) -> None:
        self.log("finish", job)
        self._end(job, State.FINISHED)

    def outrun(self, job: ActiveJob) -> None:
        """A running job has done all the work it was believed to be, and goes on or is killed."""
        if self.policy.overrun == "kill":
            self.log("kill", job)
            self._end(job, State.KILLED)
            return
        self.log("outrun", job)
        done = job.done_at(self.now)
        while job.believed_size <= done:
            job.believed_size *= 2

    def nominate(self, job: ActiveJob, nodes: Placement, victims: Sequence[ActiveJob]) -> None:
        """A waiting job is bound to nodes: it holds at once what its victims there will not leave it."""
        job.state = State.NOMINATED
        job.nodes = nodes
        free = self.free
        for node, count in nodes:
            need = self.need(job, node, count)
            promised = NOTHING
            for victim in victims:
                promised = plus(promised, victim.held.get(node, NOTHING))
            job.owed[node] = lesser(need, promised)
            job.held[node] = minus(need, job.owed[node])
            if not fits(job.held[node], free[node]):
                raise RuntimeError(f"job {job.seq} reserves more than is free on node {node}")
        self.log("nominate", job)
        for victim in victims:
            self._signal(victim, job)

    def vacate(self, job: ActiveJob) -> None:
        """A victim's time is up: what it held is its preemptor's as far as it is owed, and else free."""
        self.log("vacate", job)
        held, preemptor = job.held, job.preemptor
        job.held, job.nodes, job.preemptor = {}, (), None
        job.state = State.WAITING
        if preemptor is None:
            return
        for node, amount in held.items():
            handed_over = lesser(amount, preemptor.owed.get(node, NOTHING))
            if handed_over != NOTHING:
                preemptor.owed[node] = minus(preemptor.owed[node], handed_over)
                preemptor.held[node] = plus(preemptor.held[node], handed_over)
        if all(owed == NOTHING for owed in preemptor.owed.values()):
            self.start(preemptor, preemptor.nodes)

    def log(self, kind: str, job: ActiveJob) -> None:
        self.events.append(Event(self.now, kind, job.seq, job.nodes))

    def check(self) -> None:
        """No node gives more than it has, and a job that runs holds all it needs."""
        if any(not fits(NOTHING, room) for room in self.free):
            raise RuntimeError(f"a node gives more than it has at {self.now}: {self.free}")
        for job in self.those(State.RUNNING, State.VACATING):
            if job.held != {node: self.need(job, node, count) for node, count in job.nodes}:
                raise RuntimeError(f"job {job.seq} runs without what it needs")
            if sum(count for _, count in job.nodes) != job.job.tasks:
                raise RuntimeError(f"job {job.seq} runs some of its tasks only")

    def outcome(self) -> Outcome:
        absences = [
            Absence(job.seq, signal, vacate, start.time)
            for job in self.jobs
            for signal, vacate, start in zip(job.signals, job.vacates, job.starts[1:], strict=True)
        ]
        return Outcome(
            [JobOutcome(job.state, tuple(job.starts), job.finish, job.preemptions) for job in self.jobs],
            sorted(absences, key=lambda absence: absence.signal),
            self.events,
            self.reservations,
        )

    def _signal(self, victim: ActiveJob, preemptor: ActiveJob) -> None:
        """A running job makes no progress from now on; it keeps what it holds until its grace ends."""
        victim.done = victim.done_at(self.now)
        victim.works_from = None
        victim.state = State.VACATING
        victim.preemptor = preemptor
        victim.preemptions += 1
        victim.signals.append(self.now)
        victim.vacates.append(self.now + victim.job.grace)
        self.log("signal", victim)

    def _end(self, job: ActiveJob, state: State) -> None:
        job.state = state
        job.held, job.nodes = {}, ()
        job.finish = self.now
