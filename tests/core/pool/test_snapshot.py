"""A copy of the state is the state, field by field; and, when believing, what the scheduler thinks it is."""

from __future__ import annotations

import math

import numpy as np
import pytest

from betimes import simulate
from betimes.core import work
from betimes.core.pool import snapshot
from betimes.core.pool.columns import State, room_to_play
from betimes.core.work import SMALLEST_BELIEF_S
from betimes.kernels import as_array, entry
from betimes.kernels.structs import layout_of
from tests.core.pool.stepping import POLICIES, after_every_event, simulation, workload

copy_into = entry(snapshot.copy_into)
attained, believed_left = (entry(each, State, int, float) for each in (work.attained, work.believed_left))

SHARED = {"speedup", "params", "table", "closings"}
NOT_PLAYED = {
    "free",
    "grants",
    "wakeups",
    "segments",
    "log",
}  # nothing is submitted or recorded in a play-out
ON_NODES = {"nodes", "footprints", "placements"}  # `test_placing`
OF_USERS = {"users"}  # of length 0 here; `tests/service/same_as_twin/test_users.py`


def lines(state: State) -> list[list[int]]:
    return [
        [int(slot) for slot in state.order[g, state.groups[g].head : state.groups[g].tail]]
        for g in range(len(state.groups))
    ]


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    return a.tobytes() == b.tobytes()


@pytest.mark.parametrize("fractional", [True, False], ids=["fractional", "whole"])
@pytest.mark.parametrize("policy", POLICIES)
def test_a_copy_has_every_field(policy: str, fractional: bool) -> None:
    assert set(layout_of(State).fields) == SHARED | NOT_PLAYED | {
        "jobs",
        "progress",
        "groups",
        "order",
        "pool",
        "holders",
        *ON_NODES,
        *OF_USERS,
    }
    run = simulation(workload(60, 10), policy, fractional=fractional, restart_s=2.5, sizes="estimate")
    copy = room_to_play(run.state)
    for state in after_every_event(run):
        copy_into(state, copy, False)
        active = [slot for line in lines(state) for slot in line]
        assert lines(copy) == lines(state)
        for name in ("jobs", "progress"):
            mine, theirs = as_array(getattr(copy, name))[active], as_array(getattr(state, name))[active]
            assert same_bits(mine, theirs), name
        for name in ("groups", "pool"):
            assert same_bits(as_array(getattr(copy, name)), as_array(getattr(state, name))), name
        held = state.pool[0].holders
        assert copy.holders[:held].tolist() == state.holders[:held].tolist()
        for name in SHARED:
            assert getattr(copy, name) is getattr(state, name)


@pytest.mark.parametrize("policy", ["srsf", "max-min", "las:quantum=3"])
@pytest.mark.parametrize("sizes", ["estimate", "noise:0.5"])
def test_a_believing_copy_takes_belief_for_truth(policy: str, sizes: str) -> None:
    run = simulation(workload(60, 11), policy, fractional=True, restart_s=2.5, sizes=sizes)
    copy = room_to_play(run.state)
    differs = 0
    for state in after_every_event(run):
        before = [as_array(column).tobytes() for column in (state.jobs, state.progress, state.pool)]
        copy_into(state, copy, True)
        assert [as_array(column).tobytes() for column in (state.jobs, state.progress, state.pool)] == before
        now = float(state.pool[0].now)
        first = math.inf
        for slot in (slot for line in lines(state) for slot in line):
            job, account, truth = copy.jobs[slot], copy.progress[slot], state.progress[slot]
            left = max(believed_left(state, slot, now), SMALLEST_BELIEF_S)
            assert account.work_left == account.believed_left == job.remaining_s == left
            assert account.believed_per_work == 1.0
            assert math.isinf(account.outrun_at)
            assert attained(copy, slot, now) == attained(state, slot, now)
            assert (job.units, job.key, job.group) == (
                state.jobs[slot].units,
                state.jobs[slot].key,
                state.jobs[slot].group,
            )
            if job.units > 0.0:
                assert account.finish_at == now + account.stall + left / account.rate
                assert account.stall == max(0.0, truth.stall - (now - truth.since))
                first = min(first, float(account.finish_at))
                differs += account.finish_at != truth.finish_at
        assert copy.pool[0].next_finish == first
        assert math.isinf(copy.pool[0].next_outrun)
    assert differs > 100


@pytest.mark.parametrize("policy", POLICIES)
def test_predictions_leave_the_run_alone(policy: str) -> None:
    plain, predicting = (
        simulate(
            workload(80, 12), policy, units=8, restart_s=2.5, sizes="estimate", timeline=True, predict=predict
        )
        for predict in (False, True)
    )
    np.testing.assert_array_equal(plain.jobs.finish_s, predicting.jobs.finish_s)
    assert plain.segments == predicting.segments
    assert not np.isnan(predicting.jobs.predicted_finish_s).any()
