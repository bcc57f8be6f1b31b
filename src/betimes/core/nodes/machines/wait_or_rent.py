"""Waiting for owned machines, or renting for the job alone (spec/waiting.md A.2, A.5).

Parts of the loop that only policies with a `wait` hook need, and only these compile (`rules.NodesRules`).
"""

from __future__ import annotations

import math

from betimes.core.nodes.columns import NOW, NodesState
from betimes.core.nodes.machines.dedicated import (
    NO_OFFER,
    decide_wait,
    is_drawn,
    offer_for,
    rent_alone,
    wait_until,
)
from betimes.core.nodes.passes.preemption import NO_PLAN, find_victims, make_room
from betimes.core.nodes.queue import remove
from betimes.core.nodes.rules import NodesRules
from betimes.core.nodes.timers import set_job_timer
from betimes.core.nodes.transitions import enqueue
from betimes.core.nodes.wait_features import measure, predict
from betimes.core.shares import is_over_limit
from betimes.core.status import DONE, FORESEE, NEED_FATES, RAN_ALONE
from betimes.kernels import kernel

ASK_AGAIN_S = 60.0  # until a job asks again for machines after none were left


@kernel
def begin_to_wait(state: NodesState, rules: NodesRules, slot: int) -> int:
    """The job, which has its key, waits from now until the policy's deadline; DONE, or why that cannot be used."""
    if rules.requeues_last:
        state.jobs[slot].key = state.pool[0].now
    need = state.needs[slot]
    renting = state.rentings[slot]
    renting.queued_s = state.pool[0].now
    status = decide_wait(state, rules, slot)
    if status != DONE:
        return status
    if rules.observes:
        measure(state, slot)
    if need.dedicated == 0:
        enqueue(state, slot)
    return DONE


@kernel
def stop_waiting(state: NodesState, rules: NodesRules, slot: int) -> int:
    """The job's waiting deadline has passed: it runs on a dedicated machine, as soon as there is one.

    DONE, or what is needed first. RAN_ALONE: the job was foreseen to wait in vain, and has run since it began to wait;
    that run may be over by now.
    """
    need, pool = state.needs[slot], state.pool[0]
    renting = state.rentings[slot]
    now = pool.now
    if renting.undecided == 1:
        if rules.plays:
            pool.offender = slot
            return FORESEE
        renting.undecided = 0  # without a model either, a play-out in a play-out lets it wait
        if not (rules.learned and predict(state, rules, slot) > renting.until_s - renting.queued_s):
            need.alarm_s = renting.until_s
            set_job_timer(state, slot)
            return DONE
    if is_over_limit(state, slot):
        need.alarm_s = math.inf  # until `ask_again`
        set_job_timer(state, slot)
        return DONE
    offer = offer_for(state, slot, True)
    if offer == NO_OFFER:
        need.alarm_s = now + ASK_AGAIN_S
        set_job_timer(state, slot)
        return DONE
    if not is_drawn(state, slot, offer):
        return NEED_FATES
    if need.dedicated == 0:
        remove(state, slot)
    need.dedicated = 0
    need.alarm_s = math.inf
    set_job_timer(state, slot)
    state.cluster[0].changed += 1
    if rules.foresees and now > renting.queued_s:
        pool.now = renting.queued_s
        rent_alone(state, slot, offer, math.inf)
        pool.now = now
        return RAN_ALONE
    is_hurried = renting.choice == NOW or (rules.preempts and need.trial == 1)
    speculates = renting.speculated == 0 and need.fits_no_owned == 0 and not is_hurried
    units = float(state.jobs[slot].max_units) if rules.by_core_time else 1.0
    rent_alone(state, slot, offer, rules.speculate_s / units if speculates else math.inf)
    return DONE


@kernel
def preempt_or_rent(state: NodesState, rules: NodesRules, slot: int) -> int:
    """As `preemption.preempt`, unless a machine rented for the job alone would be up before its victims have left.

    Machines are rented for jobs whose waiting deadline has passed; a job that may not rent has none.
    """
    victims, count = find_victims(state, rules, slot)
    if victims <= 0:
        return victims
    renting = state.rentings[slot]
    offer = offer_for(state, slot, True) if renting.until_s <= state.pool[0].now else NO_OFFER
    if offer != NO_OFFER:
        terms = state.offers[offer]
        for k in range(victims):
            if state.needs[state.chosen[k]].grace_s > terms.boot_s + terms.setup_s:
                return NO_PLAN
    return make_room(state, slot, victims, count)


@kernel
def ask_again(state: NodesState) -> None:
    """Jobs that their users' limits kept from renting after their deadlines, and do not keep any more, rent now."""
    now = state.pool[0].now
    for slot in range(len(state.progress)):
        need = state.needs[slot]
        if state.progress[slot].served_by < 0 or need.holder >= 0 or need.bound >= 0:
            continue
        if (
            state.rentings[slot].until_s <= now
            and need.alarm_s == math.inf
            and not is_over_limit(state, slot)
        ):
            wait_until(state, slot, now)
