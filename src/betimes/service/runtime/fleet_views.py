"""Views of the rented fleet, its cost against a machine per task, and a planner's next changes with reasons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from betimes.cluster import Offer
from betimes.cluster.tasks import JobTasks
from betimes.core.nodes.columns import NodesState
from betimes.core.planning import (
    Bind,
    Decision,
    Migrate,
    Place,
    Planner,
    Preempt,
    Release,
    Rent,
    Snapshot,
    Start,
)
from betimes.errors import Conflict
from betimes.service.engines.dedicated_machines import rooms_of, shapes_of, times_on
from betimes.service.engines.named_policies import shared_offers
from betimes.service.engines.nodes import LiveNodes
from betimes.service.engines.plans import ExpectedSaving, expected_savings
from betimes.service.machines.budgets import DAY, MONTH
from betimes.service.scheduling.job import Job, MoveRecord, paid_until
from betimes.service.scheduling.ledger import Ledger
from betimes.service.scheduling.node import Node, charged_since_at, charged_usd
from betimes.service.scheduling.scheduler import Scheduler
from betimes.service.views.models import (
    FleetMachine,
    FleetMove,
    FleetPlanView,
    FleetReconfiguration,
    FleetStep,
    FleetView,
)
from betimes.twin.nodes.planner_rounds import Question, answer
from betimes.units import S_PER_H, usd


def fleet(scheduler: Scheduler, now_at: float, going: int = 0) -> FleetView:
    """The rented fleet, its cost until now; going: machines that the cloud is still being asked to take back."""
    ledger, engine = scheduler.ledger, scheduler.engine
    now_at = max(now_at, scheduler.now_at)
    rented = [node for node in ledger.nodes.values() if node.rented_at is not None]
    machines = [
        FleetMachine(
            name=node.machine.name,
            type=node.machine.type,
            status=node.status,
            usd_per_h=node.machine.usd_per_h or 0.0,
            rented_at=node.rented_at or 0.0,
            jobs=_jobs_on(scheduler, node),
            why=_why(node, ledger.policy),
            paid_until_at=_paid_until_at(scheduler, node, now_at),
            cost_usd=charged_usd(node, scheduler.settings.offers, now_at),
        )
        for node in rented
    ]
    usd_per_h = sum(one.usd_per_h for one in machines)
    shares = bool(shared_offers(ledger.policy, scheduler.settings.offers))
    alone = _alone_usd_per_h(engine) if shares and isinstance(engine, LiveNodes) else None
    return FleetView(
        policy=ledger.policy,
        machines=machines,
        usd_per_h=usd_per_h,
        no_packing_usd_per_h=alone,
        saving_usd_per_h=None if alone is None else alone - usd_per_h,
        today_usd=scheduler.limits.spent_usd(DAY, now_at),
        month_usd=scheduler.limits.spent_usd(MONTH, now_at),
        going=going,
        plans_at=scheduler.plans_at,
        no_more=scheduler.limits.why_no_more(),
        moves=[_move(scheduler, job, now_at) for job in ledger.jobs.values() if job.next_move or job.move],
        reconfiguration=_reconfiguration(scheduler.ledger),
    )


def _why(node: Node, policy: str) -> str:
    if node.for_job is not None:
        return f"for job {node.for_job} of {node.for_user or 'a user'} alone"
    return f"by {policy}, for all jobs" if node.by_policy else "by hand"


def _paid_until_at(scheduler: Scheduler, node: Node, now_at: float) -> float | None:
    """The instant until which a machine is paid; null: nothing is charged for it yet."""
    offers = scheduler.settings.offers
    offer = next((each for each in offers if each.type == node.machine.type), None)
    if offer is None or (since_at := charged_since_at(node, offer)) > now_at:
        return None
    return since_at + S_PER_H * charged_usd(node, offers, now_at, usd_per_h=1.0)


def _move(scheduler: Scheduler, job: Job, now_at: float) -> FleetMove:
    """A job's decided move, or else the last one made, counted until now."""
    ledger = scheduler.ledger
    counted = paid_until([job], ledger.jobs, ledger.nodes, now_at) if job.next_move is None else ()
    move = next((move for _, move in counted), job.next_move or job.move)
    assert move is not None, "only jobs that have one are asked for theirs"
    return FleetMove(
        job=job.job_id,
        decided_at=move.decided_at,
        expected_saving_usd_per_h=move.expected_saving_usd_per_h,
        expected_cost_usd=move.expected_cost_usd,
        saving_usd_per_h=move.saving_usd_per_h,
        cost_usd=move.cost_usd,
    )


