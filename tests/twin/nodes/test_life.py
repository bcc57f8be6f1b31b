"""What happens to jobs on nodes from one instant to the next follows the table of legal moves."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings

from betimes.core.job_states import LEGAL, JobState
from betimes.core.nodes.columns import NodesState
from betimes.kernels import as_array
from tests.core.nodes.invariants import state_of
from tests.reference.nodes.cases import Case, crowded_cases
from tests.twin.nodes.driving import simulation_of, step_through

MOST_MOVES = (
    3  # of one job within one instant where leaving takes time: it vacates, runs again, is told again
)


def reachable(before: JobState | None) -> set[JobState | None]:
    """Where a job can be after an instant."""
    found = {before}
    for _ in range(MOST_MOVES):
        found |= {target for (source, _), target in LEGAL.items() if source in found}
    return found


@settings(max_examples=20, deadline=None)
@given(crowded_cases())
def test_every_change_is_a_chain_of_legal_moves(case: Case):
    case = replace(case, jobs=tuple(replace(job, grace=max(1, job.grace)) for job in case.jobs))
    before: dict[int, JobState] = {}

    def look(state: NodesState) -> None:
        nonlocal before
        marks = as_array(state.progress)["served_by"].tolist()
        now = {
            int(state.progress[slot].row): state_of(state, slot)
            for slot, mark in enumerate(marks)
            if mark >= 0
        }
        for row, stands in now.items():
            assert stands in reachable(before.get(row))
        for row, stood in before.items():
            assert row in now or stood is JobState.RUNNING
        before = now

    step_through(simulation_of(case), look)
    assert set(before.values()) <= {JobState.RUNNING}
