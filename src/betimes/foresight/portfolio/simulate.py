"""A policy simulated on the jobs that wait: a copy of the cluster is played forward until they have finished.

Nothing more is submitted, what the scheduler believes about sizes is true, and nothing that is drawn by lot is
known: machines boot in the usual time, none fails, none is taken away (spec/portfolio.md C.5).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from betimes.core.nodes.columns import (
    Lease,
    NodesState,
    Terms,
    room_to_play,
    with_more_nodes,
    with_more_placements,
)
from betimes.core.nodes.machines import RUNNING
from betimes.core.nodes.queue import all_waiting
from betimes.core.nodes.rules import NodesRules
from betimes.core.nodes.schedule import change_rules
from betimes.core.nodes.snapshot import copy_into
from betimes.core.nodes.timers import NOTICED, set_machine_timer
from betimes.core.status import DONE, NEED_NODES, NEED_PLACEMENTS, NEED_SEGMENTS, PAUSED, REFUSED
from betimes.core.work import believed_left
from betimes.errors import BetimesError
from betimes.foresight.portfolio.utility import bounded_slowdown, charged_s
from betimes.kernels import Floats, Ints, Records, blank, entry, kernel
from betimes.twin.nodes.event_loop import Outcome, Trace, advance
from betimes.twin.nodes.simulation import NodesSimulation

MOST_INSTANTS = 1_000_000
"""Of one simulation; a policy that needs more fails."""


class Played:
    """What came of the jobs that waited."""

    finished: int
    slowdown: float  # bounded, summed over them
    machine_s: float  # paid for on rented machines, as if all of them were rented at the snapshot
    bought_s: float  # paid for beyond what had been paid by then
    left_s: float  # of what is paid for, what is still to come at the end


@dataclass(frozen=True)
class Foreseen:
    """What a policy would do for the jobs that wait.

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


class Lookahead:
    """Simulations of several policies from one state of a run, which they leave as it is.

    `look` takes the snapshot, `play` simulates one policy from it.
    """

    def __init__(self, run: NodesSimulation) -> None:
        self._run = run
        self._aside = run.trace.replaced(
            outcomes=blank(Outcome, len(run.jobs)), finished=np.zeros(1, dtype=np.int64)
        )
        self._no_more: Ints = np.array([len(run.jobs)], dtype=np.int64)
        self._run_s: Floats = np.full(len(run.jobs), np.nan)
        self._played = blank(Played, 1)
        self._machines = self._placements = 0  # as many as any simulation needed
        self._source: NodesState | None = None

    def look(self) -> float:
        """Take a snapshot of the run between two instants, or before a pass; returns the waiting jobs' time, s."""
        run = self._run
        if self._source is not run.state:  # its columns have grown
            self._source = run.state
            self._make_room(run.state)
        return take_snapshot(run.state, self._snapshot, self._run_s, run.sizes.kind != "true")

    def play(self, rules: NodesRules, params: Floats) -> Foreseen:
        """Simulate a policy from the snapshot; raises PolicyFails, and BetimesError where no job waits."""
        while True:
            self._copy.params[: len(params)] = params
            status = play_on(
                *(self._snapshot, self._copy, rules, self._aside, self._no_more, self._run_s, self._played)
            )
            if status == NEED_NODES:
                self._machines = 2 * len(self._snapshot.nodes)
            elif status == NEED_PLACEMENTS:
                self._placements = 2 * len(self._snapshot.placements)
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

    def _make_room(self, state: NodesState) -> None:
        """Let the snapshot, and a copy to play with, have room for as many machines as any simulation needed."""
        self._snapshot = room_to_play(state)
        while len(self._snapshot.nodes) < self._machines:
            self._snapshot = with_more_nodes(self._snapshot)
        while len(self._snapshot.placements) < self._placements:
            self._snapshot = with_more_placements(self._snapshot)
        room = 4 * len(self._snapshot.nodes)  # of which the loop asks for one for each rented machine
        self._copy = room_to_play(self._snapshot).replaced(
            params=state.params.copy(), leases=blank(Lease, room)
        )

    def _why(self, status: int) -> str:
        if status == PAUSED:
            return f"the jobs that wait do not finish within {MOST_INSTANTS:,} events"
        if status > REFUSED:
            row = self._copy.progress[self._copy.pool[0].offender].row
            return f"its answer about job {self._run.jobs.job_id[row]} cannot be used"
        if status == STRANDED:
            return "some of the jobs that wait never start"
        raise BetimesError(f"internal: a simulated policy returned {status}")


STRANDED = -100  # nothing more can happen, and some have not finished


@entry
@kernel
def take_snapshot(state: NodesState, snapshot: NodesState, run_s: Floats, believing: bool) -> float:
    """Copy what is known of the present; run_s[row] is the believed run time of each job that waits, else NaN.

    Returns the time that all jobs that wait need machines for, s.
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
    snapshot: NodesState,
    copy: NodesState,
    rules: NodesRules,
    aside: Trace,
    no_more: Ints,
    run_s: Floats,
    played: Records[Played],
) -> int:
    """Play a copy of the snapshot under these rules until the jobs that wait have finished.

    Returns DONE, STRANDED, PAUSED after `MOST_INSTANTS`, or what the loop cannot go on for: start again then.
    """
    copy_into(snapshot, copy, False)
    begin_s, score, cluster = snapshot.pool[0].now, played[0], copy.cluster[0]
    left = cluster.waiting
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
        status = advance(copy, rules, aside, no_more, no_more[0], math.inf)
        if status == NEED_SEGMENTS:
            _charge_leases(copy, begin_s, score)
        elif status != PAUSED and status != DONE:
            return status
        for at in range(seen, aside.finished[0]):
            outcome = aside.outcomes[at]
            if not math.isnan(run_s[outcome.row]):
                wait_s = max(0.0, outcome.start_s - aside.arrivals[outcome.row].submit_s)
                score.slowdown += bounded_slowdown(wait_s, run_s[outcome.row])
                score.finished += 1
        seen = aside.finished[0]
        if score.finished == left:
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
