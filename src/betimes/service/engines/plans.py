"""What a planner is asked, and its answer, which may be carried out at the same instant or in a later turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from betimes.core.instruction import Instruction
from betimes.core.nodes.planning import instructions
from betimes.core.planning import Decision, Planner, Refusal, Snapshot
from betimes.kernels import Records


@dataclass(frozen=True, eq=False)
class Question:
    """The state at an instant, for a planner: nothing in it changes, so that it can be read in any thread.

    member: which policy is asked, where several take turns. seqs: the order of submission of the jobs, and jobs: their
    numbers, both by what the snapshot calls them.
    events: of the engine until then.
    """

    member: str
    snapshot: Snapshot
    seqs: dict[int, int]
    jobs: Sequence[int]
    events: int


@dataclass(frozen=True)
class Plan:
    """What a planner has decided. error: why it has decided nothing.

    planner: as it has become by answering. batch, of: the instructions, and the decision that each belongs to.
    """

    question: Question
    planner: Planner
    decisions: Sequence[Decision] = ()
    batch: Records[Instruction] | None = None
    of: Sequence[int] = ()
    error: Exception | None = None

    @property
    def problem(self) -> str | None:
        """What was raised, in a line; null: nothing."""
        return None if self.error is None else f"{type(self.error).__name__}: {self.error}"


@dataclass(frozen=True)
class Refused:
    """What of an answer could not be carried out; problem: none of it, and why."""

    question: Question
    decisions: Sequence[Refusal] = ()
    problem: str | None = None


def answer(planner: Planner, question: Question) -> Plan:
    """Ask a planner. It may be a user's code: whatever it raises is the plan's problem."""
    try:
        decisions = tuple(planner.plan(question.snapshot))
        for one in decisions:
            if not isinstance(one, Decision):
                raise TypeError(f"{one!r} is no decision; `plan` returns those of betimes.core.planning")
        batch, of = instructions(decisions, question.snapshot, question.seqs)
    except Exception as error:
        return Plan(question, planner, error=error)
    return Plan(question, planner, decisions, batch, of)
