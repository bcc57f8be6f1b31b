"""Intervals around promises: quantiles of the error learned from features, and a margin that keeps their coverage true.

A promise is a completion time (JCT) from a play-out. What is learned is log(true JCT / promised JCT): three boosted
quantile regressions on features known when the promise is made (conformalised quantile regression: Romano, Patterson,
Candes, 2019). A margin is added on both sides, of a size that adapts (Gibbs and Candes, 2021): residuals are kept by
class of promise, since their scale differs, and one error rate is shared by all, since classes are too thin to adapt
alone. A miss is known when the upper bound passes, not when the job ends, and feedback is for the interval that was issued.

No clock: calls come in the order of events, and the same calls give the same intervals.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from betimes.core.nodes.wait_predictor import Predictor, predict_rows
from betimes.errors import InputError
from betimes.foresight.waits.estimators import boosted_quantile
from betimes.kernels import Floats, FloatTable, as_array

FIRST = 200  # finished jobs before the first fit
GROWTH = 0.3  # fitted again after so many more, as a share of those known
MOST_BETWEEN = 5_000  # but at the latest after so many
LATEST = 10_000  # finished jobs used in a fit
AVERAGED = 2  # latest fits, of which the mean counts
FEW = 30  # below that the interval is the default one

DEFAULT = (math.log(0.02), math.log(0.8), math.log(3.0))
"""Low, median and high of log(true JCT / promised JCT) where nothing is known."""

RATE = 0.005  # step of the shared error rate
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


@dataclass
class _Issued:
    """A promise whose job has not finished; logarithms relative to the play-out's JCT."""

    at_s: float
    point_s: float
    raw: tuple[float, float, float]
    kind: int
    high_s: float
    low_s: float
    features: list[float]
    missed: bool = False


