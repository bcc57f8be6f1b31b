"""Shares are rounded; what they add up to is not."""

from __future__ import annotations

import pytest

from tests.reference import Job, allocate_once
from tests.twin.pool.driving import units_after_arrivals

WFQ = "wfq:thresholds=20+60,weights=1/2+3/10+1/5,zeta_min=0,delta=0.1"


@pytest.mark.parametrize(
    ("units", "jobs", "grants"),
    [
        pytest.param(
            10,
            (Job(0, 100, 2), Job(0, 10, 4), Job(0, 10, 4, min_units=4), Job(0, 50, 5, min_units=5)),
            [2, 4, 4, 0],
            id="what two classes leave over",  # 1 of 5 and 3 of 3 units
        ),
        pytest.param(
            8,
            (Job(0, 100, 6), Job(0, 100, 2, min_units=2), Job(0, 10, 7, min_units=7)),
            [6, 2, 0],
            id="what is left when others have had of it",  # 40/7 units, less 6 - 16/7
        ),
        pytest.param(
            8,
            (Job(0, 30, 3, min_units=3), Job(0, 10, 4), Job(0, 10, 4)),
            [3, 4, 1],
            id="a share that is a minimum",  # 8 x 3/10 over 1/2 + 3/10, in floating point less than 3
        ),
    ],
)
def test_what_is_left_over_is_enough_for_a_minimum(
    units: int, jobs: tuple[Job, ...], grants: list[int]
) -> None:
    assert allocate_once(jobs, units, WFQ, fractional=True, exact=True) == grants
    assert units_after_arrivals(jobs, units, WFQ, fractional=True) == grants
