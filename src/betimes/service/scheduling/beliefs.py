"""Beliefs: run times, which follow siblings that finish, progress, and the cost of a restart."""

from __future__ import annotations

import math
import statistics
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from betimes.service.scheduling.job import Job
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
        """The estimate capped at a job's time limit; the limit itself where nothing else is known."""
        if time_limit_s is None or (self.basis != "default" and self.seconds <= time_limit_s):
            return self
        return RuntimeEstimate(time_limit_s, "limit")


class _History(NamedTuple):
    last_s: tuple[float, ...]  # one or two, latest first
    title: str
    finished: int


class RuntimeEstimates:
    """The last two run times of each user's jobs, and the estimate for the next one.

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
        """The estimate for a user's job: at most its time limit."""
        if not math.isnan(spec.runtime_estimate_s):
            return RuntimeEstimate(spec.runtime_estimate_s, "estimate").within(spec.time_limit_s)
        return self.learnt(user, spec.history_key).within(spec.time_limit_s)

    def learnt(self, user: str, key: str) -> RuntimeEstimate:
        """The estimate for a job with this history and no estimate or limit."""
        history = self._histories.get((user, key))
        if history is None:
            return RuntimeEstimate(self.default_s, "default")
        return RuntimeEstimate(max(sum(history.last_s) / len(history.last_s), LEAST_S), "last-two")

    def notes(self, user: str, spec: JobSpec) -> list[str]:
        """Notes for a user about a job's run-time estimate."""
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
        """Record a finished job's run time on max_units, s; ValueError: below 0, or not finite."""
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
        """Restored, perhaps under other settings."""
        made = cls(default_s, most)
        for user, key, last_s, *more in body:
            title, finished = more or (key, len(last_s))  # earlier versions remembered names only
            made._keep(user, key, _History(tuple(last_s), title, finished))
        return made


LEAST_LEFT_S = 0.01  # a job that still runs has something left, whatever it reports (the core's least belief)
LEAST_SEEN_S = 2.0
TOLERANCE_FRAC = 0.05
TOLERANCE_S = 1.0

_STRETCHES = 128  # that are remembered; an even number
_LEAST_RECENT = 8  # of them that count, where there are so many
_SHARE = 0.1  # of the others, that one may count for
_FIRST_WORK = 0.25  # in one at first; doubled whenever there are too many


def differs(new_s: float, old_s: float, frac: float = TOLERANCE_FRAC, least_s: float = TOLERANCE_S) -> bool:
    """Whether a belief about the remaining work differs materially from the present one.

    The two must be apart by more than `least_s` and by more than `frac` of the larger one. `old_s` is what is believed
    to remain *now*, the work done since it was formed taken off: a job that goes on as believed never differs, and
    no other belief may reach the policy or the account of the job's work.
    """
    return abs(new_s - old_s) > max(least_s, frac * max(new_s, old_s))


