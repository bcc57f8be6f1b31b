"""A machine rented for one job alone, which comes and goes with it (waiting policies; spec/waiting.md A.5, A.6).

Such a machine takes no number among the nodes, so that a pass looks at none of them, however many there are.
"""

from __future__ import annotations

import math

from betimes.core.instruction import RELEASE, RENT
from betimes.core.nodes.columns import NEVER, NOW, NodesState, view_of
from betimes.core.nodes.demands import demand_in, runs_in
from betimes.core.nodes.holders import add_holder
from betimes.core.nodes.log import note
from betimes.core.nodes.machines.rented import FAILED, RELEASED, TAKEN_AWAY
from betimes.core.nodes.queue import all_waiting, remove
from betimes.core.nodes.rates import speed_of
from betimes.core.nodes.rules import NodesRules
from betimes.core.nodes.timers import BOOTED, EXPIRED, RECLAIMED, SPECULATED, set_job_timer
from betimes.core.nodes.transitions import begin, enqueue, note_length, vacate
from betimes.core.status import BAD_WAIT, DONE, REFUSED
from betimes.core.work import set_to_work
from betimes.kernels import kernel

NO_OFFER = -1

MOST_LOST = 3
"""Times that a job's spot machines may be taken away before it is rented for on demand only."""


@kernel
def offer_for(state: NodesState, slot: int, at_once: bool) -> int:
    """The cheapest offer that holds the whole job, else the largest, rented several times; NO_OFFER: none can.

    Nothing is rented for a job that its lease would not see done, also not to speculate.
    at_once: count only machines that the capacities and the quota leave now. Ties go to the offer listed first.
    """
    best, largest = NO_OFFER, NO_OFFER
    if state.needs[slot].lasts_s > state.cluster[0].longest_run_s:
        return NO_OFFER
    for number in range(len(state.offers)):
        terms, count = state.offers[number], machines_for(state, slot, number)
        most = min(terms.capacity, state.cluster[0].quota)
        if at_once:
            most = min(terms.capacity - terms.rented, state.cluster[0].quota - state.cluster[0].rented)
        if count == 0 or count > most or (terms.spot == 1 and state.rentings[slot].lost >= MOST_LOST):
            continue
        if count == 1 and (best < 0 or terms.usd_per_h < state.offers[best].usd_per_h):
            best = number
        if largest < 0 or terms.cpu > state.offers[largest].cpu:
            largest = number
    return best if best >= 0 else largest


@kernel
def decide_wait(state: NodesState, rules: NodesRules, slot: int) -> int:
    """Ask the policy for the waiting deadline of a job that waits since `queued_s`; DONE, or the answer's fault.

    The caller puts the job into the queue, unless it must not use owned machines (`dedicated`).
    """
    now, need = state.pool[0].now, state.needs[slot]
    renting = state.rentings[slot]
    note_length(state, slot)
    until_s = rules.wait(view_of(state), renting.queued_s, slot)
    if math.isnan(until_s):
        state.pool[0].offender = slot
        return REFUSED + BAD_WAIT
    if renting.choice == NOW:
        until_s = now
    if renting.choice == NEVER or offer_for(state, slot, False) == NO_OFFER:
        until_s = math.inf  # nothing may be rented, or no offer holds the job
    elif need.fits_no_owned == 1:
        until_s = -math.inf  # it would wait in vain
    need.dedicated = int(until_s == -math.inf)
    renting.until_s = until_s
    renting.undecided = int((rules.learned or rules.plays) and now < until_s < math.inf)
    wait_until(state, slot, now if renting.undecided == 1 else max(until_s, now))
    return DONE


@kernel
def decide_waits(state: NodesState, rules: NodesRules) -> int:
    """Ask for the deadlines of all waiting jobs; DONE, or an answer's fault. The caller then sorts the queue."""
    count = all_waiting(state, state.chosen)
    for slot in range(len(state.progress)):
        if state.needs[slot].dedicated == 1 and state.progress[slot].served_by >= 0:
            state.chosen[count] = slot
            count += 1
    for k in range(count):
        slot = state.chosen[k]
        was_dedicated = state.needs[slot].dedicated
        status = decide_wait(state, rules, slot)
        if status != DONE:
            return status
        if state.needs[slot].dedicated > was_dedicated:
            remove(state, slot)
        elif state.needs[slot].dedicated < was_dedicated:
            enqueue(state, slot)
    return DONE


