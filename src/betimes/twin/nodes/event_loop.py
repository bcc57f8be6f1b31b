"""The nodes engine's event loop, compiled.

One instant at a time: jobs finish, beliefs are outrun, victims vacate, jobs arrive, and then one scheduling
pass decides for all of them (FitGpp's specification, B.2).
"""

from __future__ import annotations

import math

from betimes.core.instruction import DOUBLE
from betimes.core.nodes.columns import ANYTHING, FEATURE_COLUMNS, Need, NodesState, view_of
from betimes.core.nodes.external_events import lose, open_again, unbind
from betimes.core.nodes.holders import add_bound
from betimes.core.nodes.log import note
from betimes.core.nodes.machines.dedicated import decide_wait, end_alone, stop_alone
from betimes.core.nodes.machines.provisioning import DUE, NOT_DUE, ORDERED, first_tick
from betimes.core.nodes.machines.rented import FAILED, RELEASED, TAKEN_AWAY, boot, bring_up, end, give_notice
from betimes.core.nodes.machines.wait_or_rent import ask_again
from betimes.core.nodes.passes.find_nodes import show
from betimes.core.nodes.passes.schedule import schedule
from betimes.core.nodes.queue import remove
from betimes.core.nodes.rules import NodesRules
from betimes.core.nodes.timers import (
    BOOTED,
    EXPIRED,
    FINISH,
    GONE,
    LAUNCHED,
    NOTICED,
    OPENS,
    OUTRUN,
    RECLAIMED,
    ROUND,
    SPECULATED,
    TICK,
    UP,
    VACATE,
    first_owner,
    job_of,
    kind_of,
    machine_of,
    next_s,
    set_job_timer,
    set_policy_timer,
)
from betimes.core.nodes.transitions import (
    contend,
    enqueue,
    finish,
    pay_claims,
    settle_binding,
    submit,
    unbook,
    vacate,
)
from betimes.core.status import (
    ASKED,
    BAD_KEY,
    DONE,
    NEED_LOG,
    NEED_SEGMENTS,
    NEED_SLOTS,
    PAUSED,
    RAN_ALONE,
    REFUSED,
    SELECT,
)
from betimes.core.work import outrun
from betimes.kernels import FloatTable, Ints, Records, Struct, kernel
from betimes.twin.history import History, knows, last_two_s, remember

# The loop's statuses, besides those of `schedule`.


LINES_AN_EVENT = 4  # of the log, for each job and machine, besides what a pass decides

# What is still to be done at the present instant.
NOTHING = 0
EVERYTHING = 1
IN_PASS = 2
IN_ROUND = 3  # a planner has been asked; what is due after that is still to come


class Arrival:
    """A job to come."""

    submit_s: float
    run_s: float  # the true run time
    units: int
    tasks: int
    gpu: int  # of each task, thousandths
    cpu: int
    memory: int  # MiB
    demands: int  # its rows of `State.demands`, as `Need.demands`; 0: these amounts on all machines
    labels: int  # a bit for each label that its nodes must have
    share: float  # Euclidean norm of the whole job's demand, each resource over the largest node's
    trial: int
    priority: int
    grace_s: float
    runtime_estimate_s: float
    believed_per_work: float
    user: int  # -1: unknown
    fits_no_owned: int  # 1: no owned machine holds it
    choice: int  # whether a machine may be rented for it alone: `columns.AUTO`, `NEVER` or `NOW`
    speculated: int  # 1: it is not to run speculatively, as if it had
    workload: int  # which row and column of the interference, -1: none
    launch_s: float  # from taking nodes until it contends with its neighbours there
    init_s: float  # and from then on until it works
    stop_s: float  # from the signal to move until it has left
    longest_s: float  # the user's own limit on a belief drawn from history
    limit_s: float  # the longest that a run may take; 0: no such limit
    exempt: int  # the bits of the closings that do not concern it
    charge: float  # of a unit, for its user (`Progress.charge`)
    unit_memory: float  # MiB


class Outcome:
    """The outcome of a job."""

    row: int  # of the job in the trace
    start_s: float
    finish_s: float
    units_s: float
    stalled_s: float
    preemptions: int
    offer: int  # of its dedicated machine, -1: it had none


