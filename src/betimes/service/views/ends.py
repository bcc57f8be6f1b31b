"""The end of several jobs: of an array, a pipeline, a file of jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from betimes.service.views.models import Estimate, Quote, WhatIfJob


class End(NamedTuple):
    """An end, as played out, and within what interval it lies at a level; null: no interval is known."""

    finish_at: float
    finish_low_at: float | None = None
    finish_median_at: float | None = None
    finish_high_at: float | None = None
    level: float | None = None


if TYPE_CHECKING:
    HasEnd = End | Estimate | Quote | WhatIfJob


def last_end(jobs: Sequence[HasEnd]) -> End | None:
    """The end of the last of them; null: there are none, or one of them never ends.

    The low end, the median and the high end are each the latest of theirs: jobs that a user submits together are late
    together. Independent ends would make it wider by far, and the median ten times too late (docs/notes/promises.md).
    """
    ends_at = [one.finish_at for one in jobs if one.finish_at is not None]
    if not ends_at or len(ends_at) < len(jobs):
        return None
    sure = [
        (one.finish_low_at, one.finish_median_at, one.finish_high_at)
        for one in jobs
        if one.finish_low_at is not None
        and one.finish_median_at is not None
        and one.finish_high_at is not None
    ]
    if len(sure) < len(jobs):
        return End(max(ends_at))
    low_at, median_at, high_at = (max(each) for each in zip(*sure, strict=True))
    return End(max(ends_at), low_at, median_at, high_at, jobs[0].level)
