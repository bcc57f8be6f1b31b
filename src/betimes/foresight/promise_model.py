"""The model learned from finished jobs, which turns the point of a play-out into a promise with its interval.

One model serves the twin and the live service. It has no clock and no store: it is called as jobs are submitted,
started and ended, in that order in time, and its state can be written and read back.
"""

from __future__ import annotations

import io
import json
import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np

from betimes.foresight.intervals import UNKNOWN, Interval, Intervals, Point, fit
from betimes.foresight.past_errors import Likeness, Raw, errors_of_others
from betimes.foresight.run_times import Described, RunTimes
from betimes.kernels import Floats

RECENT = 20  # of a user
OF_ALL = 100
AT_ONCE_S = 1.0  # a start that is no further away
LATEST = 1000  # finished jobs that had a limit
KEPT_BY, OVER = 0.98, 1.05  # where so many end within so many times their limits, these are bounds
QUANTILES = (1, 4, 7, 10, 13)  # of the believed run time (`run_times.AT`)


class Queue(NamedTuple):
    """The cluster at the moment of a promise: jobs that wait and run, and the share of it that is busy."""

    waiting: int
    running: int
    busy_frac: float


class Played(NamedTuple):
    """The start and finish of a job in a play-out in which jobs end when they are expected to, s.

    believed_s: its finish in one in which all beliefs of the policy come true; NaN: not played. Under a policy that
    backfills against limits that is a bound. basis: where the belief about the job is from, if there are several ways.
    """

    start_s: float
    finish_s: float
    believed_s: float = math.nan
    basis: str = ""


@dataclass
class _User:
    """The latest finished jobs of a user: run times, run times over limits, errors of promises; all logarithms."""

    logs: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT))
    ratios: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT))
    errors: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT))
    submitted_s: float = math.nan
    active: int = 0


