"""Simulation of a policy on the waiting jobs: a copy of the cluster is played forward until they have finished.

If any of the policies preempts, the copy is played until all jobs present have finished, as running ones may suffer.

Only the jobs of a scenario (`arrivals`) are submitted, the scheduler's beliefs about sizes are true, and random draws
are unknown: machines boot in the usual time, none fails, none is taken away (spec/portfolio.md C.5).
"""

from __future__ import annotations

import math

from betimes.core.nodes.columns import NodesState, Terms, view_of
from betimes.core.nodes.machines.rented import RUNNING
from betimes.core.nodes.passes.schedule import change_rules
from betimes.core.nodes.queue import all_waiting
from betimes.core.nodes.rules import NodesRules
from betimes.core.nodes.snapshot import copy_into
from betimes.core.nodes.timers import NOTICED, set_machine_timer
from betimes.core.shares import keep_within_limits
from betimes.core.status import DONE, NEED_SEGMENTS, PAUSED
from betimes.core.work import believed_left
from betimes.foresight.portfolio.utility import bounded_slowdown, charged_s
from betimes.kernels import Floats, Ints, Records, entry, kernel
from betimes.policies.nodes.families import with_same_orders, with_same_placement
from betimes.twin.nodes.event_loop import NOTHING, Trace
from betimes.twin.nodes.trace_loop import Loop
from betimes.units import S_PER_H

MOST_INSTANTS = 1_000_000
"""Limit of one simulation; a policy that needs more fails."""


class Played:
    """The results so far for the jobs that count."""

    begin_s: float  # when the snapshot was taken
    row: int  # the next of the jobs that are still to come
    seen: int  # outcomes processed, including those of jobs that do not count
    finished: int
    slowdown: float  # bounded, summed over them
    machine_s: float  # paid for on rented machines, as if all of them were rented at the snapshot
    bought_s: float  # paid for beyond what had been paid by then
    left_s: float  # paid time that is left at the end
    used_usd: float  # the price of bought_s - left_s


STRANDED = -100  # nothing more can happen, and some have not finished
ENDS_LATER = -101  # nothing more happens up to the time that was given


