"""The one driver of the pool engine: for the twin, for the service, and for copies that are played forward.

As `twin.nodes.driver`: what happens stands in the trace's arrivals and in the state's timers, and the compiled loop
stops where Python has to answer. A live job is submitted step by step (`take_in`, `queue_up`, `ask`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from betimes.cluster.resources import Amounts
from betimes.core.pool.columns import GROWTH, PoolRules, State, clear, is_room_for, room_to_play, with_nodes
from betimes.core.status import DONE, FORESEEN, NEED_SLOTS, PAUSED, REFUSED, STUCK
from betimes.errors import BetimesError
from betimes.kernels import FloatTable, Ints, as_array
from betimes.policies.hooks import Prepared
from betimes.policies.violations import violation
from betimes.twin.pool import entries
from betimes.twin.pool.event_loop import Trace
from betimes.twin.pool.trace_loop import new_outcomes, run_rows

MOST_EVENTS = 10_000_000  # of a play-out
ENDS = (DONE, PAUSED, STUCK)
Answers = Mapping[int, Callable[["Driver"], object]]
"""By status of the loop: the answer to it, after which the loop goes on."""


class Machines(Protocol):
    """Machines that come and go while a driver goes on (`rented`)."""

    @property
    def next_s(self) -> float:
        """When something is due next, s; infinity: never."""
        ...

    def change(self, driver: Driver) -> None:
        """Do what is due at the driver's instant; the policy may have to be asked then (`Pool.pending`)."""
        ...

    def copy(self) -> Machines:
        """The same, to be played forward."""
        ...


