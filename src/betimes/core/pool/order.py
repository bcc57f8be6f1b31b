"""The active jobs of a group, kept sorted by (key, seq) in one row of an array.

The jobs lie between a head and a tail that both move, and a change shifts the shorter side. A change near the
head - a running job finishes, or overtakes its neighbour - costs the number of jobs that hold units, however many
wait behind them.
"""

from __future__ import annotations

import math

import numpy as np

from betimes.core.pool.columns import Job, State
from betimes.core.shares import RECENT_COUNTS, do_users_share, order_by_shares, recent_at
from betimes.kernels import Each, Floats, Ints, full_kernel, kernel


@kernel
def goes_before(jobs: Each[Job], a: int, b: int) -> bool:
    """Whether job `a` ranks before job `b`: the smaller key, then the earlier submission."""
    first, second = jobs[a], jobs[b]
    return first.key < second.key or (first.key == second.key and first.seq < second.seq)


@kernel
def first_behind(jobs: Each[Job], line: Ints, low: int, high: int, job: int) -> int:
    """The first place in line[low:high] whose job ranks behind `job`."""
    while low < high:
        middle = (low + high) // 2
        if goes_before(jobs, job, line[middle]):
            high = middle
        else:
            low = middle + 1
    return low


@kernel
def enter(state: State, job: int) -> None:
    """Put `job` in its place among its group."""
    jobs = state.jobs
    number = jobs[job].group
    group, line = state.groups[number], state.order[number]
    head, tail = group.head, group.tail
    if tail == len(line):
        for place in range(head, tail):
            line[place - head] = line[place]
        head, tail = 0, tail - head
    if head == tail or not goes_before(jobs, job, line[tail - 1]):
        place = tail  # the common case: no job ranks behind the newcomer
    else:
        place = first_behind(jobs, line, head, tail, job)
    if head > 0 and place - head < tail - place:
        for other in range(head, place):
            line[other - 1] = line[other]
        head -= 1
        place -= 1
    else:
        for other in range(tail, place, -1):
            line[other] = line[other - 1]
        tail += 1
    line[place] = job
    group.head = head
    group.tail = tail
    group.demand += min(float(jobs[job].max_units), state.pool[0].units)


@kernel
def leave(state: State, job: int) -> None:
    """Take `job` out of its group."""
    number = state.jobs[job].group
    group, line = state.groups[number], state.order[number]
    head, tail = group.head, group.tail
    place = head
    while line[place] != job:
        place += 1
    if place - head < tail - place:
        for other in range(place, head, -1):
            line[other] = line[other - 1]
        group.head = head + 1
    else:
        for other in range(place, tail - 1):
            line[other] = line[other + 1]
        group.tail = tail - 1
    group.demand -= min(float(state.jobs[job].max_units), state.pool[0].units)


@kernel
def reach(state: State, number: int) -> int:
    """The first place of a group behind all of its jobs that hold units."""
    jobs, line = state.jobs, state.order[number]
    missing = 0
    for at in range(state.pool[0].holders):
        if jobs[state.holders[at]].group == number:
            missing += 1
    place = state.groups[number].head
    while missing > 0:
        if jobs[line[place]].units > 0.0:
            missing -= 1
        place += 1
    return place


HELD = 1 << 40  # places before those of waiting jobs


@full_kernel
def share_in_group(state: State, number: int, keys: Floats) -> int:
    """Put a group's jobs into the order of their users' shares; keys: the policy's, by place; NaN: it ranks none.

    Jobs that the users' limits keep from running are behind the group's tail then, until `show_left_out`. Under a
    policy without ranks jobs that hold units stay ahead, as they are: none has to make room for another. Returns how
    many are left out.
    """
    group, jobs = state.groups[number], state.jobs
    line = state.order[number][group.head : group.tail]
    rank = np.zeros(len(line), dtype=np.int64)
    if len(keys) == 0:
        keys = np.zeros(len(line))
        for at in range(len(line)):
            if jobs[line[at]].units > 0.0:
                rank[at] = int(jobs[line[at]].key) - HELD
    group.left_out = len(line) - order_by_shares(state, line, rank, keys, True)
    for at in range(len(line)):
        jobs[line[at]].key = keys[at]
    group.tail -= group.left_out
    for place in range(group.tail, group.tail + group.left_out):
        group.demand -= min(float(jobs[state.order[number, place]].max_units), state.pool[0].units)
    return group.left_out