@kernel
def machines_for(state: NodesState, slot: int, offer: int) -> int:
    """The number of machines of an offer that hold the whole job; 0: it cannot run on any number of them."""
    need, terms, count = state.needs[slot], state.offers[offer], 1
    if need.labels & ~terms.labels != 0 or not runs_in(state, need, terms.family):
        return 0
    gpu, cpu, memory = demand_in(state, need, terms.family)
    for wanted, there in (
        (need.tasks * gpu, terms.gpu),
        (need.tasks * cpu, terms.cpu),
        (need.tasks * memory, terms.memory),
    ):
        if wanted > there:
            if there == 0:
                return 0
            count = max(count, (wanted + there - 1) // there)
    return count


@kernel
def is_drawn(state: NodesState, slot: int, offer: int) -> bool:
    """Whether the fates of the machines that the job would rent are known; else they are to be drawn first."""
    terms = state.offers[offer]
    return terms.drawn == 0 or terms.asked + machines_for(state, slot, offer) <= terms.known


@kernel
def rent_alone(state: NodesState, slot: int, offer: int, speculate_s: float) -> None:
    """Run a job, which is not in the queue, on one or several dedicated machines; at most `speculate_s` of work.

    Several boot together, and the first that is taken away ends the run. A run ends early by a timer of the job:
    `BOOTED`, a machine that has failed to; `RECLAIMED`; `SPECULATED`.
    """
    need, progress, now = state.needs[slot], state.progress[slot], state.pool[0].now
    renting = state.rentings[slot]
    renting.offer = offer
    terms = state.offers[offer]
    need.rented = machines_for(state, slot, offer)
    renting.whole_s = progress.work_left
    renting.believed_s = progress.believed_left
    renting.serial = terms.asked
    renting.boot_s = terms.boot_s
    fails, age_s = False, math.inf
    if terms.drawn == 1:
        width = len(state.fates) // len(state.offers)
        for serial in range(terms.asked, terms.asked + need.rented):
            fate = state.fates[offer * width + serial % width]
            renting.boot_s = fate.boot_s  # the same for all of the job's machines (`twin.nodes.renting`)
            fails = fails or fate.fails == 1
            age_s = min(age_s, fate.age_s)
    terms.asked += need.rented
    terms.rented += need.rented
    state.cluster[0].rented += need.rented
    begin(state, slot)
    need.contends = 1  # it has no neighbours
    need.alarm_s = math.inf
    delay_s = renting.boot_s + terms.setup_s
    if delay_s > 0.0:
        progress.started_s += delay_s
        progress.stall += delay_s
        progress.finish_at += delay_s
        progress.outrun_at += delay_s
    renting.speculates_until_s = now + delay_s + speculate_s
    if renting.speculates_until_s < progress.finish_at:
        need.alarm_s = renting.speculates_until_s
        need.alarm = SPECULATED
    lost_s = now + renting.boot_s if fails else now + delay_s + age_s + terms.notice_s
    if lost_s < min(progress.finish_at, renting.speculates_until_s):
        need.alarm_s = lost_s
        need.alarm = BOOTED if fails else RECLAIMED
    set_job_timer(state, slot)
    note(state, RENT, slot, -1, need.tasks, renting.speculates_until_s, -1)


@kernel
def end_alone(state: NodesState, slot: int, cause: int) -> None:
    """The job's dedicated machines go, now."""
    need, cluster, now = state.needs[slot], state.cluster[0], state.pool[0].now
    renting = state.rentings[slot]
    terms = state.offers[renting.offer]
    if len(state.leases) > 0:
        lease = state.leases[cluster.leases]
        cluster.leases += 1
        lease.offer = renting.offer
        lease.count = need.rented
        lease.serial = renting.serial
        lease.node = -1
        lease.generation = 0
        lease.job = state.progress[slot].row
        lease.requested_s = need.began_s
        lease.booted_s = lease.up_s = math.inf
        if cause != FAILED:
            lease.booted_s = need.began_s + renting.boot_s
            lease.up_s = need.began_s + renting.boot_s + terms.setup_s
        lease.ended_s = now if cause == FAILED or cause == TAKEN_AWAY else now + terms.release_s
        lease.idle_s = 0.0
        lease.task_s = (now - need.began_s) * need.tasks / need.rented
        lease.cause = cause
    terms.rented -= need.rented
    cluster.rented -= need.rented
    note(state, RELEASE, slot, -1, need.tasks, 0.0, -1)
    need.rented = 0


@kernel
def stop_alone(state: NodesState, slot: int, cause: int) -> None:
    """End a run on dedicated machines before the job is done: its work is lost.

    RELEASED: the run was speculative, and the job is known to be long; FAILED and TAKEN_AWAY: the machines are lost.
    The job is not in the queue afterwards.
    """
    need, progress, now = state.needs[slot], state.progress[slot], state.pool[0].now
    eviction = state.evictions[slot]
    renting = state.rentings[slot]
    end_alone(state, slot, cause)
    vacate(state, slot)
    progress.work_left = renting.whole_s
    progress.believed_left = renting.believed_s
    progress.rate = 0.0
    progress.stall = 0.0
    progress.attained = 0.0
    progress.finish_at = math.inf
    progress.outrun_at = math.inf
    progress.started_s = math.nan
    state.jobs[slot].attained = 0.0
    state.jobs[slot].remaining_s = renting.believed_s
    eviction.vacated_s = math.nan
    renting.offer = -1
    renting.lost += int(cause == TAKEN_AWAY)
    renting.speculated = max(renting.speculated, int(cause == RELEASED))
    renting.queued_s = now
    need.alarm_s = math.inf
    need.alarm = EXPIRED


@kernel
def resume_alone(state: NodesState, slot: int, speculates_until_s: float) -> None:
    """Resume a job, which is not in the queue, with `rented` dedicated machines of `offer` since `began_s`.

    Its account is true. speculates_until_s: infinity if its run is not speculative.
    """
    need, job = state.needs[slot], state.jobs[slot]
    renting = state.rentings[slot]
    terms = state.offers[renting.offer]
    renting.serial = terms.asked
    terms.asked += need.rented
    terms.rented += need.rented
    state.cluster[0].rented += need.rented
    renting.whole_s = state.progress[slot].work_left
    renting.believed_s = job.size_s
    job.units = float(job.max_units)
    add_holder(state, slot)
    set_to_work(state, slot, speed_of(state, slot), state.progress[slot].since)
    renting.boot_s = terms.boot_s
    need.alarm_s = renting.speculates_until_s = speculates_until_s
    need.alarm = SPECULATED
    need.contends = 1
    set_job_timer(state, slot)
    state.cluster[0].changed += 1


@kernel
def start_alone(state: NodesState, slot: int, speculate_s: float) -> None:
    """The job's dedicated machines are up now, earlier or later than expected: it works from now on."""
    need, progress, now = state.needs[slot], state.progress[slot], state.pool[0].now
    renting = state.rentings[slot]
    progress.stall = max(0.0, now - progress.since)
    set_to_work(state, slot, progress.rate, progress.since)
    if renting.speculates_until_s < math.inf:
        need.alarm_s = renting.speculates_until_s = now + speculate_s
    set_job_timer(state, slot)
    state.cluster[0].changed += 1


@kernel
def wait_until(state: NodesState, slot: int, until_s: float) -> None:
    """Let a job wait until `until_s`; if it still waits then, a machine is rented for it alone."""
    need = state.needs[slot]
    need.alarm_s = until_s
    need.alarm = EXPIRED
    set_job_timer(state, slot)


@kernel
def speculate_until(state: NodesState, slot: int, until_s: float) -> None:
    """Let a speculative run go on until `until_s`."""
    need = state.needs[slot]
    renting = state.rentings[slot]
    need.alarm_s = renting.speculates_until_s = until_s
    set_job_timer(state, slot)
