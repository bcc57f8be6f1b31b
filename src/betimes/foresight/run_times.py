"""Run times as distributions, learned from the jobs that have finished.

A job is compared with those before it: its kin, of the same user and command, at the same width; its kin; the user's;
all jobs. A thin group leaves a part of the weight to the next coarser one, and recent jobs count more. Jobs that
still run are censored observations: a sibling that has run for an hour takes more than an hour
(Kaplan and Meier's estimate). No clock, and no data of jobs that have not finished: `submitted`, `started` and `ended`
are called as that happens, and the same calls give the same beliefs.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np

from betimes.kernels import Floats, Ints

GRID = 15
"""Quantiles of a believed run time: at 1/16, 2/16, ... 15/16."""
HALF = GRID // 2  # of them
AT: Floats = np.array([at / (GRID + 1) for at in range(1, GRID + 1)])

KIN = 2  # of a job's groups are those of its kin
MOST_GROUPS = 50_000  # those that were used last
KEPT = 24  # latest run times of a group
ALL_KEPT = 64  # and of all jobs
TRUST = 2.0  # a group with so many jobs gets as much weight as all coarser ones
# And as much as what else is believed: two jobs that are alike outweigh it, one does not.
TRUST_OVER_BELIEF = 3.0
FADES = 0.9  # weight of a run time relative to the one after it
FLOOD, FLOOD_S = 10, 300.0  # so many submissions of a kin within so long are a flood if none has finished
USUAL_S = 3600.0  # believed where nothing has finished and no limit is known
SHORTEST_S = 1.0

_ALL_FADED: Floats = np.array([FADES**age for age in range(ALL_KEPT - 1, -1, -1)])
_FADED = [
    _ALL_FADED[ALL_KEPT - count :] / _ALL_FADED[ALL_KEPT - count :].sum() for count in range(ALL_KEPT + 1)
]
"""Weights of so many run times, the latest last: they add up to 1."""


@dataclass(frozen=True, slots=True)
class Described:
    """The description of a job when it is submitted.

    command: what it has in common with its kin, and tells it from other jobs of its user: command line or script, or a
    name where one is given. The time asked for is no part of it, but in a log, which knows little else.
    limit_s: the time that the user asked for, NaN: none. most_s: the longest that it can take, where that is another
    time; infinity: any. is_repeat: another job of its array speaks for it to jobs of other commands.
    """

    user: str
    command: str
    limit_s: float
    width: float
    most_s: float | None = None
    is_repeat: bool = False

    @property
    def longest_s(self) -> float:
        """The longest that it can take, s; infinity: any time."""
        if self.most_s is not None:
            return self.most_s
        return math.inf if math.isnan(self.limit_s) else self.limit_s

    def groups(self) -> tuple[str, ...]:
        """The keys of its groups, from the finest to the coarsest but one; the last is that of all jobs."""
        kin = f"{self.user}|{self.command}"
        return f"{kin}|{self.width:g}", kin, self.user

    def tells(self, run_s: float | None) -> bool:
        """Whether its run says something of jobs of other commands; run_s: null where it was a set."""
        return not self.is_repeat and (run_s is None or run_s >= SHORTEST_S)


@dataclass
class Group:
    """Logarithms of the latest run times of jobs that are alike, and when those that run now were started.

    unheard: when jobs of this kin were submitted that have not finished; perhaps not those before the last `FLOOD_S`.
    heard_s: the submission of the youngest job that has finished, if it was among those.
    """

    logs: deque[float] = field(default_factory=lambda: deque(maxlen=KEPT))
    running: dict[str, float] = field(default_factory=dict[str, float])
    unheard: dict[str, float] = field(default_factory=dict[str, float])
    heard_s: float = -math.inf
    finished: int = 0  # since the process began; counted after `logs` has changed

    def add(self, job_id: str, at_s: float) -> None:
        """A job of this kin is submitted."""
        self.unheard[job_id] = at_s
        while self.unheard[oldest := next(iter(self.unheard))] < at_s - FLOOD_S:
            del self.unheard[oldest]

    def is_flooded(self, at_s: float) -> bool:
        """Whether many jobs of this kin were submitted of late, and none of them has finished."""
        since_s = at_s - FLOOD_S
        if self.heard_s >= since_s or len(self.unheard) < FLOOD:
            return False
        return next(islice(reversed(self.unheard.values()), FLOOD - 1, None)) >= since_s


_Question = tuple[str, str, float, float]


@dataclass(slots=True)
class _Active:
    job: Described
    keys: tuple[str, ...]
    started_s: float = math.nan


class RunTimes:
    """Believed run times; times are seconds on the caller's clock, and calls come in the order of events."""

    def __init__(self) -> None:
        self.groups: dict[str, Group] = {}
        self.all: deque[float] = deque(maxlen=ALL_KEPT)  # of run times over limits where there is one
        self.all_s: deque[float] = deque(maxlen=ALL_KEPT)  # of run times
        self.active: dict[str, _Active] = {}
        self._expected: dict[_Question, tuple[tuple[int, ...], Floats | None]] = {}  # as asked before

    def submitted(self, job_id: str, job: Described, at_s: float) -> None:
        """A job waits from `at_s` on."""
        before = next(reversed(self.active.values()), None)
        if before is not None and before.job == job:  # of an array, all elements keep one description
            self.active[job_id] = _Active(before.job, before.keys)
        else:
            self.active[job_id] = _Active(job, job.groups())
        self._group(job_id).add(job_id, at_s)

    def _group(self, job_id: str) -> Group:
        """That of an active job's kin, of any width."""
        return self.groups.setdefault(self.active[job_id].keys[1], Group())

    def changed(self, job_id: str, job: Described) -> None:
        """The job is another from now on, and runs on if it does."""
        since_s, at_s = self.active[job_id].started_s, self._group(job_id).unheard.get(job_id)
        self.forget(job_id)
        self.active[job_id] = _Active(job, job.groups())
        if at_s is not None:
            self._group(job_id).add(job_id, at_s)
        if not math.isnan(since_s):
            self.started(job_id, since_s)

    def started(self, job_id: str, at_s: float) -> None:
        """The job runs from `at_s` on."""
        active = self.active[job_id]
        active.started_s = at_s
        for key in active.keys[:KIN]:
            self.groups.setdefault(key, Group()).running[job_id] = at_s

    def stopped(self, job_id: str) -> None:
        """The job runs no more, and has not finished: it was preempted, cancelled or lost."""
        active = self.active[job_id]
        active.started_s = math.nan
        for key in active.keys[:KIN]:
            if key in self.groups:
                self.groups[key].running.pop(job_id, None)

    def forget(self, job_id: str) -> None:
        """The job will never finish."""
        self.stopped(job_id)
        self._group(job_id).unheard.pop(job_id, None)
        del self.active[job_id]

    def ended(self, job_id: str, run_s: float) -> None:
        """The job has finished, and took `run_s` at its full width."""
        self.stopped(job_id)
        kin = self._group(job_id)
        kin.heard_s = max(kin.heard_s, kin.unheard.pop(job_id, -math.inf))
        active = self.active.pop(job_id)
        log, tells = math.log(max(run_s, SHORTEST_S)), active.job.tells(run_s)
        for key in active.keys if tells else active.keys[:KIN]:
            group = self.groups.pop(key, None) or Group()
            group.logs.append(log)
            group.finished += 1
            self.groups[key] = group  # the last
        while len(self.groups) > MOST_GROUPS:
            del self.groups[next(iter(self.groups))]
        if not tells:
            return
        self.all_s.append(log)
        if not math.isnan(active.job.limit_s):
            self.all.append(log - math.log(max(active.job.limit_s, SHORTEST_S)))

    def quantiles(self, job: Described, now_s: float, age_s: float = 0.0) -> Floats:
        """(GRID,) believed run time at the levels `AT`, in seconds, of a job that has run for `age_s` already.

        At most its limit, unless it has outrun that; never less than `age_s`.
        """
        parts, weights, running = list[Floats](), list[Floats](), list[dict[str, float]]()
        left = 1.0
        for level, key in enumerate(job.groups()):
            group = self.groups.get(key)
            if group is None:
                continue
            if level < KIN and group.running:
                running.append(group.running)
            if count := len(group.logs):
                share = left * count / (count + TRUST)
                parts.append(np.array(group.logs))
                weights.append(share * _FADED[count])
                left -= share
        limit = math.log(max(job.limit_s, SHORTEST_S)) if not math.isnan(job.limit_s) else math.inf
        if self.all and limit < math.inf:
            coarsest = np.array(self.all) + limit
        else:
            coarsest = np.array(self.all_s or (min(limit, math.log(USUAL_S)),))
        parts.append(coarsest)
        weights.append(left * _FADED[len(coarsest)])
        logs, weight = np.concatenate(parts), np.concatenate(weights)
        # The latest count, of thousands in a long list; older ones only where the latest have not run for `age_s`.
        some = None if age_s > 0.0 else KEPT
        since = [at_s for each in running for at_s in [*islice(reversed(each.values()), some)][::-1]]
        censored: Floats = np.maximum(now_s - np.array(since), SHORTEST_S)
        if age_s > 0.0:
            beyond = logs > math.log(max(age_s, SHORTEST_S))
            logs, weight = logs[beyond], weight[beyond]
            censored = censored[censored > age_s]
        grid = np.exp(_kaplan_meier(logs, weight, np.log(censored[-KEPT:]) if len(censored) else None))
        most = job.longest_s if job.longest_s > age_s else math.inf
        if np.isinf(grid[-1]):
            lasts_s = max((now_s - min(each.values()) for each in running), default=0.0)
            grid[np.isinf(grid)] = most if most < math.inf else 2.0 * max(age_s, lasts_s, USUAL_S)
        return np.maximum(np.minimum(grid, most), age_s)

    def is_flooded(self, job: Described, at_s: float) -> bool:
        """Whether ten jobs of its kin, and more, were submitted within five minutes, and none of them has finished."""
        kin = self.groups.get(job.groups()[1])
        return kin is not None and kin.is_flooded(at_s)

    def expected(
        self, job: Described, believed_s: float, keys: tuple[str, ...] | None = None
    ) -> Floats | None:
        """(GRID,) run time at the levels `AT` by its kin, s; null: there are too few to outweigh what is believed.

        Any thread may ask: an answer is kept with how many had finished before their run times were read.
        keys: those of its groups, where they are known.
        """
        same_width, kin = (job.groups() if keys is None else keys)[:KIN]
        found = [self.groups.get(same_width), self.groups.get(kin)]
        groups = [group for group in found if group is not None and group.logs]
        if not groups:
            return None
        question = (same_width if found[0] is not None else "", kin, believed_s, job.longest_s)
        finished = tuple([group.finished for group in groups])
        before, answer = self._expected.get(question, ((), None))
        if before != finished:
            answer = _expected(groups, believed_s, job.longest_s)
            if len(self._expected) >= MOST_GROUPS:
                self._expected.clear()
            self._expected[question] = finished, answer
        return answer

    def with_kin(self) -> list[str]:
        """The active jobs with kin that have finished: of all others `expected` knows nothing."""
        known = {key for key, group in self.groups.items() if group.logs}
        if not known:
            return []
        return [job_id for job_id, each in self.active.items() if not known.isdisjoint(each.keys[:KIN])]

    def state(self) -> dict[str, Any]:
        """Everything learned, as JSON has it."""
        return {
            "groups": {
                key: [list(group.logs), dict(group.running), dict(group.unheard), group.heard_s]
                for key, group in self.groups.items()
            },
            "all": list(self.all),
            "all_s": list(self.all_s),
            "active": {
                job_id: [*(getattr(active.job, name) for name in Described.__slots__), active.started_s]
                for job_id, active in self.active.items()
            },
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> RunTimes:
        """The same as when `state` was called."""
        new = cls()
        for key, (logs, *rest) in state["groups"].items():  # earlier versions knew of no floods
            new.groups[key] = Group(deque(logs, maxlen=KEPT), *rest)
        new.all.extend(state["all"])
        new.all_s.extend(state["all_s"])
        for job_id, (*described, started_s) in state["active"].items():
            job = Described(*described)
            new.active[job_id] = _Active(job, job.groups(), started_s)
        return new


def _expected(groups: Sequence[Group], believed_s: float, longest_s: float) -> Floats | None:
    """As `RunTimes.expected`, of these groups, the finest first."""
    parts, weights, left = list[Floats](), list[Floats](), 1.0
    for group in groups:
        logs = np.array(list(group.logs))
        share = left * len(logs) / (len(logs) + TRUST_OVER_BELIEF)
        parts.append(logs)
        weights.append(share * _FADED[len(logs)])
        left -= share
    if left >= 0.5:
        return None
    parts.append(np.log([max(believed_s, SHORTEST_S)]))
    weights.append(np.array([left]))
    grid = np.minimum(np.exp(_kaplan_meier(np.concatenate(parts), np.concatenate(weights), None)), longest_s)
    grid[grid <= SHORTEST_S] = min(believed_s, SHORTEST_S)  # how much shorter is not kept
    return grid


def _kaplan_meier(logs: Floats, weight: Floats, censored: Floats | None) -> Floats:
    """(GRID,) quantiles of weighted observations, of which `censored` are known to be larger; infinity: beyond all.

    A censored one weighs as much as the average of the others. Source: Kaplan and Meier, 1958.
    """
    if censored is None:
        if not len(logs):
            return np.full(GRID, math.inf)
        order = np.argsort(logs, kind="stable")
        passed = np.cumsum(weight[order])
        return logs[order[np.searchsorted(passed, AT * passed[-1] - 1e-9)]]
    each = weight.sum() / len(weight) if len(weight) else 1.0
    logs = np.concatenate([logs, censored])
    weight = np.concatenate([weight, np.full(len(censored), each)])
    order = np.argsort(logs, kind="stable")  # at the same time ends come before those that last
    logs, weight, ends = logs[order], weight[order], order < len(logs) - len(censored)
    at_risk = np.cumsum(weight[::-1])[::-1]
    lasting = np.cumprod(np.where(ends, 1.0 - weight / at_risk, 1.0))
    at: Ints = np.searchsorted(-lasting, AT - 1.0 - 1e-9)
    return np.where(at < len(logs), logs[np.minimum(at, len(logs) - 1)], math.inf)
