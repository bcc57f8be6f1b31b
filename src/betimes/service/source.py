"""A trace as a source of submissions on a virtual clock."""

from __future__ import annotations

import math
from collections.abc import Sequence

from betimes.service.events import Event
from betimes.service.spec import JobSpec


class Source:
    """Jobs that are submitted at given instants, in order.

    promise_every: every so many of them one is promised when it will be done; 0: none.
    """

    def __init__(
        self, arrivals: Sequence[tuple[float, JobSpec]], user: str = "trace", promise_every: int = 1
    ) -> None:
        self.arrivals, self.user, self.promise_every = arrivals, user, promise_every
        self.taken = self.seen = 0

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

    def to_promise(self, events: Sequence[Event]) -> list[int]:
        """The jobs that are to be promised an end, of those that have been submitted now."""
        numbers: list[int] = []
        for event in events:
            of_a_set = "set_id" in event.data  # which is promised as a whole
            mine = event.kind == "submitted" and event.cause == f"user:{self.user}" and not of_a_set
            if mine and event.job is not None:
                if self.promise_every and self.seen % self.promise_every == 0:
                    numbers.append(event.job)
                self.seen += 1
        return numbers
