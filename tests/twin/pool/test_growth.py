"""Room for jobs and segments grows on the way, and the steps of the loop are of any size: nobody can tell."""

from __future__ import annotations

import pytest

from betimes import simulate
from betimes.twin import driving
from betimes.twin.pool import simulation
from tests.twin.pool.crowds import EVERY_POLICY, MODES, crowd
from tests.twin.pool.replaying import Outcome, outcome_of


def outcome(policy: str, fractional: bool) -> Outcome:
    jobs = crowd(23, 150, gap_s=1.0)
    return outcome_of(
        simulate(jobs, policy, units=12, fractional=fractional, predict=True, sizes="last-two", timeline=True)
    )


@EVERY_POLICY
@MODES
def test_room_does_not_matter(policy: str, fractional: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    ample = outcome(policy, fractional)
    monkeypatch.setattr(simulation, "FIRST_SLOTS", 1)
    monkeypatch.setattr(simulation, "SEGMENT_ROWS", 3)
    monkeypatch.setattr(driving, "FIRST_ROWS", 1)
    monkeypatch.setattr(driving, "SECONDS_A_CALL", 0.0)
    assert outcome(policy, fractional) == ample