class Trace(Struct):
    """The jobs to come, read by the loop, and the outcomes that it writes.

    Outcomes stand in the order in which jobs finish: the place of a row in so long an array would be far away.
    """

    arrivals: Records[Arrival]  # (jobs,) in order of submission
    outcomes: Records[Outcome]  # (jobs,); of length 0 where they are not read
    finished: Ints  # (1,) how many have: outcomes[:finished]
    history: Records[History]  # (users,)
    features: FloatTable  # of each outcome, where they are asked for (`State.features`)
    first: Ints  # (1,) row of arrivals[0] in the workload: above 0 where the earlier ones have been dropped


@kernel
def advance(
    state: NodesState,
    rules: NodesRules,
    trace: Trace,
    row: Ints,
    stop: int,
    until: float,
) -> int:
    """Let everything happen up to and including `until`, with the submissions of rows from row[0] up to `stop`.

    All submissions of one instant are entered before the pass, also those from `stop` on. Returns a status;
    row[0] is then the next row. After any status but DONE the same call goes on.
    """
    pool, cluster = state.pool[0], state.cluster[0]
    while True:
        if cluster.pending == NOTHING:
            at = next_s(state)
            if row[0] < stop:
                at = min(at, trace.arrivals[row[0]].submit_s)
            elif row[0] < len(trace.arrivals):
                return DONE
            if at > until or at == math.inf:
                return DONE
            if pool.budget <= 0:
                return PAUSED
            pool.budget -= 1
            pool.now = at
            cluster.pending = EVERYTHING
        status = instant(state, rules, trace, row)
        if status != DONE:
            return status
        cluster.pending = NOTHING


@kernel
def instant(
    state: NodesState,
    rules: NodesRules,
    trace: Trace,
    row: Ints,
) -> int:
    """Everything that happens at pool.now, and the pass that follows."""
    cluster = state.cluster[0]
    if cluster.pending != IN_PASS:
        status = _before_the_pass(state, rules, trace, row)
        if status != DONE:
            return status
        # A pass that has to be called again is not interrupted by what it has caused.
        cluster.pending = IN_PASS
    if rules.planned:
        status = rules.fill(state, rules)
        if status == DONE:
            cluster.arrived = 0
        return status
    if rules.tick_s > 0.0 and cluster.ticks == NOT_DUE:
        set_policy_timer(state, first_tick(rules.tick_s, state.pool[0].now), TICK)
        return DONE
    if cluster.waiting > 0 and state.pool[0].now >= cluster.select_s and cluster.ticks != ORDERED:
        return SELECT
    if rules.tick_s == 0.0:
        return _decide(state, rules)
    if cluster.ticks != ORDERED:
        status = schedule(state, rules)
        if status != DONE or cluster.ticks == NOT_DUE:
            return status
    return rules.order_machines(state, rules)


@kernel
def _decide(state: NodesState, rules: NodesRules) -> int:
    """The pass of a policy without ticks; while jobs wait, the loop also stops for a portfolio's next selection.

    If that is due, and the selection has left everything as it was, there is nothing to decide.
    """
    cluster = state.cluster[0]
    is_settled = cluster.seen_change == cluster.changed and cluster.arrived == 0
    if cluster.ticks == NOT_DUE or not is_settled:
        status = schedule(state, rules)
        if status != DONE:
            return status
    if rules.waits and len(state.users) > 0:
        ask_again(state)
    if cluster.select_s < math.inf:
        cluster.ticks = NOT_DUE
        set_policy_timer(state, cluster.select_s if cluster.waiting > 0 else math.inf, TICK)
    return DONE


@kernel
def _before_the_pass(state: NodesState, rules: NodesRules, trace: Trace, row: Ints) -> int:
    """The events due at pool.now, and the submissions."""
    pool, now = state.pool[0], state.pool[0].now
    room = _room_for_an_instant(state)
    if room != DONE:
        return room
    due = happen(state, rules, trace)
    if due != DONE and due != ASKED:
        return due
    while row[0] < len(trace.arrivals) and trace.arrivals[row[0]].submit_s == now:
        if pool.free == 0:
            if due == ASKED:  # the planner is still to be asked at this instant
                set_policy_timer(state, now, ROUND)
            return NEED_SLOTS
        status = arrive(state, rules, trace, row[0])
        if status != DONE:
            return status
        row[0] += 1
    if due == ASKED:
        status = rules.fill(state, rules)  # the planner is asked about what is left
        if status != DONE:
            set_policy_timer(state, now, ROUND)
            return status
        state.cluster[0].pending = IN_ROUND
        return ASKED
    return DONE


