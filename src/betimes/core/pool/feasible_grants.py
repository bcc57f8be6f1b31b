"""Cuts a decision to its feasible part: resizes that the gate lets through, units that find room on nodes.

The rule is docs/notes/pool-on-nodes.md. A job keeps at least the lesser of its held and its granted units; the rest of
the pool goes to those that grow or start, in the order of the policy's grants. Hence no decision that is within the
pool ends beyond it, and no job loses units because another is held back.
"""

from __future__ import annotations

from betimes.core.closings import LEAST_S, next_opening_s, see_closings
from betimes.core.pool.columns import State
from betimes.core.pool.placement import (
    begin_instant,
    could_be_put_back,
    give_back,
    most_that_fit,
    place,
    put_back,
)
from betimes.core.pool.resize_gate import growth_pays, opens_at, width_before
from betimes.core.work import believed_left, speed
from betimes.kernels import kernel

# Why a job did not get its grant (`Progress.curtailed`).
NOT_CURTAILED = 0
TOO_SOON = 1  # its width has not stood for `resize_interval_s`
NO_GAIN = 2  # it would not be done earlier; or no other job would get the units that it would give up
KEPT_BY_OTHERS = 3  # the units are those of jobs that keep theirs for one of these reasons
NO_ROOM = 4  # no node has room for more units
CLOSES = 5  # no node that has room stays open until the job would be done


@kernel
def curtails(state: State) -> bool:
    """Whether decisions may have to be cut at all."""
    pool = state.pool[0]
    return len(state.nodes) > 0 or pool.resize_interval_s > 0.0 or pool.resize_gain == 1


@kernel
def asked_for(state: State, slot: int) -> float:
    """The job's units in the last decision before the cut, in a pool that cuts; 0: it was given none."""
    progress = state.progress[slot]
    return progress.asked_units if progress.served_by == state.pool[0].decision else 0.0


@kernel
def curtail(state: State, count: int) -> tuple[int, int]:
    """Cut the decision grants[:count], which is legal and marked, and place what remains of it.

    Returns how many jobs it names now, and how many it serves; those that it does not serve stand behind them.
    """
    pool, grants = state.pool[0], state.grants
    on_nodes = len(state.nodes) > 0
    for at in range(count):
        progress = state.progress[grants[at].job]
        progress.asked_units = grants[at].units
        progress.curtailed = NOT_CURTAILED
    gated = pool.resize_interval_s > 0.0
    left = pool.units - _kept(state, count, gated)
    if left < 0.0:  # units have been taken out of the pool: those who would keep theirs cannot
        gated = False
        left = pool.units - _kept(state, count, gated)
    if len(state.closings) > 0:
        see_closings(state.nodes, state.closings, pool.now, 0)
        pool.opens_at = min(pool.opens_at, next_opening_s(state.closings, pool.now, -1))
    if on_nodes:
        begin_instant(state)
        _give_back_losses(state, count, gated)
    for at in range(count):
        left -= _serve(state, at, left, gated, on_nodes)
    if pool.resize_gain == 1:
        for at in range(count):
            left -= _take_back(state, at, left, on_nodes)
    if len(state.closings) > 0:
        count = _fill(state, count, left)
    return count, _served_first(state, count)


@kernel
def _is_held_back(state: State, slot: int, gated: bool) -> bool:
    """Whether the job would be resized too soon."""
    before = width_before(state, slot)
    return (
        gated
        and before > 0.0
        and state.progress[slot].asked_units != before
        and state.pool[0].now < opens_at(state, slot)
    )


@kernel
def _keeps(state: State, slot: int, gated: bool) -> float:
    """The units that a job named by the decision keeps at least."""
    before = width_before(state, slot)
    return before if _is_held_back(state, slot, gated) else min(before, state.progress[slot].asked_units)


@kernel
def _kept(state: State, count: int, gated: bool) -> float:
    total = 0.0
    for at in range(count):
        total += _keeps(state, state.grants[at].job, gated)
    return total


@kernel
def _give_back_losses(state: State, count: int, gated: bool) -> None:
    """Jobs that lose units give them back."""
    pool = state.pool[0]
    slot = pool.touched  # jobs that held units before this instant, and have lost them since
    while slot >= 0:
        if state.progress[slot].served_by != pool.decision:
            give_back(state, slot, int(width_before(state, slot)))
        slot = state.footprints[slot].follows
    for at in range(pool.holders):
        slot = state.holders[at]
        if state.progress[slot].served_by != pool.decision and state.footprints[slot].touched == 0:
            give_back(state, slot, int(width_before(state, slot)))
    for at in range(count):
        slot = state.grants[at].job
        give_back(state, slot, int(width_before(state, slot) - _keeps(state, slot, gated)))


