"""A trace as a source of submissions on a virtual clock."""

from __future__ import annotations

import math
from collections.abc import Sequence

from betimes.service.spec import JobSpec


class Source:
    """Jobs that are submitted at given instants, in order."""

    def __init__(self, arrivals: Sequence[tuple[float, JobSpec]], user: str = "trace") -> None:
        self.arrivals, self.user, self.taken = arrivals, user, 0

    def next_at(self) -> float:
        """When the next one is due; infinity: there is none."""
        return self.arrivals[self.taken][0] if self.taken < len(self.arrivals) else math.inf

    def take(self, now_at: float) -> list[JobSpec]:
        """Those that are due."""
        due: list[JobSpec] = []
        while self.next_at() <= now_at:
            due.append(self.arrivals[self.taken][1])
            self.taken += 1
        return due
