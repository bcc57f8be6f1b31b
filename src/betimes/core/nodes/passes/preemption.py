"""Preemption: a plan of which jobs leave so that one can start, worked out on a sketch of the nodes.

The policy only orders the candidates; the number of victims, the choice of those not needed after all, and the
preemptor's nodes follow the same rules for every policy. Nothing changes unless the plan suffices.
"""

from __future__ import annotations

import math

from betimes.core.nodes.columns import Need, NodesState, NodesView, view_of
from betimes.core.nodes.demands import give_on, task_fits, tasks_that_fit
from betimes.core.nodes.passes.find_nodes import (
    BAD_SCORE,
    OVERBOOKED,
    copy_asked,
    find_room,
    has_room,
    see_for,
    show,
)
from betimes.core.nodes.queue import remove
from betimes.core.nodes.rules import NodesRules
from betimes.core.nodes.transitions import give_all, nominate, tell_to_leave
from betimes.core.placements import takes
from betimes.kernels import kernel

NO_PLAN = 0
PLANNED = 1
BAD_VICTIM_SCORE = -2

MOST_TRIED = 12  # victims on the bound nodes up to which every subset is tried


@kernel
def preempt(state: NodesState, rules: NodesRules, slot: int) -> int:
    """Let jobs of a lower level make room for `slot`; PLANNED, NO_PLAN, or what is wrong with the policy's scores."""
    victims, count = find_victims(state, rules, slot)
    return make_room(state, slot, victims, count) if victims > 0 else victims


@kernel
def find_victims(state: NodesState, rules: NodesRules, slot: int) -> tuple[int, int]:
    """How many jobs of a lower level would make room for `slot`, and on how many nodes: `chosen`, `plan` and `sketch`.

    Instead of the first, NO_PLAN, or what is wrong with the policy's scores.
    """
    below = _those_below(state, slot)
    if below == 0:
        return NO_PLAN, 0
    see_for(state, state.nodes, slot)
    need, grace_s = state.needs[slot], 0.0
    for k in range(below):
        grace_s = max(grace_s, state.needs[state.chosen[k]].grace_s)
    lasts_s = need.lasts_s
    need.lasts_s += grace_s  # nodes that close have to stay open for so much longer
    victims, count = _plan(state, rules, slot, below)
    need.lasts_s = lasts_s
    return victims, count


@kernel
def make_room(state: NodesState, slot: int, victims: int, count: int) -> int:
    """Carry out what `find_victims` has found for the job; PLANNED."""
    for k in range(victims):
        tell_to_leave(state, state.chosen[k], slot)
    nominate(state, slot, count)
    state.cluster[0].draws += 1
    return PLANNED


@kernel
def nominate_again(state: NodesState, rules: NodesRules, slot: int, victims: int) -> int:
    """Bind a waiting job to the room that state.chosen[:victims] are leaving for it already.

    PLANNED, or as `find_room` has it if that room is too little. NO_PLAN if the job fits without: it is to start.
    """
    see_for(state, state.nodes, slot)
    if has_room(state, state.nodes, state.needs[slot]):
        return NO_PLAN
    _reset_sketch(state)
    for k in range(victims):
        give_all(state, state.sketch, state.chosen[k])
    count = find_room(state, rules, state.sketch, slot, -1)
    if count <= 0:
        return count
    remove(state, slot)
    nominate(state, slot, count)
    for k in range(victims):
        state.evictions[state.chosen[k]].preemptor = slot
    return PLANNED


