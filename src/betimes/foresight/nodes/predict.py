"""Starts and finishes of jobs on nodes: the state is copied and played forward under the same policy.

A play-out has no further submissions, and takes the scheduler's beliefs about sizes as true, or lets jobs end when they
are expected to (`snapshot.expect_ends`).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from betimes.core.nodes.columns import NodesState
from betimes.core.nodes.growth import room_to_play
from betimes.core.nodes.rules import NodesRules
from betimes.core.nodes.snapshot import copy_into, expect_ends
from betimes.core.status import ASKED, DONE, FORESEE, FORESEEN, PAUSED, REFUSED
from betimes.foresight.learning_run import LearningRun, playouts_of
from betimes.kernels import Floats, FloatTable, Ints, blank, entry, kernel
from betimes.twin.nodes import entries
from betimes.twin.nodes.driver import Answers, Driver
from betimes.twin.nodes.event_loop import NOTHING, Outcome, Trace
from betimes.twin.nodes.simulation import NodesSimulation
from betimes.twin.nodes.trace_loop import Loop, compiled_loop, in_rows

MOST_INSTANTS = 200_000  # of a play-out under a planner, which may rent for ever for a job that never starts


def _aside(run: NodesSimulation) -> Trace:
    """The trace of the run with a new table of outcomes."""
    return run.trace.replaced(outcomes=blank(Outcome, len(run.jobs)), finished=np.zeros(1, dtype=np.int64))


@kernel
def play_out(
    loop: Loop,
    copy: NodesState,
    rules: NodesRules,
    aside: Trace,
    nothing: Ints,
    first: int,
    last: int,
    predicted: Floats,
    starts: Floats,
) -> int:
    """Play the copy forward until the finishes of rows `first` up to `last` are known: predicted[first:last].

    starts: their starts. nothing: the next row to submit, past the last. Returns DONE, or why the loop cannot go on;
    after FORESEE the same call goes on from there.
    """
    row, seen, status = first, 0, PAUSED
    while True:
        for at in range(seen, aside.finished[0]):
            outcome = aside.outcomes[at]
            if first <= outcome.row < last:
                predicted[outcome.row] = outcome.finish_s
                starts[outcome.row] = outcome.start_s
        seen = aside.finished[0]
        while row < last and _is_known(copy, rules, predicted, starts, row):
            row += 1
        if row == last:
            return DONE
        if status != PAUSED:
            return status
        copy.pool[0].budget = 1
        status = loop.advance(copy, rules, aside, nothing, nothing[0], math.inf)


@kernel
def _is_known(copy: NodesState, rules: NodesRules, predicted: Floats, starts: Floats, row: int) -> bool:
    """Whether the finish of `row` is known; notes that of a running job that nothing can stop or slow before."""
    if not math.isnan(predicted[row]):
        return True
    if rules.preempts:
        return False
    for at in range(copy.pool[0].holders - 1, -1, -1):
        slot = copy.holders[at]
        progress, need = copy.progress[slot], copy.needs[slot]
        has_neighbours = need.workload >= 0 and len(copy.interference) > 0
        if progress.row == row and progress.finish_at <= need.alarm_s and not has_neighbours:
            predicted[row] = progress.finish_at
            starts[row] = progress.started_s
            return True
    return False


@entry
@kernel
def run_rows_predicting(
    loop: Loop,
    state: NodesState,
    rules: NodesRules,
    trace: Trace,
    row: Ints,
    stop: int,
    copy: NodesState,
    ahead: NodesRules,
    aside: Trace,
    nothing: Ints,
    believing: bool,
    wanted: Ints,
    predicted: Floats,
    starts: Floats,
    believed: Floats,
    expected: FloatTable,
    done: Ints,
) -> int:
    """As `loop.run_rows`, and predicted[r] is the promised finish of row r, for the rows with wanted[r] > 0.

    starts, believed and expected: as of `foresight.predict.run_rows_predicting`.
    Rows submitted at one instant are promised together, after the pass that decides on all of them. done[0] is the
    next row to promise, and done[1] is 1 in the middle of a play-out, which the next call goes on with;
    done[2] is 1 if that is the one in which jobs end when they are expected to.
    """
    while True:
        # Called again in the middle of an instant: finish the instant first.
        if state.cluster[0].pending != NOTHING and done[1] == 0:
            status = loop.advance(state, rules, trace, row, stop, state.pool[0].now)
            if status != DONE:
                return status
        while done[0] < row[0] and wanted[done[0]] == 0:
            done[0] += 1
        if done[0] < row[0]:
            if done[1] == 0:
                copy_into(state, copy, believing)
                if done[2] == 1:
                    expect_ends(copy, expected)
                copy.cluster[0].select_s = math.inf  # the policy in force stays in force
                predicted[done[0] : row[0]] = math.nan
                aside.finished[0] = 0
            status = play_out(loop, copy, ahead, aside, nothing, done[0], row[0], predicted, starts)
            done[1] = int(status == FORESEE)
            if status > REFUSED:
                state.pool[0].offender = copy.pool[0].offender
                return status - REFUSED + FORESEEN
            if status != DONE:
                return status
            if len(expected) > 0:
                done[2] = 1 - done[2]
                if done[2] == 1:
                    for at in range(done[0], row[0]):
                        believed[at] = predicted[at]
                    continue
            while done[0] < row[0]:
                if wanted[done[0]] == 0:
                    predicted[done[0]] = math.nan
                done[0] += 1
        if row[0] >= stop:
            return loop.advance(state, rules, trace, row, stop, math.inf)
        status = loop.advance(state, rules, trace, row, stop, trace.arrivals[row[0]].submit_s)
        if status != DONE:
            return status


def predicting(
    run: NodesSimulation, wanted: Ints, learning: LearningRun | None = None
) -> Callable[[int], int]:
    """A step for `NodesSimulation.run` that also promises a finish to the rows with wanted[row] > 0.

    With `learning`, jobs of a play-out end when they are expected to.
    """
    if run.rounds is not None:
        return _predicting_in_rounds(run, wanted, learning)
    believing = run.sizes.kind != "true"
    ahead, rules = run.rules.replaced(learns=False), run.rules
    aside = _aside(run)
    copy, source = room_to_play(run.state), run.state
    nothing: Ints = np.array([len(run.jobs)], dtype=np.int64)
    done: Ints = np.zeros(3, dtype=np.int64)
    starts, believed, expected = playouts_of(learning, len(run.jobs), believing)

    def step(stop: int) -> int:
        nonlocal copy, source, ahead, rules
        while True:
            if source is not run.state:  # the columns have grown
                copy, source, done[1] = room_to_play(run.state), run.state, 0
            if rules is not run.rules:  # another policy has been selected
                ahead, rules = run.rules.replaced(learns=False), run.rules
            status = run_rows_predicting(
                compiled_loop(),
                *(run.state, run.rules, run.trace, run.row, stop),
                *(
                    copy,
                    ahead,
                    aside,
                    nothing,
                    believing,
                    wanted,
                    run.predicted,
                    starts,
                    believed,
                    expected,
                    done,
                ),
            )
            if done[1] == 0:
                return status
            assert run.foresee_wait is not None
            run.foresee_wait(int(copy.pool[0].offender), copy)

    return step


def _predicting_in_rounds(
    run: NodesSimulation, wanted: Ints, learning: LearningRun | None
) -> Callable[[int], int]:
    """As `predicting`, under a planner: a copy of it, with its memory, is asked in each round of a play-out."""
    starts, believed, expected = playouts_of(learning, len(run.jobs), run.believes)
    done = 0  # the next row to promise

    def promise(first: int, last: int) -> None:
        rows = first + np.flatnonzero(wanted[first:last])
        if len(rows) == 0:
            return
        if len(expected) > 0:
            believed[rows] = _played(run)[1][rows]
        begun, ended = _played(run, expected)
        starts[rows], run.predicted[rows] = begun[rows], ended[rows]

    def step(stop: int) -> int:
        nonlocal done
        submit_s = run.jobs.submit_s
        while True:
            if done < (known := int(run.row[0])):  # promised together, once their instant is over
                status = run.driver.step(stop, float(submit_s[known - 1]))
                if status != DONE:
                    return status
                promise(done, known)
                done = known
            if known >= stop:
                return run.driver.step(stop)
            status = run.driver.step(stop, float(submit_s[known]))
            if status != DONE:
                return status

    return step


def _played(run: NodesSimulation, expected: FloatTable | None = None) -> tuple[Floats, Floats]:
    """Starts and finishes, by row, in a copy of the run that is played forward; NaN: none."""
    assert run.rounds is not None
    run.rounds.hear_of(run.trace)  # the copy's trace has no outcomes of the run
    rounds, aside = run.rounds.copied(), _aside(run)

    def foresee_wait(driver: Driver) -> None:
        assert run.foresee_wait is not None
        run.foresee_wait(int(driver.state.pool[0].offender), driver.state)

    answers: Answers = {ASKED: rounds.hold, FORESEE: foresee_wait}
    nothing: Ints = np.array([len(run.jobs)], dtype=np.int64)
    copy = run.driver.copy(aside, nothing, answers, believing=run.believes)
    copy.rules = copy.rules.replaced(learns=False)
    copy.state.pool[0].budget = MOST_INSTANTS
    if expected is not None and len(expected) > 0:
        entries.expect_ends(copy.state, expected)
    copy.advance(math.inf)
    return in_rows(aside, "start_s", math.nan), in_rows(aside, "finish_s", math.nan)
