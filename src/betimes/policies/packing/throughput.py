"""The co-location throughput table: the throughput of tasks next to others, learnt at run time.

Source: Eva, sections 4.3 and 4.4, and as released `ThroughputMonitor`. A kind of task alone has throughput 1.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from betimes.errors import InputError
from betimes.policies.packing.problem import Problem

_PRIOR = 0.1  # standard deviation of the logarithm of an unseen pair
_NOISE = 0.003  # and of an observation
_SLOWEST = 1e-3  # stands for a throughput of 0, which has no logarithm
DEFAULT_PAIR = 0.95

Others = tuple[str, ...]
"""The kinds of a task's neighbours, sorted."""

Entry = tuple[str, Others]
"""A kind and its neighbours."""

Meaning = Literal["lower-bound", "mean", "fitted", "ignored"]

_EXPLAINED = 1e-2  # tolerance between an observation and the product of its pairs
_SAME = 5e-4  # tolerance between a pair and its fitted value


class Throughput(Protocol):
    """A planner's beliefs, or knowledge, about interference: throughputs from 0 to 1."""

    def of(self, kind: str, others: Sequence[str]) -> float:
        """The throughput of a kind next to neighbours of these kinds."""
        ...

    def pair(self, kind: str, other: str) -> float:
        """The throughput of a kind next to one neighbour."""
        ...

    def combinations(self) -> Iterable[tuple[str, Others, float]]:
        """Entries beyond pairs: (kind, neighbours, throughput). All others are products of the pairs."""
        ...


