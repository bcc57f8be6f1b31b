"""Waits forecast by playing the cluster forward, without further submissions, on believed run times."""

from __future__ import annotations

import math

import numpy as np

from betimes.core.nodes.columns import NodesState
from betimes.core.nodes.growth import room_to_play
from betimes.core.nodes.rules import NodesRules
from betimes.core.nodes.snapshot import copy_into
from betimes.core.nodes.timers import set_job_timer
from betimes.core.nodes.wait_features import PREDICTED_S
from betimes.core.status import DONE, FORESEEN, PAUSED, REFUSED
from betimes.kernels import Floats, Ints, blank, entry, kernel
from betimes.twin.nodes.event_loop import Outcome, Trace
from betimes.twin.nodes.simulation import NodesSimulation
from betimes.twin.nodes.trace_loop import Loop, compiled_loop

INSTANTS = 64
"""Instants between two checks whether the job has started."""


@entry
@kernel
def play_until_started(
    loop: Loop,
    state: NodesState,
    copy: NodesState,
    rules: NodesRules,
    aside: Trace,
    nothing: Ints,
    believing: bool,
    slot: int,
    started_s: Floats,
) -> int:
    """Play a copy forward until a waiting job starts: started_s[0]; infinity: it does not start.

    Returns DONE, or the status that stopped the loop.
    """
    copy_into(state, copy, believing)
    copy.cluster[0].select_s = math.inf
    need, progress = copy.needs[slot], copy.progress[slot]
    renting = copy.rentings[slot]
    renting.undecided = 0
    need.alarm_s = math.inf  # no deadline of the wait
    set_job_timer(copy, slot)
    started_s[0] = math.inf
    while progress.served_by >= 0 and need.holder < 0:
        copy.pool[0].budget = INSTANTS
        status = loop.advance(copy, rules, aside, nothing, nothing[0], renting.until_s)
        if status == DONE and need.holder < 0 and progress.served_by >= 0:
            return DONE
        if status != DONE and status != PAUSED:
            return status
    started_s[0] = progress.started_s
    return DONE


def play_waits(run: NodesSimulation) -> None:
    """Let `waits=simulated` decide about waits in the run: a job waits if a play-out starts it in time."""
    aside = run.trace.replaced(
        outcomes=blank(Outcome, 0), finished=np.zeros(1, dtype=np.int64), features=np.zeros((0, 0))
    )
    nothing: Ints = np.array([len(run.jobs)], dtype=np.int64)
    ahead = run.rules.replaced(learns=False, plays=False)
    room: list[tuple[NodesState, NodesState]] = []
    started_s: Floats = np.zeros(1)

    def decide(slot: int, copy: NodesState | None = None) -> None:
        """Decide in the run, or in a copy that is played forward."""
        believing = run.sizes.kind != "true"
        while True:
            state = run.state if copy is None else copy
            if not room or room[0][0] is not state:  # another state, or the columns have grown
                room[:] = [(state, room_to_play(state))]
            status = play_until_started(
                *(compiled_loop(), state, room[0][1], ahead, aside, nothing, believing, slot, started_s)
            )
            if status == DONE:
                break
            if status > REFUSED:
                run.state.pool[0].offender = room[0][1].pool[0].offender
                status += FORESEEN - REFUSED
            run.driver.heed(status)
            room.clear()
            if copy is not None:
                return  # the columns of the run have grown, and it is copied anew
        renting = state.rentings[slot]
        renting.undecided = 0
        if len(run.trace.features):
            state.features[slot, PREDICTED_S] = started_s[0] - renting.queued_s
        if started_s[0] <= renting.until_s:
            put_off(state, slot)

    run.foresee_wait = decide


@entry
@kernel
def put_off(state: NodesState, slot: int) -> None:
    """Let the job wait as long as it may."""
    state.needs[slot].alarm_s = state.rentings[slot].until_s
    set_job_timer(state, slot)
