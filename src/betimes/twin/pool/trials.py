"""Jobs that are sets of trials, exactly: each trial works on one unit, and the last ones leave units unused.

A set is one job to the policy. The core keeps the account of its work as a whole, as of any linear job. The trials run
here, as they do in a live service, which report to the core the end of the set, and its width: with every trial that
ends, the set can use a unit less once there are fewer left than it could use (docs/notes/trials.md).
"""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from betimes.core.pool.columns import State
from betimes.core.work import SMALLEST_BELIEF_S, believed_left
from betimes.errors import InputError
from betimes.kernels import Ints, as_array, entry
from betimes.outcome import Result
from betimes.twin.pool import entries
from betimes.twin.pool.event_loop import IDLE_WAKEUPS
from betimes.twin.pool.simulation import Simulation
from betimes.twin.pool.virtual_jobs import VirtualJob

SLACK = 1.0 + 1e-9
"""Of what is believed to be left of a set: the rounded sum must not be outrun an instant before its last trial ends."""
TOLERANCE_FRAC, TOLERANCE_S = 0.05, 1.0
_SPEED = (0.0, 1.0)

_believed_left = entry(believed_left, State, int, float)


def work_left(
    runtime_estimate_s: float, taken_s: float, done: int, begun: Iterable[tuple[float, float]], untouched: int
) -> float:
    """Remaining work of a set by its trials, seconds on one unit.

    runtime_estimate_s: the estimate of a trial; taken_s: the run time of the `done` ones together, whose mean replaces
    the estimate once there are any. begun: for each that has run and is not done, the seconds that it has run, and the
    part that it reports as done (0: unknown). One that has run for longer than is believed is believed to take twice
    as long. untouched: the number that have not run.
    """
    each_s = usual_s(runtime_estimate_s, taken_s, done)
    left_s = each_s * untouched
    for ran_s, done_frac in begun:
        whole_s = ran_s / done_frac if 0.0 < done_frac < 1.0 else each_s
        while whole_s * SLACK < ran_s:
            whole_s *= 2.0
        left_s += max(whole_s - ran_s, SMALLEST_BELIEF_S)
    return left_s


def usual_s(runtime_estimate_s: float, taken_s: float, done: int) -> float:
    """The believed run time of a trial, s."""
    return max(taken_s / done if done else runtime_estimate_s, SMALLEST_BELIEF_S)


def outrunning(state: State, until_s: float) -> list[int]:
    """The slots of jobs that outrun their beliefs up to an instant and do not finish by then, in order of submission.

    None while the policy's wake-ups are steady: then time has not come as far as the outrun.
    """
    pool = as_array(state.pool)
    if pool["next_outrun"][0] > until_s or pool["period"][0] > 0.0:
        return []
    progress, seq = as_array(state.progress), as_array(state.jobs)["seq"]
    slots = np.flatnonzero((progress["outrun_at"] <= until_s) & (progress["finish_at"] > until_s))
    return sorted(slots[progress["served_by"][slots] >= 0].tolist(), key=lambda slot: seq[slot])


def is_news(left_s: float, known_s: float) -> bool:
    """Whether this amount of work differs materially from the believed remaining work."""
    return abs(left_s - known_s) > max(TOLERANCE_S, TOLERANCE_FRAC * max(left_s, known_s))


@dataclass(eq=False)
class _Trial:
    truth: VirtualJob
    ran_s: float = 0.0
    since_s: float = math.nan  # when its present run began; NaN: it does not run

    def run(self, units: int, now_s: float) -> None:
        if units == 0:
            self.ran_s += now_s - self.since_s
            self.since_s = math.nan
        else:
            self.since_s = now_s
        self.truth.hold(units, now_s)

    def has_run_s(self, now_s: float) -> float:
        return self.ran_s if math.isnan(self.since_s) else self.ran_s + (now_s - self.since_s)


