"""The one driver of the nodes engine: for the twin, for the service, and for copies that are played forward.

What happened goes in, what is to be done comes out. Inputs are the arrivals of a trace, the state's timers, and reports
about jobs (`lose`, `unbind`, `entries`); instructions are the lines of the state's log. The compiled loop stops where
Python has to answer: a column is full, a planner is due, a policy is to be selected, or a wait is to be played out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from betimes.core.instruction import Instruction
from betimes.core.nodes import instructions
from betimes.core.nodes.columns import NodesState
from betimes.core.nodes.growth import GROWTH, grown, room_to_play
from betimes.core.nodes.rules import NodesRules
from betimes.core.pool.columns import UNLIMITED
from betimes.core.status import DONE, FORESEEN, NEED_PLACEMENTS, PAUSED, REFUSED
from betimes.errors import BetimesError
from betimes.kernels import Ints, Records, as_array
from betimes.policies.violations import nodes_violation
from betimes.twin.nodes import entries
from betimes.twin.nodes.event_loop import EVERYTHING, Trace
from betimes.twin.nodes.trace_loop import run_rows

Lines = NDArray[Any]
"""Records of `core.instruction.Instruction`."""

Answers = dict[int, Callable[["Driver"], object]]
"""By status of the loop: the answer to it, after which the loop goes on."""


@dataclass(eq=False)
class Driver:
    """A cluster of nodes under a policy.

    row: (1,) the next row of the trace to submit. policy: its name. name_of: the job in a slot, for messages.
    answers: to the statuses that are asked here; columns grow in any case, unless their status has another answer.
    is_copy: the state is played forward.
    """

    state: NodesState
    rules: NodesRules
    trace: Trace
    row: Ints
    policy: str
    name_of: Callable[[int], object]
    answers: Answers = field(default_factory=dict[int, Callable[["Driver"], object]])
    is_copy: bool = False

    def advance(self, until_s: float, submitted: Trace | None = None) -> Lines:
        """Let everything happen up to `until_s`, as far as the budget of instants goes; submitted: more jobs, and when.

        Returns the instructions since the last call, to be read before the next. Raises PolicyViolation for an answer
        of the policy that cannot be used.
        """
        if submitted is not None:
            self.trace, self.row = submitted, np.zeros(1, dtype=np.int64)
        while (status := self.step(len(self.trace.arrivals), until_s)) not in (DONE, PAUSED):
            self.heed(status)
        lines = as_array(self.state.log)[: self.state.cluster[0].logged]
        self.state.cluster[0].logged = 0
        return lines

    def instant(self, until_s: float, submitted: Trace, *, looks: bool) -> Lines:
        """Let the next instant happen, by `until_s`: its instructions are to be carried out before time goes on.

        looks: the instant is the present one, and the policy looks at all jobs anew.
        """
        self.state.pool[0].budget = 0 if looks else 1
        if looks:
            self.look()
        return self.advance(until_s, submitted)

    def look(self) -> None:
        """The policy looks at all jobs at the present instant, when time goes on."""
        self.state.cluster[0].pending = EVERYTHING

    def wait(self, slot: int) -> None:
        """A job on no node waits from now on."""
        self.heed(entries.wait(self.state, self.rules, slot))

    def unbind(self, slot: int) -> None:
        """A job gives up what it is bound to: it waits again, or stays where it is."""
        entries.unbind(self.state, slot)
        if self.state.needs[slot].holder < 0:
            self.wait(slot)

    def lose(self, slot: int, cause: int) -> None:
        """A job has lost its nodes, or those that it was bound to, and waits; what was decided about it is void.

        cause: of the loss of machines rented for it alone, whose work is lost, too.
        """
        need = self.state.needs[slot]
        if need.bound >= 0:
            entries.unbind(self.state, slot)
        if need.rented > 0:
            entries.stop_alone(self.state, slot, cause)
        elif need.holder >= 0:
            entries.lose(self.state, slot)
        self.wait(slot)
        lines = as_array(self.state.log)[: self.state.cluster[0].logged]
        others = lines[lines["job"] != slot]  # one that was owed only this job's nodes may have begun
        as_array(self.state.log)[: len(others)] = others
        self.state.cluster[0].logged = len(others)

    def plan(self, places: Sequence[tuple[int, int]]) -> int:
        """Write places, each a node and tasks there, where the core takes them from (`hold`); returns their number."""
        while self.state.cluster[0].unused < len(places) + len(self.state.nodes):
            self.heed(NEED_PLACEMENTS)
        for at, (node, tasks) in enumerate(reversed(places)):  # lists of placements are read from their end
            self.state.plan[at].node, self.state.plan[at].tasks = node, tasks
        return len(places)

    def step(self, stop: int, until_s: float = math.inf) -> int:
        """Submit the jobs up to row `stop`, as far as the loop goes; returns its status."""
        return run_rows(self.state, self.rules, self.trace, self.row, stop, until_s)

    def carry_out(self, batch: Records[Instruction]) -> None:
        """Carry out a planner's instructions as far as they still can be; each gets its verdict."""
        at = np.zeros(1, dtype=np.int64)
        while (status := instructions.carry_out(self.state, batch, at)) != DONE:
            self.heed(status)

    def heed(self, status: int) -> None:
        """Answer a status of the loop, or raise what it could not go on for."""
        if status in self.answers:
            self.answers[status](self)
        elif status in GROWTH:
            self.state = grown(self.state, status)
        elif status > REFUSED:
            pool = self.state.pool[0]
            ahead = status > FORESEEN
            reason = status - (FORESEEN if ahead else REFUSED)
            job = self.name_of(int(pool.offender))
            raise nodes_violation(self.policy, reason, job, float(pool.now), ahead or self.is_copy)
        elif status not in (DONE, PAUSED):
            raise BetimesError(f"internal: the event loop returned {status}")

    def copy(self, trace: Trace, row: Ints, answers: Answers, *, believing: bool = True) -> Driver:
        """A copy to be played forward, in which no policy is selected; with `believing`, all beliefs are true there."""
        state = room_to_play(self.state)
        entries.copy_into(self.state, state, believing)
        state.pool[0].budget, state.cluster[0].select_s = UNLIMITED, math.inf
        return Driver(state, self.rules, trace, row, self.policy, self.name_of, answers, is_copy=True)
