"""Turns the policy's decisions, a portfolio's selections and a planner's answers into events and effects.

Selections and answers are made outside, in a thread, while the last decision holds. One that comes too late, or for a
policy or an engine that is no longer in force, is refused; so is each instruction that is out of date. Each choice and
each refusal is an event.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from betimes.cluster.billing import Prices, lease_usd
from betimes.core import planning
from betimes.kernels import Floats
from betimes.service.engines.messages import (
    Bind,
    Decisions,
    Grant,
    Instruction,
    Migrate,
    Outrun,
    Preempt,
    ReleaseMachine,
    Rent,
    RentMachine,
    Reserve,
    StopSpeculating,
)
from betimes.service.engines.plans import ExpectedSaving, Reconfiguration
from betimes.service.engines.selection import MemberRules
from betimes.service.scheduling.effects import AskPlanner, SelectMember
from betimes.service.scheduling.fleet_limits import LimitsOfFleet
from betimes.service.scheduling.job import Job, MoveRecord
from betimes.service.scheduling.nodes import JobRentals, MachineRentals
from betimes.service.scheduling.part import Part
from betimes.service.scheduling.policy_engine import PolicyEngine
from betimes.service.scheduling.policy_record import PolicyRecord
from betimes.service.scheduling.runs import Runs
from betimes.service.scheduling.state import SchedulerState
from betimes.service.scheduling.wait_reasons import WaitReasons
from betimes.twin.nodes.planner_rounds import Plan, Question


class DecisionApplier:
    """From the engine's instructions to events and effects.

    idle: why the last decision did nothing; null: it did something.
    """

    def __init__(
        self,
        state: SchedulerState,
        engine: PolicyEngine,
        runs: Runs,
        rentals: JobRentals,
        machines: MachineRentals,
        limits: LimitsOfFleet,
    ) -> None:
        self._state, self._engine, self._runs = state, engine, runs
        self._rentals, self._machines, self._limits = rentals, machines, limits
        self.idle: dict[str, Any] | None = None

    def apply(self, rounds: Iterable[Decisions]) -> None:
        """Log the policy's decisions, and preempt runs."""
        for one in rounds:
            by = takers(one.instructions)
            for instruction in one.instructions:
                self._carry_out(instruction, by)

    def explain_idle(self, rounds: Sequence[Decisions]) -> None:
        """Log the reason of a decision that moved nothing, if it differs from the last one."""
        if not rounds:
            return  # the policy was not asked
        if any(not isinstance(each, Outrun) for one in rounds for each in one.instructions):
            self.idle = None
            return
        self.idle = WaitReasons(self._state, self._engine, self._limits, None).idle()
        if _answer(self.idle) != _answer(self._state.ledger.idle):
            self._state.log("idle", "policy", reason=self.idle)

    def _carry_out(self, one: Instruction, by: Mapping[int, Sequence[int]]) -> None:
        """Log the event that an instruction is; by: for each job, those that take its units."""
        log, jobs, engine = self._state.log, self._state.ledger.jobs, self._engine
        match one:
            case RentMachine():
                self._machines.order(one)
            case ReleaseMachine():
                self._machines.give_back(one)
            case _ if one.job in engine.withdrawn:
                pass
            case Outrun(number, size_s):
                account = engine.account_row(number)
                basis = "limit" if account["size_s"] < size_s else "doubled"
                log("estimate-changed", "timer", number, account=account, basis=basis, outran=True)
            case Preempt(number, leave_by_s, room_for):
                grace_s, by_at = leave_by_s - self._state.now_s, leave_by_s + self._state.ledger.epoch_at
                makes_room = {} if room_for is None else {"makes_room_for": room_for}
                self._runs.preempt_until(jobs[number], grace_s, by_at, list(makes_room.values()), makes_room)
            case Migrate(number, held, keep, expected):
                more: dict[str, Any] = (
                    {} if expected is None else {"move": _record(expected, self._state.now_at)}
                )
                before, places = jobs[number].places, engine.places_of(held)
                log("migrating", "policy", number, before=before, places=places, keeps_running=keep, **more)
            case Rent(number):
                self._rentals.rent(jobs[number], one)
            case StopSpeculating(number):
                self._rentals.stop_speculating(jobs[number])
            case Bind(number, held, owed):
                log("nominated", "policy", number, places=engine.places_of(held), owed=[*map(list, owed)])
            case Reserve(number, start_s, held) if start_s < math.inf:
                log("reserved", "policy", number, places=engine.places_of(held), start_s=start_s)
            case Reserve(number):
                if jobs[number].binding is not None:
                    log("unbound", "policy", number)
            case Grant(number):
                self._grant(jobs[number], one, by.get(number, ()))

    def _grant(self, job: Job, move: Grant, by: Sequence[int]) -> None:
        places, account = self._engine.places_of(move.places), self._engine.account_row(move.job)
        tasks: dict[str, Any] = {"units_per_task": move.units_per_task} if move.units_per_task > 1 else {}
        self._state.log(
            "granted", "policy", move.job, units=move.units, places=places, **tasks, account=account
        )
        if job.trials is not None:
            self._state.trial_index.to_share[move.job] = tuple(by)
            return
        run = job.run
        if run is None or not run.launched or run.stopping is not None:
            return
        if move.units == 0 or move.moves:
            self._runs.preempt(job, by, moves=move.moves)