@full_kernel
def share_by_user(state: State, number: int, keys: Floats) -> int:
    """Put a group's jobs user by user into the policy's order, as for `divide`; else as `share_in_group`."""
    group, jobs = state.groups[number], state.jobs
    line = state.order[number][group.head : group.tail]
    if len(keys) == 0:
        keys = np.zeros(len(line))
    for at in range(len(line)):
        jobs[line[at]].key = keys[at]
    served = order_by_shares(state, line, np.zeros(len(line), dtype=np.int64), keys, True)
    group.left_out = len(line) - served
    group.tail -= group.left_out
    before = line.copy()
    columns = np.empty((3, served))
    for at in range(served):
        columns[0, at] = float(jobs[line[at]].seq)
        columns[1, at] = jobs[line[at]].key
        columns[2, at] = float(state.progress[line[at]].user) if do_users_share(state) else 0.0
    order = np.arange(served)
    for column in columns:
        order = order[np.argsort(column[order], kind="mergesort")]
    for at in range(served):
        line[at] = before[order[at]]
    group.demand = 0.0
    for at in range(served):
        group.demand += min(float(jobs[line[at]].max_units), state.pool[0].units)
    return group.left_out


@kernel
def divide(state: State) -> None:
    """Set how many units the jobs of each user may have now: one by one to the user who is furthest behind.

    That is by what the user has held of late and has been given so far, over the weight, up to what the jobs can use;
    a unit changes hands only if its user is ahead by more than that.
    """
    users, now, left = state.users, state.pool[0].now, state.pool[0].units
    for at in range(len(users)):
        users[at].demand = users[at].holds = users[at].part = 0.0
    for place in range(state.groups[0].head, state.groups[0].tail):
        slot = state.order[0, place]
        user = users[state.progress[slot].user]
        user.demand += min(float(state.jobs[slot].max_units), state.pool[0].units)
        user.holds += state.jobs[slot].units
    while left >= 1.0:
        behind, least = -1, math.inf
        for at in range(len(users)):
            user = users[at]
            if user.part < user.demand:
                keeps = 1.0 if user.part < user.holds else 0.0
                tag = (RECENT_COUNTS * recent_at(user, now) + user.part - keeps) / user.weight
                if behind < 0 or tag < least:
                    behind, least = at, tag
        if behind < 0:
            break
        users[behind].part += 1.0
        left -= 1.0


@kernel
def show_left_out(state: State) -> None:
    """After the policy has decided: jobs that were left out are in their groups again."""
    for number in range(len(state.groups)):
        group = state.groups[number]
        for place in range(group.tail, group.tail + group.left_out):
            group.demand += min(float(state.jobs[state.order[number, place]].max_units), state.pool[0].units)
        group.tail += group.left_out
        group.left_out = 0


@kernel
def reorder(state: State, number: int, stop: int) -> None:
    """Restore a group's order after the keys of its jobs before place `stop` have changed."""
    jobs, line = state.jobs, state.order[number]
    head, tail = state.groups[number].head, state.groups[number].tail
    for place in range(head + 1, stop):
        job = line[place]
        other = place
        while other > head and goes_before(jobs, job, line[other - 1]):
            line[other] = line[other - 1]
            other -= 1
        line[other] = job
    # Keys that have grown send jobs behind some whose keys have not changed: the last one first.
    for place in range(stop - 1, head - 1, -1):
        if place + 1 >= tail or goes_before(jobs, line[place], line[place + 1]):
            break
        job = line[place]
        target = first_behind(jobs, line, place + 1, tail, job)
        for other in range(place, target - 1):
            line[other] = line[other + 1]
        line[target - 1] = job
