"""Full or Partial: the quantitative criterion and its estimates. Source: Eva, section 4.5, equation 1."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from betimes.policies.packing.problem import Problem, Round


def horizon_s(events_per_s: float, full_frac: float, *, poisson: bool = False) -> float:
    """The expected time until an event triggers a Full Reconfiguration, s.

    Published: -1 / (rate * ln(1 - p)), which replaces the number of events by its mean. With `poisson` 1 / (rate * p),
    which is exact for Poisson events. Infinity if nothing triggers, NaN for p outside 0 to 1.
    """
    if math.isnan(events_per_s) or not 0 <= full_frac <= 1:
        return math.nan
    if full_frac == 0 or events_per_s == 0:
        return math.inf
    if poisson:
        return 1.0 / (events_per_s * full_frac)
    return 0.0 if full_frac == 1 else -1.0 / (events_per_s * math.log1p(-full_frac))


def prefers_full(
    full_usd_per_h: float, partial_usd_per_h: float, full_usd: float, partial_usd: float, lasts_s: float
) -> bool:
    """Equation 1: savings over the lifetime, less the cost of moves, are strictly higher for Full than for Partial.

    False if `lasts_s` is NaN; differences below a millionth of a dollar, as by rounding, do not count.
    """
    hours = lasts_s / 3600.0
    return full_usd_per_h * hours - full_usd > partial_usd_per_h * hours - partial_usd + 1e-6


@dataclass
class Estimates:
    """The rate of events (arrivals and completions of jobs) and the share that triggered a Full, since the first round.

    An honest log has each event once, and only a round with an event may adopt a Full, as the paper has it.
    The released log counts a job that was starting or moving as a new one and then misses its end, and every round may
    adopt a Full.
    """

    honest: bool = True
    events: int = 0
    fulls: int = 0
    first_s: float = math.nan
    last_s: float = math.nan
    since_s: float = math.nan

    def __post_init__(self) -> None:
        self._known: frozenset[int] = frozenset()
        self._eventful = False

    @property
    def may_adopt(self) -> bool:
        """Whether this round may adopt a Full."""
        return self._eventful or not self.honest

    def observe(self, round_: Round) -> None:
        """Take in the events since the round before."""
        problem = round_.problem
        if math.isnan(self.since_s):
            self.since_s = round_.now_s
        jobs = frozenset(problem.jobs)
        arrived = [problem.task[problem.jobs[job][0]].arrival_s for job in jobs - self._known]
        ended = [at for job, at in round_.finished.items() if self.honest or job in self._known]
        # A job that came and went between two rounds was never in a problem; its end still counts as an event.
        times = sorted(arrived + ended)
        if times:
            self.first_s = times[0] if self.events == 0 else self.first_s
            self.last_s = times[-1]
            self.events += len(times)
        self._eventful = bool(times)
        self._known = jobs if self.honest else frozenset(_reconfigurable(problem))

    def adopted(self, *, full: bool) -> None:
        """Take in the decision of the round."""
        self.fulls += full

    @property
    def events_per_s(self) -> float:
        """The inverse of the mean time between events; NaN with fewer than two, or all at one instant."""
        span = self.last_s - self.first_s
        return (self.events - 1) / span if self.events > 1 and span > 0 else math.nan

    @property
    def full_frac(self) -> float:
        """The share of events that triggered a Full; the released log's may be above 1."""
        return self.fulls / max(1, self.events)

    def lasts_s(self, now_s: float, *, poisson: bool = False) -> float:
        """The expected lifetime of a configuration, s; the time so far while no event has triggered a Full."""
        if self.fulls == 0:
            return now_s - self.since_s
        return horizon_s(self.events_per_s, self.full_frac, poisson=poisson)


def move_usd(
    moved: Iterable[int],
    problem: Problem,
    alone_usd_per_h: Mapping[int, float],
    rented_usd_per_h: Iterable[float],
) -> float:
    """The cost of a change: each moved job's pause at the job's price alone, and `SET_UP_S` of each new machine.

    `moved` are jobs; a job pauses for its slowest task. Source: as released (`M`).
    """
    pauses = 0.0
    for job in moved:
        pause_s = max(problem.task[task].migration_s for task in problem.jobs[job])
        pauses += pause_s * alone_usd_per_h[job] / 3600.0
    return pauses + sum(rented_usd_per_h) * SET_UP_S / 3600.0


SET_UP_S = 300.0  # set-up time of a new machine


def _reconfigurable(problem: Problem) -> Iterable[int]:
    return (
        job for job, tasks in problem.jobs.items() if not any(problem.task[task].pinned for task in tasks)
    )