def _record(expected: ExpectedSaving, now_at: float) -> dict[str, Any]:
    """The expected saving of a move just decided."""
    usd_per_h = expected.before_usd_per_h, expected.after_usd_per_h
    return asdict(MoveRecord(now_at, *usd_per_h, expected.cost_usd))


def _answer(reason: dict[str, Any] | None) -> tuple[str, int | None] | None:
    """The key by which reasons for doing nothing differ: code and job."""
    return (reason["code"], reason["evidence"].get("job")) if reason is not None else None


def takers(instructions: Iterable[Instruction]) -> dict[int, list[int]]:
    """For each job that gives up units of a pool, the jobs that take them.

    Units are alike: units given up and units taken in a round are matched in order.
    """
    changes = [(each.job, each.units - each.before) for each in instructions if isinstance(each, Grant)]
    taking = [[job, units] for job, units in changes if units > 0]
    found: dict[int, list[int]] = {}
    for job, change in changes:
        given = -change
        while given > 0 and taking:
            taker = taking[0]
            found.setdefault(job, []).append(taker[0])
            units = min(given, taker[1])
            given -= units
            taker[1] -= units
            if taker[1] == 0:
                taking.pop(0)
    return found


S_PER_H = 3600.0


@dataclass(frozen=True)
class Selection:
    """The result of a selection based on the state at `at_s`. problem: why there is no choice."""

    policy: str
    at_s: float
    member: MemberRules | None = None
    problem: str | None = None
    data: dict[str, Any] = field(default_factory=dict[str, Any])
    """The event's data; jobs: since when each waits."""