@dataclass(eq=False)
class Driver:
    """A pool under a policy.

    row: (1,) the next row of the trace to submit. policy: its name. name_of: the job in a slot, for messages. answers:
    to the statuses that are asked here; columns grow in any case. is_copy: the state is played forward. machines: that
    come and go; null: none do. unused_nodes: numbers of nodes that are gone.
    """

    state: State
    rules: PoolRules
    trace: Trace
    row: Ints
    policy: str
    name_of: Callable[[int], object]
    answers: Answers = field(default_factory=dict[int, Callable[["Driver"], object]])
    is_copy: bool = False
    machines: Machines | None = None
    unused_nodes: list[int] = field(default_factory=list[int])
    spare: State | None = None  # of a copy that is done with, for the next one

    def advance(self, until_s: float) -> NDArray[Any]:
        """Let everything but submissions happen up to `until_s`, as far as the budget of events goes.

        The policy decides first, if it is still to be asked. Returns the instructions since the last call
        (`core.pool.grant_log`), to be read before the next; none without room for a log. Raises PolicyViolation for a
        decision that is refused.
        """
        machines, read = self.machines, list[NDArray[Any]]()
        while machines is not None and (at_s := machines.next_s) <= until_s and at_s < math.inf:
            if self._advance(at_s) == PAUSED:
                until_s = at_s
                break
            read.append(self._read_log().copy())
            self.state.pool[0].now = at_s
            machines.change(self)
        self._advance(until_s)
        lines = self._read_log()
        return np.concatenate([*read, lines]) if read else lines

    def _read_log(self) -> NDArray[Any]:
        """The lines of the log, which is empty then; to be read before more happens."""
        pool = self.state.pool[0]
        lines = as_array(self.state.log)[: pool.logged]
        pool.logged = 0
        return lines

    def _advance(self, until_s: float) -> int:
        """The loop up to an instant, while no machine comes or goes; returns its last status."""
        while (status := entries.advance(self.state, self.rules, self.trace, until_s, -1)) not in ENDS:
            self.heed(status)
        return status

    def resize(self, units: int, prepare: Callable[[int, FloatTable], Prepared]) -> bool:
        """The pool has so many units from now on; the policy is to be asked.

        prepare: the inputs of its hooks for a pool of so many. False: the policy makes other classes of such a pool.
        """
        state = self.state
        entries.settle_instant(state)
        if units == state.pool[0].units:
            return True
        prepared = prepare(units, state.speedup)
        if prepared.groups != len(state.groups):
            return False
        state = with_nodes(state, np.zeros((0, 3), dtype=np.int64), max(units, int(state.pool[0].used)))
        self.state = state.replaced(params=prepared.params, table=prepared.table)
        entries.change_units(self.state, float(units))
        self.heed(entries.rank_anew(self.state, self.rules, self.trace))
        return True

    def make_room(self, nodes: int) -> None:
        """Let the columns hold so many more nodes, which are added next."""
        first, lacking = len(self.state.nodes), nodes - len(self.unused_nodes)
        if lacking > 0:
            self.state = with_nodes(self.state, np.zeros((lacking, 3), dtype=np.int64), 0)
            self.unused_nodes[:0] = range(first + lacking - 1, first - 1, -1)

    def take_node(self) -> int:
        """The number of a node without capacity, to be used for another one."""
        self.make_room(1)
        number = self.unused_nodes.pop()
        self.state.nodes[number].up = 0
        return number

    def equip(self, number: int, capacity: Amounts) -> None:
        """A node is up with this capacity: thousandths of a GPU and of a core, MiB."""
        node = self.state.nodes[number]
        node.gpu, node.cpu, node.memory = node.free_gpu, node.free_cpu, node.free_memory = capacity
        node.up = 1

    def clear_node(self, number: int) -> None:
        """A node on which no job holds units is gone."""
        entries.settle_instant(self.state)  # nothing goes back to its earlier place
        node = self.state.nodes[number]
        node.gpu = node.cpu = node.memory = node.free_gpu = node.free_cpu = node.free_memory = node.up = 0

    def step(self, stop: int) -> int:
        """Submit the jobs up to row `stop`, as far as the loop goes; returns its status."""
        return run_rows(self.state, self.rules, self.trace, self.row, stop)

    def take_in(self, row: int) -> int:
        """Give the job of a row a slot at its time, with everything but a place in the queue; returns the slot."""
        if self.state.pool[0].free == 0:
            self.heed(NEED_SLOTS)
        self.state.pool[0].now = self.trace.arrivals[row].submit_s
        return entries.take_slot(self.state, self.rules, self.trace, row)

    def queue_up(self, slot: int) -> None:
        """Put a job that was taken in into its place in the queue; raises PolicyViolation."""
        self.heed(entries.queue_up(self.state, self.rules, self.trace, slot))

    def ask(self) -> NDArray[Any]:
        """Let the policy decide now; returns the instructions, as `advance`."""
        self.state.pool[0].pending = 1
        return self.advance(-math.inf)

    def heed(self, status: int) -> None:
        """Answer a status of the loop, or raise what it could not go on for."""
        if status in self.answers:
            self.answers[status](self)
        elif status in GROWTH:
            self.state = GROWTH[status](self.state)
            self.trace = _with_room(self.trace, len(self.state.free))
        elif status >= REFUSED:
            pool, ahead = self.state.pool[0], status >= FORESEEN
            reason = status - (FORESEEN if ahead else REFUSED)
            job = self.name_of(int(pool.offender)) if pool.offender >= 0 else None
            raise violation(self.policy, reason, job, float(pool.now), ahead or self.is_copy)
        elif status not in ENDS:
            raise BetimesError(f"internal: the event loop returned {status}")

    def copy(self, rows: int, *, believing: bool = True) -> Driver:
        """A copy to be played forward with room for the outcomes of so many rows; believing: all beliefs are true."""
        state, self.spare = self.spare, None
        if state is not None and is_room_for(self.state, state):
            clear(state)  # making room takes longer than filling it
        else:
            state = room_to_play(self.state)
        if believing:
            entries.copy_beliefs(self.state, state)
        else:
            entries.copy_into(self.state, state, False)
        state.pool[0].budget = MOST_EVENTS
        trace = _with_room(self.trace, len(state.free)).replaced(outcome=new_outcomes(rows))
        machines = None if self.machines is None else self.machines.copy()
        return Driver(
            *(state, self.rules, trace, self.row, self.policy, self.name_of),
            is_copy=True,
            machines=machines,
            unused_nodes=list(self.unused_nodes),
        )


def _with_room(trace: Trace, slots: int) -> Trace:
    return trace.replaced(keys=np.zeros(slots), asked=np.zeros(slots, dtype=np.int64))
