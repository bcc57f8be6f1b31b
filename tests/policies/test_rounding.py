"""Shares are rounded; what they add up to is not."""

from __future__ import annotations

from tests.reference import Job, allocate_once
from tests.twin.driving import units_after_arrivals

WFQ = "wfq:thresholds=20+60,weights=1/2+3/10+1/5,zeta_min=0,delta=0.1"


def test_what_classes_leave_over_is_enough_for_a_minimum() -> None:
    """Shares of 2, 5 and 3 units: one is left over in one class and three in another, four together."""
    jobs = (Job(0, 100, 2), Job(0, 10, 4), Job(0, 10, 4, min_units=4), Job(0, 50, 5, min_units=5))
    assert allocate_once(jobs, 10, WFQ, fractional=True, exact=True) == [2, 4, 4, 0]
    assert units_after_arrivals(jobs, 10, WFQ, fractional=True) == [2, 4, 4, 0]