class PromiseModel:
    """Beliefs about run times, and intervals at one level."""

    def __init__(self, level: float) -> None:
        self.intervals = Intervals(level, errors_of_others())
        self.run_times = RunTimes()
        self.users: dict[str, _User] = {}
        self.ratios: deque[float] = deque(maxlen=OF_ALL)  # of all jobs, as of a user
        self.errors: deque[float] = deque(maxlen=OF_ALL)
        self.kept: deque[bool] = deque(maxlen=LATEST)  # whether they ended within their limits

    def submitted(self, job_id: str, job: Described, at_s: float) -> None:
        """A job waits from `at_s` on."""
        self.run_times.submitted(job_id, job, at_s)
        self.users.setdefault(job.user, _User()).active += 1

    def started(self, job_id: str, at_s: float) -> None:
        """The job runs from `at_s` on."""
        self.run_times.started(job_id, at_s)

    def stopped(self, job_id: str) -> None:
        """The job runs no more, and has not ended: it waits again."""
        self.run_times.stopped(job_id)

    def ended(self, job_id: str, run_s: float | None, at_s: float) -> None:
        """The job has finished at `at_s`; it took `run_s` at its full width, null: that says nothing of others."""
        job = self.run_times.active[job_id].job
        user, tells = self.users[job.user], job.tells(run_s)
        user.active -= 1
        error = self.intervals.ended(job_id, at_s, tells=tells)
        if error is not None:
            user.errors.append(error)
            self.errors.append(error)
        if run_s is None:
            self.run_times.forget(job_id)
            return
        self.run_times.ended(job_id, run_s)
        if not tells:
            return
        log = math.log(max(run_s, 1.0))
        user.logs.append(log)
        if not math.isnan(job.limit_s):
            self.kept.append(run_s <= OVER * job.limit_s)
            ratio = log - math.log(max(job.limit_s, 1.0))
            user.ratios.append(ratio)
            self.ratios.append(ratio)

    def forget(self, job_id: str) -> None:
        """The job will never finish: it was cancelled or refused."""
        self.users[self.run_times.active[job_id].job.user].active -= 1
        self.run_times.forget(job_id)
        self.intervals.forget(job_id)

    def promise(
        self,
        job_id: str,
        at_s: float,
        point: Point,
        learned: Raw | None,
        shown_s: tuple[float, float] | None = None,
    ) -> Interval:
        """The interval of a job's first promise, which will be judged.

        at_s: when it is made. learned: what the fitted models say (`Intervals.learned`); it is passed in, since a
        replay of a log has it from there. shown_s: the ends as that log has them.
        """
        self.users[self.run_times.active[job_id].job.user].submitted_s = at_s
        return self.intervals.issue(job_id, at_s, point, learned, shown_s)

    def point(
        self,
        job: Described,
        at_s: float,
        played: Played,
        queue: Queue,
        run_s: Floats | None = None,
        earliest_s: float = -math.inf,
        age_s: float = 0.0,
    ) -> Point:
        """The point that a promise rests on; times among the features are logarithms, most relative to anchor or limit.

        run_s: the job's believed run time (`RunTimes.quantiles`), where that is known already. earliest_s: before that
        instant it certainly does not begin, and only what comes after it is learned. age_s: it has run for so long.
        """
        if run_s is None:
            run_s = self.run_times.quantiles(job, at_s)
        from_s = max(at_s, earliest_s)
        point_s, wait_s = max(played.finish_s - from_s, 1.0), max(played.start_s - from_s, 0.0)
        anchor_s = point_s if math.isnan(played.believed_s) else max(played.believed_s - from_s, 1.0)
        anchor = math.log(anchor_s)
        user = self.users.get(job.user) or _User()
        group = self.run_times.groups.get(job.groups()[0])
        alike = list(group.logs) if group is not None else []
        limit = anchor if math.isnan(job.limit_s) else math.log(max(job.limit_s, 1.0))
        errors, ratios, logs = user.errors, list(user.ratios), list(user.logs)
        oldest = min(group.running.values(), default=None) if group is not None else None
        features = [
            anchor,
            math.log(point_s) - anchor,
            limit,
            math.log(max(anchor_s - math.exp(limit), 1.0)),
            math.log(max(wait_s, 1.0)),
            wait_s / point_s,
            math.log(job.width),
            *(math.log(max(wait_s + float(run_s[at]), 1.0)) - anchor for at in QUANTILES),
            _last(ratios),
            _mean(ratios[-2:]),
            _mean(ratios),
            _spread(ratios),
            _mean(logs[-2:]),
            _last(alike, limit),
            _mean(alike[-3:], limit),
            float(len(alike)),
            _mean(self.ratios),
            _last(errors),
            _mean(list(errors)[-3:]),
            _mean(self.errors),
            float(user.active),
            math.log(max(at_s - user.submitted_s, 1.0)) if user.submitted_s <= at_s else UNKNOWN,
            UNKNOWN if oldest is None else math.log(max(at_s - oldest, 1.0)) - limit,
            math.log(queue.waiting + 1.0),
            queue.busy_frac,
            (at_s / 3600.0) % 24.0,
        ]
        like = Likeness(job.user, job.command, played.basis, tells=not job.is_repeat)
        kin = self.run_times.groups.get(job.groups()[1])
        known = max(len(logs), 0 if kin is None else len(kin.logs))
        asked_s = 0.0 if math.isnan(job.limit_s) else max(job.limit_s - age_s, 0.0)
        return Point(
            *(anchor_s, math.log(point_s) - anchor, wait_s, features, like),
            most_s=max(self._most_s(job, wait_s) - age_s, 0.0),
            asked_s=asked_s,
            is_open=asked_s > 0.0 and self.run_times.is_flooded(job, at_s),
            pull=1.0 / (1.0 + known) if asked_s > 0.0 and known < RECENT else 0.0,
            certain_s=from_s - at_s,
        )

    def _most_s(self, job: Described, wait_s: float) -> float:
        """The longest run time of a job, s: a limit that ends jobs, or that nearly all keep, if it starts at once.

        Where a wait is promised the second kind is none: the wait may be longer, and a bound on both was worse.
        """
        if job.most_s is not None:
            return job.most_s
        if math.isnan(job.limit_s) or wait_s >= AT_ONCE_S or len(self.kept) < OF_ALL:
            return math.inf
        return OVER * job.limit_s if sum(self.kept) >= KEPT_BY * len(self.kept) else math.inf

    def refit(self) -> None:
        """Fit what is due, at once; to do it aside, see `Intervals.next_due`."""
        while (count := self.intervals.next_due()) is not None:
            self.intervals.take(count, fit(self.intervals.training(count), self.intervals.level))

    def to_bytes(self) -> bytes:
        """All that was learned, but for the fits, which `refit` makes again."""
        plain, arrays = self.intervals.state()
        whole = {
            "intervals": plain,
            "run_times": self.run_times.state(),
            "users": {
                name: [
                    list(user.logs),
                    list(user.ratios),
                    list(user.errors),
                    user.submitted_s,
                    user.active,
                ]
                for name, user in self.users.items()
            },
            "ratios": list(self.ratios),
            "errors": list(self.errors),
            "kept": list(self.kept),
        }
        return packed(whole, arrays)

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """The same as when `to_bytes` was called: after `refit` it gives the same promises from then on."""
        plain, arrays = unpacked(content)
        intervals = Intervals.from_state(plain["intervals"], arrays, errors_of_others())
        new = cls(intervals.level)
        new.intervals, new.run_times = intervals, RunTimes.from_state(plain["run_times"])
        for name, (logs, ratios, errors, submitted_s, active) in plain["users"].items():
            new.users[name] = _User(
                deque(logs, maxlen=RECENT),
                deque(ratios, maxlen=RECENT),
                deque(errors, maxlen=RECENT),
                submitted_s,
                active,
            )
        new.ratios.extend(plain["ratios"])
        new.errors.extend(plain["errors"])
        new.kept.extend(plain.get("kept", ()))  # earlier versions had no such bound
        return new


def packed(plain: dict[str, Any], arrays: dict[str, Floats]) -> bytes:
    """The bytes of a dictionary that JSON can hold and of arrays."""
    out = io.BytesIO()
    text: Any = np.frombuffer(json.dumps(plain).encode(), dtype=np.uint8)
    np.savez_compressed(out, allow_pickle=False, plain=text, **arrays)
    return out.getvalue()


def unpacked(content: bytes) -> tuple[dict[str, Any], dict[str, Floats]]:
    """The dictionary and the arrays of `packed` bytes."""
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        found = {name: arrays[name] for name in arrays.files}
    return json.loads(found.pop("plain").tobytes().decode()), found


def _last(values: Sequence[float], less: float = 0.0) -> float:
    return values[-1] - less if values else UNKNOWN


def _mean(values: Sequence[float], less: float = 0.0) -> float:
    return math.fsum(values) / len(values) - less if values else UNKNOWN


def _spread(values: Sequence[float]) -> float:
    if len(values) < 2:
        return UNKNOWN
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))