@kernel
def happen(state: NodesState, rules: NodesRules, trace: Trace) -> int:
    """The events due at pool.now, in the order of `core.nodes.timers`; ASKED where a planner comes before the rest."""
    now = state.pool[0].now
    while next_s(state) == now:
        if kind_of(state.timers[0]) == EXPIRED:  # after the starts that what came before allows
            status = schedule(state, rules)
            if status != DONE:
                return status
            if next_s(state) != now or kind_of(state.timers[0]) != EXPIRED:
                continue
        status = next_due(state, rules, trace)
        if status != DONE:
            return status
    return DONE


@kernel
def next_due(state: NodesState, rules: NodesRules, trace: Trace) -> int:
    """The first of the things that are due happens; DONE, ASKED, or why the key of a victim cannot be used."""
    owner, kind = first_owner(state), kind_of(state.timers[0])
    if kind == ROUND:
        set_policy_timer(state, math.inf, ROUND)  # the planner sets its next round
        return ASKED
    if kind == TICK:
        set_policy_timer(state, math.inf, TICK)
        state.cluster[0].ticks = DUE
        return DONE
    slot = job_of(owner)
    if slot < 0:
        return _next_of_machine(state, rules, machine_of(owner), kind)
    if kind == FINISH:
        if state.needs[slot].rented > 0:
            end_alone(state, slot, RELEASED)
        if state.needs[slot].bound >= 0:  # it has ended before it could move
            unbind(state, slot)
        finish(state, slot)
        _note(state, slot, trace, rules.learns)
    elif kind == OUTRUN:
        outrun(state, slot)
        note(state, DOUBLE, slot, -1, 0, state.jobs[slot].size_s, -1)
        set_job_timer(state, slot)
        state.cluster[0].changed += 1
        state.cluster[0].must_replan = ANYTHING
    elif kind == LAUNCHED:
        contend(state, slot)
    elif kind == EXPIRED:
        return _stop_waiting(state, rules, trace, slot)
    elif kind == SPECULATED or kind == BOOTED or kind == RECLAIMED:
        stop_alone(state, slot, RELEASED if kind == SPECULATED else FAILED if kind == BOOTED else TAKEN_AWAY)
        return wait(state, rules, slot)
    elif kind == VACATE:
        vacate(state, slot)
        if state.needs[slot].bound < 0:
            return wait(state, rules, slot)
        add_bound(state, slot)
        if state.evictions[slot].awaited == 0:
            settle_binding(state, slot)
    return DONE


@kernel
def _next_of_machine(state: NodesState, rules: NodesRules, number: int, kind: int) -> int:
    """Carry out a machine's due event; DONE, or why the key of a job on it cannot be used."""
    state.pool[0].events += 1
    if kind == BOOTED:
        if not boot(state, number):
            return _take_away(state, rules, number, FAILED)
    elif kind == UP:
        bring_up(state, number)
        pay_claims(state, number)
    elif kind == GONE:
        end(state, number, RELEASED)
    elif kind == OPENS:
        open_again(state, number)
    elif kind == NOTICED:
        give_notice(state, number)
    elif kind == RECLAIMED:
        return _take_away(state, rules, number, TAKEN_AWAY)
    return DONE


@kernel
def _take_away(state: NodesState, rules: NodesRules, number: int, cause: int) -> int:
    """A machine has gone: jobs that hold it have lost their nodes, jobs that are bound to it wait again."""
    while state.machines[number].residents >= 0:
        slot = state.placements[state.machines[number].residents].slot
        if state.needs[slot].bound >= 0:
            unbind(state, slot)
        if state.needs[slot].holder >= 0:
            if not _is_on(state, slot, number):
                continue  # the job was only to move there, and stays where it is
            lose(state, slot)
        status = wait(state, rules, slot)
        if status != DONE:
            return status
    end(state, number, cause)
    return DONE