class ProgressRate:
    """Work per step of one job, over the later half of its observed progress.

    Progress is cut into stretches of about equal work. No stretch counts for more than a tenth of the others'
    work, nor for more than a tenth of their steps (while there are few, for twice its part): so a slow start, a
    stall or a burst hardly matters, while regular pauses (evaluation, checkpoints), soon a small part each, count in
    full. Only progress between two reports of one run counts as speed: neither the time of a restart, nor repeated
    or skipped steps. Knowledge from earlier runs stays. There is no estimate before `least_seen_s` seconds of
    progress. At most 128 stretches are remembered.
    """

    def __init__(self, least_seen_s: float = LEAST_SEEN_S) -> None:
        self._least_seen_s = least_seen_s
        self._speed = 0.0
        self._at_s = math.inf  # up to when work is counted; nothing is before a run begins
        self._work = 0.0  # since the last step
        self._ran_s = 0.0
        self._report: _Report | None = None  # the last one of this run
        self._clear()

    def begin(self, at_s: float, speed: float) -> None:
        """A run begins, at a speed-up over one unit: the job's first, or another from its checkpoint."""
        self._speed, self._at_s = speed, at_s
        self._work = self._ran_s = 0.0
        self._report = None

    def resize(self, at_s: float, speed: float) -> None:
        """The run goes on at another speed, without a restart."""
        self._count_until(at_s)
        self._speed = speed

    def report(self, at_s: float, done: float, total: float) -> float | None:
        """The work believed to remain after `done` of `total` steps, of any size and not only whole ones.

        Null: nothing is known yet, or progress has not changed since the last report, which has no consequence at
        all. Raises ValueError for invalid progress: below 0, not finite, or no total.
        """
        if not (0 <= done < math.inf and 0 < total < math.inf):
            raise ValueError(f"expected steps done, and a total above 0, found {done} of {total}")
        before, new = self._report, _Report(done, total)
        if new == before:
            return None  # before anything is counted: two sums may differ from one by a rounding error
        self._count_until(at_s)
        self._report = new
        if before is None:
            self._work = self._ran_s = 0.0
        elif done > before.done:
            self._learn(done - before.done)
        elif done < before.done:
            if total != before.total:
                self._clear()  # other steps: the work per step is not known
            self._work = self._ran_s = 0.0
        return self._left(total - done)

    def _count_until(self, at_s: float) -> None:
        if at_s > self._at_s:
            self._work += self._speed * (at_s - self._at_s)
            self._ran_s += at_s - self._at_s
            self._at_s = at_s

    def _clear(self) -> None:
        self._seen_s = 0.0
        self._full_work = _FIRST_WORK
        self._stretches: list[_Stretch] = []
        self._open = _Stretch(0.0, 0.0)

    def _learn(self, steps: float) -> None:
        """Steps were done with the work since the last ones."""
        self._open = _joined(self._open, _Stretch(self._work, steps))
        self._seen_s += self._ran_s
        self._work = self._ran_s = 0.0
        if self._open.work < self._full_work:
            return
        self._stretches.append(self._open)
        self._open = _Stretch(0.0, 0.0)
        if len(self._stretches) == _STRETCHES:
            self._stretches = [*map(_joined, self._stretches[::2], self._stretches[1::2])]
            self._full_work *= 2.0

    def _left(self, steps: float) -> float | None:
        if self._seen_s < self._least_seen_s or not self._stretches:
            return None
        recent = self._stretches[-max(_LEAST_RECENT, len(self._stretches) // 2) :]
        left = steps * _fair_sum([each.work for each in recent]) / _fair_sum([each.steps for each in recent])
        return max(left, LEAST_LEFT_S) if math.isfinite(left) else None


class _Report(NamedTuple):
    done: float
    total: float


class _Stretch(NamedTuple):
    work: float
    steps: float


def _joined(one: _Stretch, other: _Stretch) -> _Stretch:
    return _Stretch(one.work + other.work, one.steps + other.steps)


def _fair_sum(parts: list[float]) -> float:
    """The sum, none of the parts counting for more than its share of the others.

    Work and steps are cut alike, so at a constant pace their ratio is not changed.
    """
    if len(parts) == 1:
        return parts[0]
    total = sum(parts)
    share = max(_SHARE, 2.0 / len(parts))
    return sum(min(part, share * (total - part)) for part in parts)


MOST = 9  # restarts that count
TOLERANCE = 0.2  # of the figure in force; policies are not made anew for less


@dataclass
class RestartCost:
    """The last restarts, s, of jobs that were to go on at once at another width.

    `usual_s` is the cost assumed for the next one: their median. It stays unchanged while the median is close, since
    every play-out has to begin anew when it changes. Null: none has been measured.
    """

    last_s: list[float] = field(default_factory=list[float])
    usual_s: float | None = None

    def took(self, seconds: float) -> None:
        """Record one."""
        self.last_s = [*self.last_s, seconds][-MOST:]
        median_s = statistics.median(self.last_s)
        if self.usual_s is None or abs(median_s - self.usual_s) > TOLERANCE * self.usual_s:
            self.usual_s = median_s


LEARNT = ("default", "last-two", "limit")  # bases of beliefs that may be replaced
LEAST_NEWS_S = 0.1  # beliefs that are closer count as equal
SIBLINGS_A_FINISHED = 50
"""Of so many siblings, one must have finished since the last time: news costs time for each of them."""
MOST_A_TURN = 1000  # jobs whose belief is updated in one turn: more would delay requests

Key = tuple[str, str]  # user and `JobSpec.history_key`


class Siblings:
    """The live jobs of each user and history without an estimate, and those whose belief has not been updated yet."""

    def __init__(self) -> None:
        self._live: defaultdict[Key, dict[int, Job]] = defaultdict(dict)
        self._finished: defaultdict[Key, int] = defaultdict(int)  # since their last update
        # Of each key also by time limit, which bounds the belief.
        self._outdated: dict[tuple[Key, float | None], tuple[RuntimeEstimate, list[Job]]] = {}

    def __bool__(self) -> bool:
        """Whether any live job's belief follows others."""
        return bool(self._live)

    def note(self, job: Job) -> None:
        """A job is new, or has changed. A set and its trials learn from its trials instead."""
        if job.trials is not None or job.set_id is not None or not math.isnan(job.spec.runtime_estimate_s):
            return
        key = (job.user, job.spec.history_key)
        if not job.status.is_over and job.basis in LEARNT:
            self._live[key][job.job_id] = job
        else:
            self.drop(job)

    def drop(self, job: Job) -> None:
        """The job follows this history no more."""
        key = (job.user, job.spec.history_key)
        if key in self._live:
            self._live[key].pop(job.job_id, None)
            if not self._live[key]:
                for gone in (self._live, self._finished):
                    gone.pop(key, None)

    def finished(self, user: str, history_key: str, believed: RuntimeEstimate) -> None:
        """A job has finished; believed: of the next one like it, if that had no time limit."""
        key = (user, history_key)
        if key not in self._live:
            return
        self._finished[key] += 1
        if self._finished[key] * SIBLINGS_A_FINISHED < len(self._live[key]):
            return
        self._finished[key] = 0
        others: defaultdict[float | None, list[Job]] = defaultdict(list)
        for job in self._live[key].values():
            believed_s = believed.within(job.spec.time_limit_s).seconds
            if differs(believed_s, job.runtime_estimate_s, least_s=LEAST_NEWS_S):
                others[job.spec.time_limit_s].append(job)
        for limit_s, jobs in others.items():
            self._outdated[key, limit_s] = (believed.within(limit_s), jobs)

    @property
    def are_outdated(self) -> bool:
        """Whether some beliefs are out of date."""
        return bool(self._outdated)

    def take(self) -> Iterator[tuple[RuntimeEstimate, list[Job]]]:
        """Jobs to be updated now, in order; each is updated once."""
        room = MOST_A_TURN
        for which, (believed, jobs) in list(self._outdated.items()):
            now, later = jobs[:room], jobs[room:]
            room -= len(now)
            if later:
                self._outdated[which] = (believed, later)
            else:
                del self._outdated[which]
            live = self._live.get(which[0], {})
            yield believed, [job for job in now if job.job_id in live]
            if room == 0:
                return