@dataclass(eq=False)
class _Set:
    slot: int
    runtime_estimate_s: float  # the estimate of a trial
    most: int  # units that it can use as long as it has so many trials
    left: list[_Trial]  # in order; the first `units` of them run
    units: int = 0
    done: int = 0
    taken_s: float = 0.0

    @property
    def usual_s(self) -> float:
        return usual_s(self.runtime_estimate_s, self.taken_s, self.done)

    @property
    def width(self) -> int:
        return min(self.most, len(self.left))


class TrialSimulation(Simulation):
    """The twin of a pool whose jobs are sets of as many equal trials as they can use units, or of those of `works`.

    `works`: for each job what its trials take, s; the job can use no more units than it has of them. The time that a
    restart takes is lost by the trial that is started again.
    """

    works: Sequence[Sequence[float]] | None = None
    promised: Ints | None = None  # (jobs,) above 0: promise a finish at the submission

    def run(
        self, step: Callable[[int], int] | None = None, progress: Callable[[int], object] | None = None
    ) -> None:
        """Take the pool through the whole workload, event by event. Raises InputError for sizes that are learnt."""
        started = time.perf_counter()
        arrivals = as_array(self.trace.arrivals)
        if step is not None or self.rules.learns or (arrivals["believed_per_work"] != 1.0).any():
            raise InputError(
                f"as trials: sizes {self.sizes} are not known of sets of trials; choose true or estimate"
            )
        self.sets: dict[int, _Set] = {}  # by row
        counts = self._counts()
        self.runtime_estimate_s = arrivals["believed"] / counts
        arrivals["believed"] = self.runtime_estimate_s * counts
        arrivals["work"] = math.inf  # nothing is done before its last trial is
        row, idle = 0, 0
        while True:
            pool = self.state.pool[0]
            end_s = min(
                (one.truth.finish_at for each in self.sets.values() for one in _running(each)),
                default=math.inf,
            )
            timer_s = min(pool.next_outrun, math.inf if pool.period > 0.0 else pool.wakeup)
            arrival_s = float(arrivals["submit_s"][row]) if row < len(arrivals) else math.inf
            at_s = min(end_s, timer_s, arrival_s)
            idle = 0 if at_s < timer_s or pool.holders else idle + 1
            if at_s == math.inf or idle > IDLE_WAKEUPS:
                break
            if len(self.state.segments) > 0:
                self.take_segments()  # an instant brings each holder one at most
            changed = self._end_trials(at_s) if end_s == at_s else []
            self._decide(at_s, changed)
            while row < len(arrivals) and arrivals["submit_s"][row] == at_s:
                self._arrive(row)
                row += 1
            for each in self.sets.values():
                self._share(each, at_s)
            if progress is not None and arrival_s == at_s:
                progress(row)
        self.row[0] = row
        self._note_unfinished()
        self.wall_s = time.perf_counter() - started

    def result(self, load_s: float = 0.0, compile_s: float = 0.0) -> Result:
        """The outcome of every job; its run time alone is that of its trials on the units that it can use."""
        found = super().result(load_s, compile_s)
        most = np.minimum(self.workload.max_units, self.units)
        alone_s = [_alone_s(self._works(row), int(most[row])) for row in range(len(most))]
        return replace(found, jobs=replace(found.jobs, run_alone_s=np.array(alone_s)))

    def _works(self, row: int) -> Sequence[float]:
        """The run times of a job's trials, s."""
        if self.works is not None:
            return self.works[row]
        count = int(self.workload.max_units[row])
        return [float(self.workload.work_s[row]) / count] * count

    def _counts(self) -> Ints:
        if self.works is None:
            return np.asarray(self.workload.max_units, dtype=np.int64)
        return np.array([len(works) for works in self.works], dtype=np.int64)

    def _end_trials(self, now_s: float) -> list[int]:
        """End the trials that are due now; returns the rows of their sets."""
        rows: list[int] = []
        for row, each in self.sets.items():
            ended = [one for one in _running(each) if one.truth.finish_at == now_s]
            for one in ended:
                one.run(0, now_s)
                each.taken_s += one.ran_s
            if ended:
                each.done += len(ended)
                each.units -= len(ended)  # the others go on; the next ones start with `_share`
                each.left = [one for one in each.left if one not in ended]
                rows.append(row)
        return rows

    def _decide(self, now_s: float, changed: list[int]) -> None:
        """As a live pool has it: widths, finishes and timers, beliefs, and what the policy makes of them."""
        go_on = [row for row in changed if self.sets[row].left]
        believed: list[tuple[int, float]] = []
        for row in go_on:
            each = self.sets[row]
            left_s = self._left(each, now_s)
            if is_news(left_s, max(0.0, _believed_left(self.state, each.slot, now_s))):
                believed.append((each.slot, left_s))
        narrowed = [
            self.sets[row]
            for row in go_on
            if self.state.jobs[self.sets[row].slot].max_units != self.sets[row].width
        ]
        for each in narrowed:
            entries.set_width(self.state, each.slot, each.width)
        for row in changed:
            if row not in go_on:
                entries.expect_finish(self.state, self.sets.pop(row).slot, now_s)
        self._advance(now_s)
        self.state.pool[0].now = now_s
        for slot, left_s in believed:
            entries.believe(self.state, slot, left_s * SLACK)
        if narrowed or believed:
            self.driver.ask()

    def _advance(self, until_s: float) -> None:
        if slots := outrunning(self.state, until_s):
            at_s = float(self.state.pool[0].next_outrun)
            sets = {each.slot: each for each in self.sets.values()}
            self.state.pool[0].now = at_s
            for slot in slots:
                left_s = max(self._left(sets[slot], at_s), sets[slot].usual_s)
                entries.believe(self.state, slot, left_s * SLACK)
            self.driver.ask()
        self.driver.advance(until_s)

    def _arrive(self, row: int) -> None:
        restart_s = float(self.state.pool[0].restart_s)
        trials = [_Trial(VirtualJob(float(work), _SPEED, restart_s)) for work in self._works(row)]
        slot = self.driver.take_in(row)
        self.driver.queue_up(slot)
        self.sets[row] = _Set(
            slot, float(self.runtime_estimate_s[row]), int(self.workload.max_units[row]), trials
        )
        self.driver.ask()
        if len(trials) > 1:
            entries.believe(self.state, slot, float(self.trace.arrivals[row].believed) * SLACK)
        if self.promised is not None and self.promised[row] > 0:
            self.predicted[row] = self._promise(row)

    def _share(self, each: _Set, now_s: float) -> None:
        """The first trials that are left have a unit each: those that started last give theirs up first."""
        units = min(int(self.state.jobs[each.slot].units), len(each.left))
        for one in reversed(each.left[units : each.units]):
            one.run(0, now_s)
        for one in each.left[each.units : units]:
            one.run(1, now_s)
        each.units = units

    def _left(self, each: _Set, now_s: float) -> float:
        begun = [ran_s for one in each.left if (ran_s := one.has_run_s(now_s)) > 0.0]
        untouched = len(each.left) - len(begun)
        return work_left(
            each.runtime_estimate_s, each.taken_s, each.done, [(ran_s, 0.0) for ran_s in begun], untouched
        )

    def _promise(self, row: int) -> float:
        """The job's finish if nothing more is submitted, with its trials and those of others fluid."""
        copy = self.driver.copy(len(self.workload))
        copy.advance(math.inf)
        self.driver.spare = copy.state
        return float(copy.trace.outcome[row].finish_s)


def _running(each: _Set) -> list[_Trial]:
    return each.left[: each.units]


def _alone_s(works: Sequence[float], units: int) -> float:
    """The time that trials take on so many units, each unit taking the next one when it is free."""
    free_s = [0.0] * units
    for work in works:
        heapq.heappush(free_s, heapq.heappop(free_s) + work)
    return max(free_s)
