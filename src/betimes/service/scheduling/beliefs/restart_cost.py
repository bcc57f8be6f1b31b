"""What it takes to restart a job: measured, from being told to stop until it gets on again."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field

MOST = 9  # restarts that count
TOLERANCE = 0.2  # of the figure in force; policies are not made anew for less


@dataclass
class RestartCost:
    """The last restarts of jobs that were to go on at once at another width, s.

    `usual_s` is what the next one is counted with: the median of them. It stays as it is while the median is close
    to it, since whatever plays the cluster forward has to begin anew when it changes. Null: none has been measured.
    """

    last_s: list[float] = field(default_factory=list[float])
    usual_s: float | None = None

    def took(self, seconds: float) -> None:
        """Another one."""
        self.last_s = [*self.last_s, seconds][-MOST:]
        median_s = statistics.median(self.last_s)
        if self.usual_s is None or abs(median_s - self.usual_s) > TOLERANCE * self.usual_s:
            self.usual_s = median_s
