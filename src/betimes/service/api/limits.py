"""Limits of what one request may ask for."""

from __future__ import annotations

from dataclasses import dataclass

MOST_PAGE = 1000  # items
MOST_JOB_NUMBER = 10**18 - 1  # the largest in a job's `after`
MOST_EVENT_NUMBER = 2**63 - 1
MOST_TAIL = 100_000  # lines of a log
MOST_WAIT_S = 60.0
MOST_KEY_CHARACTERS = 200
MOST_URL_BYTES = 8192  # path and query
MOST_HEADER_BYTES = 16_384  # all of a request's together


@dataclass(frozen=True)
class Limits:
    """Sizes and paces of the API."""

    job_bytes: int = 1 << 20  # of any body but a batch, and of each job in one
    batch_bytes: int = 32 << 20
    batch_jobs: int = 10_000
    keep_alive_s: float = 15.0  # between keep-alives on a stream of events
    follow_s: float = 0.25  # between looks at a log that is followed
    over_s: float = 1.0  # between looks at whether its run is over
    pause_s: float = 10.0  # between two pieces of a body