@kernel
def _is_on(state: NodesState, slot: int, number: int) -> bool:
    at = state.needs[slot].placed
    while at >= 0:
        if state.placements[at].node == number:
            return True
        at = state.placements[at].follows
    return False


@kernel
def arrive(state: NodesState, rules: NodesRules, trace: Trace, row: int) -> int:
    """Submit the job of `row` at its time; DONE, or why its key cannot be used."""
    return wait(state, rules, enter(state, rules, trace, row))


@kernel
def enter(state: NodesState, rules: NodesRules, trace: Trace, row: int) -> int:
    """Give the job of arrivals[row] a slot with all its records; returns the slot. It is not in the queue yet."""
    arrival = trace.arrivals[row]
    runtime_estimate_s = arrival.runtime_estimate_s
    if rules.learns and knows(trace.history, arrival.user):
        runtime_estimate_s = min(last_two_s(trace.history, arrival.user), arrival.longest_s)
    slot = submit(
        state,
        trace.first[0] + row,
        arrival.units,
        arrival.run_s,
        runtime_estimate_s,
        arrival.believed_per_work,
    )
    need = state.needs[slot]
    set_tasks(need, arrival)
    need.labels = arrival.labels
    need.trial = arrival.trial
    need.level = 2 * arrival.priority + arrival.trial
    need.grace_s = arrival.grace_s
    need.workload = arrival.workload
    if len(state.rentings) > 0:
        renting = state.rentings[slot]
        renting.choice = arrival.choice
        renting.speculated = arrival.speculated
    need.launch_s = arrival.launch_s
    need.init_s = arrival.init_s
    need.stop_s = arrival.stop_s
    need.limit_s = arrival.limit_s
    need.exempt = arrival.exempt
    if len(state.users) > 0:
        progress = state.progress[slot]
        progress.user = arrival.user if arrival.user >= 0 else len(state.users) - 1
        progress.priority = arrival.priority
        progress.charge = arrival.charge
        progress.unit_memory = arrival.unit_memory
    return slot


@kernel
def set_tasks(need: Need, arrival: Arrival) -> None:
    """Set the fields that follow from the job's split into tasks."""
    need.gpu = arrival.gpu
    need.cpu = arrival.cpu
    need.memory = arrival.memory
    need.demands = arrival.demands
    need.tasks = arrival.tasks
    need.share = arrival.share
    need.fits_no_owned = arrival.fits_no_owned


@kernel
def split_anew(state: NodesState, rules: NodesRules, trace: Trace, slots: Ints) -> int:
    """The waiting jobs slots[k] are the tasks of trace.arrivals[k] from now on; DONE, or why an answer cannot be used.

    They give up what they are bound to, and their reservations. If a job's fit on owned machines has changed, the
    policy sets its waiting deadline again.
    """
    for k in range(len(slots)):
        slot = slots[k]
        job, need = state.jobs[slot], state.needs[slot]
        asks = rules.waits and (need.bound >= 0 or need.fits_no_owned != trace.arrivals[k].fits_no_owned)
        if need.bound >= 0:
            unbind(state, slot)
        elif need.dedicated == 0:
            remove(state, slot)
        unbook(state, slot)
        set_tasks(need, trace.arrivals[k])
        need.freed_seen = -1
        key = job.key
        status = rank(state, rules, slot)
        if status != DONE:
            return status
        if rules.requeues_last:
            job.key = key
        if asks:
            status = decide_wait(state, rules, slot)
            if status != DONE:
                return status
        if need.dedicated == 0:
            enqueue(state, slot)
    state.cluster[0].changed += 1
    state.cluster[0].must_replan = ANYTHING
    return DONE


@kernel
def wait(state: NodesState, rules: NodesRules, slot: int) -> int:
    """The job enters the queue at the place that the policy's key gives it; DONE, or why the key cannot be used.

    A policy that rents for jobs alone sets the job's waiting deadline.
    """
    status = rank(state, rules, slot)
    if status != DONE:
        return status
    if rules.waits:
        return rules.begin_to_wait(state, rules, slot)
    enqueue(state, slot)
    return DONE