class MemberSelection(Part):
    """Asks for selections of the portfolio in force, one at a time, and puts what they choose in force."""

    name = "portfolio"

    def __init__(self, state: SchedulerState, engine: PolicyEngine) -> None:
        self._state, self._engine = state, engine
        self._pending_since_s: float | None = None
        self._is_late = False

    @property
    def member(self) -> str | None:
        """The member that decides; null: none has been chosen yet, and the first does."""
        return self._state.ledger.member

    def _promised_s(self, numbers: Sequence[int]) -> Floats:
        """The first promise to each job, s; NaN: it has none."""
        ledger = self._state.ledger
        jobs = (ledger.jobs.get(number) for number in numbers)
        at = [
            math.nan if job is None or job.promised_finish_at is None else job.promised_finish_at
            for job in jobs
        ]
        return np.array(at) - ledger.epoch_at

    def after_decision(self) -> None:
        """Ask for a selection if one is due and the one before is finished."""
        snapshot, policy = self._engine.take_selection(), self._state.ledger.policy
        if snapshot is None:
            return
        if self._pending_since_s is None:
            self._pending_since_s, self._is_late = snapshot.at_s, False
            epoch_at = self._state.ledger.epoch_at
            snapshot = replace(snapshot, promised_s=self._promised_s(snapshot.job_ids))
            asked = SelectMember(policy, snapshot, self._record(), epoch_at)
            self._state.effects.append(asked)
        elif not self._is_late:
            self._is_late = True
            took_s = self._state.now_s - self._pending_since_s
            self._refuse(
                f"the selection that began {took_s:.0f} s ago is not finished", self._pending_since_s
            )

    def _record(self) -> PolicyRecord:
        """The record of the policy so far, present machines included."""
        ledger, now_at = self._state.ledger, self._state.now_at
        so_far, machine_s = ledger.record, 0.0
        offers = {offer.type: offer for offer in self._engine.settings.offers}
        for node in ledger.nodes.values():
            offer, is_its = offers.get(node.machine.type), node.by_policy or not node.is_shared
            if is_its and offer is not None and node.rented_at is not None:
                booted_at = math.inf if node.up_at is None else node.up_at - offer.setup_s
                since_at = offer.billing.since_s(node.rented_at, booted_at)
                machine_s += float(lease_usd(offer.billing, Prices(1.0), since_at, now_at)) * S_PER_H
        return PolicyRecord(so_far.jobs, so_far.job_s, so_far.machine_s + machine_s, so_far.slowdown)

    def take(self, found: Selection) -> None:
        """Put the choice of a finished selection in force, or refuse it."""
        self._pending_since_s = None
        ledger, period_s = self._state.ledger, self._engine.selection_period_s
        if found.policy != ledger.policy or period_s is None:
            self._refuse(f"it was for policy {found.policy}, which is not in force any more", found.at_s)
        elif found.member is None:
            self._refuse(found.problem or "it has brought no choice", found.at_s)
        elif self._state.now_s > found.at_s + period_s:
            late_s = self._state.now_s - found.at_s
            self._refuse(
                f"it has taken {late_s:.0f} s, and the next is due after {period_s:.0f} s", found.at_s
            )
        else:
            name = found.member.name
            epoch_at = ledger.epoch_at
            jobs = [[number, since_s + epoch_at] for number, since_s in found.data["jobs"]]
            said = {**found.data, "jobs": jobs, "before": self.member, "from_at": found.at_s + epoch_at}
            if not found.data["shadow"] and (waits := self._engine.put_in_force(found.member)):
                said["waits_until_s"] = list(waits.items())
            self._state.log("selected", "policy", member=name, **said)

    def _refuse(self, text: str, at_s: float) -> None:
        stays = f"{self.member} stays" if self.member is not None else "the first member stays"
        at_at = at_s + self._state.ledger.epoch_at
        self._state.log("not-selected", "policy", problem=f"{text}; {stays} in force", from_at=at_at)


