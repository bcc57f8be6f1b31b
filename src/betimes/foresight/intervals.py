"""Intervals around promises: quantiles of the error learned from features, and a margin that keeps their coverage true.

A promise is a completion time (JCT) from a play-out. What is learned is log(JCT / anchor), the anchor being the JCT in
a play-out in which the policy's beliefs come true, or else the only one there is: three boosted quantile regressions
on features known when the promise is made (conformalised quantile regression: Romano, Patterson, Candes, 2019). A
margin is added on both sides, of a size that adapts (Gibbs and Candes, 2021): residuals are kept by class of promise,
since their scale differs, and one error rate is shared by all, since classes are too thin to adapt alone. A miss is
known when the upper bound passes, not when the job ends, and feedback is for the interval that was issued.

No clock: calls come in the order of events, and the same calls give the same intervals.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from betimes.core.nodes.wait_predictor import Predictor, Split, predict_rows
from betimes.errors import InputError
from betimes.foresight.waits.estimators import boosted_quantile
from betimes.kernels import Floats, FloatTable, Records, as_array, blank

FIRST = 100  # finished jobs before the first fit
GROWTH = 0.5  # fitted again after so many more, as a share of those known
MOST_BETWEEN = 5_000  # but at the latest after so many
LATEST = 10_000  # finished jobs used in a fit
AVERAGED = 2  # latest fits, of which the mean counts
ROUND_S = 0.5  # a promise is good to the second: an exact one must not miss by the last bit
FEW = 30  # below that the interval is the default one

DEFAULT = (math.log(0.02), math.log(0.8), math.log(3.0))
"""Low, median and high of log(JCT / JCT in the play-out) where nothing is known."""

SHARES = (0.0, 0.5, 1.0)
"""Of the play-out in the median, the rest is learned: the share is promised that had the smallest error lately."""

RATE = 0.005  # step of the shared error rate
ROLLING = 1000  # latest log ratios: intervals before the first fit
RESIDUALS = 500  # latest of a class
ENOUGH = 100  # residuals before a class has its own margin
HORIZONS_S = (600.0, 3600.0, 21_600.0)  # classes of promise by its length
WAITS = 0.05  # and by whether more than this part of it is waiting

UNKNOWN = -99.0  # a feature that is not known


@dataclass(frozen=True)
class Interval:
    """A promised completion time in seconds after submission: it lies between `low_s` and `high_s` at the level.

    few: there are few jobs to learn from yet, and the interval is wide for that reason.
    """

    low_s: float
    median_s: float
    high_s: float
    few: bool


class Point(NamedTuple):
    """What an interval is made of.

    anchor_s: the JCT to which all is relative. played: log(JCT in the play-out / anchor). wait_s: of it waiting.
    features: known now, none of them NaN (`UNKNOWN`), times relative to the anchor.
    """

    anchor_s: float
    played: float
    wait_s: float
    features: list[float]


@dataclass
class _Issued:
    """A promise whose job has not finished; logarithms relative to the anchor."""

    at_s: float
    anchor_s: float
    played: float
    raw: tuple[float, float, float]
    kind: int
    low_s: float
    high_s: float
    features: list[float]
    missed: bool = False


class Window:
    """The latest `most` values, and their quantiles."""

    def __init__(self, most: int, values: Iterable[float] = ()) -> None:
        self.values: deque[float] = deque(maxlen=most)
        self._sorted: list[float] = []
        for value in values:
            self.add(value)

    def __len__(self) -> int:
        return len(self._sorted)

    def add(self, value: float) -> None:
        """Add a value; the oldest leaves where there are too many."""
        if len(self.values) == self.values.maxlen:
            del self._sorted[bisect_left(self._sorted, self.values[0])]
        self.values.append(value)
        insort(self._sorted, value)

    def quantile(self, level: float) -> float:
        """A quantile by linear interpolation; of at least one value."""
        place = level * (len(self._sorted) - 1)
        below = min(int(place), len(self._sorted) - 1)
        above = min(below + 1, len(self._sorted) - 1)
        return self._sorted[below] + (place - below) * (self._sorted[above] - self._sorted[below])


class Intervals:
    """Intervals at one level (0 < level < 1), learned from promises and what became of them."""

    def __init__(self, level: float) -> None:
        if not 0.0 < level < 1.0:
            raise InputError(
                f"interval {level:g}: the share of jobs that are done within it, above 0 and below 1, such as 0.8"
            )
        self.level = level
        self.rate = 1.0 - level  # of misses that the margin allows for
        self.residuals: dict[int, Window] = {}
        self.recent = Window(2 * RESIDUALS)  # of all classes
        self.ratios = Window(ROLLING)  # log(JCT / JCT in the play-out)
        self.issued: dict[str, _Issued] = {}
        self.bounds: list[tuple[float, str]] = []  # a heap of (instant at which an upper bound passes, job)
        self.models: deque[tuple[Predictor, ...]] = deque(maxlen=AVERAGED)
        self.errors = [0.0] * len(SHARES)  # mean |log(JCT / median)| of the latest, for each of them
        self.known: deque[tuple[list[float], float]] = deque(maxlen=LATEST)  # features and log ratio
        self.finished = 0
        self.now_s = -math.inf  # of the last call
        self.fit_at = FIRST  # finished jobs at which the next fit is due

    def interval(self, point: Point) -> Interval:
        """The interval around a promise; nothing is noted."""
        return self._around(point, self._raw(point))

    def issue(self, job_id: str, at_s: float, point: Point) -> Interval:
        """As `interval`, and it will be judged: by `passed`, and when the job has `ended`."""
        self.passed(at_s)
        raw = self._raw(point)
        made = self._around(point, raw)
        self.issued[job_id] = _Issued(
            at_s, point.anchor_s, point.played, raw, _kind(point), made.low_s, made.high_s, point.features
        )
        heapq.heappush(self.bounds, (at_s + made.high_s, job_id))
        return made

    def _around(self, point: Point, raw: tuple[float, float, float]) -> Interval:
        margin = self._margin(_kind(point))
        low, high = raw[0] - margin, raw[2] + margin
        if low > high:  # a negative margin of more than half the width
            low = high = 0.5 * (low + high)
        median = _blended(SHARES[self.errors.index(min(self.errors))], point.played, raw[1])
        low_s, median_s, high_s = (
            point.anchor_s * math.exp(each) for each in (low, min(max(median, low), high), high)
        )
        return Interval(max(low_s - ROUND_S, 0.0), median_s, high_s + ROUND_S, few=not self.models)

    def passed(self, at_s: float) -> None:
        """It is `at_s`: promises whose upper bound has passed have missed."""
        self.now_s = at_s
        while self.bounds and self.bounds[0][0] < at_s:
            _, job_id = heapq.heappop(self.bounds)
            promise = self.issued.get(job_id)
            if promise is not None and not promise.missed:
                promise.missed = True
                self._adapt(missed=True)

    def ended(self, job_id: str, at_s: float) -> float | None:
        """The job has finished: returns log(JCT / JCT in the play-out), None where nothing was promised."""
        self.passed(at_s)
        promise = self.issued.pop(job_id, None)
        if promise is None:
            return None
        jct_s = max(at_s - promise.at_s, 1.0)
        ratio = math.log(jct_s / promise.anchor_s)
        if not promise.missed:
            self._adapt(missed=jct_s < promise.low_s)
        residual = max(promise.raw[0] - ratio, ratio - promise.raw[2])
        of_kind = self.residuals.setdefault(promise.kind, Window(RESIDUALS))
        of_kind.add(residual)
        self.recent.add(residual)
        self.ratios.add(ratio - promise.played)
        self.known.append((promise.features, ratio))
        self.finished += 1
        for at, share in enumerate(SHARES):
            error = abs(ratio - _blended(share, promise.played, promise.raw[1]))
            self.errors[at] += (error - self.errors[at]) / min(self.finished, ROLLING)
        return ratio - promise.played

    def forget(self, job_id: str) -> None:
        """The job will never finish: its promise is not judged."""
        self.issued.pop(job_id, None)

    @property
    def is_due(self) -> bool:
        """Whether enough has finished since the last fit for another one: `take(fit(*training(), level))`."""
        return self.finished >= self.fit_at

    def training(self) -> tuple[FloatTable, Floats]:
        """Features (n, features) and log(JCT / anchor) (n,) of the latest finished jobs, for `fit`.

        Promises that are already broken count, too, with the time that has passed: less than that it will not be, and
        without them long jobs, which finish late, would be missing.
        """
        rows = list(self.known)
        rows += [
            (promise.features, math.log((self.now_s - promise.at_s) / promise.anchor_s))
            for promise in self.issued.values()
            if promise.missed
        ]
        return np.array([row for row, _ in rows]), np.array([ratio for _, ratio in rows])

    def take(self, model: tuple[Predictor, ...]) -> None:
        """Use a fitted model from now on."""
        self.models.append(model)
        self.fit_at = self.finished + min(int(GROWTH * self.finished), MOST_BETWEEN)

    def _raw(self, point: Point) -> tuple[float, float, float]:
        """Quantiles of log(JCT / anchor) before the margin."""
        if not self.models:
            low, median, high = self.rolling()
            return low + point.played, median + point.played, high + point.played
        row = np.array([point.features])
        total, one = np.zeros(3), np.zeros(1)
        for model in self.models:
            for at, predictor in enumerate(model):
                predict_rows(predictor, row, one)
                total[at] += one[0]
        low, median, high = sorted((total / len(self.models)).tolist())
        return low, median, high

    def rolling(self) -> tuple[float, float, float]:
        """Quantiles of the latest log(JCT / JCT in the play-out), whatever the features."""
        if len(self.ratios) < FEW:
            return DEFAULT
        tail = (1.0 - self.level) / 2.0
        return self.ratios.quantile(tail), self.ratios.quantile(0.5), self.ratios.quantile(1.0 - tail)

    def _margin(self, kind: int) -> float:
        """The margin of a class: it would have covered all but `rate` of its latest promises."""
        used = self.residuals.get(kind, self.recent)
        if len(used) < ENOUGH:
            used = self.recent
        return used.quantile(1.0 - self.rate) if len(used) >= FEW else 0.0

    def _adapt(self, *, missed: bool) -> None:
        self.rate = min(max(self.rate + RATE * ((1.0 - self.level) - missed), 0.001), 0.999)

    def state(self) -> tuple[dict[str, Any], dict[str, Floats]]:
        """Everything learned: as JSON has it, and arrays."""
        plain = {
            "level": self.level,
            "rate": self.rate,
            "residuals": [[kind, list(window.values)] for kind, window in self.residuals.items()],
            "recent": list(self.recent.values),
            "ratios": list(self.ratios.values),
            "issued": {job_id: list(vars(promise).values()) for job_id, promise in self.issued.items()},
            "bounds": self.bounds,
            "finished": self.finished,
            "errors": self.errors,
            "now_s": self.now_s,
            "fit_at": self.fit_at,
            "models": len(self.models),
        }
        arrays: dict[str, Any] = {
            "x": np.array([row for row, _ in self.known]),
            "y": np.array([ratio for _, ratio in self.known]),
        }
        for number, model in enumerate(self.models):
            for at, predictor in enumerate(model):
                for name, value in predictor.values().items():
                    arrays[f"{name}-{number}-{at}"] = np.asarray(value)
        return plain, arrays

    @classmethod
    def from_state(cls, plain: dict[str, Any], arrays: dict[str, Any]) -> Self:
        """The same as when `state` was called."""
        new = cls(plain["level"])
        new.rate, new.finished, new.fit_at = plain["rate"], plain["finished"], plain["fit_at"]
        new.now_s, new.errors = plain["now_s"], list(plain["errors"])
        for kind, values in plain["residuals"]:
            new.residuals[kind] = Window(RESIDUALS, values)
        new.recent = Window(2 * RESIDUALS, plain["recent"])
        new.ratios = Window(ROLLING, plain["ratios"])
        for job_id, (at_s, anchor_s, played, raw, *rest) in plain["issued"].items():
            new.issued[job_id] = _Issued(at_s, anchor_s, played, tuple(raw), *rest)
        new.bounds = [(at_s, job_id) for at_s, job_id in plain["bounds"]]
        new.known.extend(zip(arrays["x"].tolist(), arrays["y"].tolist(), strict=True))
        for number in range(plain["models"]):
            new.models.append(
                tuple(
                    Predictor(
                        trees=_records(arrays[f"trees-{number}-{at}"]),
                        **{name: arrays[f"{name}-{number}-{at}"] for name in ("roots", "weights", "seen")},
                    )
                    for at in range(3)
                )
            )
        return new


def _records(values: Any) -> Records[Split]:
    splits = blank(Split, len(values))
    as_array(splits)[...] = values
    return splits


def fit(x: FloatTable, y: Floats, level: float) -> tuple[Predictor, ...]:
    """Models of the low, median and high quantile of y (n,) given features x (n, features); takes a second."""
    tail = (1.0 - level) / 2.0
    return tuple(boosted_quantile(quantile, x, y) for quantile in (tail, 0.5, 1.0 - tail))


def _blended(share: float, played: float, learned: float) -> float:
    return share * played + (1.0 - share) * learned


def _kind(point: Point) -> int:
    """The class of a promise, by its length and whether the job waits."""
    played_s = point.anchor_s * math.exp(point.played)
    horizon = sum(played_s > bound for bound in HORIZONS_S)
    return 2 * horizon + int(point.wait_s > WAITS * played_s)
