"""The end of several jobs."""

from __future__ import annotations

from betimes.service.views.ends import End, last_end
from tests.cli.views import quote


def test_jobs_that_are_submitted_together_are_late_together() -> None:
    """The interval of the last end reaches no further than the widest of theirs, however many they are."""
    sure, unsure = End(110.0, 100.0, 105.0, 120.0, 0.8), End(90.0, 50.0, 90.0, 400.0, 0.8)
    assert last_end([sure]) == sure
    assert last_end([unsure] * 100) == unsure
    assert last_end([sure, unsure]) == last_end([unsure, sure]) == End(110.0, 100.0, 105.0, 400.0, 0.8)


def test_what_is_not_known_of_one_is_not_known_of_all() -> None:
    sure = End(110.0, 100.0, 105.0, 120.0, 0.8)
    assert last_end([sure, End(300.0)]) == End(300.0)
    assert last_end([sure, quote(finish_at=None)]) is None
    assert last_end([]) is None