@kernel
def rank(state: NodesState, rules: NodesRules, slot: int) -> int:
    """Give the job the policy's key, if keys stay while jobs wait; DONE, or why the key cannot be used."""
    if rules.ranked and not rules.dynamic:
        state.chosen[0] = slot
        state.score[0] = math.nan
        if state.cluster[0].guarded == 0:
            rules.rank(view_of(state), state.pool[0].now, state.chosen[:1], state.score[:1])
        else:
            show(state, state.nodes)
            rules.rank(view_of(state), state.pool[0].now, state.chosen[:1], state.score[:1])
        if math.isnan(state.score[0]):
            state.pool[0].offender = slot
            return REFUSED + BAD_KEY
        state.jobs[slot].key = state.score[0]
    return DONE


@kernel
def _stop_waiting(state: NodesState, rules: NodesRules, trace: Trace, slot: int) -> int:
    """The job's waiting deadline has passed; DONE, or what is needed first."""
    if _has_no_room_for_a_lease(state):
        return NEED_SEGMENTS
    status = rules.stop_waiting(state, rules, slot)
    return _run_as_foreseen(state, rules, trace, slot) if status == RAN_ALONE else status


@kernel
def _run_as_foreseen(state: NodesState, rules: NodesRules, trace: Trace, slot: int) -> int:
    """The job has run on a dedicated machine since it began to wait: that run goes on, or is over by now.

    If the machine was lost, the job has waited again since then.
    """
    need, progress, pool = state.needs[slot], state.progress[slot], state.pool[0]
    now, status = pool.now, DONE
    if min(progress.finish_at, need.alarm_s) > now:
        progress.outrun_at = math.inf
        set_job_timer(state, slot)
        return status
    if progress.finish_at <= need.alarm_s:
        pool.now = progress.finish_at
        end_alone(state, slot, RELEASED)
        finish(state, slot)
        _note(state, slot, trace, rules.learns)
    else:
        pool.now = need.alarm_s
        stop_alone(state, slot, FAILED if need.alarm == BOOTED else TAKEN_AWAY)
        status = wait(state, rules, slot)
        need.alarm_s = max(need.alarm_s, now)
        set_job_timer(state, slot)
    pool.now = now
    return status


@kernel
def _room_for_an_instant(state: NodesState) -> int:
    """DONE, NEED_SEGMENTS or NEED_LOG: the records of one instant may lack room.

    They are a stay for each placement, an absence for each job, and some lines of the log for each job and node.
    """
    pool, cluster = state.pool[0], state.cluster[0]
    stays = pool.segments + len(state.placements) - cluster.unused
    if 0 < len(state.segments) < stays or _has_no_room_for_a_lease(state):
        return NEED_SEGMENTS
    if 0 < len(state.absences) < cluster.absences + pool.active:
        return NEED_SEGMENTS
    lines = LINES_AN_EVENT * (pool.active + len(state.nodes))
    return NEED_LOG if 0 < len(state.log) < cluster.logged + lines else DONE


@kernel
def _has_no_room_for_a_lease(state: NodesState) -> bool:
    """Whether the leases lack room for one more machine, and for the ends of all rented ones."""
    cluster = state.cluster[0]
    return len(state.leases) > 0 and cluster.leases + cluster.rented >= len(state.leases)


@kernel
def _note(state: NodesState, slot: int, trace: Trace, learns: bool) -> None:
    """Record the outcome of a job that has just finished."""
    progress = state.progress[slot]
    if len(trace.outcomes) > 0:
        outcome = trace.outcomes[trace.finished[0]]
        trace.finished[0] += 1
        outcome.row = progress.row
        outcome.start_s = progress.started_s
        outcome.finish_s = state.pool[0].now
        outcome.units_s = progress.attained
        outcome.stalled_s = progress.stalled_s
        outcome.preemptions = progress.preemptions
        outcome.offer = state.rentings[slot].offer if len(state.rentings) > 0 else -1
        if len(trace.features) > 0:
            for at in range(FEATURE_COLUMNS):
                trace.features[trace.finished[0] - 1, at] = state.features[slot, at]
    if learns:
        arrival = trace.arrivals[progress.row - trace.first[0]]
        remember(trace.history, arrival.user, arrival.run_s)