@entry
@kernel
def take_snapshot(
    state: NodesState, snapshot: NodesState, run_s: Floats, believing: bool, everyone: bool
) -> float:
    """Copy the known present; run_s[row] becomes the believed run time of each waiting job, else NaN.

    everyone: running jobs, too. Returns the machine time that all these jobs still need, s.
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
    """List the placements and slots that only the snapshot has as unused; it may have more machines, too."""
    pool = snapshot.pool[0]
    for slot in range(len(state.free), len(snapshot.free)):
        snapshot.free[pool.free] = slot
        pool.free += 1
    more, cluster = len(snapshot.placements) - len(state.placements), snapshot.cluster[0]
    if more > 0:
        for at in range(len(state.placements), len(snapshot.placements)):
            snapshot.placements[at].follows = at + 1
        snapshot.placements[len(snapshot.placements) - 1].follows = cluster.unused_head
        cluster.unused_head = len(state.placements)
        cluster.unused += more
    if len(snapshot.nodes) > len(state.nodes):  # the ring of recently freed nodes is longer
        for slot in range(len(snapshot.needs)):
            snapshot.needs[slot].freed_seen = -1


@entry
@kernel
def begin(
    snapshot: NodesState,
    copy: NodesState,
    rules: NodesRules,
    aside: Trace,
    first_row: int,
    played: Records[Played],
) -> int:
    """Let these rules decide on a copy of the snapshot; its next submissions are the rows from `first_row` on.

    Returns DONE, or the status of the failure.
    """
    copy_into(snapshot, copy, False)
    copy.cluster[0].leases = 0
    aside.finished[0] = 0
    score = played[0]
    score.begin_s = snapshot.pool[0].now
    score.row = first_row
    score.finished = score.seen = 0
    score.slowdown = score.machine_s = score.bought_s = score.left_s = score.used_usd = 0.0
    return change_rules(copy, rules)


@entry
@kernel
def play_on(
    loop: Loop,
    copy: NodesState,
    rules: NodesRules,
    aside: Trace,
    next_row: Ints,
    run_s: Floats,
    count: int,
    until_s: float,
    played: Records[Played],
) -> int:
    """Play the copy forward until the `count` jobs that have a run time have finished, or up to `until_s`.

    Returns DONE, ENDS_LATER if they have not by `until_s`, STRANDED, PAUSED after `MOST_INSTANTS`, or the status that
    stopped the loop. A refused answer leaves the copy as it was before the decision: `divide`, and call again. For
    lack of room, start again with more.
    """
    score = played[0]
    for _ in range(MOST_INSTANTS):
        copy.pool[0].budget = int(copy.cluster[0].pending == NOTHING)
        next_row[0] = score.row
        status = loop.advance(copy, rules, aside, next_row, len(aside.arrivals), until_s)
        score.row = next_row[0]
        _count_finished(aside, run_s, score)
        if status == NEED_SEGMENTS and copy.cluster[0].leases > 0:
            _charge_leases(copy, score)
        elif status != PAUSED and status != DONE:
            return status
        if score.finished == count:
            _charge_leases(copy, score)
            _charge_present(copy, score)
            return DONE
        if status == DONE:
            return STRANDED if until_s == math.inf else ENDS_LATER
    return PAUSED


@kernel
def _count_finished(aside: Trace, run_s: Floats, score: Played) -> None:
    """Add the jobs that count and have finished since the last call."""
    for at in range(score.seen, aside.finished[0]):
        outcome = aside.outcomes[at]
        if not math.isnan(run_s[outcome.row]):
            began_s = outcome.start_s
            if outcome.preemptions > 0:  # work lost by preemption counts as waiting
                began_s = outcome.finish_s - run_s[outcome.row]
            wait_s = max(0.0, began_s - aside.arrivals[outcome.row].submit_s)
            score.slowdown += bounded_slowdown(wait_s, run_s[outcome.row])
            score.finished += 1
    score.seen = aside.finished[0]


@entry
@kernel
def divide(
    copy: NodesState,
    other: NodesState,
    played: Records[Played],
    other_played: Records[Played],
    differ_in_orders: bool,
) -> None:
    """Split a family where its members decide differently: keep those that agree with the first, copy for the rest."""
    _charge_leases(copy, played[0])
    members = int(copy.params[0])
    if differ_in_orders:
        count = keep_within_limits(copy, copy.chosen, all_waiting(copy, copy.chosen))
        same = with_same_orders(view_of(copy), copy.pool[0].now, copy.chosen[:count], copy.orders, members)
    else:
        same = with_same_placement(members)
    copy_into(copy, other, False)
    copy.params[0] = float(same)
    other.params[0] = float(members - same)
    other_played[0] = played[0]


@kernel
def _charge_leases(copy: NodesState, score: Played) -> None:
    """Charge machines that have been given back, and forget them."""
    for at in range(copy.cluster[0].leases):
        lease = copy.leases[at]
        terms = copy.offers[lease.offer]
        since_s = lease.requested_s if terms.from_request == 1 else lease.booted_s
        if since_s <= lease.ended_s:
            _charge(terms, since_s, lease.ended_s, lease.count, score)
    copy.cluster[0].leases = 0


@kernel
def _charge_present(copy: NodesState, score: Played) -> None:
    """Charge machines that are still rented."""
    now = copy.pool[0].now
    for number in range(len(copy.machines)):
        machine = copy.machines[number]
        if machine.offer >= 0:
            terms = copy.offers[machine.offer]
            since_s = machine.requested_s if terms.from_request == 1 else machine.booted_s
            if since_s <= now:
                left_s = _charge(terms, since_s, now, 1, score) - (now - since_s)
                score.left_s += left_s
                score.used_usd -= left_s / S_PER_H * terms.usd_per_h
    for at in range(copy.pool[0].holders):
        slot = copy.holders[at]
        need = copy.needs[slot]
        if need.rented > 0:  # its run ends as it would under any of the policies
            renting = copy.rentings[slot]
            terms = copy.offers[renting.offer]
            since_s = need.began_s if terms.from_request == 1 else need.began_s + renting.boot_s
            until_s = min(copy.progress[slot].finish_at, renting.speculates_until_s)
            _charge(terms, since_s, max(since_s, until_s + terms.release_s), need.rented, score)


@kernel
def _charge(terms: Terms, since_s: float, until_s: float, count: int, score: Played) -> float:
    """Charge `count` equal machines from the snapshot on; returns the paid seconds of one in all."""
    begin_s = score.begin_s
    paid_s = bought_s = charged_s(until_s - since_s, terms.min_bill_s, terms.bill_step_s)
    if since_s >= begin_s:
        score.machine_s += count * paid_s
    else:
        score.machine_s += count * charged_s(until_s - begin_s, terms.min_bill_s, terms.bill_step_s)
        bought_s -= charged_s(begin_s - since_s, terms.min_bill_s, terms.bill_step_s)
    score.bought_s += count * bought_s
    score.used_usd += count * bought_s / S_PER_H * terms.usd_per_h
    return paid_s
