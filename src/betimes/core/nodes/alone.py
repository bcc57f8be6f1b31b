"""A machine rented for one job alone, which comes and goes with it (waiting policies; spec/waiting.md A.5, A.6).

It takes no number among the nodes, so that a pass does not look at it, however many there are.
"""

from __future__ import annotations

import math

from betimes.core.account import set_to_work
from betimes.core.nodes.columns import NodesState
from betimes.core.nodes.holders import add_holder
from betimes.core.nodes.log import RELEASE, RENT, note
from betimes.core.nodes.machines import RELEASED
from betimes.core.nodes.timers import EXPIRED, SPECULATED, set_job_timer
from betimes.core.nodes.transitions import begin, vacate
from betimes.kernels import kernel


@kernel
def smallest_offer(state: NodesState, slot: int) -> int:
    """The cheapest offer that holds the whole job; where none does the largest, of which several are rented.

    Ties go to the one that is listed first.
    """
    need, best, largest = state.needs[slot], -1, 0
    for number in range(len(state.offers)):
        terms = state.offers[number]
        holds = (
            need.tasks * need.gpu <= terms.gpu
            and need.tasks * need.cpu <= terms.cpu
            and need.tasks * need.memory <= terms.memory
        )
        if holds and (best < 0 or terms.usd_per_h < state.offers[best].usd_per_h):
            best = number
        if terms.cpu > state.offers[largest].cpu:
            largest = number
    return best if best >= 0 else largest


@kernel
def machines_for(state: NodesState, slot: int, offer: int) -> int:
    """How many machines of an offer hold the whole job; 0: none does, however many."""
    need, terms, count = state.needs[slot], state.offers[offer], 1
    for wanted, there in (
        (need.tasks * need.gpu, terms.gpu),
        (need.tasks * need.cpu, terms.cpu),
        (need.tasks * need.memory, terms.memory),
    ):
        if wanted > 0:
            if there == 0:
                return 0
            count = max(count, (wanted + there - 1) // there)
    return count


@kernel
def rent_alone(state: NodesState, slot: int, speculate_s: float) -> None:
    """A job that is not in the queue runs on a machine of its own, or on several; at most `speculate_s` of work."""
    need, progress = state.needs[slot], state.progress[slot]
    need.offer = smallest_offer(state, slot)
    terms = state.offers[need.offer]
    need.rented = machines_for(state, slot, need.offer)
    need.whole_s = progress.work_left
    need.believed_s = progress.believed_left
    need.serial = terms.asked
    terms.asked += need.rented
    terms.rented += need.rented
    state.cluster[0].rented += need.rented
    note(state, RENT, slot, -1, need.tasks, float(need.offer), -1)
    begin(state, slot)
    delay_s = terms.boot_s + terms.setup_s
    if delay_s > 0.0:
        progress.started_s += delay_s
        progress.stall += delay_s
        progress.finish_at += delay_s
        progress.outrun_at += delay_s
    if delay_s + speculate_s < progress.finish_at - state.pool[0].now:
        need.alarm_s = state.pool[0].now + delay_s + speculate_s
        need.alarm = SPECULATED
    set_job_timer(state, slot)


@kernel
def end_alone(state: NodesState, slot: int, requested_s: float, ended_s: float) -> None:
    """The machines that were rented for the job alone go."""
    need, cluster = state.needs[slot], state.cluster[0]
    terms = state.offers[need.offer]
    if len(state.leases) > 0:
        lease = state.leases[cluster.leases]
        cluster.leases += 1
        lease.offer = need.offer
        lease.count = need.rented
        lease.serial = need.serial
        lease.node = -1
        lease.generation = 0
        lease.job = state.progress[slot].row
        lease.requested_s = requested_s
        lease.booted_s = requested_s + terms.boot_s
        lease.up_s = requested_s + terms.boot_s + terms.setup_s
        lease.ended_s = ended_s + terms.release_s
        lease.idle_s = 0.0
        lease.task_s = (ended_s - requested_s) * need.tasks / need.rented
        lease.cause = RELEASED
    terms.rented -= need.rented
    cluster.rented -= need.rented
    note(state, RELEASE, slot, -1, need.tasks, float(need.offer), -1)
    need.rented = 0


@kernel
def stop_speculating(state: NodesState, slot: int) -> None:
    """A speculative run is over without the job being done: its work is lost, and it is known to be long.

    It is not in the queue afterwards.
    """
    need, progress, now = state.needs[slot], state.progress[slot], state.pool[0].now
    end_alone(state, slot, need.began_s, now)
    vacate(state, slot)
    progress.work_left = need.whole_s
    progress.believed_left = need.believed_s
    progress.rate = 0.0
    progress.stall = 0.0
    progress.attained = 0.0
    progress.finish_at = math.inf
    progress.outrun_at = math.inf
    progress.started_s = math.nan
    state.jobs[slot].attained = 0.0
    state.jobs[slot].remaining_s = need.believed_s
    need.left_s = math.nan
    need.offer = -1
    need.speculated = 1
    need.queued_s = now
    need.alarm_s = math.inf
    need.alarm = EXPIRED


@kernel
def resume_alone(state: NodesState, slot: int, speculates_until_s: float) -> None:
    """A job that is not in the queue has had `rented` machines of its own, of `offer`, since `began_s`.

    Its account is true. speculates_until_s: infinity where its run is no speculative one.
    """
    need, job = state.needs[slot], state.jobs[slot]
    terms = state.offers[need.offer]
    need.serial = terms.asked
    terms.asked += need.rented
    terms.rented += need.rented
    state.cluster[0].rented += need.rented
    need.whole_s = state.progress[slot].work_left
    need.believed_s = job.size_s
    job.units = float(job.max_units)
    add_holder(state, slot)
    set_to_work(state, slot, 1.0, state.progress[slot].since)
    need.alarm_s = speculates_until_s
    need.alarm = SPECULATED
    set_job_timer(state, slot)
    state.cluster[0].changed += 1


@kernel
def start_alone(state: NodesState, slot: int, speculate_s: float) -> None:
    """The machines of the job's own are up now, earlier or later than their delays had it: it works from now on."""
    need, progress, now = state.needs[slot], state.progress[slot], state.pool[0].now
    progress.stall = max(0.0, now - progress.since)
    set_to_work(state, slot, progress.rate, progress.since)
    if need.alarm == SPECULATED and need.alarm_s < math.inf:
        need.alarm_s = now + speculate_s
    set_job_timer(state, slot)
    state.cluster[0].changed += 1


@kernel
def wait_until(state: NodesState, slot: int, until_s: float) -> None:
    """A job that waits is to do so until then, and a machine is rented for it alone if it still does."""
    need = state.needs[slot]
    need.alarm_s = until_s
    need.alarm = EXPIRED
    set_job_timer(state, slot)


@kernel
def speculate_until(state: NodesState, slot: int, until_s: float) -> None:
    """A speculative run goes on until then."""
    state.needs[slot].alarm_s = until_s
    set_job_timer(state, slot)
