"""Fair shares: the order in which the jobs of several users are served, and the limits of each user.

What a unit counts (`Progress.charge`) times the units that a user's jobs hold is the user's charge. `User.recent` is
its mean, in which the past counts half as much after each half-life: while the charge is constant,
``recent(t) = charge + (recent(t0) - charge) 2^-((t - t0) / half_life)``, which is exact and needs no timer.

The order (docs/notes/fair-share.md): first the policy's own classes. Then by tag: ten times what the user has held of
late, what the user holds now, and would hold once the user's jobs ahead of this one ran, over the user's weight. Of
equal tags, the policy's order. The jobs of one user go by their priority, then in the policy's order; so no priority
changes the place of another user's job.
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

from betimes.core.pool.columns import User
from betimes.core.work import Accounts
from betimes.kernels import Floats, Ints, Records, as_array, blank, full_kernel, kernel

LN_2 = math.log(2.0)
RECENT_COUNTS = 10.0
"""How much more what was held of late counts than what is held now.

The latter keeps users from taking turns at everything; alone it would favour small weights by about one job each.
"""
HELD = ("running", "units", "memory", "bound", "bound_units", "bound_memory")
"""Columns of a user's jobs that run, or are bound to nodes: what the limits are compared with."""
HELD_OF_LATE = ("since_s", "recent", "charge")
"""Columns of a user's part of late."""
PASSED_OVER = 1 << 40  # class of the jobs that their users' limits keep from running


class Shared(Accounts, Protocol):
    """The state or the view of either engine."""

    @property
    def users(self) -> Records[User]:
        """The users' shares."""
        ...


def recent_after(recent: float, charge: float, passed_s: float, half_life_s: float) -> float:
    """The charge held of late, after so many seconds in which it was `charge`."""
    return charge + (recent - charge) * math.exp(-LN_2 * passed_s / half_life_s)


_recent_after = kernel(recent_after)


def idle(users: Records[User]) -> Records[User]:
    """Records of the same users, who hold nothing and have held nothing."""
    found = blank(User, len(users))
    for name in ("weight", "half_life_s", "most_running", "most_units", "most_memory"):
        as_array(found)[name] = as_array(users)[name]
    return found


@kernel
def recent_at(user: User, now: float) -> float:
    """The charge held of late, at an instant since the account was true."""
    if now <= user.since_s:
        return user.recent
    return _recent_after(user.recent, user.charge, now - user.since_s, user.half_life_s)


@kernel
def count_held(state: Shared, slot: int, before: float, units: float) -> None:
    """The job of a slot holds `units` from now on, after `before`: its user's account follows."""
    if len(state.users) == 0 or units == before:
        return
    progress, now = state.progress[slot], state.pool[0].now
    user = state.users[progress.user]
    user.recent = recent_at(user, now)
    user.since_s = max(now, user.since_s)
    user.charge += (units - before) * progress.charge
    starts = (1 if units > 0.0 else 0) - (1 if before > 0.0 else 0)
    most = float(state.jobs[slot].max_units)
    user.running += starts
    user.units += starts * most
    user.memory += starts * most * progress.unit_memory
    if user.running == 0:  # sums of fractions leave nothing behind
        user.charge = user.units = user.memory = 0.0


@kernel
def count_bound(state: Shared, slot: int, change: int) -> None:
    """The job of a slot, which holds nothing, is bound to nodes from now on (1), or not any more (-1)."""
    if len(state.users) == 0:
        return
    progress, most = state.progress[slot], float(state.jobs[slot].max_units)
    user = state.users[progress.user]
    user.bound += change
    user.bound_units += change * most
    user.bound_memory += change * most * progress.unit_memory
    if user.bound == 0:
        user.bound_units = user.bound_memory = 0.0


