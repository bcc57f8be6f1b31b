"""Columns that grow, and segments that are taken out, in the middle of a run change nothing."""

from __future__ import annotations

import pytest

from betimes import Result, simulate
from betimes.core.pool.columns import grown
from betimes.twin.pool import simulation as twin
from tests.core.pool.invariants import check
from tests.core.pool.stepping import POLICIES, UNITS, after_every_event, simulation, workload

JOBS = 150


def outcome(policy: str, fractional: bool) -> Result:
    return simulate(
        workload(JOBS, 7),
        policy,
        units=UNITS,
        fractional=fractional,
        restart_s=1.5,
        sizes="estimate",
        predict=True,
        timeline=True,
    )


@pytest.mark.parametrize("fractional", [True, False], ids=["fractional", "whole"])
@pytest.mark.parametrize("policy", POLICIES)
def test_growth_changes_nothing(policy: str, fractional: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(twin, "FIRST_SLOTS", 4 * JOBS)
    expected = outcome(policy, fractional)
    for slots, segments in ((1, 1 << 16), (3, 1), (4 * JOBS, 5)):
        monkeypatch.setattr(twin, "FIRST_SLOTS", slots)
        monkeypatch.setattr(twin, "SEGMENT_ROWS", segments)
        assert outcome(policy, fractional) == expected


@pytest.mark.parametrize("policy", ["srsf", POLICIES[-1]])
def test_a_grown_state_is_consistent_at_any_moment(policy: str) -> None:
    run = simulation(workload(40, 8), policy, restart_s=1.5, timeline=True)
    for events, state in enumerate(after_every_event(run)):
        if events % 11 == 5 and len(state.free) < 2000:
            run.driver.state = grown(state)
            run.driver.trace = run.trace.replaced(
                keys=run.trace.keys.repeat(2), asked=run.trace.asked.repeat(2)
            )
            check(run.state)
        else:
            check(state)
    assert len(run.state.free) > 4 * twin.FIRST_SLOTS
