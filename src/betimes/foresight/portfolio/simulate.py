"""A policy simulated on the jobs that wait: a copy of the cluster is played forward until they have finished.

Where any of the policies preempts, it is played until all jobs present have finished, for the running ones may suffer.

Nothing more is submitted, what the scheduler believes about sizes is true, and nothing that is drawn by lot is
known: machines boot in the usual time, none fails, none is taken away (spec/portfolio.md C.5).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from betimes.core.nodes.columns import (
    Lease,
    NodesState,
    Terms,
    room_to_play,
    with_more_nodes,
    with_more_placements,
    with_more_steps,
)
from betimes.core.nodes.machines import RUNNING
from betimes.core.nodes.queue import all_waiting
from betimes.core.nodes.rules import NodesRules
from betimes.core.nodes.schedule import change_rules
from betimes.core.nodes.snapshot import copy_into
from betimes.core.nodes.timers import NOTICED, set_machine_timer
from betimes.core.status import (
    DONE,
    NEED_NODES,
    NEED_PLACEMENTS,
    NEED_SEGMENTS,
    NEED_STEPS,
    PAUSED,
    REFUSED,
)
from betimes.core.work import believed_left
from betimes.errors import BetimesError
from betimes.foresight.portfolio.utility import bounded_slowdown, charged_s
from betimes.kernels import Floats, Ints, Records, as_array, blank, entry, kernel
from betimes.twin.nodes.event_loop import Outcome, Trace
from betimes.twin.nodes.trace_loop import Loop, compiled_loop

Ended = NDArray[Any]
"""Rows of `twin.nodes.event_loop.Outcome`."""

MOST_INSTANTS = 1_000_000
"""Of one simulation; a policy that needs more fails."""


class Played:
    """What came of the jobs that count."""

    finished: int
    slowdown: float  # bounded, summed over them
    machine_s: float  # paid for on rented machines, as if all of them were rented at the snapshot
    bought_s: float  # paid for beyond what had been paid by then
    left_s: float  # of what is paid for, what is still to come at the end


@dataclass(frozen=True)
class Foreseen:
    """What a policy would do for the jobs that count: those that wait, or all that are there.

    slowdown: their mean bounded slowdown. machine_s: what is paid for from now on, s, where each machine present is
    charged as if it were rented now. used_s: what is bought beyond what is already paid for, less what of that is left
    for later jobs; below 0 where more of what was paid for before is used than is bought.
    """

    jobs: int
    slowdown: float
    machine_s: float
    used_s: float


class PolicyFails(Exception):
    """A policy cannot be simulated to the end; says why, in a few words."""


class Simulated(Protocol):
    """What is looked at: a run of the twin, or a snapshot of the service."""

    @property
    def state(self) -> NodesState:
        """The cluster; `Progress.row` says which row of `trace` a job is."""
        ...

    @property
    def trace(self) -> Trace:
        """When jobs were submitted, by row."""
        ...

    @property
    def job_ids(self) -> Sequence[Any] | NDArray[Any]:
        """What jobs are called, by row."""
        ...

    @property
    def believes(self) -> bool:
        """Whether simulations go by what is believed of sizes, and not by the truth."""
        ...


class Lookahead:
    """Simulations of several policies from one state of a run, which they leave as it is.

    `look` takes the snapshot, `play` simulates one policy from it. everyone: the jobs that run count, too.
    """

    def __init__(self, run: Simulated, everyone: bool = False) -> None:
        self._run, self._everyone = run, everyone
        rows = len(run.job_ids)
        self._aside = run.trace.replaced(outcomes=blank(Outcome, rows), finished=np.zeros(1, dtype=np.int64))
        self._no_more: Ints = np.array([rows], dtype=np.int64)
        self._run_s: Floats = np.full(rows, np.nan)
        self._played = blank(Played, 1)
        self._machines = self._placements = self._steps = 0  # as many as any simulation needed
        self._count = 0
        self._source: NodesState | None = None

    def look(self) -> float:
        """Take a snapshot of the run between two instants, or before a pass; returns the time of the jobs, s."""
        run = self._run
        if self._source is not run.state:  # its columns have grown
            self._source = run.state
            self._make_room(run.state)
        job_s = take_snapshot(run.state, self._snapshot, self._run_s, run.believes, self._everyone)
        self._count = int(np.count_nonzero(~np.isnan(self._run_s)))
        return job_s

    def play(self, rules: NodesRules, params: Floats) -> Foreseen:
        """Simulate a policy from the snapshot; raises PolicyFails, and BetimesError where no job waits."""
        while True:
            self._copy.params[: len(params)] = params
            status = play_on(
                compiled_loop(),
                *(self._snapshot, self._copy, rules, self._aside, self._no_more, self._run_s, self._count),
                self._played,
            )
            if status == NEED_NODES:
                self._machines = 2 * len(self._snapshot.nodes)
            elif status == NEED_PLACEMENTS:
                self._placements = 2 * len(self._snapshot.placements)
            elif status == NEED_STEPS:
                self._steps = 2 * len(self._copy.steps)
            else:
                break
            self._make_room(self._run.state)
            self.look()
        if status != DONE:
            raise PolicyFails(self._why(status))
        played = self._played[0]
        if played.finished == 0:
            raise BetimesError(
                "portfolio: no job waits, so that no policy has a utility; select while jobs wait"
            )
        return Foreseen(
            int(played.finished),
            float(played.slowdown) / int(played.finished),
            float(played.machine_s),
            float(played.bought_s) - float(played.left_s),
        )

    def ends(self) -> tuple[Ended, Floats]:
        """What came of each job that counts in the last simulation, and its believed run time, s."""
        outcomes = as_array(self._aside.outcomes)[: int(self._aside.finished[0])]
        run_s = self._run_s[outcomes["row"]]
        counts = ~np.isnan(run_s)
        return outcomes[counts], run_s[counts]

    def _make_room(self, state: NodesState) -> None:
        """Let the snapshot, and a copy to play with, have room for as many machines as any simulation needed."""
        self._snapshot = room_to_play(state)
        while len(self._snapshot.nodes) < self._machines:
            self._snapshot = with_more_nodes(self._snapshot)
        while len(self._snapshot.placements) < self._placements:
            self._snapshot = with_more_placements(self._snapshot)
        while len(self._snapshot.steps) < self._steps:
            self._snapshot = with_more_steps(self._snapshot)
        room = 4 * len(self._snapshot.nodes)  # of which the loop asks for one for each rented machine
        self._copy = room_to_play(self._snapshot).replaced(
            params=state.params.copy(), leases=blank(Lease, room)
        )

    def _why(self, status: int) -> str:
        if status == PAUSED:
            return f"the jobs do not finish within {MOST_INSTANTS:,} events"
        if status > REFUSED:
            row = self._copy.progress[self._copy.pool[0].offender].row
            return f"its answer about job {self._run.job_ids[row]} cannot be used"
        if status == STRANDED:
            return "some of the jobs never start"
        raise BetimesError(f"internal: a simulated policy returned {status}")


STRANDED = -100  # nothing more can happen, and some have not finished


@entry
@kernel
def take_snapshot(
    state: NodesState, snapshot: NodesState, run_s: Floats, believing: bool, everyone: bool
) -> float:
    """Copy what is known of the present; run_s[row] is the believed run time of each job that waits, else NaN.

    everyone: of each job that is there. Returns the time that all of these still need machines for, s.
    """
    copy_into(state, snapshot, believing)
    _add_room(state, snapshot)
    snapshot.cluster[0].select_s = math.inf
    for offer in range(len(snapshot.offers)):
        snapshot.offers[offer].drawn = 0
        snapshot.orders[offer] = 0
    for number in range(len(snapshot.machines)):
        machine = snapshot.machines[number]
        if machine.offer >= 0:
            machine.fails = 0
            machine.age_s = math.inf
            if machine.state == RUNNING and machine.due == NOTICED:
                machine.due_s = math.inf
                set_machine_timer(snapshot, number)
    for row in range(len(run_s)):
        run_s[row] = math.nan
    job_s, now = 0.0, state.pool[0].now
    count = all_waiting(snapshot, snapshot.chosen)
    for k in range(count):
        slot = snapshot.chosen[k]
        left_s = believed_left(snapshot, slot, now)
        run_s[snapshot.progress[slot].row] = left_s
        job_s += left_s * snapshot.needs[slot].tasks
    if everyone:
        for slot in range(len(state.progress)):
            row = state.progress[slot].row
            if state.progress[slot].served_by >= 0:
                if math.isnan(run_s[row]):
                    job_s += believed_left(snapshot, slot, now) * snapshot.needs[slot].tasks
                run_s[row] = state.jobs[slot].size_s
    return job_s


@kernel
def _add_room(state: NodesState, snapshot: NodesState) -> None:
    """Put the placements that only the snapshot has on its list; it may have more machines, too, all of them unused."""
    more, cluster = len(snapshot.placements) - len(state.placements), snapshot.cluster[0]
    if more > 0:
        for at in range(len(state.placements), len(snapshot.placements)):
            snapshot.placements[at].follows = at + 1
        snapshot.placements[len(snapshot.placements) - 1].follows = cluster.unused_head
        cluster.unused_head = len(state.placements)
        cluster.unused += more
    if len(snapshot.nodes) > len(state.nodes):  # the ring of nodes that had something freed is longer
        for slot in range(len(snapshot.needs)):
            snapshot.needs[slot].freed_seen = -1


@entry
@kernel
def play_on(
    loop: Loop,
    snapshot: NodesState,
    copy: NodesState,
    rules: NodesRules,
    aside: Trace,
    no_more: Ints,
    run_s: Floats,
    count: int,
    played: Records[Played],
) -> int:
    """Play a copy of the snapshot under these rules until the `count` jobs that have a run time have finished.

    Returns DONE, STRANDED, PAUSED after `MOST_INSTANTS`, or what the loop cannot go on for: start again then.
    """
    copy_into(snapshot, copy, False)
    begin_s, score, cluster = snapshot.pool[0].now, played[0], copy.cluster[0]
    cluster.leases = 0
    aside.finished[0] = 0
    score.finished = 0
    score.slowdown = score.machine_s = score.bought_s = score.left_s = 0.0
    status = change_rules(copy, rules)
    if status != DONE:
        return status
    seen = 0
    for _ in range(MOST_INSTANTS):
        copy.pool[0].budget = 1
        status = loop.advance(copy, rules, aside, no_more, no_more[0], math.inf)
        if status == NEED_SEGMENTS:
            _charge_leases(copy, begin_s, score)
        elif status != PAUSED and status != DONE:
            return status
        for at in range(seen, aside.finished[0]):
            outcome = aside.outcomes[at]
            if not math.isnan(run_s[outcome.row]):
                began_s = outcome.start_s
                if outcome.preemptions > 0:  # what it has lost on the way it has waited for, too
                    began_s = outcome.finish_s - run_s[outcome.row]
                wait_s = max(0.0, began_s - aside.arrivals[outcome.row].submit_s)
                score.slowdown += bounded_slowdown(wait_s, run_s[outcome.row])
                score.finished += 1
        seen = aside.finished[0]
        if score.finished == count:
            _charge_leases(copy, begin_s, score)
            _charge_present(copy, begin_s, score)
            return DONE
        if status == DONE:
            return STRANDED
    return PAUSED


@kernel
def _charge_leases(copy: NodesState, begin_s: float, score: Played) -> None:
    """Add what is paid for machines that have been given back, and forget them."""
    for at in range(copy.cluster[0].leases):
        lease = copy.leases[at]
        terms = copy.offers[lease.offer]
        since_s = lease.requested_s if terms.from_request == 1 else lease.booted_s
        if since_s <= lease.ended_s:
            _charge(terms, since_s, lease.ended_s, begin_s, score)
    copy.cluster[0].leases = 0


@kernel
def _charge_present(copy: NodesState, begin_s: float, score: Played) -> None:
    """Add what is paid for machines that are still there."""
    now = copy.pool[0].now
    for number in range(len(copy.machines)):
        machine = copy.machines[number]
        if machine.offer >= 0:
            terms = copy.offers[machine.offer]
            since_s = machine.requested_s if terms.from_request == 1 else machine.booted_s
            if since_s <= now:
                paid_s = _charge(terms, since_s, now, begin_s, score)
                score.left_s += paid_s - (now - since_s)


@kernel
def _charge(terms: Terms, since_s: float, until_s: float, begin_s: float, score: Played) -> float:
    """Add what is paid for one machine from `begin_s` on; returns what is paid for it in all."""
    paid_s = charged_s(until_s - since_s, terms.min_bill_s, terms.bill_step_s)
    score.bought_s += paid_s
    if since_s >= begin_s:
        score.machine_s += paid_s
    else:
        score.machine_s += charged_s(until_s - begin_s, terms.min_bill_s, terms.bill_step_s)
        score.bought_s -= charged_s(begin_s - since_s, terms.min_bill_s, terms.bill_step_s)
    return paid_s
