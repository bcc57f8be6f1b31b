"""The pool engine's event loop, compiled.

One event at a time, as the simulator published with PCS has it: at one instant finishes come first, then
estimates outrun, then the policy's own wake-up, then submissions, each followed by a decision. What the jobs
themselves do at one instant, finish or outrun an estimate, they do before anyone decides.
"""

from __future__ import annotations

import math
from typing import Any

from betimes.core.pool.columns import PoolRules, State, view_of
from betimes.core.pool.grant_log import has_room_for_an_event, note_doubled
from betimes.core.pool.order import divide, enter, reach, reorder, show_left_out
from betimes.core.pool.placement import set_demand
from betimes.core.pool.transitions import apply_grants, find_next, finish, refresh, sample_contention, submit
from betimes.core.shares import begin_order, do_users_share
from betimes.core.status import (
    ACCEPTED,
    BAD_GROUP,
    BAD_KEY,
    BAD_WAKEUP,
    DONE,
    NEED_LOG,
    NEED_SEGMENTS,
    PAUSED,
    REFUSED,
    STUCK,
    WATCHED,
)
from betimes.core.work import outrun
from betimes.kernels import Floats, FloatTable, Ints, Records, Struct, kernel
from betimes.twin.history import History, knows, last_two_s, remember

# The statuses of `advance`.

IDLE_WAKEUPS = 10_000  # decisions in a row to run nothing, after which a policy counts as stuck


class Arrival:
    """A job to come."""

    submit_s: float
    work: float  # seconds on one unit
    min_units: int
    max_units: int
    curve: int
    believed: float  # the size that the scheduler knows, seconds on one unit
    believed_per_work: float
    user: int  # -1: unknown
    longest_s: float  # the user's own limit on a belief drawn from history, seconds at full width
    gpu: int  # what a unit takes of a node: thousandths
    cpu: int  # thousandths of a core
    memory: int  # MiB
    limit_s: float  # the longest that a run may take; 0: no such limit
    exempt: int  # the bits of the closings that do not concern it
    priority: int
    charge: float  # of a unit, for its user (`Progress.charge`)


class Outcome:
    """The outcome of a job."""

    start_s: float
    finish_s: float
    units_s: float
    preemptions: int
    resizes: int
    stalled_s: float
    contention: float  # mean number of active jobs over the events seen


class Trace(Struct):
    """The jobs to come, read by the loop, and the outcomes that it writes."""

    arrivals: Records[Arrival]  # (jobs,) in order of submission
    outcome: Records[Outcome]  # (jobs,) filled when the job finishes; of length 0 where none is noted
    history: Records[History]  # (users,)
    keys: Floats  # (slots,) room for ranks
    asked: Ints  # (slots,) room for a copy of what a policy is asked about


@kernel
def decide(state: State, rules: PoolRules, trace: Trace) -> int:
    """Ask the policy and apply its decision; returns DONE or REFUSED + reason."""
    pool, again = state.pool[0], state.wakeups[0]
    if pool.active == 0:  # there is no job to decide about, or to wake up for
        pool.wakeup = math.inf
        find_next(state)
        return DONE
    view = view_of(state)
    if rules.reads_progress:
        refresh(state)
    if len(state.users) > 0:
        status = _share(state, rules, trace)
        if status != DONE:
            return status
    elif rules.ranked:
        for number in range(len(state.groups)):
            status = _rank(state, rules, trace, number, reach(state, number))
            if status != DONE:
                return status
    again.at_s = math.inf
    again.period_s = 0.0
    if len(state.users) > 0:
        if rules.splits and do_users_share(state):
            count = _allocate_by_user(state, rules)
        else:
            count = rules.allocate(view, pool.now, state.grants, state.wakeups)
        if rules.splits:
            _keep_order(state)
        again.period_s = 0.0  # as time passes the order changes
        show_left_out(state)
    else:
        count = rules.allocate(view, pool.now, state.grants, state.wakeups)
    if not again.at_s > pool.now:
        pool.offender = -1
        return REFUSED + BAD_WAKEUP
    verdict = apply_grants(state, count)
    if verdict != ACCEPTED:
        return REFUSED + verdict
    pool.wakeup = again.at_s
    pool.period = again.period_s
    if pool.opens_at < math.inf:  # until then every wake-up may decide something new
        pool.wakeup = min(again.at_s, pool.opens_at)
        pool.period = 0.0
    return DONE


@kernel
def _share(state: State, rules: PoolRules, trace: Trace) -> int:
    """Put the jobs of each group into the order of their users' shares; returns as `decide`."""
    begin_order(state, False)
    for number in range(len(state.groups)):
        count = 0
        if rules.ranked:
            count = state.groups[number].tail - state.groups[number].head
            status = _ask_for_keys(state, rules, trace, number, state.groups[number].tail)
            if status != DONE:
                return status
        rules.share(state, number, trace.keys[:count])
    return DONE


