"""The table of legal moves, and that what happens to jobs in a run follows it."""

from __future__ import annotations

import numpy as np
import pytest

from betimes import Result
from betimes.core.job_states import LEGAL, JobState, Move, diagram, state_of
from tests.core.pool.stepping import POLICIES, simulation, workload


def test_every_state_can_be_reached_and_all_but_the_last_can_be_left() -> None:
    reached: list[JobState | None] = [None]
    seen: set[JobState | None] = {None}
    while reached:
        state = reached.pop()
        for (source, _), target in LEGAL.items():
            if source is state and target not in seen:
                seen.add(target)
                reached.append(target)
    assert seen == {None, *JobState}
    assert {source for source, _ in LEGAL} == {None, *JobState} - {JobState.FINISHED}


def test_the_state_follows_from_the_columns() -> None:
    assert state_of(has_held=False, units=0.0) is JobState.WAITING
    assert state_of(has_held=True, units=0.0) is JobState.PREEMPTED
    assert state_of(has_held=True, units=0.5) is JobState.RUNNING
    assert state_of(has_held=False, units=1.0) is JobState.RUNNING


def test_the_diagram_has_every_move() -> None:
    text = diagram()
    for (_, move), target in LEGAL.items():
        assert f"--> {target.name}: {move.name.lower()}" in text


def moves_of(result: Result) -> list[list[Move]]:
    """What happened to each job, read off its segments."""
    segments = result.segments
    assert segments is not None
    moves: list[list[Move]] = [[Move.SUBMIT] for _ in range(len(result.jobs))]
    end: dict[int, float] = {}
    units: dict[int, float] = {}
    for row, start_s, end_s, held in zip(
        segments.row.tolist(), segments.start_s, segments.end_s, segments.units, strict=True
    ):
        assert end_s > start_s, "a grant that did not last is recorded"
        if row not in end:
            moves[row].append(Move.START)
        elif start_s > end[row]:
            moves[row] += [Move.PREEMPT, Move.RESUME]
        else:
            assert start_s == end[row], "a job holds two grants at once"
            if held != units[row]:
                moves[row].append(Move.RESIZE)
        end[row], units[row] = end_s, held
    for row, finish_s in enumerate(result.jobs.finish_s):
        assert end[row] == finish_s
        moves[row].append(Move.FINISH)
    return moves


@pytest.mark.parametrize("fractional", [True, False], ids=["fractional", "whole"])
@pytest.mark.parametrize("policy", POLICIES)
def test_all_that_happens_to_a_job_is_legal_and_counted(policy: str, fractional: bool) -> None:
    total = np.zeros(2, dtype=np.int64)
    for seed, restart_s in ((5, 0.0), (6, 2.5)):
        run = simulation(
            workload(120, seed),
            policy,
            fractional=fractional,
            restart_s=restart_s,
            sizes="estimate",
            timeline=True,
        )
        run.run()
        result = run.result()
        for row, moves in enumerate(moves_of(result)):
            state = None
            for move in moves:
                state = LEGAL[state, move]
            assert state is JobState.FINISHED
            assert result.jobs.preemptions[row] == moves.count(Move.PREEMPT)
            assert result.jobs.resizes[row] == moves.count(Move.RESIZE)
            total += moves.count(Move.PREEMPT), moves.count(Move.RESIZE)
    assert total.sum() > 20