@kernel
def _plan(state: NodesState, rules: NodesRules, slot: int, below: int) -> tuple[int, int]:
    """As `find_victims`, of the jobs state.chosen[:below]."""
    cluster, score, most = state.cluster[0], state.score, rules.most_preemptions
    if not _could_suffice(state, slot, below, most):
        return NO_PLAN, 0
    if cluster.guarded == 0:
        rules.evict(
            view_of(state), state.pool[0].now, slot, cluster.draws, state.chosen[:below], score[:below]
        )
    else:
        copy_asked(state, state.chosen, below)
        show(state, state.nodes)
        rules.evict(
            view_of(state), state.pool[0].now, slot, cluster.draws, state.asked[:below], score[:below]
        )
    for k in range(below):
        if math.isnan(score[k]):
            state.pool[0].offender = state.chosen[k]
            return BAD_VICTIM_SCORE, 0
        if state.progress[state.chosen[k]].preemptions >= most:
            score[k] = math.inf
    victims = _take_in_order(state, slot, below, rules.later_first)
    if victims == 0:
        return NO_PLAN, 0
    count = find_room(state, rules, state.sketch, slot, -1)
    if count <= 0:
        return (OVERBOOKED if count == OVERBOOKED else BAD_SCORE), 0
    if rules.trims and victims > 1:
        victims = _trim(state, slot, victims, count)
    return victims, count


@kernel
def makes_room(view: NodesView, victim: int, slot: int) -> bool:
    """Whether all tasks of the job in `slot` fit into the free resources and those of `victim` alone."""
    need, missing = view.needs[slot], view.needs[slot].tasks
    single = need.tasks == 1
    if not single:
        for number in range(len(view.nodes)):
            missing -= tasks_that_fit(view, view.nodes, number, need)
    at = view.needs[victim].placed
    while at >= 0:
        placement = view.placements[at]
        number = placement.node
        node = view.nodes[number]
        before = 0 if single else tasks_that_fit(view, view.nodes, number, need)
        held = view.needs[victim]
        give_on(view, node, number, held, placement.tasks)
        if single:
            missing -= int(task_fits(view, view.nodes, number, need))
        else:
            missing -= tasks_that_fit(view, view.nodes, number, need) - before
        give_on(view, node, number, held, -placement.tasks)  # as it was: whole numbers come back exactly
        at = placement.follows
    return missing <= 0


@kernel
def level_of(need: Need, mask: int) -> int:
    """Jobs of a higher level may preempt those of a lower one; mask: `Cluster.level_mask`."""
    return need.level & mask


@kernel
def _those_below(state: NodesState, slot: int) -> int:
    """Write the running jobs of a lower level to state.chosen; returns their number.

    A job that is only on nodes without a label that the preemptor requires, or on machines rented for it alone, would
    leave in vain, and is left out. Where users share, a priority counts among the jobs of one user only.
    """
    whole, count, labels = state.cluster[0].level_mask, 0, state.needs[slot].labels
    for at in range(state.pool[0].holders):
        other = state.holders[at]
        need, mask = state.needs[other], whole
        eviction = state.evictions[other]
        if len(state.users) > 0 and state.progress[other].user != state.progress[slot].user:
            mask = 1
        if level_of(need, mask) < level_of(state.needs[slot], mask) and eviction.vacate_at == math.inf:
            if need.rented > 0 or (labels != 0 and not _is_where_taken(state, other, slot)):
                continue
            state.chosen[count] = other
            count += 1
    return count


@kernel
def _is_where_taken(state: NodesState, victim: int, slot: int) -> bool:
    """Whether a victim holds anything on a node that takes tasks of the job."""
    at = state.needs[victim].placed
    while at >= 0:
        placement = state.placements[at]
        if takes(state.nodes[placement.node], state.needs[slot]):
            return True
        at = placement.follows
    return False


@kernel
def _reset_sketch(state: NodesState) -> None:
    for number in range(len(state.nodes)):
        state.sketch[number] = state.nodes[number]


@kernel
def _could_suffice(state: NodesState, slot: int, below: int, most: int) -> bool:
    """Whether the job would fit if all preemptible jobs left."""
    _reset_sketch(state)
    for k in range(below):
        if state.progress[state.chosen[k]].preemptions < most:
            give_all(state, state.sketch, state.chosen[k])
    return has_room(state, state.sketch, state.needs[slot])