@kernel
def is_over_limit(state: Shared, slot: int) -> bool:
    """Whether a waiting job may not start now, by the limits of its user."""
    if len(state.users) == 0:
        return False
    progress, most = state.progress[slot], float(state.jobs[slot].max_units)
    user = state.users[progress.user]
    return (
        user.running + user.bound + 1 > user.most_running
        or user.units + user.bound_units + most > user.most_units
        or user.memory + user.bound_memory + most * progress.unit_memory > user.most_memory
    )


@kernel
def do_users_share(state: Shared) -> bool:
    """Whether users have shares; false: they have limits alone, and nobody is ahead of anybody."""
    return len(state.users) > 0 and state.users[0].weight < math.inf


@kernel
def begin_order(state: Shared, counts_held: bool) -> None:
    """Before jobs are put in order: what each user holds counts, or is counted as the jobs that hold it are passed."""
    for number in range(len(state.users)):
        user = state.users[number]
        user.ahead = user.charge if counts_held else 0.0
        user.next_running = float(user.running + user.bound)
        user.next_units = user.units + user.bound_units
        user.next_memory = user.memory + user.bound_memory


@kernel
def is_within_limits(state: Shared, slot: int) -> bool:
    """Whether a waiting job may start beside those of its user that were asked about before it, which then counts."""
    progress, most = state.progress[slot], float(state.jobs[slot].max_units)
    user = state.users[progress.user]
    memory = most * progress.unit_memory
    if (
        user.next_running + 1.0 > user.most_running
        or user.next_units + most > user.most_units
        or user.next_memory + memory > user.most_memory
    ):
        return False
    user.next_running += 1.0
    user.next_units += most
    user.next_memory += memory
    return True


@kernel
def keep_within_limits(state: Shared, slots: Ints, count: int) -> int:
    """Leave out of the waiting jobs slots[:count], in their order, those that limits keep from running.

    Returns how many are left, whose limits hold also if all of them start.
    """
    if len(state.users) == 0:
        return count
    begin_order(state, True)
    kept = 0
    for k in range(count):
        if is_within_limits(state, slots[k]):
            slots[kept] = slots[k]
            kept += 1
    return kept


@full_kernel
def order_by_shares(state: Shared, slots: Ints, rank: Ints, key: Floats, limits: bool) -> int:
    """Put jobs into the order of their users' shares, and set key[k] = k; returns how many come before those left out.

    rank[k]: the policy's class of the job in slots[k], the smallest first; key[k]: the policy's rank. With `limits`
    waiting jobs that their users' limits keep from running come last, and are left out.
    """
    count, now = len(slots), state.pool[0].now
    seq, first, tag = np.empty(count), np.empty(count), np.empty(count)
    for k in range(count):
        seq[k] = float(state.jobs[slots[k]].seq)
        first[k] = -float(state.progress[slots[k]].priority)
    order = np.argsort(seq, kind="mergesort")
    for column in (key, first, rank.astype(np.float64)):
        order = order[np.argsort(column[order], kind="mergesort")]
    for at in range(count):
        k = int(order[at])
        job, progress = state.jobs[slots[k]], state.progress[slots[k]]
        user = state.users[progress.user]
        most = float(job.max_units)
        charge = most * progress.charge
        tag[k] = (RECENT_COUNTS * recent_at(user, now) + user.ahead) / user.weight
        if (
            job.units > 0.0
        ):  # what runs keeps its place unless another user is behind by more than the job itself
            tag[k] -= charge / user.weight
        elif limits:
            if not is_within_limits(state, slots[k]):
                rank[k] = PASSED_OVER
                continue
        user.ahead += charge
    order = np.argsort(seq, kind="mergesort")
    for column in (key, tag, rank.astype(np.float64)):
        order = order[np.argsort(column[order], kind="mergesort")]
    before = slots.copy()
    served = 0
    for at in range(count):
        slots[at] = before[order[at]]
        key[at] = float(at)
        if rank[order[at]] < PASSED_OVER:
            served += 1
    return served
