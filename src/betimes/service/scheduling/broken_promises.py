"""Promises that are broken: an end that comes after the promised interval, or is sure to, is an event `promise-broken`.

A job's first promise with an interval is judged. When it is broken, the next promise is, and so on. An end before the
interval troubles nobody: it counts in the account of promises only.

Promises of a job that falls behind more and more may be broken at short intervals. So that each event is news, a later
promise counts as kept until the job has taken twice as long as when the last one was broken, and a minute longer.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

from betimes.service.scheduling.promise_errors import INTERVAL

if TYPE_CHECKING:
    from betimes.service.scheduling.forecasts import Forecast
    from betimes.service.scheduling.job import Job
    from betimes.service.scheduling.state import SchedulerState

SLACK_S = 1.0  # added to times of which a ratio is made: a second more or less is no error
SAME_S = 1e-3  # instants that are no further apart are one
NEWS = 2.0  # a job must take so many times as long as when its last promise was broken
LEAST_NEWS_S = 60.0  # and so much longer

Why = Literal["passed", "foreseen", "ended"]
"""Its upper end has passed; a later end is foreseen, with its whole interval; or the job has ended."""


def judged(job: Job, quote: dict[str, Any]) -> dict[str, Any] | None:
    """A promise as it is judged, `until_at` the last instant at which it counts as kept; null: it has no interval."""
    if quote.get("level") is None:
        return None
    until_at = quote["finish_high_at"]
    if job.broken_until_at is not None:
        taken_s = job.broken_until_at - job.submitted_at
        until_at = max(until_at, job.submitted_at + max(NEWS * taken_s, taken_s + LEAST_NEWS_S))
    names = ("quote_id", "made_at", "finish_at", *INTERVAL)
    return {**{name: quote[name] for name in names}, "until_at": until_at}


def due_at(job: Job) -> float | None:
    """When a job's promise is broken if it is not over by then: an end is often reported a moment after it."""
    return None if job.judged is None or job.status.is_over else job.judged["until_at"] + SLACK_S


class BrokenPromises:
    """Watches the promises of jobs that are not over."""

    def __init__(self, state: SchedulerState) -> None:
        self._state = state

    def next_at(self) -> float:
        """When the next promise is broken if its job is not over by then; infinity: none is judged."""
        return self._state.job_index.promises.next_at()

    def note_passed(self) -> None:
        """Log the promises whose last instant has passed."""
        for number in self._state.job_index.promises.take(self._state.now_at):
            _log(self._state, self._state.ledger.jobs[number], "passed", "timer")

    def overtaken(self, forecast: Forecast) -> Iterator[tuple[Job, float]]:
        """The jobs of which a forecast sees the end so late that the promise is probably broken, and that end.

        Of a long queue most ends are late and few so late: intervals, which cost more, are asked for of these only.
        """
        due_at = self._state.job_index.promises.at
        for number, finish_at in zip(forecast.job, forecast.finish_at.tolist(), strict=True):
            if number in due_at and due_at[number] < finish_at < math.inf:
                job = self._state.ledger.jobs[number]
                if (
                    job.judged is not None
                    and _low_at(job.judged, self._state.now_at, finish_at) > due_at[number]
                ):
                    yield job, finish_at

    def note_foreseen(self, job: Job, finish_at: float, low_at: float) -> None:
        """Log that a job's promise is broken if the interval of the end that is foreseen now begins after it."""
        if job.judged is not None and low_at > job.judged["until_at"] + SAME_S:
            _log(self._state, job, "foreseen", "policy", finish_at)


def _low_at(promise: dict[str, Any], now_at: float, finish_at: float) -> float:
    """The lower end of an interval around another end, if it is as wide in proportion as a promise's."""
    low_s, promised_s = (
        promise["finish_low_at"] - promise["made_at"],
        promise["finish_at"] - promise["made_at"],
    )
    return now_at + (finish_at - now_at) * (low_s + SLACK_S) / (max(0.0, promised_s) + SLACK_S)


def note_end(state: SchedulerState, job: Job) -> None:
    """A job is done: log it if that is too late."""
    ended_at = state.now_at if job.left_at is None else job.left_at
    if job.judged is not None and ended_at > job.judged["until_at"] + SAME_S:
        _log(state, job, "ended", "executor", ended_at)


def _log(state: SchedulerState, job: Job, why: Why, cause: str, finish_at: float | None = None) -> None:
    state.log("promise-broken", cause, job.job_id, why=why, promise=job.judged, finish_at=finish_at)
