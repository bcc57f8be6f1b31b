"""All due events in one heap: at most one timer for each job and each machine, and one for the policy.

At one instant timers go off by the rank of their kind, and within a kind by submission or by the machine's number. The
kinds stand here in that order:

- machines that have booted, are up or gone, owned ones that open again, and jobs whose launch is complete, first, so
  that all decisions see them;
- `ROUND`, for a planner that decides before it hears of the completions of the instant (spec/eva.md 2.5), and after
  the arrivals;
- completions, then beliefs that are outrun, then victims that vacate (spec/fitgpp.md B.2), then machines that are taken
  away: a job that ends in the same instant has ended;
- waits and speculative runs that are over, after the starts that the completions allow (spec/waiting.md A.2): the loop
  lets a pass decide before it goes on to these;
- arrivals come next, and a pass for all of them;
- `TICK`, for a policy that decides about machines at regular times (spec/portfolio.md C.2).
"""

from __future__ import annotations

import math

from betimes.core.nodes.believed_ends import note_end
from betimes.core.nodes.columns import NodesState, Timer
from betimes.kernels import kernel

(BOOTED, UP, GONE, OPENS, LAUNCHED, ROUND, FINISH, OUTRUN, VACATE, NOTICED, RECLAIMED, EXPIRED, SPECULATED,
 TICK) = range(14)  # fmt: skip
KINDS = 14
KIND = 1 << 56  # more than there will ever be submissions

POLICY = 0
"""The owner of the policy's timer; a job's is 1 + 2 * slot, a machine's 2 + 2 * number."""


@kernel
def kind_of(timer: Timer) -> int:
    """FINISH, OUTRUN, VACATE ..."""
    return timer.rank // KIND


@kernel
def next_s(state: NodesState) -> float:
    """When the next timer goes off; infinity: none will."""
    return state.timers[0].at_s if state.cluster[0].timers > 0 else math.inf


@kernel
def first_owner(state: NodesState) -> int:
    """The owner of the next timer; there must be one."""
    return state.timers[0].owner


@kernel
def job_of(owner: int) -> int:
    """The slot of the job that owns a timer, -1: no job does."""
    return owner // 2 if owner % 2 == 1 else -1


@kernel
def machine_of(owner: int) -> int:
    """The number of the machine that owns a timer; the timer must be a machine's."""
    return owner // 2 - 1


@kernel
def set_job_timer(state: NodesState, slot: int) -> None:
    """Set the job's next due event, if any, and its believed end if it holds resources."""
    need, progress = state.needs[slot], state.progress[slot]
    eviction = state.evictions[slot]
    if need.holder < 0:
        at_s, kind = math.inf, FINISH
    elif eviction.vacate_at < progress.finish_at:
        at_s, kind = eviction.vacate_at, VACATE
    elif progress.outrun_at < progress.finish_at:
        at_s, kind = progress.outrun_at, OUTRUN
    else:
        at_s, kind = progress.finish_at, FINISH
    if need.alarm_s < at_s or (need.alarm_s == at_s and need.alarm < kind):
        at_s, kind = need.alarm_s, need.alarm
    _set(state, 1 + 2 * slot, at_s, kind * KIND + state.jobs[slot].seq)
    if need.holder >= 0:
        note_end(state, slot)


@kernel
def set_machine_timer(state: NodesState, number: int) -> None:
    """Set the machine's next due event, if any."""
    machine = state.machines[number]
    _set(state, 2 + 2 * number, machine.due_s, machine.due * KIND + number)


@kernel
def set_policy_timer(state: NodesState, at_s: float, kind: int) -> None:
    """Ask the policy at `at_s` (`ROUND` or `TICK`); infinity: not by the clock."""
    _set(state, POLICY, at_s, kind * KIND)


@kernel
def clear_job_timer(state: NodesState, slot: int) -> None:
    """Nothing is due for the job any more."""
    _set(state, 1 + 2 * slot, math.inf, 0)


@kernel
def _set(state: NodesState, owner: int, at_s: float, rank: int) -> None:
    """Let the owner's timer go off at `at_s`; infinity removes it."""
    cluster, at = state.cluster[0], state.timer_of[owner]
    if at_s == math.inf:
        if at >= 0:
            cluster.timers -= 1
            last = cluster.timers
            state.timer_of[owner] = -1
            if at < last:
                _move(state, last, at)
                _restore(state, at)
        return
    if at < 0:
        at = cluster.timers
        cluster.timers += 1
        state.timers[at].owner = owner
    timer = state.timers[at]
    timer.at_s = at_s
    timer.rank = rank
    _restore(state, at)


@kernel
def _is_earlier(a: Timer, b: Timer) -> bool:
    """Whether `a` goes off before `b`, without a branch: which of two does is not predictable."""
    return (a.at_s < b.at_s) | ((a.at_s == b.at_s) & (a.rank < b.rank))


@kernel
def _restore(state: NodesState, at: int) -> None:
    """Let the entry at `at` rise or sink to where it belongs.

    A sinking entry mostly came from the bottom: it goes there at once, and rises again if need be.
    """
    timers, length = state.timers, state.cluster[0].timers
    at_s, rank, owner = timers[at].at_s, timers[at].rank, timers[at].owner
    if at == 0 or not _is_earlier(timers[at], timers[(at - 1) // 2]):
        while 2 * at + 1 < length:
            child = 2 * at + 1
            if child + 1 < length:
                child += int(_is_earlier(timers[child + 1], timers[child]))
            _move(state, child, at)
            at = child
    while at > 0:
        parent = (at - 1) // 2
        above = timers[parent]
        if above.at_s < at_s or (above.at_s == at_s and above.rank < rank):
            break
        _move(state, parent, at)
        at = parent
    timer = timers[at]
    timer.at_s = at_s
    timer.rank = rank
    timer.owner = owner
    state.timer_of[owner] = at


@kernel
def _move(state: NodesState, at: int, to: int) -> None:
    """Field by field, as everywhere where entries move: records are copied byte by byte."""
    timer, moved = state.timers[to], state.timers[at]
    timer.at_s = moved.at_s
    timer.rank = moved.rank
    timer.owner = moved.owner
    state.timer_of[timer.owner] = to
