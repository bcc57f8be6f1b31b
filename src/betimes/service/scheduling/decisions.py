"""Turns the policy's decisions, a portfolio's selections and a planner's answers into events and effects.

Selections and answers are made outside, in a thread, while the last decision holds. One that comes too late, or for a
policy or an engine that is no longer in force, is refused; so is each instruction that is out of date. Each choice and
each refusal is an event.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from betimes.cluster.billing import Prices, lease_usd
from betimes.core import planning
from betimes.service.engines.messages import (
    Bind,
    Decisions,
    Grant,
    Migrate,
    Move,
    Outrun,
    Preempt,
    Rent,
    Reserve,
    StopSpeculating,
)
from betimes.service.engines.plans import ExpectedSaving, Plan, Question, Refused
from betimes.service.engines.selection import MemberRules
from betimes.service.scheduling.effects import AskPlanner, SelectMember
from betimes.service.scheduling.job import Job, MoveRecord
from betimes.service.scheduling.ledger import PolicyRecord
from betimes.service.scheduling.nodes import JobRentals, MachineRentals
from betimes.service.scheduling.policy_engine import PolicyEngine
from betimes.service.scheduling.reasons import WaitReasons
from betimes.service.scheduling.runs import Runs
from betimes.service.scheduling.state import SchedulerState


class DecisionApplier:
    """From moves of the engine to events and effects.

    idle: why the last decision did nothing; null: it did something.
    """

    def __init__(
        self,
        state: SchedulerState,
        engine: PolicyEngine,
        runs: Runs,
        rentals: JobRentals,
        machines: MachineRentals,
    ) -> None:
        self._state, self._engine, self._runs = state, engine, runs
        self._rentals, self._machines = rentals, machines
        self.idle: dict[str, Any] | None = None

    def apply(self, rounds: Iterable[Decisions]) -> None:
        """Log the policy's decisions, and preempt runs."""
        for one in rounds:
            by = takers(one.moves)
            for move in one.moves:
                if move.job not in self._engine.withdrawn:
                    self._apply(move, by.get(move.job, ()))
            for move in one.machines:
                self._machines.apply(move)

    def explain_idle(self, rounds: Sequence[Decisions]) -> None:
        """Log the reason of a decision that moved nothing, if it differs from the last one."""
        if not rounds:
            return  # the policy was not asked
        if any(one.machines or any(not isinstance(move, Outrun) for move in one.moves) for one in rounds):
            self.idle = None
            return
        self.idle = WaitReasons(self._state, self._engine, None).idle()
        if _answer(self.idle) != _answer(self._state.ledger.idle):
            self._state.log("idle", "policy", reason=self.idle)

    def _apply(self, move: Move, by: Sequence[int]) -> None:
        log, number = self._state.log, move.job
        job = self._state.ledger.jobs[number]
        if isinstance(move, Outrun):
            account = self._engine.account_row(number)
            basis = "limit" if account["size_s"] < move.size_s else "doubled"
            log("estimate-changed", "timer", number, account=account, basis=basis, outran=True)
        elif isinstance(move, Preempt):
            room_for = move.makes_room_for
            makes_room = {} if room_for is None else {"makes_room_for": room_for}
            grace_s = move.leave_by_s - self._state.now_s
            by_at = move.leave_by_s + self._state.ledger.epoch_at
            self._runs.preempt_until(job, grace_s, by_at, [] if room_for is None else [room_for], makes_room)
        elif isinstance(move, Migrate):
            places = self._engine.places_of(move.places)
            more: dict[str, Any] = (
                {} if move.expected is None else {"move": _record(move.expected, self._state.now_at)}
            )
            log(
                "migrating",
                "policy",
                number,
                before=job.places,
                places=places,
                keeps_running=move.keep,
                **more,
            )
        elif isinstance(move, Rent):
            self._rentals.rent(job, move)
        elif isinstance(move, StopSpeculating):
            self._rentals.stop_speculating(job)
        elif isinstance(move, Bind):
            places = self._engine.places_of(move.places)
            log("nominated", "policy", number, places=places, owed=[list(one) for one in move.owed])
        elif isinstance(move, Reserve):
            if move.start_s < math.inf:
                places = self._engine.places_of(move.places)
                log("reserved", "policy", number, places=places, start_s=move.start_s)
            elif job.binding is not None:
                log("unbound", "policy", number)
        else:
            self._grant(job, move, by)

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
        if move.units == 0:
            self._runs.preempt(job, by)


def _record(expected: ExpectedSaving, now_at: float) -> dict[str, Any]:
    """The expected saving of a move just decided."""
    usd_per_h = expected.before_usd_per_h, expected.after_usd_per_h
    return asdict(MoveRecord(now_at, *usd_per_h, expected.cost_usd))


def _answer(reason: dict[str, Any] | None) -> tuple[str, int | None] | None:
    """The key by which reasons for doing nothing differ: code and job."""
    return (reason["code"], reason["evidence"].get("job")) if reason is not None else None


def takers(moves: Iterable[Move]) -> dict[int, list[int]]:
    """For each job that gives up units of a pool, the jobs that take them.

    Units are alike: units given up and units taken in a round are matched in order.
    """
    changes = [(move.job, move.units - move.before) for move in moves if isinstance(move, Grant)]
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
    data: dict[str, Any] = field(
        default_factory=dict[str, Any]
    )  # the event's data; jobs: since when each waits


class MemberSelection:
    """Asks for selections of the portfolio in force, one at a time, and puts what they choose in force."""

    def __init__(self, state: SchedulerState, engine: PolicyEngine) -> None:
        self._state, self._engine = state, engine
        self._pending_since_s: float | None = None
        self._is_late = False

    @property
    def member(self) -> str | None:
        """The member that decides; null: none has been chosen yet, and the first does."""
        return self._state.ledger.member

    def ask(self) -> None:
        """Ask for a selection if one is due and the one before is finished."""
        snapshot, policy = self._engine.take_selection(), self._state.ledger.policy
        if snapshot is None:
            return
        if self._pending_since_s is None:
            self._pending_since_s, self._is_late = snapshot.at_s, False
            epoch_at = self._state.ledger.epoch_at
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


class PlannerAnswers:
    """Has the planner in force asked, one question at a time, and hands its answers to the engine."""

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

    def ask(self) -> None:
        """Once the engine has decided: have the planner asked if that is due, and log what was refused."""
        rounds = self._engine.rounds
        if rounds is None:
            return
        for one in rounds.take_refused():
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

    def _log(self, refused: Refused) -> None:
        asked_s = refused.question.snapshot.now_s
        if refused.problem is not None:
            self._refuse_all(refused.question, f"it has failed: {refused.problem}")
            return
        self._problem = "", ""
        if not refused.decisions:
            self._refused = set()
            return
        is_known = self._names is not None and self._names[0] is refused.question
        names = self._names[1] if is_known and self._names is not None else self._names_at(refused.question)
        before, self._refused = self._refused, set()
        for one in refused.decisions:
            what = type(one.decision).__name__.lower()
            job = (
                None
                if isinstance(one.decision, planning.Rent | planning.Release)
                else _job(one, refused.question)
            )
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
    return question.jobs[slot] if slot in question.seqs else None


def _machines(decision: planning.Decision) -> list[int]:
    match decision:
        case planning.Release(machine):
            return [machine]
        case planning.Rent():
            return []
        case _:
            return [place.machine for place in getattr(decision, "places", ())]
