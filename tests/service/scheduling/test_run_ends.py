"""What follows a run is a table of every way in which it can end, whatever it was asked."""

from __future__ import annotations

from betimes.service.scheduling.events import Ended, RunId
from betimes.service.scheduling.run_ends import HOW, STOPS, TABLE, Next, what_follows


def test_the_table_has_every_pair() -> None:
    assert set(TABLE) == set(STOPS)
    assert all(set(row) == set(HOW) for row in TABLE.values())


def test_a_command_that_ends_before_it_is_stopped_counts_but_for_a_cancelled_job() -> None:
    succeeded, lost = Ended(RunId(1, 1), 0.0, 0), Ended(RunId(1, 1), 0.0, None, why="node-lost")
    assert {what_follows(succeeded, why) for why in STOPS if why != "cancelled"} == {Next.FINISHED}
    assert what_follows(succeeded, "cancelled") is what_follows(lost, "cancelled") is Next.CANCELLED
    assert (what_follows(lost, None), what_follows(lost, "preempted")) == (Next.LOST, Next.STOPPED)