def _reconfiguration(ledger: Ledger) -> FleetReconfiguration | None:
    """The last round that moved jobs, while any of these is not over."""
    last = ledger.reconfiguration
    if last is None or not any(number in ledger.jobs for number in last["jobs"]):
        return None
    move = MoveRecord(**last["move"])
    return FleetReconfiguration(
        decided_at=move.decided_at,
        jobs=last["jobs"],
        ended=last["ended"],
        rented=last["rented"],
        expected_saving_usd_per_h=move.expected_saving_usd_per_h,
        expected_cost_usd=move.expected_cost_usd,
    )


@dataclass(frozen=True)
class AskedPlan:
    """The input of `fleet_plan`: the planner's question as it is now, and names of its machines and jobs."""

    policy: str
    at: float | None  # of the next round
    planner: Planner
    question: Question
    machines: dict[int, str]
    offers: Sequence[Offer]


def ask_plan(scheduler: Scheduler) -> AskedPlan:
    """The planner's question now. Raises Conflict for a policy that does not plan in rounds."""
    engine, policy = scheduler.engine, scheduler.ledger.policy
    if not isinstance(engine, LiveNodes) or engine.rounds is None:
        raise Conflict(
            f"policy {policy} does not plan in rounds; `betimes policy set eva` puts one in force that does"
        )
    planner, question = engine.rounds.next_question(engine.driver)
    names = {each.machine: scheduler.node_name(each.machine) for each in question.snapshot.machines}
    return AskedPlan(policy, scheduler.plans_at, planner, question, names, engine.jobs.offers)


def fleet_plan(asked: AskedPlan) -> FleetPlanView:
    """The planner's changes now: this asks the planner. Raises Conflict for one that fails."""
    plan = answer(asked.planner, asked.question)
    if plan.problem is not None:
        raise Conflict(f"policy {asked.policy}: its planner has failed: {plan.problem}")
    names, snapshot, decisions = _Names(asked, plan.decisions), asked.question.snapshot, plan.decisions
    found = expected_savings(snapshot, decisions, asked.offers)
    moves = {} if found is None else found.moves
    return FleetPlanView(
        policy=asked.policy,
        at=asked.at,
        steps=[_step(number, names, snapshot, decisions, moves) for number in range(len(decisions))],
        usd_per_h_change=sum(_change(one, asked.offers, snapshot) for one in decisions),
        moves_usd=0.0 if found is None else found.whole.cost_usd,
    )


class _Names:
    """Names of the machines and jobs in a planner's answer."""

    def __init__(self, asked: AskedPlan, decisions: Sequence[Decision]) -> None:
        self._asked, self.offers, self._decisions = asked, asked.offers, decisions

    def machine(self, number: int) -> str:
        if number >= 0:
            return self._asked.machines[number]
        rent = self._decisions[-2 - number]
        return f"a new {self.offers[rent.offer].type}" if isinstance(rent, Rent) else "a new machine"

    def places(self, places: Sequence[Place]) -> str:
        return " and ".join(self.machine(one.machine) for one in places)

    def job(self, slot: int) -> int:
        return self._asked.question.jobs[slot]


