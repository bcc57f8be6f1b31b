"""Speeds learned from reports of progress: by how much neighbours slow a job, and each type's speed for a workload.

Both rest on what a job does alone on its machines, so that neither is taken for the other.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from betimes.cluster.offer import MOST_SPEED, Offer
from betimes.core.planning import LEAST_ALONE_S

LEAST_REPORTS = 2  # after a first one, before the throughput alone is known
LEAST_BESIDE_S = 30.0  # and that beside others
WINDOW_S = 120.0  # beside others: older reports count for half, and so on
SAME_FRAC = 0.1  # of a throughput alone: one that differs by less is not stored again
Neighbours = frozenset[int]
"""The jobs that share a machine with a job."""

Types = tuple[str, ...]
"""The types of a run's machines, sorted, each once."""


@dataclass
class _Seen:
    steps: float = 0.0
    s: float = 0.0
    reports: int = 0

    def add(self, steps: float, seconds: float) -> None:
        self.steps, self.s, self.reports = self.steps + steps, self.s + seconds, self.reports + 1


@dataclass
class RelativeThroughput:
    """A job's measured throughput, alone on machines of each type, and beside its present neighbours."""

    _alone: dict[Types, _Seen]
    _beside: _Seen = field(default_factory=_Seen)
    _where: tuple[Neighbours, Types] = (frozenset(), ())
    _last: tuple[int, float, float] | None = None  # attempt, when, steps done

    @classmethod
    def of(cls, alone_per_s: float | None, on: Types) -> RelativeThroughput:
        """For a job whose throughput alone on these machines, steps a second, is already known; null: it is not."""
        if alone_per_s is None:
            return cls({})
        return cls({on: _Seen(alone_per_s * LEAST_ALONE_S, LEAST_ALONE_S, LEAST_REPORTS)})

    def alone_per_s(self, on: Types) -> float | None:
        """The throughput alone on machines of these types, steps a second; null: not known yet."""
        seen = self._alone.get(on)
        if seen is None or seen.s < LEAST_ALONE_S or seen.reports < LEAST_REPORTS or seen.steps <= 0.0:
            return None
        return seen.steps / seen.s

    def report(
        self,
        at_s: float,
        attempt: int,
        done: float,
        neighbours: Neighbours,
        on: Types,
        speed_on: Callable[[Types], float],
    ) -> float | None:
        """The throughput beside these neighbours relative to that alone, from 0 to 1; null: not known yet.

        on: the types of its machines; where it has not been alone on these, the throughput alone follows from that on
        others by what it is believed to do on each (`speed_on`). An interval in which the neighbours changed, the run
        is another, or the job went back counts for nothing.
        """
        last, self._last = self._last, (attempt, at_s, done)
        if (neighbours, on) != self._where:
            self._where, self._beside = (neighbours, on), _Seen()
        elif last is not None and last[0] == attempt and done >= last[2]:
            seen = self._beside if neighbours else self._alone.setdefault(on, _Seen())
            seen.add(done - last[2], at_s - last[1])
            if neighbours and seen.s > WINDOW_S:
                seen.steps, seen.s = seen.steps / 2.0, seen.s / 2.0
        alone_per_s = self.alone_per_s(on)
        for other in reversed(self._alone):
            if alone_per_s is None and (there := self.alone_per_s(other)) is not None:
                alone_per_s = there * speed_on(on) / speed_on(other)
        if alone_per_s is None:
            return None
        if not neighbours:
            return 1.0
        if self._beside.s < LEAST_BESIDE_S:
            return None
        return min(1.0, self._beside.steps / self._beside.s / alone_per_s)


MOST_MEASURED = 9  # jobs of a workload that count on a type
MOST_WORKLOADS = 1000


@dataclass
class _Rate:
    """Rates of the last jobs alone on a type, steps a second; their median, kept while the new one is close to it."""

    last_per_s: dict[str, float] = field(default_factory=dict[str, float])
    usual_per_s: float = 0.0

    def took(self, job: int, per_s: float) -> None:
        self.last_per_s.pop(str(job), None)
        self.last_per_s[str(job)] = per_s
        if len(self.last_per_s) > MOST_MEASURED:
            del self.last_per_s[next(iter(self.last_per_s))]
        median_per_s = statistics.median(self.last_per_s.values())
        if not math.isclose(median_per_s, self.usual_per_s, rel_tol=SAME_FRAC):
            self.usual_per_s = median_per_s


@dataclass
class MeasuredRates:
    """The rates of jobs of each workload alone on each type of machine: the speeds of the types for it.

    Steps of jobs of one workload on equally many units are taken to be alike. Those that reported longest ago are
    forgotten.
    """

    _of: dict[str, dict[str, dict[str, _Rate]]] = field(default_factory=dict[str, Any])
    """By workload, units and type; in the order in which they were measured first."""

    def took(self, workload: str, units: int, on: str, job: int, per_s: float) -> None:
        """A job has been measured alone on a type, in steps a second."""
        by_units = self._of.pop(workload, {})
        by_units.setdefault(str(units), {}).setdefault(on, _Rate()).took(job, per_s)
        self._of[workload] = by_units
        if len(self._of) > MOST_WORKLOADS:
            del self._of[next(iter(self._of))]

    def taught(self, offers: Sequence[Offer]) -> tuple[Offer, ...]:
        """These offers with speeds that were measured in place of those that they state.

        Speeds are relative: the type that was measured first keeps what is stated (1 if nothing is); once owned
        machines are measured, these are 1. A type that was not measured keeps what is stated, too.
        """
        if not self._of:
            return tuple(offers)
        speeds = {offer.type: dict(offer.speeds) for offer in offers}
        for workload, by_units in self._of.items():
            found: dict[str, list[float]] = {}
            types = [on for rates in by_units.values() for on in rates]
            first = next((on for on in types if on not in speeds), types[0])
            for rates in (each for each in by_units.values() if first in each):
                at_1_per_s = rates[first].usual_per_s / speeds.get(first, {}).get(workload, 1.0)
                for on in rates.keys() & speeds.keys() - {first}:
                    found.setdefault(on, []).append(rates[on].usual_per_s / at_1_per_s)
            for on, each in found.items():
                speeds[on][workload] = min(max(statistics.median(each), 1.0 / MOST_SPEED), MOST_SPEED)
        return tuple(replace(offer, speeds=tuple(sorted(speeds[offer.type].items()))) for offer in offers)

    def to_json(self) -> dict[str, Any]:
        """For a snapshot."""
        return asdict(self)["_of"]

    @classmethod
    def from_json(cls, body: dict[str, Any]) -> MeasuredRates:
        """Restored."""
        return cls(
            {
                workload: {
                    units: {on: _Rate(**rate) for on, rate in rates.items()}
                    for units, rates in by_units.items()
                }
                for workload, by_units in body.items()
            }
        )
