"""The pool engine's event loop, compiled.

One event at a time, as the published simulator has it (spec 1.4): at one instant finishes come first, then
estimates outrun, then the policy's own wake-up, then submissions, each followed by a decision. Jobs that
finish at the same instant leave together, before anyone decides.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from betimes.core.columns import (
    ACTIVE,
    CONTENTION,
    EVENTS,
    FINISHER,
    FREE,
    HEAD,
    HOLDERS,
    NEXT_FINISH,
    NEXT_OUTRUN,
    NOW,
    OFFENDER,
    OUTRUNNER,
    PERIOD,
    SEGMENTS,
    TIED,
    WAKEUP,
    Floats,
    Ints,
    State,
)
from betimes.core.kernel import kernel
from betimes.core.order import enter, reach, reorder
from betimes.core.transitions import (
    ACCEPTED,
    BAD_GROUP,
    BAD_KEY,
    BAD_WAKEUP,
    apply_grants,
    find_next,
    finish,
    outrun,
    refresh,
    sample_contention,
    submit,
)

# What `advance` returns; a refused decision is REFUSED + the core's reason.
REACHED = 0  # everything up to the time asked for has happened
WATCHED = 1  # the watched job is about to finish, at clock[NEXT_FINISH]
NEED_SEGMENTS = 2  # the room for segments is used up: take them out and go on
NEED_SLOTS = 3  # no slot for the next job: grow the columns and go on
STUCK = 4  # jobs are waiting, nothing runs, and the policy only ever wakes up to do nothing
REFUSED = 100

IDLE_WAKEUPS = 10_000  # after so many decisions in a row to run nothing a policy is said to be stuck


class Arrivals(NamedTuple):
    """The jobs to come, in order of submission; shape (jobs,) each."""

    submit_s: Floats
    work: Floats  # seconds on one unit
    min_units: Ints
    max_units: Ints
    curve: Ints
    believed: Floats  # the size the scheduler is told, seconds on one unit
    believed_per_work: Floats
    user: Ints  # -1: unknown
    longest_s: Floats  # the user's own limit on a belief drawn from history, seconds at full width


class History(NamedTuple):
    """Run times of each user's last two finished jobs; shape (users, 2) and (users,)."""

    last_s: Floats
    count: Ints


class Outcome(NamedTuple):
    """What came of each job; shape (jobs,) each, filled when the job finishes."""

    start_s: Floats
    finish_s: Floats
    unit_s: Floats
    preemptions: Ints
    resizes: Ints
    stalled_s: Floats
    contention: Floats  # mean number of active jobs over the events seen


class Rules(NamedTuple):
    """Which parts of the loop a policy and a choice of sizes need."""

    ranked: bool
    reads_progress: bool
    learns: bool  # beliefs come from the user's last two jobs


@kernel
def decide(state: State, rules: Rules, rank, allocate, keys: Floats) -> int:  # type: ignore[no-untyped-def]
    """Ask the policy and apply what it says; returns REACHED or REFUSED + reason."""
    view = state.visible
    now = view.clock[NOW]
    if view.tally[ACTIVE] == 0:  # nobody to decide about, and nobody to wake up for
        view.clock[WAKEUP] = math.inf
        find_next(state)
        return REACHED
    if rules.reads_progress:
        refresh(state)
    if rules.ranked:
        holders = state.holders[: view.tally[HOLDERS]]
        for group in range(len(view.queue.demand)):
            head = view.queue.ends[group, HEAD]
            stop = reach(view.jobs, view.queue, group, holders)
            if stop > head:
                chosen = view.queue.order[group][head:stop]
                rank(view, now, chosen, keys)
                for k in range(len(chosen)):
                    if math.isnan(keys[k]):
                        view.tally[OFFENDER] = chosen[k]
                        return REFUSED + BAD_KEY
                    view.jobs.key[chosen[k]] = keys[k]
                reorder(view.jobs, view.queue, group, stop)
    state.grants.count[0] = 0
    state.grants.period[0] = 0.0
    wakeup = allocate(view, now, state.grants)
    if not wakeup > now:
        view.tally[OFFENDER] = -1
        return REFUSED + BAD_WAKEUP
    verdict = apply_grants(state)
    if verdict != ACCEPTED:
        return REFUSED + verdict
    view.clock[WAKEUP] = wakeup
    view.clock[PERIOD] = state.grants.period[0]
    return REACHED