class ThroughputTable:
    """The table: recorded combinations count as they are, others as the product of their pairs.

    `meaning` is the rule for repeated observations. `lower-bound` is the paper's: the throughput of a one-task job
    replaces the entry, and an observation that may be a sibling's fault only raises it. `mean` is the released code's:
    the mean of all observations. `fitted` is like lower-bound, but pairs are fitted to all observations (`PairFit`),
    and a combination is recorded only if its pairs do not explain it. An unrecorded pair is `default`. With `ignored`
    nothing is recorded, and every pair is 1.

    Raises InputError for a throughput outside 0 to 1.
    """

    def __init__(self, default: float = DEFAULT_PAIR, meaning: Meaning = "lower-bound") -> None:
        self.default = 1.0 if meaning == "ignored" else _checked(default, "a pair that is not recorded")
        self.meaning: Meaning = meaning
        self._value: dict[str, dict[Others, float]] = {}
        self._count: dict[Entry, int] = {}
        self._changed: dict[Entry, None] = {}  # in order
        self._fits: dict[str, PairFit] = {}
        self._beside: dict[tuple[int, ...], list[Entry]] = {}  # of the tasks on a machine

    def of(self, kind: str, others: Sequence[str]) -> float:
        """The recorded throughput, or the product over the neighbours, in their sorted order."""
        key = tuple(sorted(others))
        known = self._value.get(kind, {}).get(key)
        if known is not None:
            return known
        product = 1.0
        for other in key:
            product *= self.pair(kind, other)
        return product

    def pair(self, kind: str, other: str) -> float:
        """The recorded throughput next to one neighbour, or the default."""
        return self._value.get(kind, {}).get((other,), self.default)

    def combinations(self) -> Iterable[tuple[str, Others, float]]:
        """Entries with several neighbours and, for means, with none."""
        for kind, entries in self._value.items():
            for others, value in entries.items():
                if len(others) != 1:
                    yield kind, others, value

    def take_changed(self) -> tuple[Entry, ...]:
        """The entries changed since the last call."""
        changed = tuple(self._changed)
        self._changed.clear()
        return changed

    def recorded(self, kind: str, others: Sequence[str]) -> float | None:
        """The entry, if there is one."""
        return self._value.get(kind, {}).get(tuple(sorted(others)))

    def observe(self, kind: str, others: Sequence[str], throughput: float) -> None:
        """Take in the throughput of a one-task job next to its neighbours."""
        _checked(throughput, kind)
        if others or self.meaning == "mean":
            self._take(kind, tuple(sorted(others)), throughput)

    def observe_job(self, entries: Sequence[tuple[str, Sequence[str]]], throughput: float) -> None:
        """Take in the throughput of a job of several tasks: its slowest task sets it, and one entry is blamed.

        `entries` has (kind, neighbours) of every task; ties go to the earlier. Source: Eva, section 4.4.
        """
        _checked(throughput, entries[0][0])
        keys = [(kind, tuple(sorted(others))) for kind, others in entries]
        if self.meaning != "mean":
            keys = [(kind, others) for kind, others in keys if others]  # alone is 1 by definition
            if not keys:
                return
        known = [key for key in keys if self._is_known(*key)]
        unknown = [key for key in keys if key not in known]
        lowest = min(known, key=lambda key: self.of(*key), default=None)
        if lowest is None or (unknown and self.of(*lowest) > throughput):
            self._take(*max(unknown, key=lambda key: len(key[1])), throughput)
        else:
            # All are recorded and higher, so that one bound was too high: the lowest comes down.
            self._take(*lowest, throughput)

    def observe_round(self, problem: Problem, reports: Mapping[int, float]) -> None:
        """Take in the throughputs that tasks report since the last round, by task.

        Only machines count on which every task reports more than 0: elsewhere a task may still be starting. A job of
        several tasks counts if all of them do.
        """
        # Most machines have the tasks of the round before, and so the same entries.
        beside, self._beside = self._beside, {}
        entry_of: dict[int, Entry] = {}
        for tasks in problem.residents.values():
            if tasks and all(reports.get(task, 0.0) > 0 for task in tasks):
                entries = beside.get(tasks)
                if entries is None:
                    entries = _entries([problem.task[task].kind for task in tasks])
                self._beside[tasks] = entries
                entry_of.update(zip(tasks, entries, strict=True))
        last: dict[Entry, float] = {}
        for tasks in problem.jobs.values():
            first, *siblings = tasks
            if siblings:
                entries = [entry_of[task] for task in tasks if task in entry_of]
                if len(entries) == len(tasks):
                    self.observe_job(entries, min(reports[task] for task in tasks))
                continue
            entry = entry_of.get(first)
            if entry is None:
                continue
            throughput = reports[first]
            if self.meaning == "mean" or last.get(entry) != throughput:
                # Like tasks report the same, which is new information for means only.
                last[entry] = throughput
                self.observe(*entry, throughput)

    def _is_known(self, kind: str, others: Others) -> bool:
        """Whether a combination is recorded, or given by fitted pairs."""
        entries = self._value.get(kind, {})
        if others in entries:
            return True
        return self.meaning == "fitted" and all((other,) in entries for other in others)

    def _take(self, kind: str, others: Others, throughput: float) -> None:
        """Take in an observed throughput of a combination."""
        if self.meaning == "ignored":
            return
        if self.meaning != "fitted":
            self._enter(kind, others, throughput)
        elif abs(self.of(kind, others) - throughput) > _EXPLAINED:
            fit = self._fits.setdefault(kind, PairFit(self.default))
            fit.observe(others, throughput)
            for other, pair in fit.pairs():
                if abs(pair - self.pair(kind, other)) > _SAME:
                    self._enter(kind, (other,), pair)
            if abs(self.of(kind, others) - throughput) > _EXPLAINED:
                self._enter(kind, others, throughput)

    def _enter(self, kind: str, others: Others, throughput: float) -> None:
        entries = self._value.setdefault(kind, {})
        before = entries.get(others)
        if self.meaning == "mean":
            # A running mean: a list of all observations would slow every look-up.
            count = self._count[kind, others] = self._count.get((kind, others), 0) + 1
            mean = before or 0.0
            throughput = mean + (throughput - mean) / count
        if throughput != before:
            entries[others] = throughput
            self._changed[kind, others] = None


def _entries(kinds: Sequence[str]) -> list[Entry]:
    """The entry of each of the kinds that share a machine."""
    together = tuple(sorted(kinds))
    return [(kind, _without(together, kind)) for kind in kinds]


def _without(kinds: Others, kind: str) -> Others:
    place = kinds.index(kind)
    return kinds[:place] + kinds[place + 1 :]


def normalised(observed: float, alone: float) -> float:
    """Observed throughput over that of the task alone, at most 1; raises InputError unless `alone` is above 0."""
    if not alone > 0 or not observed >= 0:
        raise InputError(
            f"a throughput: expected a number from 0 over one above 0, found {observed:g} over {alone:g}"
        )
    return min(1.0, observed / alone)


def _checked(throughput: float, kind: str) -> float:
    if not 0 <= throughput <= 1:
        raise InputError(f"the throughput of {kind}: expected a number from 0 to 1, found {throughput:g}")
    return throughput


class PairFit:
    """The slow-downs of one kind by each other kind, fitted to throughputs next to several neighbours at once.

    A combination's throughput is modelled as the product of its pairs', so that its logarithm is a sum: every
    observation is one linear equation in the slow-downs of its pairs, solved by recursive least squares (Kalman's
    filter without motion). A pair is known from combinations long before it is seen by itself. default: the throughput
    of an unseen pair.
    """

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
        """The neighbours seen, and the throughput next to each."""
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
