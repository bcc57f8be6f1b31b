"""How fast a job is beside others, relative to its throughput alone, from the progress that it reports.

Throughput is steps a second between two reports of one run. What a job shows while its run has its machines to itself
is its throughput alone; nothing is said before that is known.
"""

from __future__ import annotations

from dataclasses import dataclass, field

LEAST_ALONE_S = 60.0  # of reported progress, before the throughput alone is known
LEAST_BESIDE_S = 30.0  # and that beside others
WINDOW_S = 120.0  # beside others: what is older counts for half, and so on
SAME_FRAC = 0.1  # of a throughput alone: one that differs by less is not stored again
Neighbours = frozenset[int]
"""The jobs that share a machine with a job."""


@dataclass
class _Seen:
    steps: float = 0.0
    s: float = 0.0


@dataclass
class RelativeThroughput:
    """What one job has shown, alone and beside the neighbours that it has now."""

    _alone: _Seen
    _beside: _Seen = field(default_factory=_Seen)
    _neighbours: Neighbours = frozenset()
    _last: tuple[int, float, float] | None = None  # attempt, when, steps done

    @classmethod
    def of(cls, alone_per_s: float | None) -> RelativeThroughput:
        """That of a job whose throughput alone is known already, in steps a second, or is not (null)."""
        return cls(_Seen() if alone_per_s is None else _Seen(alone_per_s * LEAST_ALONE_S, LEAST_ALONE_S))

    @property
    def alone_per_s(self) -> float | None:
        """The throughput alone, steps a second; null: not known yet."""
        seen = self._alone
        return seen.steps / seen.s if seen.s >= LEAST_ALONE_S and seen.steps > 0.0 else None

    def report(self, at_s: float, attempt: int, done: float, neighbours: Neighbours) -> float | None:
        """The throughput beside these neighbours relative to that alone, from 0 to 1; null: not known yet.

        An interval in which the neighbours changed, the run is another, or the job went back counts for nothing.
        """
        last, self._last = self._last, (attempt, at_s, done)
        if neighbours != self._neighbours:
            self._neighbours, self._beside = neighbours, _Seen()
        elif last is not None and last[0] == attempt and done >= last[2]:
            seen = self._beside if neighbours else self._alone
            seen.steps += done - last[2]
            seen.s += at_s - last[1]
            if neighbours and seen.s > WINDOW_S:
                seen.steps, seen.s = seen.steps / 2.0, seen.s / 2.0
        alone_per_s = self.alone_per_s
        if alone_per_s is None:
            return None
        if not neighbours:
            return 1.0
        if self._beside.s < LEAST_BESIDE_S:
            return None
        return min(1.0, self._beside.steps / self._beside.s / alone_per_s)
