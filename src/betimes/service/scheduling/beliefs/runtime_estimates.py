"""How long a job is believed to take before it has run: by its estimate, its last runs, its limit, or the default."""

from __future__ import annotations

import math
from collections import Counter, OrderedDict
from typing import Any, Literal, NamedTuple

from betimes.service.spec.job_spec import JobSpec
from betimes.units import humanise_s

Basis = Literal["estimate", "last-two", "default", "limit"]

USUAL_S = 3600.0
LEAST_S = 0.01  # no job is believed to take less, however short the last ones were
MOST_HISTORIES = 10_000


class RuntimeEstimate(NamedTuple):
    """Seconds on max_units, and where they are from."""

    seconds: float
    basis: Basis

    def within(self, time_limit_s: float | None) -> RuntimeEstimate:
        """What a job with this limit is believed to take: no more, and just that where nothing else is known."""
        if time_limit_s is None or (self.basis != "default" and self.seconds <= time_limit_s):
            return self
        return RuntimeEstimate(time_limit_s, "limit")


class _History(NamedTuple):
    last_s: tuple[float, ...]  # one or two, latest first
    title: str
    finished: int


class RuntimeEstimates:
    """The last two run times of what each user runs, and what follows for the next time.

    Jobs of one `JobSpec.history_key` share a history. As in the twin (`--sizes last-two`), a run time is a job's work
    over its speed on max_units, so that it does not depend on how many units the job got. At most `most` histories are
    kept; the one whose job finished longest ago goes first. Only `finished` changes anything: quotes may ask as often
    as they like.
    """

    def __init__(self, default_s: float = USUAL_S, most: int = MOST_HISTORIES) -> None:
        if not (0 < default_s < math.inf and most >= 1):
            raise ValueError(
                f"expected a default above 0 s and room for a history, found {default_s} and {most}"
            )
        self.default_s = default_s
        self._most = most
        self._histories: OrderedDict[tuple[str, str], _History] = OrderedDict()  # by user and history key
        self._finished: Counter[tuple[str, str]] = Counter()  # jobs in these histories, by user and title

    def __len__(self) -> int:
        return len(self._histories)

    def believed(self, user: str, spec: JobSpec) -> RuntimeEstimate:
        """What a job of that user takes: at most its time limit."""
        if not math.isnan(spec.runtime_estimate_s):
            return RuntimeEstimate(spec.runtime_estimate_s, "estimate").within(spec.time_limit_s)
        return self.learnt(user, spec.history_key).within(spec.time_limit_s)

    def learnt(self, user: str, key: str) -> RuntimeEstimate:
        """What a job without an estimate or a limit takes whose history that is."""
        history = self._histories.get((user, key))
        if history is None:
            return RuntimeEstimate(self.default_s, "default")
        return RuntimeEstimate(max(sum(history.last_s) / len(history.last_s), LEAST_S), "last-two")

    def notes(self, user: str, spec: JobSpec) -> list[str]:
        """What its user should know about what a job is believed to take."""
        if spec.time_limit_s is not None and spec.runtime_estimate_s > spec.time_limit_s:
            estimate, limit = humanise_s(spec.runtime_estimate_s), humanise_s(spec.time_limit_s)
            return [
                f"the estimate of {estimate} is above the time limit of {limit}, at which the job is stopped; "
                "the limit counts"
            ]
        count = self._finished[user, spec.title]
        if count == 0 or self.believed(user, spec).basis != "default":
            return []
        jobs = "1 other job" if count == 1 else f"{count:,} other jobs"
        return [
            f"{jobs} called {spec.title} ran another command, or in another directory, so their run times are not "
            "used; give --estimate, or the same --name to jobs that take as long"
        ]

    def finished(self, user: str, key: str, title: str, run_s: float) -> None:
        """A job finished, and would have taken so many seconds on max_units; ValueError: below 0, or not finite."""
        if not 0 <= run_s < math.inf:
            raise ValueError(f"the run time of {user}'s {title}: expected 0 s or more, found {run_s}")
        before = self._histories.get((user, key), _History((), title, 0))
        self._keep(user, key, _History((run_s, *before.last_s[:1]), title, before.finished + 1))

    def _keep(self, user: str, key: str, history: _History) -> None:
        """Put a history last, in place of what was there."""
        before = self._histories.pop((user, key), None)
        self._histories[user, key] = history
        self._finished[user, history.title] += history.finished - (before.finished if before else 0)
        while len(self._histories) > self._most:
            (owner, _), gone = self._histories.popitem(last=False)
            self._finished[owner, gone.title] -= gone.finished
            if self._finished[owner, gone.title] == 0:
                del self._finished[owner, gone.title]

    def to_json(self) -> list[list[Any]]:
        """[[user, key, [last, before], title, jobs], ...], the longest ago first; without the operator's settings."""
        return [
            [user, key, [*history.last_s], history.title, history.finished]
            for (user, key), history in self._histories.items()
        ]

    @classmethod
    def from_json(
        cls, body: list[list[Any]], default_s: float = USUAL_S, most: int = MOST_HISTORIES
    ) -> RuntimeEstimates:
        """The same again, under other settings perhaps."""
        made = cls(default_s, most)
        for user, key, last_s, *more in body:
            title, finished = more or (key, len(last_s))  # earlier versions remembered names only
            made._keep(user, key, _History(tuple(last_s), title, finished))
        return made