@kernel
def _allocate_by_user(state: State, rules: PoolRules) -> int:
    """Ask the policy about the jobs of one user after the other, each with the units that are the user's.

    The next user gets what one cannot use. Returns the number of grants, as `allocate`.
    """
    pool, group, again = state.pool[0], state.groups[0], state.wakeups[0]
    divide(state)
    head, tail, demand, units = group.head, group.tail, group.demand, pool.units
    count, left, next_s, begin = 0, 0.0, math.inf, head
    while begin < tail:
        row = state.progress[state.order[0, begin]].user
        group.head = group.tail = begin
        while group.tail < tail and state.progress[state.order[0, group.tail]].user == row:
            group.tail += 1
        begin, group.demand = group.tail, state.users[row].demand
        left += state.users[row].part
        if left <= 0.0:
            continue
        pool.units = left
        rest: Any = state.grants[count:]  # pyright: ignore[reportArgumentType]  # of an array
        given = rules.allocate(view_of(state), pool.now, rest, state.wakeups)
        next_s = min(next_s, again.at_s)
        if given < 0:
            count = given
            break
        for at in range(count, min(count + given, len(state.grants))):
            left -= state.grants[at].units
        count += given
    group.head, group.tail, group.demand, pool.units = head, tail, demand, units
    again.at_s = next_s
    return count


@kernel
def _keep_order(state: State) -> None:
    """Jobs that are in no order of the policy's, and those that were left out behind them, rank as they stand."""
    group = state.groups[0]
    for place in range(group.head, group.tail + group.left_out):
        state.jobs[state.order[0, place]].key = float(place - group.head)


@kernel
def _rank(state: State, rules: PoolRules, trace: Trace, number: int, stop: int) -> int:
    """Ask for the keys of a group's jobs before place `stop`, and order the group by them; returns as `decide`."""
    head = state.groups[number].head
    if stop <= head:
        return DONE
    status = _ask_for_keys(state, rules, trace, number, stop)
    if status != DONE:
        return status
    for k in range(stop - head):
        state.jobs[state.order[number, head + k]].key = trace.keys[k]
    reorder(state, number, stop)
    return DONE


@kernel
def _ask_for_keys(state: State, rules: PoolRules, trace: Trace, number: int, stop: int) -> int:
    """Ask for trace.keys of a group's jobs before place `stop`; returns as `decide`."""
    head, keys, asked = state.groups[number].head, trace.keys, trace.asked
    chosen, count = state.order[number][head:stop], stop - head
    for k in range(count):  # a hook may write into its arguments, and leave its answer out
        asked[k] = chosen[k]
        keys[k] = math.nan
    rules.rank(view_of(state), state.pool[0].now, asked[:count], keys[:count])
    for k in range(count):
        if math.isnan(keys[k]):
            state.pool[0].offender = chosen[k]
            return REFUSED + BAD_KEY
    return DONE


@kernel
def rank_anew(state: State, rules: PoolRules, trace: Trace) -> int:
    """Rank all jobs, waiting ones too, after a change of the pool; returns as `decide`."""
    if rules.ranked:
        for number in range(len(state.groups)):
            status = _rank(state, rules, trace, number, state.groups[number].tail)
            if status != DONE:
                return status
    return DONE


@kernel
def advance(state: State, rules: PoolRules, trace: Trace, until: float, watch: int) -> int:
    """Let everything happen up to and including `until`, or until job `watch` (a slot) is about to finish.

    If the policy is still to be asked (`Pool.pending`), it is, first of all.
    With a watched job the state is a copy being played forward and nothing is noted in `trace`; -1: none.
    """
    pool = state.pool[0]
    idle = 0
    if pool.pending == 1:
        pool.pending = 0
        verdict = decide(state, rules, trace)
        if verdict != DONE:
            return verdict
    while True:
        at = min(pool.next_finish, pool.next_outrun, pool.wakeup)
        if at > until or at == math.inf:
            return DONE
        if pool.budget <= 0:
            return PAUSED
        pool.budget -= 1
        if len(state.segments) > 0 and pool.segments + 2 * pool.holders > len(state.segments):
            return NEED_SEGMENTS
        if not has_room_for_an_event(state):
            return NEED_LOG
        if at == pool.next_finish:
            pool.now = at
            while True:
                slot, tied = pool.finisher, pool.tied
                if slot == watch:
                    return WATCHED
                finish(state, slot, at)
                if watch < 0:
                    _note(state, slot, trace, rules.learns)
                if tied == 1:
                    break
                find_next(state)
            if pool.next_outrun == at:
                find_next(state)
                _double_beliefs(state, at)
        elif at == pool.next_outrun:
            pool.now = at
            _double_beliefs(state, at)
        elif pool.period > 0.0:
            if until == math.inf and min(pool.next_finish, pool.next_outrun) == math.inf:
                return STUCK
            _skip_steady_wakeups(state, until)
        else:
            pool.now = at
            sample_contention(state)
            idle = idle + 1 if pool.holders == 0 else 0
            if idle > IDLE_WAKEUPS and until == math.inf:
                return STUCK
        verdict = decide(state, rules, trace)
        if verdict != DONE:
            return verdict


