"""Throughputs of pairs, fitted to what tasks show next to several neighbours at once.

A combination's throughput is taken for the product of its pairs', so that its logarithm is a sum: every observation is
one linear equation in the slow-downs of its pairs, solved by recursive least squares (Kalman's filter without motion).
A pair is known from the combinations that it was seen in, long before it is seen alone.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

_PRIOR = 0.1  # standard deviation of the logarithm of a pair that was not seen
_NOISE = 0.003  # and of an observation
_SLOWEST = 1e-3  # what counts for a throughput of 0, which has no logarithm


class PairFit:
    """The slow-downs of one kind by each other kind; `default` is the throughput of a pair that was not seen."""

    def __init__(self, default: float) -> None:
        self.prior = -math.log(max(_SLOWEST, default))
        self.neighbours: list[str] = []
        self._place: dict[str, int] = {}
        self._mean: NDArray[np.float64] = np.zeros(0)
        self._covariance: NDArray[np.float64] = np.zeros((0, 0))

    def observe(self, others: Sequence[str], throughput: float) -> None:
        """Take in the throughput next to these neighbours."""
        counts = Counter(others)
        self._know(counts)
        times = np.zeros(len(self.neighbours))
        for other, count in counts.items():
            times[self._place[other]] = count
        shared = self._covariance @ times
        spread = max(0.0, float(times @ shared)) + _NOISE**2
        miss = -math.log(max(_SLOWEST, throughput)) - float(times @ self._mean)
        # A neighbour never speeds a task up.
        self._mean = np.maximum(0.0, self._mean + shared * (miss / spread))
        self._covariance = self._covariance - np.outer(shared, shared) / spread

    def pairs(self) -> Iterable[tuple[str, float]]:
        """The neighbours that were seen, and the throughput next to each."""
        return zip(self.neighbours, np.exp(-self._mean).tolist(), strict=True)

    def _know(self, others: Iterable[str]) -> None:
        new = [other for other in others if other not in self._place]
        if not new:
            return
        for other in new:
            self._place[other] = len(self.neighbours)
            self.neighbours.append(other)
        known, count = len(self._mean), len(self.neighbours)
        self._mean = np.append(self._mean, np.full(len(new), self.prior))
        covariance = np.eye(count) * _PRIOR**2
        covariance[:known, :known] = self._covariance
        self._covariance = covariance
