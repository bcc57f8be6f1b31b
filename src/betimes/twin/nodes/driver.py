"""The one driver of the nodes engine: for the twin, for the service, and for copies that are played forward.

What happens stands in the trace's arrivals and in the state's timers. The compiled loop stops where Python has to
answer: when a column is full, a planner is due, a policy is to be selected, or a wait is to be played out.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from betimes.core.instruction import Instruction
from betimes.core.nodes import instructions
from betimes.core.nodes.columns import NodesState
from betimes.core.nodes.growth import GROWTH, grown, room_to_play
from betimes.core.nodes.rules import NodesRules
from betimes.core.pool.columns import UNLIMITED
from betimes.core.status import DONE, FORESEEN, PAUSED, REFUSED
from betimes.errors import BetimesError
from betimes.kernels import Ints, Records
from betimes.policies.violations import nodes_violation
from betimes.twin.nodes import entries
from betimes.twin.nodes.event_loop import Trace
from betimes.twin.nodes.trace_loop import run_rows

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

    def advance(self, until_s: float) -> int:
        """Let everything happen up to `until_s`; returns DONE, or PAUSED once the budget of instants is used up.

        Raises PolicyViolation for an answer of the policy that cannot be used.
        """
        while True:
            status = self.step(len(self.trace.arrivals), until_s)
            if status in (DONE, PAUSED):
                return status
            self.heed(status)

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

    def copy(self, trace: Trace, row: Ints, answers: Answers) -> Driver:
        """A copy to be played forward, in which all beliefs are true and no policy is selected."""
        state = room_to_play(self.state)
        entries.copy_into(self.state, state, True)
        state.pool[0].budget, state.cluster[0].select_s = UNLIMITED, math.inf
        return Driver(state, self.rules, trace, row, self.policy, self.name_of, answers, is_copy=True)