@kernel
def _take_in_order(state: NodesState, slot: int, below: int, later_first: bool) -> int:
    """Take victims by score until the job fits: state.chosen[:count], in that order; 0: it never does."""
    chosen, score = state.chosen, state.score
    _reset_sketch(state)
    for taken in range(below):
        best = taken
        for k in range(taken + 1, below):
            earlier = state.jobs[chosen[k]].seq < state.jobs[chosen[best]].seq
            if score[k] < score[best] or (score[k] == score[best] and earlier != later_first):
                best = k
        if score[best] == math.inf:
            return 0
        chosen[taken], chosen[best] = chosen[best], chosen[taken]
        score[taken], score[best] = score[best], score[taken]
        give_all(state, state.sketch, chosen[taken])
        if _fits_now(state, slot, chosen[taken]):
            return taken + 1
    return 0


@kernel
def _fits_now(state: NodesState, slot: int, last: int) -> bool:
    """Whether the job fits on the sketch, to which the victim `last` has just been added."""
    need = state.needs[slot]
    if need.tasks > 1:
        return has_room(state, state.sketch, need)
    at = state.needs[last].placed
    while at >= 0:
        placement = state.placements[at]
        if task_fits(state, state.sketch, placement.node, need):
            return True
        at = placement.follows
    return False


@kernel
def _trim(state: NodesState, slot: int, victims: int, count: int) -> int:
    """Keep the fewest victims without whom the job would not fit on the nodes of state.plan[:count].

    Of equally small sets, the one taken first. The sketch then has their resources; returns their number.
    """
    chosen, stays, kept = state.chosen, state.score, 0
    for k in range(victims):
        if _gives_on(state, chosen[k], count):
            chosen[kept], chosen[k] = chosen[k], chosen[kept]
            kept += 1
    if kept <= MOST_TRIED:
        _try_all(state, slot, kept, count)
    else:
        for k in range(kept):
            stays[k] = 1.0
        for k in range(kept - 1, -1, -1):
            stays[k] = 0.0
            if not _suffices(state, slot, kept, count):
                stays[k] = 1.0
    _suffices(state, slot, kept, count)
    needed = 0
    for k in range(kept):
        if stays[k] > 0.0:
            chosen[needed] = chosen[k]
            needed += 1
    return needed


@kernel
def _try_all(state: NodesState, slot: int, kept: int, count: int) -> None:
    """Mark in state.score the smallest set of the `kept` victims that suffices, ties to those taken earlier."""
    # The earliest victim is the highest bit: among sets of one size, the largest number has the earliest victims.
    all_kept = (1 << kept) - 1
    best, fewest = all_kept, kept
    for members in range(all_kept, 0, -1):
        number = 0
        for k in range(kept):
            number += (members >> k) & 1
        if number < fewest:
            _mark(state, members, kept)
            if _suffices(state, slot, kept, count):
                best, fewest = members, number
    _mark(state, best, kept)


@kernel
def _mark(state: NodesState, members: int, kept: int) -> None:
    for k in range(kept):
        state.score[k] = float((members >> (kept - 1 - k)) & 1)


@kernel
def _suffices(state: NodesState, slot: int, kept: int, count: int) -> bool:
    """Whether the plan holds if only the marked victims leave; sketches its nodes so, and no others."""
    for k in range(count):
        state.sketch[state.plan[k].node] = state.nodes[state.plan[k].node]
    for k in range(kept):
        if state.score[k] > 0.0:
            give_all(state, state.sketch, state.chosen[k])
    need = state.needs[slot]
    for k in range(count):
        choice = state.plan[k]
        if tasks_that_fit(state, state.sketch, choice.node, need) < choice.tasks:
            return False
    return True


@kernel
def _gives_on(state: NodesState, victim: int, count: int) -> bool:
    """Whether a victim holds anything on the nodes of state.plan[:count]."""
    at = state.needs[victim].placed
    while at >= 0:
        placement = state.placements[at]
        for k in range(count):
            if state.plan[k].node == placement.node:
                return True
        at = placement.follows
    return False