@kernel
def _serve(state: State, at: int, left: float, gated: bool, on_nodes: bool) -> float:
    """Settle one job's units; returns how many of the units left it takes."""
    pool, grant = state.pool[0], state.grants[at]
    slot = grant.job
    job, progress = state.jobs[slot], state.progress[slot]
    keeps = _keeps(state, slot, gated)
    grant.units = keeps
    if _is_held_back(state, slot, gated):
        progress.curtailed = TOO_SOON
        pool.opens_at = min(pool.opens_at, opens_at(state, slot))
        return 0.0
    wanted = progress.asked_units - keeps
    if wanted <= 0.0:
        return 0.0
    more = min(wanted, left)
    if more < wanted:
        progress.curtailed = KEPT_BY_OTHERS
    if on_nodes:
        footprint = state.footprints[slot]
        footprint.lasts_s = 0.0
        fitting = float(most_that_fit(state, slot, int(more)))
        if fitting < more:
            more = fitting
            progress.curtailed = NO_ROOM
        while len(state.closings) > 0 and more > 0.0:  # on fewer units it takes longer
            footprint.lasts_s = _lasts_s(state, slot, keeps + more)
            fitting = float(most_that_fit(state, slot, int(more)))
            if fitting == more:
                break
            more = fitting
            progress.curtailed = CLOSES
    if keeps == 0.0:
        if more < job.least:
            more = 0.0
    elif more > 0.0 and pool.resize_gain == 1 and not growth_pays(state, slot, keeps + more):
        more = 0.0
        progress.curtailed = NO_GAIN
    if on_nodes:
        place(state, slot, int(more))
    grant.units = keeps + more
    return more


@kernel
def _fill(state: State, count: int, left: float) -> int:
    """Give what is left to other jobs if some of grants[:count] wait for nodes that close; returns the new count.

    In the policy's order, first to those that hold units already: they are over before the others can have them.
    """
    pool, waits = state.pool[0], False
    for at in range(count):
        waits = waits or state.progress[state.grants[at].job].curtailed == CLOSES
    for begins in range(2 if waits else 0):
        for number in range(len(state.groups)):
            line, group = state.order[number], state.groups[number]
            for slot in line[group.head : group.tail]:
                progress, holds = state.progress[slot], width_before(state, slot) > 0.0
                if left < 1.0 or progress.served_by == pool.decision or holds == (begins == 1):
                    continue
                grant = state.grants[count]
                grant.job = slot
                grant.units = 0.0
                progress.curtailed = NOT_CURTAILED
                if holds:
                    _take_back(state, count, left, True)
                else:
                    progress.asked_units = min(float(state.jobs[slot].max_units), left)
                    _serve(state, count, left, False, True)
                if grant.units > 0.0:
                    left -= grant.units
                    progress.served_by = pool.decision
                    pool.still_served += int(state.jobs[slot].units > 0.0)
                    count += 1
    return count


@kernel
def _lasts_s(state: State, slot: int, units: float) -> float:
    """How long a job takes at most from now on: by the limit of a run, else as is believed, on so many units."""
    limit_s = state.footprints[slot].limit_s
    if limit_s > 0.0:
        return limit_s
    pool, curve = state.pool[0], state.jobs[slot].curve
    left_s = believed_left(state, slot, pool.now) / speed(state.speedup, curve, units)
    return max(LEAST_S, pool.restart_s + left_s)


@kernel
def _take_back(state: State, at: int, left: float, on_nodes: bool) -> float:
    """Let a job keep the units that it gives up if all are still free; returns how many it takes back."""
    grant = state.grants[at]
    slot = grant.job
    given_up = width_before(state, slot) - grant.units
    if given_up <= 0.0 or given_up > left or (on_nodes and not could_be_put_back(state, slot)):
        return 0.0
    if on_nodes:
        put_back(state, slot)
    grant.units += given_up
    state.progress[slot].curtailed = NO_GAIN
    return given_up


@kernel
def _served_first(state: State, count: int) -> int:
    """Bring the jobs that get units before those that get none; adds up their units."""
    grants, served, total = state.grants, 0, 0.0
    for at in range(count):
        job, units = grants[at].job, grants[at].units
        if units > 0.0:
            grants[at].job, grants[at].units = grants[served].job, grants[served].units
            grants[served].job, grants[served].units = job, units
            served += 1
            total += units
    state.pool[0].asked_units = total
    return served
