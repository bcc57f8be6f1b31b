"""The pace of requests: a limit for each token."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable


MOST_BUCKETS = 10_000  # tokens whose requests are counted; whoever asked longest ago is forgotten


class Pace(NamedTuple):
    """Requests that one token may make: so many a second, and so many at once after a rest."""

    per_s: float
    burst: float


class Buckets:
    """A token bucket for each token of the API."""

    def __init__(self, pace: Pace, clock: Callable[[], float] = time.monotonic) -> None:
        self.pace, self._clock = pace, clock
        # By token: the requests left as of an instant. The token that asked last comes last.
        self._levels: dict[str, tuple[float, float]] = {}

    def take(self, token: str) -> float:
        """Count a request; 0.0, or how long it has to wait, s, where it is one too many."""
        now_s = self._clock()
        left, at_s = self._levels.pop(token, (self.pace.burst, now_s))
        left = min(self.pace.burst, left + (now_s - at_s) * self.pace.per_s)
        wait_s = max(0.0, (1.0 - left) / self.pace.per_s)
        self._levels[token] = (left if wait_s else left - 1.0), now_s
        if len(self._levels) > MOST_BUCKETS:
            del self._levels[next(iter(self._levels))]
        return wait_s
