"""The heaps of the nodes engine: what is due for those that hold resources, and the plain one of a pass's thoughts."""

from __future__ import annotations

import heapq
import math

import numpy as np
import pytest

from betimes.core.nodes.columns import End, NodesState
from betimes.core.nodes.holders import add_holder, drop_holder
from betimes.core.nodes.passes.ends import pop_end, push_end
from betimes.core.nodes.timers import (
    FINISH,
    KIND,
    OUTRUN,
    VACATE,
    first_owner,
    job_of,
    kind_of,
    set_job_timer,
)
from betimes.kernels import Records, blank, entry, kernel
from tests.core.nodes.empty_cluster import empty_cluster

SLOTS = 60


@entry
@kernel
def hold(state: NodesState, slot: int) -> None:
    add_holder(state, slot)
    set_job_timer(state, slot)


@entry
@kernel
def settle(state: NodesState, slot: int) -> None:
    set_job_timer(state, slot)


@entry
@kernel
def drop(state: NodesState, slot: int) -> None:
    drop_holder(state, slot)


@entry
@kernel
def push(ends: Records[End], length: int, at_s: float, rank: int, slot: int) -> int:
    return push_end(ends, length, at_s, rank, slot)


@entry
@kernel
def pop(ends: Records[End], length: int) -> int:
    return pop_end(ends, length)


@entry
@kernel
def due_first(state: NodesState) -> int:
    return job_of(first_owner(state))


@entry
@kernel
def kind_of_first(state: NodesState) -> int:
    return kind_of(state.timers[0])


def nobody_holds() -> NodesState:
    state = empty_cluster(SLOTS)
    for slot in range(SLOTS):
        state.needs[slot].holder = -1
        state.needs[slot].alarm_s = math.inf
        state.jobs[slot].seq = (37 * slot) % SLOTS  # submitted in another order than that of their slots
    return state


@pytest.mark.parametrize("most", [3, SLOTS])
@pytest.mark.parametrize("instants", [4, 10**6])
def test_what_is_due_first_is_known_through_all_changes(most: int, instants: int) -> None:
    rng = np.random.default_rng(most + instants)
    state, expected = nobody_holds(), dict[int, tuple[float, int]]()

    def draw(slot: int) -> tuple[float, int]:
        """Let something be due for a job; returns when, and its rank."""
        finish_s, outrun_s, vacate_s = rng.integers(0, instants, 3).astype(np.float64)
        outrun_s, vacate_s = (
            at_s if rng.random() < 0.3 else math.inf for at_s in (float(outrun_s), float(vacate_s))
        )
        progress, eviction = state.progress[slot], state.evictions[slot]
        progress.finish_at, progress.outrun_at, eviction.vacate_at = float(finish_s), outrun_s, vacate_s
        if vacate_s < finish_s:
            at_s, kind = vacate_s, VACATE
        elif outrun_s < finish_s:
            at_s, kind = outrun_s, OUTRUN
        else:
            at_s, kind = float(finish_s), FINISH
        return at_s, kind * KIND + int(state.jobs[slot].seq)

    for _ in range(1500):
        slot, chance = int(rng.integers(SLOTS)), rng.random()
        if slot not in expected:
            if len(expected) < most:
                expected[slot] = draw(slot)
                hold(state, slot)
        elif chance < 0.4:
            expected[slot] = draw(slot)
            settle(state, slot)
        else:
            gone = int(due_first(state)) if chance < 0.8 else slot
            drop(state, gone)
            del expected[gone]
            assert state.needs[gone].holder == -1
        holders = state.pool[0].holders
        assert sorted(state.holders[:holders].tolist()) == sorted(expected)
        for at in range(holders):
            assert state.needs[state.holders[at]].holder == at
            owner = 1 + 2 * int(state.holders[at])
            assert state.timers[int(state.timer_of[owner])].owner == owner
        if expected:
            slot = min(expected, key=lambda one: expected[one])
            due = state.timers[0]
            assert int(due_first(state)) == slot
            assert (due.at_s, due.rank) == expected[slot]
            assert kind_of_first(state) == expected[slot][1] // KIND


@pytest.mark.parametrize("instants", [3, 10**6])
def test_begins_and_ends_come_out_in_their_order(instants: int) -> None:
    rng = np.random.default_rng(instants)
    ends, expected, length = blank(End, SLOTS), list[tuple[float, int]](), 0
    for step in range(3000):
        if length < SLOTS and (length == 0 or rng.random() < 0.5):
            at_s, rank = float(rng.integers(instants)), int(rng.integers(SLOTS))
            length = push(ends, length, at_s, rank, step)
            heapq.heappush(expected, (at_s, rank))
        else:
            length = pop(ends, length)
            assert (ends[length].at_s, ends[length].rank) == heapq.heappop(expected)
        assert length == len(expected)
        if expected:
            assert (ends[0].at_s, ends[0].rank) == expected[0]
