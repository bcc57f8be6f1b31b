"""`betimes.learn`: from jobs that have finished to promises for those that wait and run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self

import numpy as np

from betimes.errors import InputError
from betimes.foresight.engines import AnyChosen
from betimes.foresight.learned_promises import LearnedPromises, Promise
from betimes.foresight.learning_run import LEVEL, described
from betimes.foresight.promise_model import PromiseModel
from betimes.foresight.run_times import Described
from betimes.foresight.simulate import simulate_learning
from betimes.twin.options import SimulationOptions
from betimes.twin.sizes import Sizes
from betimes.workload import Workload
from betimes.workload.columns import CANCELLED, FAILED

WAIT = "recorded_wait_s"  # the further column of a trace that has the waits of jobs


class Learned:
    """The learned run times and errors of promises. level: the share of jobs within their intervals.

    It has no clock and no store. Times of one `Learned` are on one axis, and calls come in the order of time: `observe`
    what has ended, then `promise`.
    """

    def __init__(self, level: float = LEVEL, promises: LearnedPromises | None = None) -> None:
        self._promises = promises or LearnedPromises(level)

    @property
    def model(self) -> PromiseModel:
        """The model of run times and of promised ends."""
        return self._promises.model

    @property
    def level(self) -> float:
        """The share of jobs that are to be done within their intervals."""
        return self._promises.model.intervals.level

    @property
    def finished(self) -> int:
        """The finished jobs whose promises it has judged."""
        return self._promises.model.intervals.finished

    def promise(
        self, jobs: Workload, policy: str | AnyChosen, options: SimulationOptions | None = None, **fields: Any
    ) -> list[Promise]:
        """Promises to all jobs of `state`, those that run first and those that wait in their order.

        Arguments are those of `simulate`, with the state; jobs that come later are left out, and `work_s` is not read:
        the policy believes the estimates, and ends are expected as learned, unless `sizes` says otherwise. The first
        promise of each job is judged once it has ended. Jobs that were there before, are in the state no more, and
        were not observed, are forgotten. Raises InputError as `simulate` does.
        """
        options = _believing(SimulationOptions.of(options, **fields), jobs, self.level)
        state = options.state
        if state is None:
            raise InputError("promise: give state=, the ClusterState with the jobs that run and wait")
        if str(options.sizes) != "true":
            # How long its run takes is not read, but is never less than it has run.
            known = [job.left_s is not None or job.job_id in state.accounts for job in state.running]
            running = [
                job if is_known else replace(job, left_s=1.0)
                for job, is_known in zip(state.running, known, strict=True)
            ]
            options = replace(options, state=replace(state, running=running))
        self._forget_but({*state.waiting, *state.running_by_id})
        here = jobs[np.flatnonzero(jobs.submit_s <= state.now_s)]
        if not len(here):
            return []
        simulate_learning(here, policy, options, self._promises, None, None)
        named = [*state.running_by_id, *state.waiting]
        return [self._promises.promises[job] for job in named if job in self._promises.promises]

    def observe(self, ended: Workload) -> None:
        """Learn from jobs that have ended: a trace, with `recorded_wait_s` among its further columns.

        Failed jobs say nothing of others, cancelled ones are forgotten. Raises InputError for a trace without waits.
        """
        if WAIT not in ended.extra:
            raise InputError(
                f"{ended.name}: when its jobs ended is not known; give their waits in s, as the further column {WAIT}"
            )
        run_s = ended.work_s / ended.max_units
        start_s = ended.submit_s + np.asarray(ended.extra[WAIT], dtype=np.float64)
        promises = self._promises
        jobs: list[Described] = described(ended, ends_at_limit=False)
        for row in np.argsort(start_s + run_s, kind="stable").tolist():
            job_id, end_s = str(ended.job_id[row]), float(start_s[row] + run_s[row])
            if ended.status[row] == CANCELLED or np.isnan(end_s):
                if job_id in promises.model.run_times.active:
                    promises.forget(job_id)
                continue
            promises.submitted(job_id, jobs[int(row)], float(ended.submit_s[row]))
            promises.started(job_id, float(start_s[row]))
            promises.ended(job_id, None if ended.status[row] == FAILED else float(run_s[row]), end_s)
        promises.model.refit()

    def to_bytes(self) -> bytes:
        """All that was learned, and the promises that are open."""
        return self._promises.to_bytes()

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """The same as when `to_bytes` was called."""
        return cls(promises=LearnedPromises.from_bytes(content))

    def _forget_but(self, here: set[str]) -> None:
        for job_id in [each for each in self._promises.model.run_times.active if each not in here]:
            self._promises.forget(job_id)


def learn(
    history: Workload,
    policy: str | AnyChosen,
    options: SimulationOptions | None = None,
    *,
    level: float = LEVEL,
    warn: Callable[[str], object] | None = None,
    progress: Callable[[int], object] | None = None,
    **fields: Any,
) -> Learned:
    """Learn from finished jobs: submitted again in the twin under `policy`, each is promised its end, and judged.

    Arguments are those of `simulate`; level is that of the intervals. A job's kin are its user's jobs of the same name:
    names of users, and the further column JobName that `sacct` prints. Raises InputError as `simulate` does.
    """
    promises = LearnedPromises(level)
    options = _believing(SimulationOptions.of(options, **fields), history, level)
    simulate_learning(history, policy, options, promises, warn, progress)
    return Learned(promises=promises)


def _believing(options: SimulationOptions, jobs: Workload, level: float) -> SimulationOptions:
    """The options with promises, and with beliefs that are not the truth unless that is asked for."""
    sizes = options.sizes or Sizes("learned" if np.isnan(jobs.estimate_s).all() else "estimate")
    return replace(options, predict=True, interval=level, sizes=sizes)
