"""Intervals around promises: quantiles of the error of earlier ones, and a margin that keeps their coverage true.

A promise is a completion time (JCT) from a play-out. It counts from the instant before which the job certainly does not
begin, so that no interval reaches before that. What is learned is log(JCT / anchor), the anchor being the JCT in
a play-out in which the policy's beliefs come true, or else the only one there is. There are two sources of its
quantiles: the errors of promises that were alike, with back-off (of the same command; of the user; of all), and, where
enough has finished, three boosted quantile regressions on features known when the promise is made (conformalised
quantile regression: Romano, Patterson, Candes, 2019). The one with the better interval score lately is promised.

A margin is added on both sides, of a size that adapts (Gibbs and Candes, 2021): residuals are kept by class of promise,
since their scale differs, and one error rate is shared by all, since classes are too thin to adapt alone. A miss is
known when the upper bound passes, not when the job ends, and feedback is for the interval that was issued.

No clock: calls come in the order of events, and the same calls give the same intervals. Fits are due at fixed counts of
finished jobs, of what was known then; when they are done, here or aside, is the caller's affair.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self

import numpy as np

from betimes.core.nodes.wait_predictor import Predictor, predict_rows
from betimes.errors import BetimesError, InputError
from betimes.foresight.past_errors import (
    FEW,
    LEAST,
    MOST_ALIKE,
    MOST_OF_ANOTHER,
    OUTWEIGH,
    RESIDUALS,
    Alike,
    Likeness,
    Margins,
    Prior,
    Raw,
    Window,
)
from betimes.foresight.waits.estimators import boosted_quantile
from betimes.kernels import Floats, FloatTable

FIRST = 100  # finished jobs before the first fit
GROWTH = 0.5  # fitted again after so many more, as a share of those known
MOST_BETWEEN = 5_000  # but at the latest after so many
LATEST = 10_000  # finished jobs used in a fit
AVERAGED = 2  # latest fits, of which the mean counts
KEPT = LATEST + AVERAGED * MOST_BETWEEN  # finished jobs that these were made of, and the next will be
ROUND_S = 0.5  # a promise is good to the second: an exact one must not miss by the last bit

DEFAULT = (math.log(0.02), math.log(0.8), math.log(3.0))
"""Low, median and high of log(JCT / JCT in the play-out) where nothing is known."""

SHARES = (0.0, 0.5, 1.0)
"""Of the play-out in the median, the rest is learned: the share is promised that had the smallest error lately."""

RATE = 0.005  # step of the shared error rate
ROLLING = 1000  # latest promises by which sources and medians are judged
FAR = 30.0  # a median is far from what was asked for if that is so many times as long
HORIZONS_S = (600.0, 3600.0, 21_600.0)  # classes of promise by its length
WAITS = 0.05  # and by whether more than this part of it is waiting
CLASSES = 2 * (len(HORIZONS_S) + 1)

MOST_CLASSES = 20_000  # of promises that are alike: those that were used last

UNKNOWN = -99.0  # a feature that is not known


class Source(NamedTuple):
    """The source of an interval: the number of earlier promises whose errors it is made of, and which those are.

    of: promises to jobs of the same command, of its user, with a belief from the same source, or all; or the quantile
    regressions, which learned from so many finished jobs. stated: the estimate that the job states counts as much.
    others: the ends are of errors on other clusters, too.
    """

    of: Literal["command", "user", "basis", "all", "features"]
    sample: int
    stated: bool = False
    others: bool = False


_CLASSES: tuple[Literal["command", "user", "basis", "all"], ...] = ("command", "user", "basis", "all")
"""The names of `Likeness.classes`; without the last for a job that outran its belief."""
_COARSE = ("basis", "all")  # in which errors of other clusters count, too


@dataclass(frozen=True)
class Interval:
    """A promised completion time in seconds after submission: it lies between `low_s` and `high_s` at the level.

    starts_s: low, median and high of the start. few: there are few jobs like this one yet: unless much else is known,
    the interval is wide for that reason. source: what it is from, null: nothing is known yet.
    """

    low_s: float
    median_s: float
    high_s: float
    few: bool
    starts_s: tuple[float, float, float] = (0.0, 0.0, 0.0)
    source: Source | None = None


class Point(NamedTuple):
    """The point that an interval is made of.

    anchor_s: the JCT to which all is relative. played: log(JCT in the play-out / anchor). wait_s: of it waiting.
    features: known now, none of them NaN (`UNKNOWN`), times relative to the anchor. most_s: the longest run time.
    asked_s: the run time that was asked for, 0: none. is_open: only that says how long it takes, so that the upper end
    leaves room for it. pull: how far a median that is far from it moves towards it, 1: all the way, in logarithms.
    certain_s: for so long it certainly does not begin; none of the others includes that. by_request: in the play-out
    nothing but what was asked for says how long it takes.
    """

    anchor_s: float
    played: float
    wait_s: float
    features: Sequence[float]
    like: Likeness = Likeness("", "", "")
    most_s: float = math.inf
    asked_s: float = 0.0
    is_open: bool = False
    pull: float = 0.0
    certain_s: float = 0.0
    by_request: bool = False


class Guess(NamedTuple):
    """The interval that one source gives, relative to the anchor, and the margin on both sides; all logarithms."""

    low: float
    median: float
    high: float
    margin: float = 0.0

    def ends(self) -> tuple[float, float]:
        """The ends with the margin."""
        low, high = self.low - self.margin, self.high + self.margin
        if low > high:  # a negative margin of more than half the width
            low = high = 0.5 * (low + high)
        return low, high


@dataclass(slots=True)
class _Issued:
    """A promise whose job has not finished; few: its interval is not one that counts."""

    at_s: float  # from when on its times count: when it was made, or the job may begin
    anchor_s: float
    played: float
    kind: int
    like: Likeness
    guesses: tuple[Guess | None, Guess | None]  # from promises that were alike, and from features
    used: Guess
    low_s: float
    high_s: float
    few: bool
    features: Floats
    missed: bool = False


class Later(NamedTuple):
    """A promise to a job that has outrun an earlier one: that one is judged, and of this one the error is kept."""

    at_s: float
    anchor_s: float
    played: float
    like: Likeness


class FitDue(NamedTuple):
    """A fit is due once so many jobs have `finished`; late: rows of promises that were broken then, and still open."""

    finished: int
    late: list[tuple[Floats, float]]


class Intervals:
    """Intervals at one level (0 < level < 1), learned from promises and what became of them.

    prior: errors on other clusters by class of promise, and again of those by request, which count beside the own until
    these are enough. They are of the ends of jobs that ask for a time, and of no others.
    """

    def __init__(self, level: float, prior: Prior = ()) -> None:
        if not 0.0 < level < 1.0:
            raise InputError(
                f"interval {level:g}: the share of jobs that are done within it, above 0 and below 1, such as 0.8"
            )
        self.level, self.prior = level, prior
        self.rate = 1.0 - level  # of misses that the margin allows for
        self.margins = (Margins(), Margins())  # of both sources
        self.scores = [0.0, 0.0]  # mean interval score of the latest promises that both had a guess for
        self.compared = 0
        self.alike: dict[tuple[str | None, ...], Alike] = {}
        self.ratios = Window(ROLLING)  # log(JCT / JCT in the play-out), the baseline of `rolling`
        self.issued: dict[str, _Issued] = {}
        self.later: dict[str, list[Later]] = {}
        self.bounds: list[tuple[float, str]] = []  # a heap of (instant at which an upper bound passes, job)
        self.due: deque[FitDue] = deque(maxlen=AVERAGED)
        self.models: dict[int, tuple[Predictor, ...]] = {}  # those of `due` that are there
        self.errors = [0.0] * len(SHARES)  # mean |log(JCT / median)| of the latest, for each of them
        self.known: deque[tuple[Floats, float]] = deque(maxlen=KEPT)  # features and log ratio
        self.finished = 0
        self.now_s = -math.inf  # of the latest call
        self.fit_at = FIRST  # finished jobs at which the next fit is due

    def at_level(self, level: float) -> None:
        """Make intervals at another level from now on; what was fitted for this one is void."""
        if level != self.level:
            self.rate += self.level - level
            self.level, self.models = level, {}

    def interval(self, point: Point, learned: Raw | None) -> Interval:
        """The interval around a promise; nothing is noted. learned: from `learned`."""
        return self._made(point, learned)[0]

    def _made(
        self, point: Point, learned: Raw | None
    ) -> tuple[Interval, tuple[Guess | None, Guess | None], Guess]:
        """An interval, what either source says, and what is used of it."""
        alike, source = self._alike(point)
        # What other clusters say counts for less than what was fitted on this one.
        is_young = source is not None and source.sample < LEAST
        guesses = self._guesses(point, None if is_young and learned is not None else alike, learned)
        used = self._used(point, guesses)
        if used is guesses[1]:
            # As a log is read again the promise's event has what was learned, and there are no models yet.
            source = Source("features", min(max(self.models, default=self.finished), LATEST))
        return self._around(point, used, source, few=alike is None), guesses, used

    def issue(
        self,
        job_id: str,
        at_s: float,
        point: Point,
        learned: Raw | None,
        shown_s: tuple[float, float] | None = None,
    ) -> Interval:
        """As `interval`, and it will be judged: by `passed`, and when the job has `ended`.

        shown_s: its ends as they stand in a log.
        """
        self.passed(at_s)
        made, guesses, used = self._made(point, learned)
        low_s, high_s = (
            each - point.certain_s for each in ((made.low_s, made.high_s) if shown_s is None else shown_s)
        )
        from_s = at_s + point.certain_s
        self.issued[job_id] = _Issued(
            at_s=from_s,
            anchor_s=point.anchor_s,
            played=point.played,
            kind=_kind(point),
            like=point.like,
            guesses=guesses,
            used=used,
            low_s=low_s,
            high_s=high_s,
            few=(made.few and learned is None) or not point.like.tells,
            features=np.array(point.features),
        )
        heapq.heappush(self.bounds, (from_s + high_s, job_id))
        return made

    def note_later(self, job_id: str, at_s: float, point: Point) -> None:
        """A job is promised another end, as it has outrun the one that was issued."""
        later = Later(at_s + point.certain_s, point.anchor_s, point.played, point.like)
        self.later.setdefault(job_id, []).append(later)

    def _guesses(
        self, point: Point, alike: Raw | None, learned: Raw | None
    ) -> tuple[Guess | None, Guess | None]:
        kind = _kind(point)
        first, second = (
            None
            if raw is None
            else Guess(raw[0] + by, raw[1] + by, raw[2] + by, margins.margin(kind, self.rate))
            for raw, by, margins in zip((alike, learned), (point.played, 0.0), self.margins, strict=True)
        )
        return first, second

    def _used(self, point: Point, guesses: tuple[Guess | None, Guess | None]) -> Guess:
        """That of the source which did better lately."""
        alike, learned = guesses
        if alike is not None and learned is not None:
            is_better = self.compared >= FEW and self.scores[1] <= self.scores[0]
            return learned if is_better else alike
        low, median, high = (each + point.played for each in DEFAULT)
        return alike or learned or Guess(low, median, high)

    def _alike(self, point: Point) -> tuple[Raw | None, Source | None]:
        like = point.like
        has_prior = bool(self.prior) and point.asked_s > 0.0 and not like.stated and not like.outran
        others = self.prior[_kind(point) + CLASSES * point.by_request] if has_prior else ()
        for of, each in zip(_CLASSES, like.classes(), strict=False):
            found = self.alike.get(each)
            is_told = like.stated and found is not None and found.each == MOST_OF_ANOTHER
            if found is None or (raw := found.raw(self.level, is_told=is_told)) is None:
                continue
            if others and of in _COARSE and len(found) < OUTWEIGH:
                raw = found.raw_beside(others, self.level, DEFAULT[1])
                return raw, Source(of, len(found), others=True)
            return raw, Source(of, len(found), is_told)
        if not others:
            return None, None
        found = self.alike.get(like.classes()[-1]) or Alike(MOST_OF_ANOTHER)
        return found.raw_beside(others, self.level, DEFAULT[1]), Source("all", len(found), others=True)

    def _around(self, point: Point, used: Guess, source: Source | None, *, few: bool) -> Interval:
        low, high = used.ends()
        median = _blended(SHARES[self.errors.index(min(self.errors))], point.played, used.median)
        # A play-out may be off by a factor of a hundred: no further than halfway to what was learned as an end.
        median = min(max(median, 0.5 * (used.low + used.median)), 0.5 * (used.median + used.high))
        low_s, median_s, high_s = (
            point.anchor_s * math.exp(each) for each in (low, min(max(median, low), high), high)
        )
        low_s, high_s = max(low_s - ROUND_S, 0.5 * low_s), high_s + ROUND_S  # none ends as it is promised
        waits = point.wait_s / (point.anchor_s * math.exp(point.played))  # the part of it that is waiting
        starts_s = low_s * waits, median_s * waits, high_s * waits
        if point.is_open:
            high_s = max(high_s, starts_s[2] + point.asked_s)
        asked_s = point.wait_s + point.asked_s
        if asked_s > FAR * median_s:
            median_s = min(median_s * (asked_s / median_s) ** point.pull, high_s)
        most_s = starts_s[2] + point.most_s + ROUND_S  # a run ends at its limit, however late it starts
        low_s, median_s, high_s = (point.certain_s + min(each, most_s) for each in (low_s, median_s, high_s))
        low, median, high = starts_s
        starts_s = point.certain_s + low, point.certain_s + median, point.certain_s + high
        return Interval(low_s, median_s, high_s, few, starts_s, source)

    def passed(self, at_s: float) -> None:
        """It is `at_s`: promises whose upper bound has passed have missed."""
        self.now_s = max(self.now_s, at_s)
        while self.bounds and self.bounds[0][0] < at_s:
            end_s, job_id = heapq.heappop(self.bounds)
            promise = self.issued.get(job_id)
            if promise is not None and not promise.missed and promise.at_s + promise.high_s == end_s:
                promise.missed = True
                self._adapt(promise, missed=True)

    def ended(self, job_id: str, at_s: float, *, tells: bool = True) -> float | None:
        """The job has finished, at the latest now: log(JCT / JCT in the play-out), None: nothing was promised.

        tells: whether that says something of jobs of other commands; if not, it counts for its own alone, and None.
        """
        self.passed(at_s)
        for later in self.later.pop(job_id, ()):
            error = _log_ratio(at_s - later.at_s, later.anchor_s) - later.played
            self._count(later.like._replace(tells=tells), error)
        promise = self.issued.pop(job_id, None)
        if promise is None or at_s < promise.at_s:  # what was certain has changed: it says nothing of others
            return None
        jct_s = max(at_s - promise.at_s, 1.0)
        ratio = _log_ratio(jct_s, promise.anchor_s)
        self._count(promise.like._replace(tells=tells), ratio - promise.played)
        if not tells:
            return None
        if not promise.missed:
            self._adapt(promise, missed=jct_s < promise.low_s)
        elif jct_s <= promise.high_s:  # nobody knew of its end when the bound passed
            self._adapt(promise, missed=False)
            self.rate += 0.0 if promise.few else RATE * self.level
        self._judge(promise, ratio)
        self.ratios.add(ratio - promise.played)
        self.known.append((promise.features, ratio))
        self.finished += 1
        if self.finished == self.fit_at:
            self._note_due()
        return ratio - promise.played

    def _count(self, like: Likeness, error: float) -> None:
        """Keep an error for promises that are alike."""
        for at, each in enumerate(like.classes()[: None if like.tells else 1]):
            found = self.alike.pop(each, None) or Alike(MOST_OF_ANOTHER if at else MOST_ALIKE)
            found.add(f"{like.user}|{like.command}", error)
            self.alike[each] = found
        while len(self.alike) > MOST_CLASSES:
            del self.alike[next(iter(self.alike))]

    def _judge(self, promise: _Issued, ratio: float) -> None:
        """Compare both guesses of a job with its end."""
        for margins, guess in zip(self.margins, promise.guesses, strict=True):
            if guess is not None:
                margins.add(promise.kind, max(guess.low - ratio, ratio - guess.high))
        alike, learned = promise.guesses
        if alike is not None and learned is not None:
            self.compared += 1
            for at, guess in enumerate((alike, learned)):
                low, high = guess.ends()
                score = high - low + 2.0 / (1.0 - self.level) * max(low - ratio, ratio - high, 0.0)
                self.scores[at] += (score - self.scores[at]) / min(self.compared, ROLLING)
        for at, share in enumerate(SHARES):
            error = abs(ratio - _blended(share, promise.played, promise.used.median))
            self.errors[at] += (error - self.errors[at]) / min(self.finished + 1, ROLLING)

    def forget(self, job_id: str) -> None:
        """The job will never finish, or its promise is void: that is not judged."""
        self.issued.pop(job_id, None)
        self.later.pop(job_id, None)

    def _note_due(self) -> None:
        """Promises that are already broken count with the time that has passed: less than that it will not be.

        Without them long jobs, which finish late, would be missing.
        """
        late = [
            (promise.features, math.log((self.now_s - promise.at_s) / promise.anchor_s))
            for promise in self.issued.values()
            if promise.missed and promise.like.tells
        ]
        self.due.append(FitDue(self.finished, late))
        self.fit_at = self.finished + min(int(GROWTH * self.finished), MOST_BETWEEN)

    def next_due(self, after: int = 0) -> int | None:
        """The count of finished jobs for which a fit is due: `take(count, fit(training(count), level))`; null: none.

        after: only of those above this count.
        """
        due = (each.finished for each in self.due if each.finished > after)
        return next((count for count in due if count not in self.models), None)

    def training(self, count: int) -> list[tuple[Floats, float]]:
        """Features and log(JCT / anchor) of the latest jobs when so many had finished, for `fit`."""
        late = next(each.late for each in self.due if each.finished == count)
        last = len(self.known) - (self.finished - count)
        return [*list(self.known)[max(last - LATEST, 0) : last], *late]

    def take(self, count: int, model: tuple[Predictor, ...]) -> None:
        """Use a fitted model from now on, unless newer ones have become due meanwhile.

        Raises BetimesError if it does not predict a number for what is known.
        """
        if not _is_usable(model, self.known[-1][0]):
            raise BetimesError(f"the models fitted for {count:,} finished jobs do not predict numbers")
        wanted = {each.finished for each in self.due}
        self.models = {at: each for at, each in (*self.models.items(), (count, model)) if at in wanted}

    def learned(self, features: Sequence[float]) -> Raw | None:
        """Quantiles of log(JCT / anchor) by the fitted models; null: there is none yet."""
        if not self.models:
            return None
        row, total = np.array([features]), np.zeros(3)
        for model in self.models.values():
            total += _predicted(model, row)
        low, median, high = sorted((total / len(self.models)).tolist())
        return low, median, high

    def rolling(self) -> Raw:
        """Quantiles of the latest log(JCT / JCT in the play-out), whatever the job: a baseline."""
        if len(self.ratios) < FEW:
            return DEFAULT
        tail = (1.0 - self.level) / 2.0
        return self.ratios.quantile(tail), self.ratios.quantile(0.5), self.ratios.quantile(1.0 - tail)

    def _adapt(self, promise: _Issued, *, missed: bool) -> None:
        if not promise.few:
            self.rate = min(max(self.rate + RATE * ((1.0 - self.level) - missed), 0.001), 0.999)

    def state(self) -> tuple[dict[str, Any], dict[str, Floats]]:
        """Everything learned, as JSON has it, and arrays; but for the fits, which can be made again."""
        plain = {
            "level": self.level,
            "rate": self.rate,
            "margins": [
                [[[kind, list(one.values)] for kind, one in each.kinds.items()], list(each.recent.values)]
                for each in self.margins
            ],
            "scores": self.scores,
            "compared": self.compared,
            "alike": [[key, each.each, each.values()] for key, each in self.alike.items()],
            "ratios": list(self.ratios.values),
            "issued": {
                job_id: {
                    **{name: getattr(promise, name) for name in _Issued.__slots__},
                    "features": promise.features.tolist(),
                }
                for job_id, promise in self.issued.items()
            },
            "later": self.later,
            "bounds": self.bounds,
            "due": [[count, [[x.tolist(), y] for x, y in late]] for count, late in self.due],
            "finished": self.finished,
            "errors": self.errors,
            "now_s": self.now_s,
            "fit_at": self.fit_at,
        }
        return plain, {
            "x": np.array([row for row, _ in self.known]),
            "y": np.array([ratio for _, ratio in self.known]),
        }

    @classmethod
    def from_state(cls, plain: dict[str, Any], arrays: dict[str, Any], prior: Prior = ()) -> Self:
        """The same as when `state` was called; the fits are due again, and the prior is that of this version."""
        new = cls(plain["level"], prior)
        for name in ("rate", "scores", "compared", "finished", "errors", "now_s", "fit_at"):
            setattr(new, name, plain[name])
        for margins, (kinds, recent) in zip(new.margins, plain["margins"], strict=True):
            margins.kinds = {kind: Window(RESIDUALS, values) for kind, values in kinds}
            margins.recent = Window(2 * RESIDUALS, recent)
        new.alike = {tuple(key): Alike(each, values) for key, each, values in plain["alike"]}
        new.ratios = Window(ROLLING, plain["ratios"])
        for job_id, promise in plain["issued"].items():
            first, second = (None if each is None else Guess(*each) for each in promise["guesses"])
            read: dict[str, Any] = {
                "like": Likeness(*promise["like"]),
                "guesses": (first, second),
                "used": Guess(*promise["used"]),
                "features": np.array(promise["features"]),
            }
            new.issued[job_id] = _Issued(**{**promise, **read})
        new.later = {
            job_id: [
                Later(at_s, anchor_s, played, Likeness(*like)) for at_s, anchor_s, played, like in promises
            ]
            for job_id, promises in plain["later"].items()
        }
        new.bounds = [(at_s, job_id) for at_s, job_id in plain["bounds"]]
        new.due.extend(FitDue(count, [(np.array(x), y) for x, y in late]) for count, late in plain["due"])
        new.known.extend(zip(arrays["x"], arrays["y"].tolist(), strict=True))
        return new


def fit(rows: Sequence[tuple[Floats, float]], level: float) -> tuple[Predictor, ...]:
    """Models of the low, median and high quantile of log ratios given features; takes a second."""
    x, y = np.array([row for row, _ in rows]), np.array([ratio for _, ratio in rows])
    tail = (1.0 - level) / 2.0
    return tuple(boosted_quantile(quantile, x, y) for quantile in (tail, 0.5, 1.0 - tail))


def _predicted(model: tuple[Predictor, ...], row: FloatTable) -> Floats:
    """The prediction of each predictor of a fitted model for a row of features (1, features)."""
    found = np.zeros(len(model))
    for at, predictor in enumerate(model):
        predict_rows(predictor, row, found[at : at + 1])
    return found


def _is_usable(model: tuple[Predictor, ...], features: Floats) -> bool:
    """Whether it has three predictors made for such features, which say numbers; compiled code does not check."""
    width = len(features)
    fits = all(
        len(each.weights) == 1 + width
        and each.seen.shape == (2, width)
        and bool((each.roots < len(each.trees)).all())
        for each in model
    )
    return fits and len(model) == 3 and bool(np.isfinite(_predicted(model, features[np.newaxis])).all())


def _log_ratio(jct_s: float, anchor_s: float) -> float:
    return math.log(max(jct_s, 1.0) / anchor_s)


def _blended(share: float, played: float, learned: float) -> float:
    return share * played + (1.0 - share) * learned


def _kind(point: Point) -> int:
    return class_of(point.anchor_s * math.exp(point.played), point.wait_s)


def class_of(played_s: float, wait_s: float) -> int:
    """The class of a promise, by its JCT in the play-out and whether the job waits: below `CLASSES`."""
    horizon = sum(played_s > bound for bound in HORIZONS_S)
    return 2 * horizon + int(wait_s > WAITS * played_s)