@kernel
def advance(  # type: ignore[no-untyped-def]
    state: State,
    rules: Rules,
    rank,
    allocate,
    keys: Floats,
    arrivals: Arrivals,
    history: History,
    outcome: Outcome,
    until: float,
    watch: int,
) -> int:
    """Let everything happen up to and including `until`, or until job `watch` (a slot, -1: none) is about to finish.

    With a watched job the state is a copy being played forward: nothing is written to `outcome`.
    """
    view = state.visible
    clock, tally = view.clock, view.tally
    idle = 0
    while True:
        finish_at, outrun_at, wakeup = clock[NEXT_FINISH], clock[NEXT_OUTRUN], clock[WAKEUP]
        at = min(finish_at, outrun_at, wakeup)
        if at > until or at == math.inf:
            return REACHED
        if len(state.segments.row) > 0 and tally[SEGMENTS] + 2 * tally[HOLDERS] > len(state.segments.row):
            return NEED_SEGMENTS
        clock[NOW] = at
        if at == finish_at:
            while True:
                job, tied = tally[FINISHER], tally[TIED]
                if job == watch:
                    return WATCHED
                finish(state, job, at)
                if watch < 0:
                    _note(state, job, arrivals, history, outcome, rules.learns)
                if tied == 1:
                    break
                find_next(state)
        elif at == outrun_at:
            sample_contention(state)
            outrun(state, tally[OUTRUNNER])
        else:
            if clock[PERIOD] > 0.0:
                _skip_steady_wakeups(state, min(finish_at, outrun_at), until)
            else:
                sample_contention(state)
            idle = idle + 1 if tally[HOLDERS] == 0 else 0
            if idle > IDLE_WAKEUPS and until == math.inf:
                return STUCK
        verdict = decide(state, rules, rank, allocate, keys)
        if verdict != REACHED:
            return verdict


@kernel
def arrive(  # type: ignore[no-untyped-def]
    state: State,
    rules: Rules,
    rank,
    classify,
    allocate,
    keys: Floats,
    arrivals: Arrivals,
    history: History,
    row: int,
) -> int:
    """Submit the job of `row` at its time and decide; everything before has happened."""
    view = state.visible
    view.clock[NOW] = arrivals.submit_s[row]
    job = submit(
        state,
        row,
        arrivals.min_units[row],
        arrivals.max_units[row],
        arrivals.curve[row],
        arrivals.work[row],
        _belief(view.speedup, arrivals, history, row, rules.learns),
        arrivals.believed_per_work[row],
    )
    group = classify(view, job)
    if group < 0 or group >= len(view.queue.demand):
        view.tally[OFFENDER] = job
        return REFUSED + BAD_GROUP
    view.jobs.group[job] = group
    if rules.ranked:
        chosen = np.full(1, job)
        rank(view, view.clock[NOW], chosen, keys)
        if math.isnan(keys[0]):
            view.tally[OFFENDER] = job
            return REFUSED + BAD_KEY
        view.jobs.key[job] = keys[0]
    enter(view.jobs, view.queue, job)
    return decide(state, rules, rank, allocate, keys)


@kernel
def _skip_steady_wakeups(state: State, next_event: float, until: float) -> None:
    """Count the wake-ups that decide nothing new up to the next event, and stand at the last of them."""
    clock, tally = state.visible.clock, state.visible.tally
    first, period = clock[WAKEUP], clock[PERIOD]
    limit = min(next_event, until)
    skipped = 1.0
    if limit < math.inf:
        skipped += math.floor((limit - first) / period)
    if first + (skipped - 1.0) * period >= next_event:
        skipped -= 1.0  # what finishes at the instant of a wake-up comes before it
    skipped = max(1.0, skipped)
    clock[NOW] = first + (skipped - 1.0) * period
    clock[CONTENTION] += skipped * tally[ACTIVE]
    tally[EVENTS] += int(skipped)


@kernel
def _belief(speedup: Floats, arrivals: Arrivals, history: History, row: int, learns: bool) -> float:
    """The size the scheduler believes at submission: told, or the mean of the user's last two run times."""
    user = arrivals.user[row]
    if not learns or user < 0 or history.count[user] == 0:
        return arrivals.believed[row]
    run_s = history.last_s[user, 0]
    if history.count[user] > 1:
        run_s = (run_s + history.last_s[user, 1]) / 2.0
    run_s = min(run_s, arrivals.longest_s[row])
    return run_s * speedup[arrivals.curve[row], arrivals.max_units[row]]


@kernel
def _note(
    state: State, job: int, arrivals: Arrivals, history: History, outcome: Outcome, learns: bool
) -> None:
    """Write down what came of a job that has just finished."""
    progress, jobs, clock, tally = state.progress, state.visible.jobs, state.visible.clock, state.visible.tally
    row = progress.row[job]
    outcome.start_s[row] = progress.started_s[job]
    outcome.finish_s[row] = clock[NOW]
    outcome.unit_s[row] = progress.attained[job]
    outcome.preemptions[row] = progress.preemptions[job]
    outcome.resizes[row] = progress.resizes[job]
    outcome.stalled_s[row] = progress.stalled_s[job]
    seen = clock[CONTENTION] - jobs.seen_sum[job]
    outcome.contention[row] = seen / (tally[EVENTS] - jobs.seen_count[job])
    user = arrivals.user[row]
    if learns and user >= 0:
        history.last_s[user, 1] = history.last_s[user, 0]
        history.last_s[user, 0] = arrivals.work[row] / jobs.full_speed[job]
        history.count[user] += 1
