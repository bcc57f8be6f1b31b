"""The state's invariants after every event, and that each of them can be broken."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from betimes import Workload, simulate
from betimes.core.pool.columns import State
from betimes.twin.pool.simulation import Simulation
from tests.core.pool.invariants import BrokenInvariant, check
from tests.core.pool.stepping import POLICIES, UNITS, after_every_event, simulation, workload

VARIANTS = {
    "whole": {},
    "fractional": {"fractional": True},
    "whole, restarts": {"restart_s": 2.5},
    "fractional, restarts, estimates": {"fractional": True, "restart_s": 2.5, "sizes": "estimate"},
    "whole, restarts, estimates": {"restart_s": 2.5, "sizes": "estimate"},
    "whole, history": {"sizes": "last-two"},
    "fractional, noise": {"fractional": True, "sizes": "noise:0.5"},
}
NEARLY_NOTHING = 1e-6  # of a unit


def line_of(state: State, number: int) -> list[int]:
    group = state.groups[number]
    return [int(slot) for slot in state.order[number, group.head : group.tail]]


def wasted_units(state: State) -> float:
    """Units that are idle although some job could use them, given its minimum."""
    pool = state.pool[0]
    active = [slot for g in range(len(state.groups)) for slot in line_of(state, g)]
    idle = float(pool.units) - math.fsum(float(state.jobs[slot].units) for slot in active)
    if idle <= NEARLY_NOTHING:
        return 0.0
    for slot in active:
        job = state.jobs[slot]
        if job.units == 0.0:
            can_use = idle >= job.least
        else:
            can_use = job.max_units - job.units > (NEARLY_NOTHING if pool.fractional else 0.5)
        if can_use:
            return idle
    return 0.0


CASES = [(policy, variant) for policy in POLICIES for variant in VARIANTS]


def test_what_two_classes_leave_over_is_whole_again() -> None:
    jobs = Workload.from_columns(
        submit_s=[0.0, 0.0], work_s=[20.0, 100.0], min_units=[8, 8], max_units=[8, 8]
    )
    policy = "wfq:thresholds=15+60,weights=3/5+3/10+1/10,zeta_min=0"
    result = simulate(jobs, policy, units=8, fractional=True)
    assert result.jobs.finish_s.tolist() == [2.5, 15.0]


@pytest.mark.parametrize(("policy", "variant"), CASES)
def test_after_every_event(policy: str, variant: str) -> None:
    events, jobs = 0, 30
    run = simulation(workload(jobs, 1), policy, **VARIANTS[variant])
    for state in after_every_event(run):
        check(state)
        assert wasted_units(state) == 0.0
        events += 1
    assert run.state.pool[0].active == 0
    assert events > jobs
    if "estimates" in variant:
        assert run.state.pool[0].events > 2 * jobs


@pytest.mark.parametrize("policy", POLICIES)
def test_rigid_jobs(policy: str) -> None:
    for state in after_every_event(simulation(workload(60, 3, rigid=True), policy)):
        check(state)
        assert wasted_units(state) == 0.0


def crowded() -> State:
    """A state with running, preempted and waiting jobs whose believed sizes are wrong."""
    run: Simulation = simulation(workload(60, 4), "srsf", restart_s=2.5, sizes="estimate", timeline=True)
    for state in after_every_event(run):
        pool = state.pool[0]
        if pool.active > pool.holders + 3 and pool.holders > 1 and pool.next_outrun < math.inf:
            return state
    raise AssertionError("no such state came up")


def a_holder(state: State) -> int:
    return int(state.holders[0])


def a_waiting_job(state: State) -> int:
    return next(slot for slot in line_of(state, 0) if state.jobs[slot].units == 0.0)


def head_and_next(state: State) -> tuple[int, int]:
    head = int(state.groups[0].head)
    return int(state.order[0, head]), int(state.order[0, head + 1])


def overfill(state: State) -> None:
    state.pool[0].units -= 1.0
    for number in range(len(state.groups)):  # what each can use of the pool has changed with it
        line = state.order[number, state.groups[number].head : state.groups[number].tail]
        widths = [min(float(state.jobs[int(slot)].max_units), state.pool[0].units) for slot in line]
        state.groups[number].demand = sum(widths)


def lose_half_a_unit(state: State) -> None:
    slots = state.holders[: state.pool[0].holders]
    job = next(state.jobs[int(s)] for s in slots if state.jobs[int(s)].units > state.jobs[int(s)].least)
    job.units -= 0.5
    state.pool[0].used -= 0.5


def hold_beyond_the_maximum(state: State) -> None:
    state.jobs[a_holder(state)].units = UNITS * 10.0


def list_a_holder_twice(state: State) -> None:
    state.holders[1] = state.holders[0]


def forget_a_holder(state: State) -> None:
    state.pool[0].holders -= 1


def swap_two_ranks(state: State) -> None:
    first, second = head_and_next(state)
    head = int(state.groups[0].head)
    state.order[0, head], state.order[0, head + 1] = second, first


def lose_a_job(state: State) -> None:
    state.groups[0].tail -= 1


def repeat_a_job(state: State) -> None:
    head = int(state.groups[0].head)
    state.order[0, head + 1] = state.order[0, head]


def miscount_demand(state: State) -> None:
    state.groups[0].demand += 1.0


def free_an_active_slot(state: State) -> None:
    state.free[0] = a_holder(state)


def free_a_slot_twice(state: State) -> None:
    state.free[0] = state.free[1]


def miscount_active(state: State) -> None:
    state.pool[0].active += 1


def work_off_the_books(state: State) -> None:
    state.progress[a_holder(state)].work_left *= 0.5


def slow_down(state: State) -> None:
    state.progress[a_holder(state)].rate *= 0.5


def stall_unseen(state: State) -> None:
    state.progress[a_holder(state)].stall += 1.0


def believe_less(state: State) -> None:
    state.progress[int(state.pool[0].outrunner)].believed_left -= 0.1


def begin_in_the_future(state: State) -> None:
    progress = state.progress[a_waiting_job(state)]
    progress.since = state.pool[0].now + 1.0


def finish_later_than_the_first(state: State) -> None:
    state.pool[0].next_finish += 1.0


def finish_in_pairs(state: State) -> None:
    state.pool[0].tied += 1


def wake_up_in_the_past(state: State) -> None:
    state.pool[0].wakeup = state.pool[0].now


def start_without_units(state: State) -> None:
    slot = next(slot for slot in line_of(state, 0) if math.isnan(state.progress[slot].started_s))
    state.progress[slot].attained = 5.0


def miscount_units(state: State) -> None:
    state.pool[0].used -= 1.0


def miscount_jobs_with_a_minimum(state: State) -> None:
    state.pool[0].with_minimum += 1


def share_a_number(state: State) -> None:
    waiting = a_waiting_job(state)
    state.jobs[waiting].seq = state.pool[0].submitted


def see_nobody(state: State) -> None:
    state.jobs[a_holder(state)].seen_sum = state.pool[0].contention


def run_past_the_finish(state: State) -> None:
    state.pool[0].now = state.pool[0].next_finish + 1.0


def be_marked_by_the_future(state: State) -> None:
    state.progress[a_holder(state)].served_by = state.pool[0].decision + 1


BREAKS: list[tuple[Callable[[State], None], str]] = [
    (overfill, "capacity"),
    (lose_half_a_unit, "whole units"),
    (hold_beyond_the_maximum, "capacity"),
    (list_a_holder_twice, "holders"),
    (forget_a_holder, "holders"),
    (swap_two_ranks, "order"),
    (lose_a_job, "demand"),
    (repeat_a_job, "order"),
    (miscount_demand, "demand"),
    (free_an_active_slot, "free stack"),
    (free_a_slot_twice, "free stack"),
    (miscount_active, "active jobs"),
    (work_off_the_books, "finish_at"),
    (slow_down, "rate"),
    (stall_unseen, "finish_at"),
    (believe_less, "outrun_at"),
    (begin_in_the_future, "since"),
    (finish_later_than_the_first, "next finish_at"),
    (finish_in_pairs, "tied"),
    (wake_up_in_the_past, "wake-up"),
    (start_without_units, "start"),
    (share_a_number, "submission"),
    (miscount_units, "used"),
    (miscount_jobs_with_a_minimum, "wide"),
    (see_nobody, "contention"),
    (run_past_the_finish, "missed event"),
    (be_marked_by_the_future, "marks"),
]


@pytest.mark.parametrize(("damage", "invariant"), BREAKS, ids=[damage.__name__ for damage, _ in BREAKS])
def test_a_broken_state_is_noticed_and_named(damage: Callable[[State], None], invariant: str) -> None:
    state = crowded()
    check(state)
    damage(state)
    with pytest.raises(BrokenInvariant, match=f"invariant '{invariant}'"):
        check(state)