def _step(
    number: int,
    names: _Names,
    snapshot: Snapshot,
    decisions: Sequence[Decision],
    moves: Mapping[int, ExpectedSaving],
) -> FleetStep:
    one = decisions[number]
    if isinstance(one, Rent):
        offer = names.offers[one.offer]
        jobs = [names.job(slot) for slot in _going_to(-2 - number, decisions)]
        return FleetStep(
            kind="rent",
            type=offer.type,
            reason=f"for {_named(jobs)}, at ${offer.charged_usd_per_h:g} an hour",
        )
    if isinstance(one, Release):
        leaving = [
            names.job(job.job)
            for job in snapshot.jobs
            if any(place.machine == one.machine for place in job.places)
        ]
        saved = -_change(one, names.offers, snapshot)
        have = "have" if len(leaving) > 1 else "has"
        why = f"once {_named(leaving)} {have} left" if leaving else "nothing runs there"
        return FleetStep(
            kind="release", machine=names.machine(one.machine), reason=f"{why}: saves ${saved:g} an hour"
        )
    job = names.job(one.job)
    if isinstance(one, Preempt):
        return FleetStep(kind="preempt", job=job, reason="it is to wait")
    to = names.places(one.places)
    if isinstance(one, Start | Bind):
        return FleetStep(kind="start", job=job, machine=to, reason="it waits")
    assert isinstance(one, Migrate), "there are no other decisions"
    held = next(each for each in snapshot.jobs if each.job == one.job)
    released = {each.machine for each in decisions if isinstance(each, Release)}
    emptied = [place for place in held.places if place.machine in released]
    why = f"{names.places(emptied)} can then be given back" if emptied else "it leaves room for others"
    when = "once these are up" if one.keep else "at once"
    part = moves[one.job]
    saves = f"saves {usd(part.before_usd_per_h - part.after_usd_per_h)} an hour, for {usd(part.cost_usd)}"
    return FleetStep(
        kind="migrate",
        job=job,
        machine=to,
        reason=f"{why}; it leaves {names.places(held.places)} {when}; this move {saves}",
    )


def _going_to(machine: int, decisions: Sequence[Decision]) -> list[int]:
    return [
        one.job
        for one in decisions
        if isinstance(one, Start | Bind | Migrate) and any(place.machine == machine for place in one.places)
    ]


def _change(decision: Decision, offers: Sequence[Offer], snapshot: Snapshot) -> float:
    """A decision's change of the fleet's price an hour, USD."""
    if isinstance(decision, Rent):
        return offers[decision.offer].charged_usd_per_h
    if isinstance(decision, Release):
        offer = next(each.offer for each in snapshot.machines if each.machine == decision.machine)
        return -offers[offer].charged_usd_per_h
    return 0.0


def _alone_usd_per_h(engine: LiveNodes) -> float:
    """Cost an hour, on a machine each, of the tasks that run on rented machines or are bound to some.

    Owned machines are filled without packing, too.
    """
    return sum(
        _on_rented(engine.state, slot) * _cheapest_usd_per_h(engine.jobs.tasks_of[job], engine.jobs.offers)
        for slot, job in engine.job_of.items()
    )


def _on_rented(state: NodesState, slot: int) -> int:
    """Tasks of a job that run on rented machines, or will."""
    need, tasks = state.needs[slot], 0
    at = need.placed if need.holder >= 0 else need.bound
    while at >= 0:
        placement = state.placements[at]
        if state.machines[placement.node].offer >= 0:
            tasks += int(placement.tasks)
        at = placement.follows
    return tasks


def _cheapest_usd_per_h(tasks: JobTasks, offers: Sequence[Offer]) -> float:
    prices = [
        offer.charged_usd_per_h
        for offer, machine in zip(offers, rooms_of(shapes_of(offers)), strict=True)
        if times_on(machine, tasks.demand_on(machine.family)) > 0
    ]
    return min(prices, default=0.0)


def _jobs_on(scheduler: Scheduler, node: Node) -> list[int]:
    name = node.machine.name
    return [
        job.job_id
        for job in scheduler.ledger.jobs.values()
        if any(where == name for where, _ in (job.run.places if job.run is not None else job.places))
    ]


def _named(jobs: Sequence[int]) -> str:
    return f"job{'s' if len(jobs) > 1 else ''} {', '.join(map(str, jobs))}"
