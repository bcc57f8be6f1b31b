"""The rounds of a planner about a driver, in the twin, in the service, and on copies that are played forward.

A round is an instant at a multiple of the planner's period. In it the planner is asked a question, a snapshot of the
state; its plan is carried out at once, or later as far as that is still possible.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from betimes.core.instruction import Instruction
from betimes.core.nodes.columns import NodesState
from betimes.core.nodes.instructions import carry_out
from betimes.core.nodes.planning import (
    in_users_order,
    instructions,
    paid_until,
    refusals,
    see,
    snapshot_of,
)
from betimes.core.nodes.timers import ROUND, set_policy_timer
from betimes.core.planning import Decision, Planner, Refusal, Snapshot
from betimes.errors import PolicyViolation
from betimes.kernels import Records, as_array, entry
from betimes.twin.nodes.driver import Driver
from betimes.twin.nodes.event_loop import Trace

ask_at = entry(set_policy_timer, NodesState, float, int)

ENTRIES = (carry_out, paid_until, see, in_users_order, ask_at)
"""The entries that rounds need compiled, beside the loop."""


def ask_from(state: NodesState, period_s: float, at_s: float, *, later: bool = False) -> float:
    """Ask the planner at the first multiple of its period that is no earlier, or that is later; returns when."""
    number = math.floor(at_s / period_s)
    while number * period_s < at_s or (later and number * period_s == at_s):
        number += 1
    ask_at(state, number * period_s, ROUND)
    return number * period_s


@dataclass(frozen=True, eq=False)
class Question:
    """The state at an instant, for a planner: nothing in it changes, so that any thread can read it.

    member: the policy asked, where several take turns. jobs: their numbers, by the snapshot's names. events: of the
    engine until then.
    """

    member: str
    snapshot: Snapshot
    jobs: Sequence[int]
    events: int


@dataclass(frozen=True)
class Plan:
    """A planner's decisions. error: why there are none.

    planner: in its state after the answer. batch, of: the instructions, and the decision that each belongs to.
    """

    question: Question
    planner: Planner
    decisions: Sequence[Decision] = ()
    batch: Records[Instruction] | None = None
    of: Sequence[int] = ()
    error: Exception | None = None

    @property
    def problem(self) -> str | None:
        """The error, in a line; null: none."""
        if self.error is None or isinstance(self.error, PolicyViolation):
            return None if self.error is None else str(self.error)
        return f"{type(self.error).__name__}: {self.error}"

    @property
    def refused(self) -> list[Refusal]:
        """The decisions that were refused when the plan was carried out."""
        if self.batch is None:
            return []
        return refusals(self.decisions, self.batch, self.of, self.question.snapshot)


def answer(planner: Planner, question: Question) -> Plan:
    """Ask a planner. It may be a user's code: its errors are the plan's problem."""
    try:
        decisions = tuple(planner.plan(question.snapshot))
        for one in decisions:
            if not isinstance(cast("object", one), Decision):
                raise TypeError(f"{one!r} is no decision; `plan` returns those of betimes.core.planning")
        batch, of = instructions(decisions, question.snapshot)
    except Exception as error:
        return Plan(question, planner, error=error)
    return Plan(question, planner, decisions, batch, of)


class PlannerRounds:
    """Asks a planner for as long as there is anything left to decide.

    policy: its name, and member: that of the one of several that take turns. kinds, seqs: the kind and the order of
    submission of the job in each row, and jobs: their numbers, for questions. show: makes of a snapshot what the
    planner sees.
    ended: jobs that the planner has not been shown yet, by order of submission, and when they ended. events: of the
    engine, when the planner was asked last; -1: it is asked in any case. next_s: when it is asked next; infinity: once
    a job comes. hides_until_s: until then the planner is shown less than there is, and is asked again after that.
    """

    def __init__(
        self,
        planner: Planner,
        policy: str,
        kinds: Sequence[str],
        seqs: Sequence[int] = (),
        jobs: Sequence[int] = (),
        member: str = "",
        show: Callable[[Snapshot], Snapshot] | None = None,
    ) -> None:
        self.planner, self.policy, self.member = planner, policy, member
        self.kinds, self.seqs, self.jobs, self.show = kinds, seqs, jobs, show
        self.ended = list[tuple[int, float]]()
        self.events = -1
        self.next_s, self.hides_until_s = math.inf, -math.inf
        self._heard = 0  # outcomes of the trace that are among the ended jobs
        self._has_failed = False

    def copied(self) -> PlannerRounds:
        """The same for a copy of the state, with a copy of the planner and a trace without outcomes."""
        found = copy.copy(self)
        found.planner, found.ended = copy.deepcopy(self.planner), list(self.ended)
        found._heard, found._has_failed = 0, False
        return found

    def hold(self, driver: Driver) -> Plan | None:
        """Let the planner decide, carry that out, and set the timer of the next round; returns the plan, if any.

        A planner that fails on a copy is not asked again there: earlier decisions hold. Nor is one that knows all that
        will happen there.
        """
        plan, is_news = None, int(driver.state.pool[0].events) != self.events
        if self.is_due(driver.state):
            plan = answer(self.planner, self.question(driver))
            self.carry_out(driver, plan)
        self.set_next(driver, is_news=is_news)
        return plan

    def is_due(self, state: NodesState) -> bool:
        """Whether the planner is asked in a round now."""
        return self.planner.every_round or int(state.pool[0].events) != self.events

    def question(self, driver: Driver) -> Question:
        """The question to the planner now. It is shown each ended job once.

        Jobs that end at this very instant come in the next round.
        """
        state = driver.state
        now_s, self.events = float(state.pool[0].now), int(state.pool[0].events)
        self.hear_of(driver.trace)
        shown = [one for one in self.ended if one[1] < now_s]
        self.ended = [one for one in self.ended if one[1] >= now_s]
        snapshot = snapshot_of(state, self.kinds, shown)
        return Question(
            self.member,
            snapshot if self.show is None else self.show(snapshot),
            tuple(self.jobs),
            self.events,
        )

    def hear_of(self, trace: Trace) -> None:
        """Jobs have ended in a simulation."""
        ended = as_array(trace.outcomes)[self._heard : trace.finished[0]]
        self._heard = int(trace.finished[0])
        for row, at_s in zip(ended["row"].tolist(), ended["finish_s"].tolist(), strict=True):
            self.ended.append((self.seqs[int(row)], at_s))

    def carry_out(self, driver: Driver, plan: Plan) -> None:
        """Carry out a plan as far as still possible. The rest is refused, and the planner is asked again."""
        if plan.batch is None:
            self._has_failed = True
            self.give_up(plan.question)
            return
        self.planner = plan.planner
        before = int(driver.state.pool[0].events)
        driver.carry_out(plan.batch)
        pool = driver.state.pool[0]
        is_news = self.events != plan.question.events  # something was learned meanwhile
        again = is_news or self.hides_until_s >= float(pool.now) or plan.refused
        self.events = -1 if again else plan.question.events + int(pool.events) - before

    def give_up(self, question: Question) -> None:
        """Drop a question without an answer: the next round asks anew, and shows its ended jobs again."""
        self.ended = [*question.snapshot.finished, *self.ended]
        self.events = -1

    def violation(self, plan: Plan) -> PolicyViolation:
        """The error of a plan whose planner has failed."""
        return PolicyViolation(f"policy {self.policy} at {plan.question.snapshot.now_s:g} s: {plan.problem}")

    def set_next(self, driver: Driver, *, is_news: bool = True) -> None:
        """Set the timer of the next round: while there are jobs or rented machines, else for the next job to come.

        is_news: something had happened before this round.
        """
        state, trace, row = driver.state, driver.trace, int(driver.row[0])
        self.next_s = math.inf
        may_change = (
            is_news or state.cluster[0].timers > 0 or row < len(trace.arrivals) or state.cluster[0].rented > 0
        )
        if driver.is_copy and (self._has_failed or not may_change):
            return
        if state.pool[0].active > 0 or state.cluster[0].rented > 0:
            self.next_s = ask_from(state, self.planner.period_s, float(state.pool[0].now), later=True)
        elif row < len(trace.arrivals):
            self.next_s = self.first_from(driver, float(trace.arrivals[row].submit_s))

    def first_from(self, driver: Driver, at_s: float) -> float:
        """Ask about the first job, which comes at an instant: then, or at the first multiple; returns when."""
        if driver.rules.fills:
            ask_at(driver.state, at_s, ROUND)
            return at_s
        return ask_from(driver.state, self.planner.period_s, at_s)
