"""A trace as a source of submissions on a virtual clock."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from betimes.service.scheduling.events import Event
from betimes.service.spec.job_spec import JobSpec


class Source:
    """Jobs that are submitted at given instants, in order.

    promise_every: every so many of them one is promised when it will be done; 0: none.
    """

    def __init__(
        self, arrivals: Iterable[tuple[float, JobSpec]], user: str = "trace", promise_every: int = 1
    ) -> None:
        self.user, self.promise_every = user, promise_every
        self._arrivals = iter(arrivals)
        self._coming = next(self._arrivals, None)
        self._seen = 0

    def next_at(self) -> float:
        """When the next one is due; infinity: there is none."""
        return self._coming[0] if self._coming is not None else math.inf

    def take(self, now_at: float) -> list[JobSpec]:
        """Those that are due."""
        due: list[JobSpec] = []
        while self._coming is not None and self._coming[0] <= now_at:
            due.append(self._coming[1])
            self._coming = next(self._arrivals, None)
        return due

    def to_promise(self, events: Sequence[Event]) -> list[int]:
        """The jobs that are to be promised an end, of those that have been submitted now."""
        numbers: list[int] = []
        for event in events:
            of_a_set = "set_id" in event.data  # which is promised as a whole
            mine = event.kind == "submitted" and event.cause == f"user:{self.user}" and not of_a_set
            if mine and event.job is not None:
                if self.promise_every and self._seen % self.promise_every == 0:
                    numbers.append(event.job)
                self._seen += 1
        return numbers
