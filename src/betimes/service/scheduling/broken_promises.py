"""Broken promises: they are watched, and logged with the node that is probably at fault.

A promise is broken by an end that comes after its interval, or is sure to: an event `promise-broken`, which names the
node that was drained or lost since. A forecast of "never" breaks promises without an interval, too. A job's first
promise with an interval is judged. When it is broken, the next promise is, and so on. An end before the interval
troubles nobody: it counts in the account of promises only. Promises of a job that falls behind more and more may be
broken at short intervals. So that each event is news, a later promise counts as kept until the job has taken twice as
long as when the last one was broken, and a minute longer.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any, Literal

import numpy as np

from betimes.service.scheduling.job import Job
from betimes.service.scheduling.node import Node
from betimes.service.scheduling.part import Part
from betimes.service.scheduling.promises import INTERVAL, SAME_S, SLACK_S, Forecast, could_hold
from betimes.service.scheduling.state import SchedulerState

Why = Literal["passed", "foreseen", "never", "ended"]
"""Its upper end has passed; a later end is foreseen, with its whole interval; or none; or the job has ended."""


class BrokenPromises(Part):
    """Watches the promises of jobs that are not over."""

    name = "promises"

    def __init__(self, state: SchedulerState) -> None:
        self._state = state

    def next_at(self) -> float:
        """The instant at which the next promise is broken if its job is not over by then; infinity: none is judged."""
        return self._state.job_index.promises.next_at()

    def before_decision(self) -> None:
        """Log the promises whose last instant has passed; after a start, ends in time are still to be reported."""
        if self._state.is_resuming:
            return
        for number in self._state.job_index.promises.take(self._state.now_at):
            job = self._state.ledger.jobs[number]
            self._state.take_step("promise", number, partial(_log, self._state, job, "passed", "timer"))

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

    def note_never(self, forecast: Forecast, *, rents: bool) -> None:
        """Log the promises of jobs that are never done as things stand.

        rents: the policy may rent a machine that no forecast knows, so that only a node that is away is a proof.
        """
        for row in np.flatnonzero(np.isnan(forecast.finish_at)).tolist():
            job = self._state.ledger.jobs.get(forecast.job[row])
            if job is None or job.is_suspended or (job.quoted or {}).get("finish_at") is None:
                continue
            if not rents or node_at_fault(self._state, job) is not None:
                _log(self._state, job, "never", "policy")

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


def node_at_fault(state: SchedulerState, job: Job) -> Node | None:
    """The node that was drained or lost last since a job's latest promise, if the job can run there."""
    since_at = -math.inf if job.quoted is None else job.quoted["made_at"]
    away = [node for node in state.ledger.away() if (node.since_at or -math.inf) >= since_at]
    there = (node for node in away if could_hold(node, job.spec))
    return max(there, key=lambda node: node.since_at or -math.inf, default=None)


def _log(state: SchedulerState, job: Job, why: Why, cause: str, finish_at: float | None = None) -> None:
    promise, node = job.judged, node_at_fault(state, job)
    if promise is None:
        assert job.quoted is not None, "only promises are broken"
        promise = {**dict.fromkeys(INTERVAL), **job.quoted, "until_at": job.quoted["finish_at"]}
    more: dict[str, Any] = {} if node is None else {"because": f"node {node.machine.name} is {node.status}"}
    state.log("promise-broken", cause, job.job_id, why=why, promise=promise, finish_at=finish_at, **more)
