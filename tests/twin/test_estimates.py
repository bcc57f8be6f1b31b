"""Jobs that outrun what was believed of them."""

from __future__ import annotations

from tests.reference import Job
from tests.twin.comparing import differences
from tests.twin.driving import Setup, run_engine
from tests.twin.workloads import oracle


def test_outrun_at_the_instant_at_which_another_end_takes_the_units_away() -> None:
    """The first job reaches its estimate at 6, when the second ends and the other two take over.

    It has outrun its estimate at 6, not when it is next given units.
    """
    jobs = (Job(0, 5, estimate=4), Job(0, 4), Job(0, 3), Job(0, 3))
    setup = Setup(jobs, 2, "las:quantum=2", sizes="estimate")
    assert differences(run_engine(setup), oracle(setup, exact=True)) == []