class Intervals:
    """Intervals at one level (0 < level < 1), learned from promises and what became of them."""

    def __init__(self, level: float) -> None:
        if not 0.0 < level < 1.0:
            raise InputError(
                f"interval {level:g}: the share of jobs that are done within it, above 0 and below 1, such as 0.8"
            )
        self.level = level
        self.rate = 1.0 - level  # of misses that the margin allows for
        self.residuals: dict[int, deque[float]] = {}
        self.recent: deque[float] = deque(maxlen=2 * RESIDUALS)  # of all classes
        self.ratios: deque[float] = deque(maxlen=1000)  # log(true JCT / promised JCT)
        self.issued: dict[str, _Issued] = {}
        self.bounds: list[tuple[float, str]] = []  # a heap of (instant at which an upper bound passes, job)
        self.models: deque[tuple[Predictor, ...]] = deque(maxlen=AVERAGED)
        self.known: deque[tuple[list[float], float]] = deque(maxlen=LATEST)  # features and log ratio
        self.finished = 0
        self.fit_at = FIRST  # finished jobs at which the next fit is due
        self._margins: dict[int, float] = {}

    def interval(self, point_s: float, wait_s: float, features: list[float]) -> Interval:
        """The interval of a promise of `point_s` after submission, of which `wait_s` is waiting; nothing is noted."""
        raw = self._raw(features)
        margin = self._margin(kind_of(point_s, wait_s))
        low, high = raw[0] - margin, raw[2] + margin
        if low > high:  # a negative margin larger than half the width
            low = high = 0.5 * (low + high)
        middle = min(max(raw[1], low), high)
        return Interval(
            point_s * math.exp(low),
            point_s * math.exp(middle),
            point_s * math.exp(high),
            few=not self.models,
        )

    def issue(
        self, job_id: str, at_s: float, point_s: float, wait_s: float, features: list[float]
    ) -> Interval:
        """As `interval`, and it will be judged: by `passed`, and when the job has `ended`."""
        self.passed(at_s)
        made = self.interval(point_s, wait_s, features)
        self.issued[job_id] = _Issued(
            at_s,
            point_s,
            self._raw(features),
            kind_of(point_s, wait_s),
            made.high_s,
            made.low_s,
            features,
        )
        heapq.heappush(self.bounds, (at_s + made.high_s, job_id))
        return made

    def passed(self, at_s: float) -> None:
        """It is `at_s`: promises whose upper bound has passed have missed."""
        while self.bounds and self.bounds[0][0] < at_s:
            _, job_id = heapq.heappop(self.bounds)
            promise = self.issued.get(job_id)
            if promise is not None and not promise.missed:
                promise.missed = True
                self._adapt(missed=True)

    def ended(self, job_id: str, at_s: float) -> float | None:
        """The job has finished: returns log(true JCT / promised JCT), None where nothing was promised."""
        self.passed(at_s)
        promise = self.issued.pop(job_id, None)
        if promise is None:
            return None
        jct_s = max(at_s - promise.at_s, 1.0)
        ratio = math.log(jct_s / promise.point_s)
        if not promise.missed:
            self._adapt(missed=jct_s < promise.low_s)
        residual = max(promise.raw[0] - ratio, ratio - promise.raw[2])
        of_kind = self.residuals.setdefault(promise.kind, deque(maxlen=RESIDUALS))
        of_kind.append(residual)
        self.recent.append(residual)
        self._margins.clear()
        self.ratios.append(ratio)
        self.known.append((promise.features, ratio))
        self.finished += 1
        return ratio

    def forget(self, job_id: str) -> None:
        """The job will never finish: its promise is not judged."""
        self.issued.pop(job_id, None)

    @property
    def is_due(self) -> bool:
        """Whether enough has finished since the last fit for another one: `take(fit(*training(), level))`."""
        return self.finished >= self.fit_at

    def training(self) -> tuple[FloatTable, Floats]:
        """Features (n, features) and log ratios (n,) of the latest finished jobs, for `fit`."""
        return np.array([row for row, _ in self.known]), np.array([ratio for _, ratio in self.known])

    def take(self, model: tuple[Predictor, ...]) -> None:
        """Use a fitted model from now on."""
        self.models.append(model)
        self.fit_at = self.finished + min(int(GROWTH * self.finished), MOST_BETWEEN)

    def _raw(self, features: list[float]) -> tuple[float, float, float]:
        """Quantiles of the log ratio before the margin."""
        if not self.models:
            return self._rolling()
        row = np.array([features])
        total, one = np.zeros(3), np.zeros(1)
        for model in self.models:
            for at, predictor in enumerate(model):
                predict_rows(predictor, row, one)
                total[at] += one[0]
        low, median, high = sorted((total / len(self.models)).tolist())
        return low, median, high

    def _rolling(self) -> tuple[float, float, float]:
        """Quantiles of the latest log ratios, whatever the features."""
        if len(self.ratios) < FEW:
            return DEFAULT
        tail = (1.0 - self.level) / 2.0
        low, median, high = np.quantile(np.array(self.ratios), (tail, 0.5, 1.0 - tail)).tolist()
        return low, median, high

    def _margin(self, kind: int) -> float:
        """The margin of a class: it would have covered all but `rate` of its latest promises."""
        if kind not in self._margins:
            of_kind = self.residuals.get(kind, ())
            used = of_kind if len(of_kind) >= ENOUGH else self.recent
            margin = 0.0
            if len(used) >= FEW:
                margin = float(np.quantile(np.array(used), min(max(1.0 - self.rate, 0.0), 1.0)))
            self._margins[kind] = margin
        return self._margins[kind]

    def _adapt(self, *, missed: bool) -> None:
        self.rate = min(max(self.rate + RATE * ((1.0 - self.level) - missed), 0.001), 0.999)
        self._margins.clear()

    def state(self) -> tuple[dict[str, Any], dict[str, Floats]]:
        """Everything learned: as JSON has it, and arrays."""
        plain = {
            "level": self.level,
            "rate": self.rate,
            "residuals": [[kind, list(values)] for kind, values in self.residuals.items()],
            "recent": list(self.recent),
            "ratios": list(self.ratios),
            "issued": {job_id: list(vars(promise).values()) for job_id, promise in self.issued.items()},
            "bounds": self.bounds,
            "finished": self.finished,
            "fit_at": self.fit_at,
            "models": len(self.models),
        }
        x, y = self.training()
        arrays: dict[str, Any] = {"x": x, "y": y}
        for number, model in enumerate(self.models):
            for at, predictor in enumerate(model):
                for name in ("roots", "weights", "seen"):
                    arrays[f"{name}-{number}-{at}"] = getattr(predictor, name)
                arrays[f"trees-{number}-{at}"] = as_array(predictor.trees)
        return plain, arrays

    @classmethod
    def from_state(cls, plain: dict[str, Any], arrays: dict[str, Any]) -> Self:
        """The same as when `state` was called."""
        new = cls(plain["level"])
        new.rate, new.finished, new.fit_at = plain["rate"], plain["finished"], plain["fit_at"]
        for kind, values in plain["residuals"]:
            new.residuals[kind] = deque(values, maxlen=RESIDUALS)
        new.recent.extend(plain["recent"])
        new.ratios.extend(plain["ratios"])
        for job_id, (at_s, point_s, raw, *rest) in plain["issued"].items():
            new.issued[job_id] = _Issued(at_s, point_s, tuple(raw), *rest)
        new.bounds = [(at_s, job_id) for at_s, job_id in plain["bounds"]]
        new.known.extend(zip(arrays["x"].tolist(), arrays["y"].tolist(), strict=True))
        for number in range(plain["models"]):
            new.models.append(
                tuple(
                    Predictor(**{name: arrays[f"{name}-{number}-{at}"] for name in Predictor._fields})
                    for at in range(3)
                )
            )
        return new


def fit(x: FloatTable, y: Floats, level: float) -> tuple[Predictor, ...]:
    """Models of the low, median and high quantile of y (n,) given features x (n, features); takes a second."""
    tail = (1.0 - level) / 2.0
    return tuple(boosted_quantile(quantile, x, y) for quantile in (tail, 0.5, 1.0 - tail))


def kind_of(point_s: float, wait_s: float) -> int:
    """The class of a promise, by its length and whether the job waits."""
    horizon = sum(point_s > bound for bound in HORIZONS_S)
    return 2 * horizon + int(wait_s > WAITS * point_s)