@kernel
def arrive(state: State, rules: PoolRules, trace: Trace, row: int) -> int:
    """Submit the job of `row` at its time and decide; everything before has happened."""
    state.pool[0].now = trace.arrivals[row].submit_s
    status = queue_up(state, rules, trace, take_slot(state, rules, trace, row))
    if status != DONE:
        return status
    return decide(state, rules, trace)


@kernel
def take_slot(state: State, rules: PoolRules, trace: Trace, row: int) -> int:
    """Give the job of `row` a slot with all that it needs; returns the slot. It has no place in the queue yet.

    Its class is that of its size as believed now, and stays when the belief is outrun; so it does for a job that is
    taken over with the account of a run before.
    """
    arrival = trace.arrivals[row]
    slot = submit(
        state,
        row,
        arrival.min_units,
        arrival.max_units,
        arrival.curve,
        arrival.work,
        _belief(state.speedup, trace, row, rules.learns),
        arrival.believed_per_work,
    )
    if len(state.nodes) > 0:
        set_demand(state, slot, arrival.gpu, arrival.cpu, arrival.memory)
        state.footprints[slot].limit_s = arrival.limit_s
        state.footprints[slot].exempt = arrival.exempt
    if len(state.users) > 0:
        progress = state.progress[slot]
        progress.user = arrival.user if arrival.user >= 0 else len(state.users) - 1
        progress.priority = arrival.priority
        progress.charge = arrival.charge
        progress.unit_memory = float(arrival.memory)
    state.jobs[slot].group = rules.classify(view_of(state), slot)
    return slot


@kernel
def queue_up(state: State, rules: PoolRules, trace: Trace, slot: int) -> int:
    """Put the job of a slot in its place by its class and the policy's key; DONE, or why these cannot be used."""
    view, group = view_of(state), state.jobs[slot].group
    if group < 0 or group >= len(state.groups):
        state.pool[0].offender = slot
        return REFUSED + BAD_GROUP
    if rules.ranked:
        trace.asked[0] = slot
        trace.keys[0] = math.nan
        rules.rank(view, state.pool[0].now, trace.asked[:1], trace.keys[:1])
        if math.isnan(trace.keys[0]):
            state.pool[0].offender = slot
            return REFUSED + BAD_KEY
        state.jobs[slot].key = trace.keys[0]
    enter(state, slot)
    return DONE


@kernel
def _double_beliefs(state: State, now: float) -> None:
    """All jobs that outrun their estimates at this instant do so before anyone decides."""
    while state.pool[0].next_outrun == now:
        sample_contention(state)
        outrun(state, state.pool[0].outrunner)
        note_doubled(state, state.pool[0].outrunner)
        find_next(state)


@kernel
def _skip_steady_wakeups(state: State, until: float) -> None:
    """Count the wake-ups that decide nothing new up to the next event, and stand at the last of them."""
    pool = state.pool[0]
    next_event = min(pool.next_finish, pool.next_outrun)
    limit = min(next_event, until)
    skipped = 1.0
    if limit < math.inf:
        skipped += math.floor((limit - pool.wakeup) / pool.period)
    if skipped > 1.0 and pool.wakeup + (skipped - 1.0) * pool.period >= next_event:
        skipped -= 1.0  # what finishes at the instant of a wake-up comes before it
    pool.now = pool.wakeup + (skipped - 1.0) * pool.period
    pool.contention += skipped * pool.active
    pool.events += int(skipped)


@kernel
def _belief(speedup: FloatTable, trace: Trace, row: int, learns: bool) -> float:
    """The believed size at submission: the arrival's, or the mean of the user's last two run times."""
    arrival = trace.arrivals[row]
    if not learns or not knows(trace.history, arrival.user):
        return arrival.believed
    run_s = last_two_s(trace.history, arrival.user)
    return min(run_s, arrival.longest_s) * speedup[arrival.curve, arrival.max_units]


@kernel
def _note(state: State, slot: int, trace: Trace, learns: bool) -> None:
    """Record the outcome of a job that has just finished, where there is room for outcomes."""
    job, progress, pool = state.jobs[slot], state.progress[slot], state.pool[0]
    if learns:
        arrival = trace.arrivals[progress.row]
        remember(trace.history, arrival.user, arrival.work / job.full_speed)
    if len(trace.outcome) == 0:
        return
    outcome = trace.outcome[progress.row]
    outcome.start_s = progress.started_s
    outcome.finish_s = pool.now
    outcome.units_s = progress.attained
    outcome.preemptions = progress.preemptions
    outcome.resizes = progress.resizes
    outcome.stalled_s = progress.stalled_s
    outcome.contention = (pool.contention - job.seen_sum) / (pool.events - job.seen_count)
