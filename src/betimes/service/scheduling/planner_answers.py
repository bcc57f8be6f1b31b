"""A planner's answers: it is asked when that is due, and each refusal is an event.

A planner works outside, in a thread, while the last plan holds. An answer that comes too late, or for a policy or an
engine that is no longer in force, is refused; so is each instruction that is out of date.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from betimes.core import planning
from betimes.service.engines.plans import ExpectedSaving, Reconfiguration
from betimes.service.scheduling.effects import AskPlanner
from betimes.service.scheduling.job import MoveRecord
from betimes.service.scheduling.part import Part
from betimes.service.scheduling.policy_engine import PolicyEngine
from betimes.service.scheduling.state import SchedulerState
from betimes.twin.nodes.planner_rounds import Plan, Question


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
                move=move_data(found.whole, self._state.now_at),
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


def move_data(expected: ExpectedSaving, now_at: float) -> dict[str, Any]:
    """The expected saving of a move just decided."""
    usd_per_h = expected.before_usd_per_h, expected.after_usd_per_h
    return asdict(MoveRecord(now_at, *usd_per_h, expected.cost_usd))


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