class PlannerAnswers(Part):
    """Has the planner in force asked, one question at a time, and hands its answers to the engine."""

    name = "planner"

    def __init__(self, state: SchedulerState, engine: PolicyEngine) -> None:
        self._state, self._engine = state, engine
        self._answered: list[Plan] = []  # in this turn
        self._names: tuple[Question, dict[int, str]] | None = None  # of the machines of the last question
        self._is_late = False
        self._problem = "", ""  # that was logged last, and whose it was
        self._refused: set[tuple[str, int | None, str | None, str]] = set()  # of the last answer

    def take(self, plan: Plan) -> None:
        """Keep an answer, to be decided about in this turn."""
        self._answered.append(plan)

    def hand_over(self) -> None:
        """Before the engine decides: hand it an answer, or report that there will be none."""
        rounds = self._engine.rounds
        for plan in self._answered:
            asked_s, now_s = plan.question.snapshot.now_s, self._state.now_s
            if rounds is None or rounds.pending is not plan.question:
                self._refuse_all(plan.question, "the policy or its engine is another since it was asked")
            elif now_s > asked_s + rounds.planner.period_s:
                rounds.give_up(plan.question)
                self._refuse_all(
                    plan.question,
                    f"it has taken {now_s - asked_s:.0f} s, and is asked every {rounds.planner.period_s:g} s; give it "
                    "a longer period, or less time to plan",
                )
            else:
                self._engine.hear_plan(plan)
        self._answered = []

    def after_decision(self) -> None:
        """Have the planner asked if that is due, and log what was refused."""
        rounds = self._engine.rounds
        if rounds is None:
            return
        for one in rounds.take_carried_out():
            if (found := rounds.reconfiguration(one)) is not None:
                self._log_moves(one, found)
            self._log(one)
        taken = rounds.take_question()
        if taken is not None:
            planner, question = taken
            self._names, self._is_late = (question, self._names_at(question)), False
            self._state.effects.append(AskPlanner(self._state.ledger.policy, planner, question))
        elif rounds.is_overdue and rounds.pending is not None and not self._is_late:
            self._is_late = True
            asked_s = rounds.pending.snapshot.now_s
            self._refuse_all(
                rounds.pending, f"it was asked {self._state.now_s - asked_s:.0f} s ago, and still plans"
            )

    def _names_at(self, question: Question) -> dict[int, str]:
        """The machines' names now; later another may have the number."""
        return {one.machine: self._engine.machine_called(one.machine) for one in question.snapshot.machines}

    def _log_moves(self, plan: Plan, found: Reconfiguration) -> None:
        """Log what the moves of a plan are to save together, where rented machines are left or needed for them."""
        if found.whole.before_usd_per_h > 0.0 or found.whole.after_usd_per_h > 0.0:
            self._state.log(
                "reconfigured",
                "policy",
                jobs=[plan.question.jobs[slot] for slot in found.moves],
                ended=found.ended,
                rented=found.rented,
                move=_record(found.whole, self._state.now_at),
            )

    def _log(self, plan: Plan) -> None:
        asked_s, refused = plan.question.snapshot.now_s, plan.refused
        if plan.problem is not None:
            self._refuse_all(plan.question, f"it has failed: {plan.problem}")
            return
        self._problem = "", ""
        if not refused:
            self._refused = set()
            return
        is_known = self._names is not None and self._names[0] is plan.question
        names = self._names[1] if is_known and self._names is not None else self._names_at(plan.question)
        before, self._refused = self._refused, set()
        for one in refused:
            what = type(one.decision).__name__.lower()
            job = _job(one, plan.question)
            nodes = [names[number] for number in _machines(one.decision) if number in names]
            node = nodes[0] if nodes else None
            line = what, job, node, one.reason
            self._refused.add(line)
            if line not in before:
                self._state.log(
                    "instruction-refused",
                    "policy",
                    job,
                    node,
                    planner=self._state.ledger.policy,
                    instruction=what,
                    problem=f"{what}: {one.reason}",
                    from_at=asked_s + self._state.ledger.epoch_at,
                )

    def _refuse_all(self, question: Question, text: str) -> None:
        policy, from_at = self._state.ledger.policy, question.snapshot.now_s + self._state.ledger.epoch_at
        takes_turns = self._engine.selection_period_s is not None
        who = f"{policy}, member {question.member}" if takes_turns else policy
        problem = f"planner {who}: {text}; the last plan stays in force"
        if (question.member, text) == self._problem:
            return
        self._problem = question.member, text
        self._state.log("not-planned", "policy", planner=policy, problem=problem, from_at=from_at)


def _job(refused: planning.Refusal, question: Question) -> int | None:
    """The number of the job that a decision is about; null: the question had none such."""
    slot = -1 if isinstance(refused.decision, planning.Rent | planning.Release) else refused.decision.job
    return question.jobs[slot] if any(job.job == slot for job in question.snapshot.jobs) else None


def _machines(decision: planning.Decision) -> list[int]:
    match decision:
        case planning.Release(machine):
            return [machine]
        case planning.Rent():
            return []
        case _:
            return [place.machine for place in getattr(decision, "places", ())]
