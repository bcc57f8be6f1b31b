"""The trials of an array that is one job, as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from betimes.cli.render.tables import Column

if TYPE_CHECKING:
    from betimes.service.views.models import JobView

TRIAL_COLUMNS = (
    Column("Job", right=True),
    Column("Index", right=True),
    Column("Status"),
    Column("Runs", rank=2, right=True),
    Column("Started", rank=1),
    Column("Ended", rank=1),
    Column("Done", rank=3, right=True),
    Column("Why", rank=4, flexible=True),
)


def trial_row(one: JobView, at_now: float) -> list[str]:
    """A trial: which, where it stands, and why."""
    from betimes.cli.render.times import clock, sentence

    return [
        str(one.job_id),
        str(one.array_index),
        str(one.status),
        str(one.attempt),
        clock(one.started_at, at_now) if one.started_at is not None else "",
        clock(one.finished_at, at_now) if one.finished_at is not None else "",
        f"{one.progress_frac:.0%}" if one.progress_frac is not None else "",
        sentence(one.reason.text, at_now) if one.reason is not None else "",
    ]
