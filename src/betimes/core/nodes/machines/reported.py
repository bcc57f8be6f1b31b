"""Rented machines as a cloud reports them: live, a machine is up or lost when that is reported, not when expected.

Until then its timers say what is expected, which is what a play-out goes by; `put_off` keeps them from going off.
"""

from __future__ import annotations

import math

from betimes.core.nodes.columns import NodesState
from betimes.core.nodes.machines.rented import GOING, bring_up, end, expect, take_number
from betimes.core.nodes.timers import BOOTED, GONE, UP
from betimes.core.nodes.transitions import pay_claims
from betimes.core.status import NEED_NODES
from betimes.kernels import kernel

EARLY_OR_LATE_S = 1e-6


@kernel
def resume_machine(state: NodesState, offer: int, requested_s: float, up_s: float) -> int:
    """A machine that was rented before; up_s: since when it is up, infinity: it boots. Its number, or NEED_NODES."""
    number = take_number(state, offer, requested_s)
    if number == NEED_NODES:
        return NEED_NODES
    machine, terms = state.machines[number], state.offers[offer]
    if up_s < math.inf:
        bring_up(state, number)
        machine.booted_s = up_s - terms.setup_s
        machine.up_s = up_s
    else:
        expect(state, number, max(state.pool[0].now, requested_s + terms.boot_s), BOOTED)
    return number


@kernel
def report_up(state: NodesState, number: int) -> None:
    """A machine takes tasks from now on, be it earlier or later than was expected."""
    machine, now = state.machines[number], state.pool[0].now
    setup_s = state.offers[machine.offer].setup_s
    # Instants that come back as they were expected are kept to the last bit.
    if not abs(machine.booted_s + setup_s - now) <= EARLY_OR_LATE_S:
        machine.booted_s = now - setup_s
    state.pool[0].events += 1
    bring_up(state, number)
    pay_claims(state, number)


@kernel
def report_gone(state: NodesState, number: int, cause: int) -> None:
    """A machine on which there is nothing any more is lost: `FAILED` or `TAKEN_AWAY`, or given back (`RELEASED`)."""
    state.pool[0].events += 1
    end(state, number, cause)


@kernel
def report_refused(state: NodesState, number: int, again_s: float) -> None:
    """A machine that was ordered is not to be had; until `again_s` it counts as one that goes, and no tick is due."""
    state.machines[number].state = GOING
    expect(state, number, again_s, GONE)


@kernel
def put_off(state: NodesState, until_s: float, again_s: float) -> None:
    """Machines that should be up by `until_s`, and of which that is not reported, are expected at `again_s`."""
    for number in range(len(state.machines)):
        machine = state.machines[number]
        if machine.offer < 0 or machine.due_s > until_s:
            continue
        # With a time of set-up the boot is no more than the beginning of that.
        if machine.due == UP or (machine.due == BOOTED and state.offers[machine.offer].setup_s == 0.0):
            expect(state, number, again_s, machine.due)
